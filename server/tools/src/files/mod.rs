//! Tools for files.

mod frame;
mod patch;
mod read_file;
mod search_files;
mod write;
mod write_file;

use std::path::Path;
use std::sync::Arc;

use talaria_domain::tool::Tool;

use self::frame::Framed;
use crate::paths::DeniedPaths;

/// Largest file that is read or changed.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// All of them.
pub(crate) fn tools(denied: Arc<DeniedPaths>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Framed::<read_file::ReadFile>::new(Arc::clone(&denied))),
        Arc::new(Framed::<write_file::WriteFile>::new(Arc::clone(&denied))),
        Arc::new(Framed::<patch::Patch>::new(Arc::clone(&denied))),
        Arc::new(Framed::<search_files::SearchFiles>::new(denied)),
    ]
}

/// A regular file, opened without following a link that was put there since.
fn open_any_size(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// A regular file of bearable size.
pub(crate) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let file = open_any_size(path)?;
    let bytes = file.metadata()?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!(
            "it has {bytes} bytes, more than can be read ({MAX_FILE_BYTES})"
        )));
    }
    Ok(file)
}
