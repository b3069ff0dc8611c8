//! Where a session's shell is, and what it has for itself.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use talaria_openapi::ids::SessionId;

/// Sessions whose folder is known; the one used longest ago is forgotten first and begins in its workspace again.
const MAX_SESSIONS: usize = 1_024;
/// Longest path that a shell may tell.
const MAX_PATH_BYTES: u64 = 4_096;

/// The folders of all sessions, while the server runs.
#[derive(Debug)]
pub(super) struct Folders {
    scratch: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    of_session: HashMap<SessionId, (u64, PathBuf)>,
    uses: u64,
}

impl Folders {
    /// `scratch` is a folder of this server's alone; what a former server left in it goes.
    pub(super) fn new(scratch: PathBuf) -> Self {
        match std::fs::remove_dir_all(&scratch) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(error = %error, "the scratch folder could not be emptied: {error}"),
        }
        Self {
            scratch,
            known: Mutex::default(),
        }
    }

    /// A session's folder for files that nobody needs for long; it is there, and canonical.
    pub(super) fn scratch(&self, session_id: SessionId) -> std::io::Result<PathBuf> {
        let folder = self.scratch.join(session_id.to_string());
        std::fs::create_dir_all(&folder)?;
        folder.canonicalize()
    }

    /// Where the session's last command ended, if that is a folder still.
    pub(super) fn current(&self, session_id: SessionId) -> Option<PathBuf> {
        let mut known = self.known.lock();
        known.uses += 1;
        let uses = known.uses;
        let (used, folder) = known.of_session.get_mut(&session_id)?;
        *used = uses;
        folder.is_dir().then(|| folder.clone())
    }

    pub(super) fn remember(&self, session_id: SessionId, folder: PathBuf) {
        let mut known = self.known.lock();
        known.uses += 1;
        let uses = known.uses;
        known.of_session.insert(session_id, (uses, folder));
        if known.of_session.len() > MAX_SESSIONS {
            let oldest = known.of_session.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                known.of_session.remove(&oldest);
            }
        }
    }
}

/// The folder that a shell wrote into `file`. The command could write there too: whatever it is, only an existing folder
/// counts.
pub(super) fn told(file: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    let read = crate::files::open(file).and_then(|file| file.take(MAX_PATH_BYTES).read_to_string(&mut text));
    drop(std::fs::remove_file(file));
    read.ok()?;
    let folder = PathBuf::from(text.strip_suffix('\n')?);
    (folder.is_absolute() && folder.is_dir()).then_some(folder)
}
