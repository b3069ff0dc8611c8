//! The server on this host: found by `<home>/server.json`, started when it doesn't run.

use std::fs::OpenOptions;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::log_file::tail;
use crate::render;

const START_PATIENCE: Duration = Duration::from_secs(15);
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// The server's exit code when another one holds the home.
const EXIT_TEMPORARY: i32 = 75;
const POLL: Duration = Duration::from_millis(20);

/// The home of a local server.
#[derive(Debug, Clone)]
pub(crate) struct LocalServer {
    pub(crate) home: PathBuf,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ServerFile {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) pid: i32,
}

impl ServerFile {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl LocalServer {
    pub(crate) fn new(home: Option<PathBuf>) -> Result<Self> {
        let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".talaria")));
        home.map(|home| Self { home })
            .ok_or_else(|| Error::Local("there is no home: set TALARIA_HOME or HOME".to_owned()))
    }

    /// What the running server says of itself; `None` when none does.
    pub(crate) async fn find(&self) -> Option<ServerFile> {
        let text = std::fs::read_to_string(self.home.join("server.json")).ok()?;
        let file: ServerFile = serde_json::from_str(&text).ok()?;
        // A server that was killed leaves its file behind, and by now anybody may listen there: only the home's lock proves
        // that its server is alive. It removes an old file when it takes the lock.
        if !self.is_locked() {
            return None;
        }
        let client = Client::new(&file.url(), None, None).ok()?;
        client.is_alive().await.then_some(file)
    }

    fn is_locked(&self) -> bool {
        let lock = OpenOptions::new().read(true).open(self.home.join("server.lock"));
        lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
    }

    /// The credential that the server made for the person who owns the home.
    pub(crate) fn token(&self) -> Option<String> {
        std::fs::read_to_string(self.home.join("token"))
            .ok()
            .map(|token| token.trim().to_owned())
    }

    /// The running server, started when there is none; says so once.
    pub(crate) async fn ensure(&self) -> Result<ServerFile> {
        if let Some(file) = self.find().await {
            return Ok(file);
        }
        let (program, log) = (program()?, self.log_path());
        let mut child = self.spawn(&program, &log)?;
        let until = Instant::now() + START_PATIENCE;
        loop {
            if let Some(file) = self.find().await {
                render::notice(&format!(
                    "started talaria-server (process {}, log in {})",
                    child.id(),
                    log.display()
                ));
                return Ok(file);
            }
            // Another client may have started one at the same moment: then ours gives way, and theirs is waited for.
            let has_failed = child
                .try_wait()
                .ok()
                .flatten()
                .is_some_and(|status| status.code() != Some(EXIT_TEMPORARY));
            if has_failed || Instant::now() > until {
                let why = String::from_utf8_lossy(&tail(&log, 5).unwrap_or_default()).into_owned();
                return Err(Error::Local(format!(
                    "talaria-server doesn't start. The end of {}:\n{why}",
                    log.display()
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn spawn(&self, program: &Path, log: &Path) -> Result<std::process::Child> {
        let failed = |error: std::io::Error| Error::Local(format!("{} can't be started: {error}", program.display()));
        let folder = log.parent().unwrap_or(&self.home);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
        let open = || OpenOptions::new().create(true).append(true).mode(0o600).open(log);
        Command::new(program)
            .arg("serve")
            .arg("--home")
            .arg(&self.home)
            // A credential of the client is not the server's.
            .env_remove("TALARIA_TOKEN")
            .stdin(Stdio::null())
            .stdout(open().map_err(failed)?)
            .stderr(open().map_err(failed)?)
            .process_group(0)
            .spawn()
            .map_err(failed)
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.home.join("logs").join("server.log")
    }

    /// Stops the running server and waits until it is gone; whether there was one.
    pub(crate) async fn stop(&self) -> Result<bool> {
        let Some(file) = self.find().await else {
            return Ok(false);
        };
        let pid = rustix::process::Pid::from_raw(file.pid.max(0))
            .ok_or_else(|| Error::Local("server.json names no process".to_owned()))?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .map_err(|error| Error::Local(format!("process {} can't be told to stop: {error}", file.pid)))?;
        let until = Instant::now() + STOP_PATIENCE;
        while self.is_locked() {
            if Instant::now() > until {
                return Err(Error::Local(format!(
                    "process {} doesn't stop; see {}",
                    file.pid,
                    self.log_path().display()
                )));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(true)
    }
}

/// The server that was installed beside this program, else one of the search path.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|error| Error::Local(error.to_string()))?;
    let beside = own.with_file_name("talaria-server");
    Ok(if beside.exists() {
        beside
    } else {
        PathBuf::from("talaria-server")
    })
}
