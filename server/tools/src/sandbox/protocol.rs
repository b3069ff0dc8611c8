//! What the server and a supervisor say to each other: JSON documents, a line each, over a socket that is the supervisor's
//! standard input.
//!
//! 1. The server sends one [`Specification`].
//! 2. It may send any number of [`Control`]s. The end of the stream means that the server is gone, which ends the tree.
//! 3. The supervisor sends one [`Report`] when no process of the tree is left, and exits. No report at all means that the
//!    supervisor was killed.
//!
//! The child's output takes no part in this: it flows over the supervisor's standard output and error. Between the
//! supervisor and the child the same socket exists once more: a [`Specification`] one way, and back a [`Refusal`] when
//! the command could not be started, or nothing when it was.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest document.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// What may run, where, and how much it may take.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Specification {
    /// The process that must stay the reader's parent.
    pub(super) parent: u32,
    /// Program and arguments; never empty.
    pub(super) argv: Vec<String>,
    pub(super) folder: PathBuf,
    /// The whole environment.
    pub(super) environment: BTreeMap<String, String>,
    pub(super) denied: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
    pub(super) limits: Limits,
    pub(super) timeout_ms: u64,
    pub(super) grace_ms: u64,
    /// Whether errors go where the output goes, in their order.
    pub(super) merge_output: bool,
}

/// What a tree of processes may take. Each is exact only as far as the kernel counts it; sums are looked at four times a
/// second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of all processes together, in bytes (files that are mapped don't count).
    pub memory_bytes: u64,
    /// Processes at the same time.
    pub processes: usize,
    /// Bytes written to disks by all processes together.
    pub written_bytes: u64,
    /// Largest file that can be written, in bytes.
    pub file_bytes: u64,
    /// Open files of one process.
    pub open_files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const GIB: u64 = 1024 * 1024 * 1024;
        Self {
            memory_bytes: 4 * GIB,
            processes: 512,
            written_bytes: 32 * GIB,
            file_bytes: 8 * GIB,
            open_files: 4096,
        }
    }
}

/// What the server may still say.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Control {
    /// End the tree; what doesn't go by itself within this time is killed.
    Cancel { grace_ms: u64 },
}

/// Why a command could not be started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Refusal {
    pub(super) reason: String,
}

/// How a tree of processes ended. No process of it is left, but for those that the kernel holds up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Why it ended.
    pub end: End,
    /// Processes that the command left running and that were ended after it.
    pub left_behind: usize,
    /// Processes that were killed and are still there, because they wait for a device. They do nothing any more.
    pub still_alive: usize,
    /// Whether the kernel kept the processes from files that are out of bounds.
    pub is_confined: bool,
}

/// Why a tree of processes ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The command ended by itself with this code.
    Exited(i32),
    /// The command was ended by this signal, which did not come from the supervisor.
    Signalled(i32),
    /// It took too long.
    TimedOut,
    /// It was cancelled, or the server was gone.
    Cancelled,
    /// It took more than it may; says more than what.
    LimitExceeded(String),
    /// It could not be started; says why.
    NotStarted(String),
    /// The supervisor was killed: nothing is known.
    Lost,
}

/// One end of the socket, for a process without a runtime.
#[derive(Debug)]
pub(super) struct Wire {
    stream: UnixStream,
    unread: Vec<u8>,
}

impl Wire {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// The socket that is standard input. The children of this process don't get it.
    pub(super) fn on_stdin() -> io::Result<Self> {
        let stream = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
        Ok(Self::new(UnixStream::from(stream)))
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(super) fn send<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        self.stream.write_all(&line(value)?)
    }

    /// Waits for a document; `None` at the end of the stream.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(value) = take_line(&mut self.unread)? {
                return Ok(Some(value));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Reads once; whether more may come.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let count = match self.stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        self.unread.extend(buffer.iter().take(count));
        Ok(count > 0)
    }

    /// The next document that has arrived whole.
    pub(super) fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        take_line(&mut self.unread)
    }
}

/// A document with its end.
pub(super) fn line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Takes the first document off what has arrived.
pub(super) fn take_line<T: DeserializeOwned>(unread: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some(end) = unread.iter().position(|byte| *byte == b'\n') else {
        if unread.len() > MAX_LINE_BYTES {
            return Err(io::Error::other("a document is too long"));
        }
        return Ok(None);
    };
    let line: Vec<u8> = unread.drain(..=end).collect();
    Ok(Some(serde_json::from_slice(&line)?))
}
