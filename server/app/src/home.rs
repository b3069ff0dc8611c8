//! The home: one folder for everything, for one server at a time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use talaria_openapi::time::Timestamp;

/// Shortest credential that a person may set.
const MIN_TOKEN_CHARS: usize = 32;

/// How often, and after what pause, a lock that is taken is tried again.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// What is wrong with a home. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Another server works in it.
    #[error("another server already uses {home}{who}. Stop it, or name another home with --home")]
    Locked {
        /// The home.
        home: String,
        /// Its process and address, where they are known.
        who: String,
    },
    /// A file of it can't be used.
    #[error("{path}: {source}. Check who owns the folder and whether the disk is full")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A key file holds something else.
    #[error("{path} doesn't hold what it should: move it away, and the next start makes a new one{warning}")]
    Broken {
        /// The file.
        path: String,
        /// What that would cost.
        warning: &'static str,
    },
    /// The host gives no random bytes.
    #[error("the host gives no random bytes, and keys can't be made without them")]
    NoRandom,
    /// The credential in the environment is too short.
    #[error(
        "TALARIA_TOKEN has less than {MIN_TOKEN_CHARS} characters: set a longer one, such as the output of `openssl rand -hex 32`"
    )]
    WeakToken,
}

/// A home that this process holds.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    pub(crate) token: String,
    pub(crate) master_key: [u8; 32],
    #[expect(dead_code, reason = "held for its drop, which lets the next server in")]
    lock: fd_lock::RwLockWriteGuard<'static, File>,
}

/// What `<home>/server.json` says of the server that runs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServerFile {
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
    pub(crate) started_at: Timestamp,
}

impl Home {
    /// Makes what isn't there yet, and locks the home.
    pub(crate) fn open(path: &Path, token: Option<String>, default_config: &str) -> Result<Self, HomeError> {
        if token
            .as_ref()
            .is_some_and(|token| token.chars().count() < MIN_TOKEN_CHARS)
        {
            return Err(HomeError::WeakToken);
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|source| failed(path, source))?;
        // The caller's umask, or a folder that was there, may have left it open.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
            .map_err(|source| failed(path, source))?;
        let path = path.canonicalize().map_err(|source| failed(path, source))?;
        let lock = lock(&path)?;
        // What a killed server left behind: it must not be taken for this one.
        drop(std::fs::remove_file(path.join("server.json")));
        write_new(&path.join("config.yaml"), default_config.as_bytes())?;
        let token = match token {
            Some(token) => token,
            None => read_or_make(&path.join("token"), "")?,
        };
        let key = read_or_make(&path.join("master.key"), "; secrets that were stored are lost then")?;
        let master_key = decode_key(&key).ok_or_else(|| HomeError::Broken {
            path: path.join("master.key").display().to_string(),
            warning: "; secrets that were stored are lost then",
        })?;
        Ok(Self {
            path,
            token,
            master_key,
            lock,
        })
    }

    /// Tells clients of this host where the server is.
    pub(crate) fn announce(&self, file: &ServerFile) -> Result<(), HomeError> {
        let (path, fresh) = (self.server_file(), self.path.join("server.json.new"));
        let json = serde_json::to_vec_pretty(file).unwrap_or_default();
        let mut out = private()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&fresh)
            .map_err(|source| failed(&fresh, source))?;
        out.write_all(&json).map_err(|source| failed(&fresh, source))?;
        std::fs::rename(&fresh, &path).map_err(|source| failed(&path, source))
    }

    /// The server is about to be gone.
    pub(crate) fn withdraw(&self) {
        if let Err(error) = std::fs::remove_file(self.server_file()) {
            tracing::warn!(error = %error, "server.json could not be removed: {error}");
        }
    }

    fn server_file(&self) -> PathBuf {
        self.path.join("server.json")
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn failed(path: &Path, source: std::io::Error) -> HomeError {
    HomeError::File {
        path: path.display().to_string(),
        source,
    }
}

fn lock(home: &Path) -> Result<fd_lock::RwLockWriteGuard<'static, File>, HomeError> {
    let path = home.join("server.lock");
    let file = private()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|source| failed(&path, source))?;
    // Held to the end of the process: nothing is gained by giving the lock's memory back.
    let lock: &'static mut fd_lock::RwLock<File> = Box::leak(Box::new(fd_lock::RwLock::new(file)));
    let held = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::WouldBlock => HomeError::Locked {
            home: home.display().to_string(),
            who: who(home),
        },
        _ => failed(&path, source),
    };
    for _ in 0..LOCK_TRIES {
        if lock.try_write().is_ok() {
            break;
        }
        // A client looks whether the home is locked by a lock of its own, which it gives back at once.
        #[expect(clippy::disallowed_methods, reason = "nothing is served yet")]
        std::thread::sleep(LOCK_PAUSE);
    }
    lock.try_write().map_err(held)
}

fn who(home: &Path) -> String {
    let text = std::fs::read_to_string(home.join("server.json")).unwrap_or_default();
    let file: Option<ServerFile> = serde_json::from_str(&text).ok();
    file.map(|file| format!(": process {} at http://{}", file.pid, file.address))
        .unwrap_or_default()
}

/// Writes a file of the owner's that doesn't exist yet; leaves an existing one alone.
fn write_new(path: &Path, content: &[u8]) -> Result<(), HomeError> {
    match private().write(true).create_new(true).open(path) {
        Ok(mut file) => file
            .write_all(content)
            .and_then(|()| file.sync_all())
            .map_err(|source| failed(path, source)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(failed(path, source)),
    }
}

/// The random text of a key file, made when the file isn't there.
fn read_or_make(path: &Path, warning: &'static str) -> Result<String, HomeError> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|_| HomeError::NoRandom)?;
    write_new(path, format!("{}\n", URL_SAFE_NO_PAD.encode(bytes)).as_bytes())?;
    let mut file = File::open(path).map_err(|source| failed(path, source))?;
    let mut text = String::new();
    file.rewind()
        .and_then(|()| file.read_to_string(&mut text))
        .map_err(|source| failed(path, source))?;
    let text = text.trim().to_owned();
    if text.chars().count() < MIN_TOKEN_CHARS {
        return Err(HomeError::Broken {
            path: path.display().to_string(),
            warning,
        });
    }
    Ok(text)
}

fn decode_key(text: &str) -> Option<[u8; 32]> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}
