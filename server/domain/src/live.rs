//! Output of tools while they work: bounded, paced, and lossy where somebody writes more than anybody reads. Nothing is lost
//! by that, since the result of the call says again what counts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use talaria_openapi::events::OutputStream;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Output that may wait, and that is passed on in a second, in bytes; what is more is left out.
const BYTES_A_SECOND: usize = 64 * 1024;
/// Output of one run that is passed on, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Shortest time between two readings: what becomes visible together is one piece.
const PACE: Duration = Duration::from_millis(50);

/// A piece of a call's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivePiece {
    /// The call.
    pub call_id: Arc<str>,
    /// Which output.
    pub stream: OutputStream,
    /// Where in this output of the call, in bytes of UTF-8. What was left out counts, too.
    pub offset: u64,
    /// The text.
    pub text: String,
}

#[derive(Debug, Default)]
struct Waiting {
    pieces: VecDeque<LivePiece>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

/// The reader of a run's live output.
#[derive(Debug)]
pub struct LiveReader {
    shared: Arc<Shared>,
    next_at: Instant,
    bytes_left: usize,
}

impl Default for LiveReader {
    fn default() -> Self {
        Self {
            shared: Arc::default(),
            next_at: Instant::now(),
            bytes_left: MAX_BYTES,
        }
    }
}

impl LiveReader {
    /// Where a call writes.
    #[must_use]
    pub fn writer(&self, call_id: &str) -> LiveWriter {
        LiveWriter {
            shared: Arc::clone(&self.shared),
            call_id: call_id.into(),
            written: Arc::default(),
        }
    }

    /// Waits for output, and no longer than the pace wants. May be dropped and called again without a loss.
    pub async fn next(&mut self) -> Vec<LivePiece> {
        loop {
            let arrived = self.shared.arrived.notified();
            if !self.shared.waiting.lock().pieces.is_empty() {
                break;
            }
            arrived.await;
        }
        tokio::time::sleep_until(self.next_at).await;
        self.take()
    }

    /// What waits, at once.
    pub fn take(&mut self) -> Vec<LivePiece> {
        let waiting = std::mem::take(&mut *self.shared.waiting.lock());
        let needed = Duration::from_secs(1) * u32::try_from(waiting.bytes).unwrap_or(u32::MAX)
            / u32::try_from(BYTES_A_SECOND).unwrap_or(u32::MAX);
        self.next_at = Instant::now() + needed.max(PACE);
        if waiting.bytes > self.bytes_left {
            self.bytes_left = 0;
            return Vec::new();
        }
        self.bytes_left -= waiting.bytes;
        waiting.pieces.into()
    }
}

/// Where a call writes what it has to show while it works. Never waits.
#[derive(Debug, Clone)]
pub struct LiveWriter {
    shared: Arc<Shared>,
    call_id: Arc<str>,
    written: Arc<Mutex<[u64; 3]>>,
}

impl LiveWriter {
    /// Shows text, or leaves it out when too much waits already.
    pub fn show(&self, stream: OutputStream, text: &str) {
        let offset = self.advance(stream, text.len());
        let mut waiting = self.shared.waiting.lock();
        if text.is_empty() || waiting.bytes + text.len() > BYTES_A_SECOND {
            return;
        }
        waiting.bytes += text.len();
        match waiting.pieces.back_mut() {
            Some(last)
                if (&last.call_id, last.stream) == (&self.call_id, stream)
                    && last.offset + last.text.len() as u64 == offset =>
            {
                last.text.push_str(text);
            }
            _ => waiting.pieces.push_back(LivePiece {
                call_id: Arc::clone(&self.call_id),
                stream,
                offset,
                text: text.to_owned(),
            }),
        }
        drop(waiting);
        self.shared.arrived.notify_one();
    }

    /// Counts text; gives where it begins.
    fn advance(&self, stream: OutputStream, bytes: usize) -> u64 {
        let mut written = self.written.lock();
        let [stdout, stderr, log] = &mut *written;
        let count = match stream {
            OutputStream::Stdout => stdout,
            OutputStream::Stderr => stderr,
            OutputStream::Log => log,
        };
        let offset = *count;
        *count += bytes as u64;
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_becomes_visible_together_is_one_piece_and_a_flood_is_paced() {
        let mut reader = LiveReader::default();
        let writer = reader.writer("c1");
        let other = reader.writer("c2");
        writer.show(OutputStream::Stdout, "ä");
        writer.show(OutputStream::Stdout, "b");
        other.show(OutputStream::Stdout, "x");
        writer.show(OutputStream::Stderr, "e");
        writer.show(OutputStream::Stdout, "c");
        let piece = |call_id: &str, stream, offset, text: &str| LivePiece {
            call_id: call_id.into(),
            stream,
            offset,
            text: text.to_owned(),
        };
        let expected = [
            piece("c1", OutputStream::Stdout, 0, "äb"),
            piece("c2", OutputStream::Stdout, 0, "x"),
            piece("c1", OutputStream::Stderr, 0, "e"),
            piece("c1", OutputStream::Stdout, 3, "c"),
        ];
        assert_eq!(reader.next().await, expected);

        let line = "y".repeat(1024);
        let begun = Instant::now();
        let (mut bytes, mut reads) = (0, 0);
        while begun.elapsed() < Duration::from_secs(10) {
            for _ in 0..1000 {
                writer.show(OutputStream::Stdout, &line);
            }
            let pieces = reader.next().await;
            bytes += pieces.iter().map(|piece| piece.text.len()).sum::<usize>();
            reads += 1;
        }
        assert!(
            (9 * BYTES_A_SECOND..=11 * BYTES_A_SECOND).contains(&bytes),
            "{bytes} in {reads}"
        );
        // The gap can be seen.
        writer.show(OutputStream::Stdout, "end");
        let offset = reader.next().await.last().map(|piece| piece.offset);
        assert_eq!(offset, Some(4 + reads * 1000 * 1024));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_shows_no_more_than_its_share() {
        let mut reader = LiveReader::default();
        let writer = reader.writer("c1");
        let block = "y".repeat(BYTES_A_SECOND);
        let mut bytes = 0;
        for _ in 0..2 * MAX_BYTES / BYTES_A_SECOND {
            writer.show(OutputStream::Stdout, &block);
            bytes += reader.take().iter().map(|piece| piece.text.len()).sum::<usize>();
        }
        assert_eq!(bytes, MAX_BYTES);
    }
}
