//! Tools for files.

pub(crate) mod patch;
pub(crate) mod read_file;
pub(crate) mod search_files;
pub(crate) mod write_file;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use talaria_domain::tool::{Arguments, ToolContext, ToolError};

use crate::paths::{self, DeniedPaths};

/// Largest file that is read or changed.
pub(crate) const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

pub(crate) fn respond(error: impl std::fmt::Display) -> ToolError {
    ToolError::Respond(error.to_string())
}

/// The path of an argument, for the planning of parallel calls.
pub(crate) fn path_argument(
    arguments: &Arguments,
    context: &ToolContext,
    denied: &DeniedPaths,
) -> Option<Vec<PathBuf>> {
    let named = arguments.get("path")?.as_str()?;
    paths::resolve(named, &context.workspace, denied)
        .ok()
        .map(|path| vec![path])
}

/// A regular file of bearable size, opened without following a link that was put there since.
pub(crate) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!(
            "it has {} bytes, more than can be read ({MAX_FILE_BYTES})",
            metadata.len()
        )));
    }
    Ok(file)
}

/// Replaces a file whole or not at all; keeps its permissions.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().ok_or_else(|| std::io::Error::other("it is no file"))?;
    if path.is_dir() {
        return Err(std::io::Error::other("it is a folder"));
    }
    let permissions = std::fs::metadata(path).ok().map(|metadata| metadata.permissions());
    let fresh = folder.join(format!(".talaria-{}", talaria_openapi::ids::FileId::new()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    if permissions.is_some() {
        // Nobody reads the content before the file has its own permissions.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let written = options.open(&fresh).and_then(|mut file| {
        file.write_all(content)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        std::fs::rename(&fresh, path)
    });
    if written.is_err() {
        // The rest of a write that failed; when it can't be removed either, the error says why already.
        drop(std::fs::remove_file(&fresh));
    }
    written
}
