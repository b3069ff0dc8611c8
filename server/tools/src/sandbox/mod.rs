//! Child processes: every one of them starts here, in a sandbox, under a supervisor that ends its whole tree.
//!
//! A command runs as the server's user. Three processes take part: the server, a *supervisor* (this program's sub-command
//! `sandbox-exec`), and the command. The supervisor collects the orphans of its tree, so that a process that has detached
//! itself twice is still found, and ends all of it when the command ends, takes too long or too much, is cancelled, or the
//! server is gone, also by `kill -9`. The command has given up its capabilities and the way to new ones, has limits, an
//! environment that names no secret, and reaches only files that are not out of bounds. [`protocol`] says how they talk.
//!
//! **Invariant:** a [`Report`] other than [`End::Lost`] means that nothing of the tree runs any more.

mod confine;
mod leftovers;
mod protocol;
mod reach;
mod running;
mod supervise;
mod tree;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

pub use self::protocol::{End, Limits, Report};
pub use self::reach::Kernel;
pub use self::running::{Piece, Running, Stream};
use crate::paths::DeniedPaths;

/// What makes this program a supervisor.
const ARGUMENTS: &[&str] = &["sandbox-exec"];
/// What makes it the child that becomes the command.
const CHILD_ARGUMENT: &str = "--child";

/// Where commands run: who supervises them, and what they must not reach.
#[derive(Debug, Clone)]
pub struct Sandbox {
    program: PathBuf,
    /// The server's home; its commands are marked with it.
    home: PathBuf,
    denied: Vec<PathBuf>,
}

impl Sandbox {
    /// `program` answers to `sandbox-exec` by [`exec`]; left out, it is the program that runs.
    #[must_use]
    pub fn new(program: Option<PathBuf>, denied: &DeniedPaths) -> Self {
        Self {
            // Also when the file was replaced since by a newer one.
            program: program.unwrap_or_else(|| PathBuf::from("/proc/self/exe")),
            home: denied.server_home().to_owned(),
            denied: denied.folders().map(PathBuf::from).collect(),
        }
    }

    /// Ends what a former server of this home left running, because its supervisors were killed like it. Only for the
    /// process that holds the home. Blocks for two seconds at most.
    pub fn end_leftovers(&self) {
        let (count, are_gone) = leftovers::end(&self.home);
        if !are_gone {
            tracing::error!(
                "processes of a former server can't be ended: look for {} in their environment",
                leftovers::MARK
            );
        } else if count > 0 {
            tracing::warn!("{count} processes of a former server were ended");
        }
    }
}

/// A command to run.
#[derive(Debug, Clone)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The folder that it starts in.
    pub folder: PathBuf,
    /// Its whole environment, but for the mark of this server.
    pub environment: BTreeMap<String, String>,
    /// Canonical folders that it may write into; elsewhere it may only read. One that is out of bounds as a part of the
    /// server's home is in bounds by being named here.
    pub writable: Vec<PathBuf>,
    /// What it may take.
    pub limits: Limits,
    /// How long it may take.
    pub timeout: Duration,
    /// How long its processes have to end by themselves, after they were told to.
    pub grace: Duration,
    /// Whether errors go where the output goes, in their order.
    pub merge_output: bool,
}

/// Why a supervisor did not start. That a command did not start is told by [`End::NotStarted`].
#[derive(Debug, thiserror::Error)]
#[error("no supervisor could be started for a command")]
pub struct SandboxError(#[from] io::Error);

impl Command {
    /// Starts it.
    pub async fn spawn(self, sandbox: &Sandbox) -> Result<Running, SandboxError> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut wire = UnixStream::from_std(ours)?;
        let stderr = if self.merge_output {
            Stdio::null()
        } else {
            Stdio::piped()
        };
        // Not ended with its handle: it would leave its tree behind. It ends with the socket.
        let supervisor = tokio::process::Command::new(&sandbox.program)
            .arg0("talaria-server")
            .args(ARGUMENTS)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()?;
        let mut environment = self.environment;
        environment.insert(leftovers::MARK.to_owned(), sandbox.home.display().to_string());
        let specification = protocol::Specification {
            parent: std::process::id(),
            argv: self.argv,
            folder: self.folder,
            environment,
            denied: sandbox.denied.clone(),
            writable: self.writable,
            limits: self.limits,
            timeout_ms: millis(self.timeout),
            grace_ms: millis(self.grace),
            merge_output: self.merge_output,
        };
        wire.write_all(&protocol::line(&specification)?).await?;
        Ok(Running::new(supervisor, wire))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What the sub-command `sandbox-exec` does: supervise what the server asks for on standard input, or, as the child of a
/// supervisor, become the command. For the server only, never for people.
#[must_use]
pub fn exec(is_child: bool) -> ExitCode {
    let outcome = if is_child {
        Err(confine::run())
    } else {
        supervise::run()
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // It was told over the socket where somebody listens.
        Err(_) => ExitCode::FAILURE,
    }
}
