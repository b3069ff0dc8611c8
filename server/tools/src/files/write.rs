//! Writing: a file is replaced whole or not at all, and is on the disk when that is said.

use std::fs::{File, OpenOptions};
use std::io::{Error, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What the redactor puts in the place of a secret.
const MARK: &[u8] = b"[redacted:";

/// New content that lies beside the file that it will replace; taken away again unless it is put in place.
pub(crate) struct Staged {
    fresh: PathBuf,
    path: PathBuf,
}

impl Staged {
    /// Writes `content` to a new file in the folder of `path`, with the permissions of the file `like`, if that exists.
    pub(crate) fn new(path: &Path, content: &[u8], like: &Path) -> Result<Self> {
        replaceable(path)?;
        let permissions = replaceable(like)?.map(|metadata| metadata.permissions());
        refuse_marks(content, like)?;
        let fresh = folder_of(path)?.join(format!(".talaria-{}", talaria_openapi::ids::FileId::new()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if permissions.is_some() {
            // Nobody reads the content before the file has its own permissions.
            options.mode(0o600);
        }
        let mut file = options.open(&fresh)?;
        let staged = Self {
            fresh,
            path: path.to_owned(),
        };
        file.write_all(content)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        Ok(staged)
    }

    /// Puts the content in place, in one step.
    pub(crate) fn put(self) -> Result<()> {
        std::fs::rename(&self.fresh, &self.path)?;
        sync_folder(folder_of(&self.path)?)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After `put` there is nothing to take away; after a failure the error says why already.
        drop(std::fs::remove_file(&self.fresh));
    }
}

/// Whoever writes the mark that stood for a secret would destroy the secret.
fn refuse_marks(content: &[u8], like: &Path) -> Result<()> {
    let marks = |bytes: &[u8]| bytes.windows(MARK.len()).filter(|window| *window == MARK).count();
    let new = marks(content);
    if new == 0 || new <= std::fs::read(like).map(|old| marks(&old)).unwrap_or(0) {
        return Ok(());
    }
    Err(Error::other(
        "`[redacted:…]` stands for a secret that you were not shown, and would take its place: change only other lines, with \
         `patch`, or ask the user",
    ))
}

/// What a file is that may be replaced: nothing yet, or a regular file.
fn replaceable(path: &Path) -> Result<Option<std::fs::Metadata>> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata)),
        Ok(metadata) if metadata.is_dir() => Err(Error::other("it is a folder")),
        Ok(_) => Err(Error::other("it is not a regular file")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn folder_of(path: &Path) -> Result<&Path> {
    path.parent().ok_or_else(|| Error::other("it is no file"))
}

/// Makes the names in a folder as durable as the files.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes the folders above a file that don't exist yet; answers which, the outermost first. Those that were made when
/// a later one failed are removed again.
pub(crate) fn make_folders(path: &Path) -> Result<Vec<PathBuf>> {
    let above = path.ancestors().skip(1);
    let mut missing: Vec<PathBuf> = above
        .take_while(|folder| folder.symlink_metadata().is_err())
        .map(Path::to_owned)
        .collect();
    missing.reverse();
    let mut made = Vec::new();
    for folder in missing {
        if let Err(error) = make_folder(&folder, &mut made) {
            remove_folders(&made);
            return Err(error);
        }
    }
    Ok(made)
}

fn make_folder(folder: &Path, made: &mut Vec<PathBuf>) -> Result<()> {
    match std::fs::create_dir(folder) {
        Ok(()) => {
            made.push(folder.to_owned());
            // The name of a folder stands in the one above it.
            folder_of(folder).and_then(sync_folder)
        }
        // Another call made it meanwhile.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes folders that were made and are still empty.
pub(crate) fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        // One that somebody has put something into meanwhile stays.
        drop(std::fs::remove_dir(folder));
    }
}

/// Makes missing folders and puts a whole file in place; answers which folders were made.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<Vec<PathBuf>> {
    let made = make_folders(path)?;
    match Staged::new(path, content, path).and_then(Staged::put) {
        Ok(()) => Ok(made),
        Err(error) => {
            remove_folders(&made);
            Err(error)
        }
    }
}
