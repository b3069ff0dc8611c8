//! A file as it is searched: bounded in memory and time, whatever is in it.

use std::io::{Error, Read, Result};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

/// Bytes of a line that are searched; the rest of a longer one is left out.
pub(super) const MAX_LINE_BYTES: usize = 1024 * 1024;

/// When a search has to stop.
#[derive(Clone)]
pub(super) struct Limits {
    pub(super) cancel: CancellationToken,
    pub(super) until: Instant,
}

impl Limits {
    /// Whether it has to stop now.
    pub(super) fn are_reached(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() > self.until
    }
}

/// Leaves out what is too much of a line, and fails when the search has to stop.
pub(super) struct BoundedLines<'a, R> {
    file: R,
    limits: &'a Limits,
    /// Bytes of the line so far.
    line_bytes: usize,
    /// Whether a line was cut.
    pub(super) has_cut: bool,
}

impl<'a, R: Read> BoundedLines<'a, R> {
    pub(super) fn new(file: R, limits: &'a Limits) -> Self {
        Self {
            file,
            limits,
            line_bytes: 0,
            has_cut: false,
        }
    }

    /// Moves what is kept to the front of `buffer`; answers how much that is.
    fn keep(&mut self, buffer: &mut [u8]) -> usize {
        if self.line_bytes + buffer.len() <= MAX_LINE_BYTES {
            // Nothing in it can be too long.
            let last_end = buffer.iter().rposition(|byte| *byte == b'\n');
            self.line_bytes = last_end.map_or(self.line_bytes + buffer.len(), |end| buffer.len() - end - 1);
            return buffer.len();
        }
        let (mut at, mut kept) = (0, 0);
        while let Some(rest) = buffer.get(at..).filter(|rest| !rest.is_empty()) {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let length = end.unwrap_or(rest.len());
            let wanted = length.min(MAX_LINE_BYTES.saturating_sub(self.line_bytes));
            self.has_cut |= wanted < length;
            buffer.copy_within(at..at + wanted, kept);
            kept += wanted;
            self.line_bytes += length;
            at += length;
            if end.is_some() {
                buffer.copy_within(at..at + 1, kept);
                kept += 1;
                at += 1;
                self.line_bytes = 0;
            }
        }
        kept
    }
}

impl<R: Read> Read for BoundedLines<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            if self.limits.are_reached() {
                return Err(Error::other("the search has to stop"));
            }
            let read = self.file.read(buffer)?;
            let kept = self.keep(buffer.get_mut(..read).unwrap_or_default());
            // Nothing kept of something read is not the end of the file.
            if kept > 0 || read == 0 {
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn limits() -> Limits {
        Limits {
            cancel: CancellationToken::new(),
            until: Instant::now() + Duration::from_secs(600),
        }
    }

    #[test]
    fn a_line_without_end_stays_small() {
        let endless = std::io::repeat(b'a').take(1 << 26).chain(&b"\nnext\n"[..]);
        let limits = limits();
        let mut lines = BoundedLines::new(endless, &limits);
        let mut text = Vec::new();
        lines.read_to_end(&mut text).unwrap();
        assert!(lines.has_cut);
        assert_eq!(text.len(), MAX_LINE_BYTES + b"\nnext\n".len());
        assert!(text.ends_with(b"a\nnext\n"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn lines_of_bearable_length_are_read_as_they_are(text in "[ab]{0,20}\n[ab\n]{0,200}", chunk in 1_usize..64) {
            let limits = limits();
            let mut lines = BoundedLines::new(text.as_bytes(), &limits);
            // Near the limit, so that both ways of keeping are taken.
            lines.line_bytes = MAX_LINE_BYTES - 25;
            let mut read = Vec::new();
            let mut buffer = vec![0; chunk];
            loop {
                match lines.read(&mut buffer).unwrap() {
                    0 => break,
                    count => read.extend_from_slice(&buffer[..count]),
                }
            }
            prop_assert_eq!(read.as_slice(), text.as_bytes());
            prop_assert!(!lines.has_cut);
        }

        #[test]
        fn of_a_long_line_the_rest_is_left_out(before in "[ab\n]{0,20}", long in 1_usize..50, after in "[ab\n]{0,20}") {
            let limits = limits();
            let text = format!("{before}\n{}{after}", "c".repeat(MAX_LINE_BYTES + long));
            let mut lines = BoundedLines::new(text.as_bytes(), &limits);
            let mut read = String::new();
            lines.read_to_string(&mut read).unwrap();
            let behind = after.find('\n').and_then(|end| after.get(end..)).unwrap_or_default();
            prop_assert_eq!(read, format!("{before}\n{}{behind}", "c".repeat(MAX_LINE_BYTES)));
        }
    }

    #[test]
    fn a_stop_is_seen_within_a_line() {
        let limits = limits();
        let mut lines = BoundedLines::new(std::io::repeat(b'a'), &limits);
        let mut buffer = [0; 64];
        assert_eq!(lines.read(&mut buffer).unwrap(), 64);
        limits.cancel.cancel();
        assert!(lines.read(&mut buffer).is_err());
    }
}
