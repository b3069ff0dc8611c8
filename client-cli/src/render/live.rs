//! The lower end of a terminal: lines that stay, and below them a few that are painted again and again.
//!
//! Between two paintings the cursor stands (hidden) at the beginning of the first line that moves. Whatever a change of the
//! terminal's width does to those lines, the next painting wipes from the cursor on: nothing stays behind, and nothing above
//! is touched.

use std::io::Write;

use super::style::{Line, ansi};

/// A terminal takes what stands between these at once.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const WIPE_BELOW: &str = "\r\x1b[J";
/// A line whose width a terminal sees otherwise than we do is cut, not wrapped.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Paints on a terminal; wipes what moves and shows the cursor when it is dropped.
pub(crate) struct Live<W: Write> {
    out: W,
    painted: Vec<String>,
    is_open: bool,
}

impl<W: Write> Live<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            painted: Vec::new(),
            is_open: false,
        }
    }

    /// Adds lines that stay, and replaces those that move. There must be fewer of the latter than the terminal has rows.
    pub(crate) fn paint(&mut self, staying: &[Line], moving: &[Line]) -> std::io::Result<()> {
        let moving: Vec<String> = moving.iter().map(|line| ansi(line)).collect();
        if self.is_open && staying.is_empty() && moving == self.painted {
            return Ok(());
        }
        let mut bytes = [BEGIN, HIDE_CURSOR, WIPE_BELOW].concat();
        for line in staying {
            bytes.push_str(&ansi(line));
            bytes.push_str("\r\n");
        }
        if !moving.is_empty() {
            bytes.push_str(NO_WRAP);
            bytes.push_str(&moving.join("\r\n"));
            bytes.push_str(WRAP);
            bytes.push('\r');
        }
        if moving.len() > 1 {
            bytes.push_str(&format!("\x1b[{}A", moving.len() - 1));
        }
        bytes.push_str(END);
        self.painted = moving;
        self.is_open = true;
        self.out.write_all(bytes.as_bytes()).and_then(|()| self.out.flush())
    }

    /// Forgets what it knows of the screen: the next painting does everything.
    pub(crate) fn invalidate(&mut self) {
        self.is_open = false;
    }

    /// Wipes what moves and gives the cursor back.
    pub(crate) fn close(&mut self) -> std::io::Result<()> {
        if self.painted.is_empty() && !self.is_open {
            return Ok(());
        }
        self.painted.clear();
        self.is_open = false;
        let bytes = [WIPE_BELOW, SHOW_CURSOR].concat();
        self.out.write_all(bytes.as_bytes()).and_then(|()| self.out.flush())
    }
}

impl<W: Write> Drop for Live<W> {
    fn drop(&mut self) {
        // The terminal may be gone.
        drop(self.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::style::{Span, Style};

    fn line(text: &str) -> Line {
        vec![Span::new(text, Style::PLAIN)]
    }

    #[test]
    fn lines_that_move_are_wiped_and_lines_that_stay_are_written_once() {
        let mut bytes = Vec::new();
        let mut live = Live::new(&mut bytes);
        live.paint(&[], &[line("a"), line("b")]).unwrap();
        live.paint(&[], &[line("a"), line("b")]).unwrap();
        live.paint(&[line("done")], &[]).unwrap();
        drop(live);
        let text = String::from_utf8(bytes).unwrap();
        let frames: Vec<&str> = text.split(BEGIN).skip(1).collect();
        assert_eq!(frames.len(), 2, "the same picture is painted once: {text:?}");
        assert!(frames[0].contains("a\r\nb\x1b[?7h\r\x1b[1A"), "{text:?}");
        assert!(frames[1].contains("\r\x1b[Jdone\r\n"), "{text:?}");
        assert!(text.ends_with(SHOW_CURSOR), "{text:?}");
    }
}
