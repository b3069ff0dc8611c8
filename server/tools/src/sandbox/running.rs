//! A command that runs, as the server sees it.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout};

use super::protocol::{self, Control, End, Report};

/// Most bytes of a piece.
const PIECE_BYTES: usize = 16 * 1024;

/// Which output of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output: whole characters, as the command wrote them; bytes that are no UTF-8 are U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it was written.
    pub stream: Stream,
    /// What was written.
    pub text: String,
}

/// A command that runs. Dropping it ends the command and everything that it started.
///
/// Its output waits in the pipe until it is asked for: a command that writes more than is read is held up by the kernel.
#[derive(Debug)]
pub struct Running {
    supervisor: Child,
    wire: UnixStream,
    unread: Vec<u8>,
    stdout: Output<ChildStdout>,
    stderr: Output<ChildStderr>,
    report: Option<Report>,
}

impl Running {
    pub(super) fn new(mut supervisor: Child, wire: UnixStream) -> Self {
        let (stdout, stderr) = (supervisor.stdout.take(), supervisor.stderr.take());
        Self {
            supervisor,
            wire,
            unread: Vec::new(),
            stdout: Output::new(stdout),
            stderr: Output::new(stderr),
            report: None,
        }
    }

    /// The supervisor's process id, while it runs.
    #[must_use]
    pub fn supervisor(&self) -> Option<u32> {
        self.supervisor.id()
    }

    /// The next piece of output; `None` when there will be none. May be dropped and called again without a loss.
    pub async fn next(&mut self) -> Option<Piece> {
        loop {
            let is_open = self.stdout.is_open() || self.stderr.is_open();
            let (stream, text) = tokio::select! {
                text = self.stdout.read(), if self.stdout.is_open() => (Stream::Stdout, text),
                text = self.stderr.read(), if self.stderr.is_open() => (Stream::Stderr, text),
                report = report(&mut self.wire, &mut self.unread), if is_open && self.report.is_none() => {
                    if report.end == End::Lost || report.still_alive > 0 {
                        // What is left of the tree may hold the pipes open for ever.
                        self.stdout.close();
                        self.stderr.close();
                    }
                    self.report = Some(report);
                    continue;
                }
                else => return None,
            };
            if !text.is_empty() {
                return Some(Piece { stream, text });
            }
        }
    }

    /// Waits for the end; output that was not asked for by then is thrown away. May be dropped and called again.
    pub async fn wait(&mut self) -> Report {
        while self.next().await.is_some() {}
        let report = match self.report.take() {
            Some(report) => report,
            None => report(&mut self.wire, &mut self.unread).await,
        };
        self.report = Some(report.clone());
        if let Err(error) = self.supervisor.wait().await {
            tracing::warn!(error = %error, "a supervisor can't be waited for: {error}");
        }
        report
    }

    /// Asks for the end: everything gets SIGTERM, and SIGKILL after `grace`. [`Running::wait`] tells when it is done.
    pub async fn cancel(&mut self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let sent = match protocol::line(&Control::Cancel { grace_ms }) {
            Ok(line) => self.wire.write_all(&line).await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            tracing::debug!(error = %error, "a supervisor has ended before it was told to: {error}");
        }
    }
}

/// Waits for the report. Keeps what has arrived in `unread`.
async fn report(wire: &mut UnixStream, unread: &mut Vec<u8>) -> Report {
    let lost = Report {
        end: End::Lost,
        left_behind: 0,
        still_alive: 0,
        is_confined: false,
    };
    loop {
        match protocol::take_line(unread) {
            Ok(Some(report)) => return report,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(error = %error, "a supervisor's report can't be read: {error}");
                return lost;
            }
        }
        match wire.read_buf(unread).await {
            Ok(0) | Err(_) => return lost,
            Ok(_) => {}
        }
    }
}

/// One output, and the bytes of a character that is not whole yet.
#[derive(Debug)]
struct Output<R> {
    pipe: Option<R>,
    held: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Output<R> {
    fn new(pipe: Option<R>) -> Self {
        Self { pipe, held: Vec::new() }
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    fn close(&mut self) {
        self.pipe = None;
    }

    /// Text, or nothing when no character is whole yet or the pipe has ended.
    async fn read(&mut self) -> String {
        let Some(pipe) = &mut self.pipe else {
            return String::new();
        };
        let mut buffer = vec![0; PIECE_BYTES];
        let count = match pipe.read(&mut buffer).await {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return String::new(),
            Err(_) => 0,
        };
        self.held.extend(buffer.into_iter().take(count));
        if count == 0 {
            self.close();
        }
        decode(&mut self.held, count == 0)
    }
}

/// Takes the whole characters off `held`; everything at the end of the output.
fn decode(held: &mut Vec<u8>, is_end: bool) -> String {
    let incomplete = match held.utf8_chunks().last() {
        // Only a beginning of a character at the very end may still become one.
        Some(last) if !is_end && could_go_on(last.invalid()) => last.invalid().len(),
        _ => 0,
    };
    let rest = held.split_off(held.len() - incomplete);
    let whole = std::mem::replace(held, rest);
    String::from_utf8_lossy(&whole).into_owned()
}

fn could_go_on(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(error) if error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_same_wherever_it_is_split() {
        let bytes = "aä€𝄞\u{fffd}z"
            .bytes()
            .chain([0xff, b'x', 0xe2, 0x82])
            .collect::<Vec<_>>();
        let expected = String::from_utf8_lossy(&bytes);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut held = Vec::new();
                let mut text = String::new();
                for (part, is_end) in [
                    (&bytes[..first], false),
                    (&bytes[first..second], false),
                    (&bytes[second..], true),
                ] {
                    held.extend_from_slice(part);
                    text.push_str(&decode(&mut held, is_end));
                    assert!(held.len() < 4);
                }
                assert_eq!(text, expected, "{first} {second}");
            }
        }
    }
}
