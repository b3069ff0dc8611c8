//! What a person types while a run is shown. (Between runs a line editor has the keyboard.)

use std::io::Write as _;

use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures_util::StreamExt as _;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::error::{Error, Result};

const PASTE_IN_ONE_PIECE: &str = "\x1b[?2004h";
const PASTE_AS_TYPED: &str = "\x1b[?2004l";

/// What the person did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// The line that is being typed has changed, or the terminal its size.
    Changed,
    /// A line is ready.
    Line(String),
    /// Ctrl+C.
    Interrupt,
    /// Ctrl+D in an empty line, or there is no more input.
    End,
}

/// The keyboard of the terminal, key by key. The terminal is in raw mode for as long as this lives.
pub(crate) struct Keyboard {
    events: EventStream,
    line: LineBuffer,
}

/// The line that is being typed.
#[derive(Debug, Default)]
struct LineBuffer {
    text: String,
}

impl Keyboard {
    pub(crate) fn open() -> Result<Self> {
        let failed = |error: std::io::Error| Error::Local(format!("the keyboard can't be read: {error}"));
        crossterm::terminal::enable_raw_mode().map_err(failed)?;
        drop(std::io::stdout().write_all(PASTE_IN_ONE_PIECE.as_bytes()));
        Ok(Self {
            events: EventStream::new(),
            line: LineBuffer::default(),
        })
    }

    /// The next thing the person does. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Typed {
        loop {
            let typed = match self.events.next().await {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => self.line.press(key),
                Some(Ok(Event::Paste(text))) => {
                    self.line.text.push_str(&text.replace("\r\n", "\n").replace('\r', "\n"));
                    Some(Typed::Changed)
                }
                Some(Ok(Event::Resize(..))) => Some(Typed::Changed),
                Some(Ok(_)) => None,
                Some(Err(_)) | None => Some(Typed::End),
            };
            if let Some(typed) = typed {
                return typed;
            }
        }
    }

    /// What was typed so far.
    pub(crate) fn text(&self) -> &str {
        &self.line.text
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // The terminal may be gone.
        drop(std::io::stdout().write_all(PASTE_AS_TYPED.as_bytes()));
        drop(crossterm::terminal::disable_raw_mode());
    }
}

impl LineBuffer {
    fn press(&mut self, key: KeyEvent) -> Option<Typed> {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_alternate = key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Char('c') if is_control => return Some(Typed::Interrupt),
            KeyCode::Char('d') if is_control => return self.text.is_empty().then_some(Typed::End),
            KeyCode::Char('u') if is_control => self.text.clear(),
            KeyCode::Char('w') if is_control => self.drop_word(),
            KeyCode::Char('j') if is_control => self.text.push('\n'),
            KeyCode::Char(_) if is_control => return None,
            KeyCode::Char(letter) => self.text.push(letter),
            KeyCode::Backspace => self.drop_grapheme(),
            KeyCode::Enter if is_alternate => self.text.push('\n'),
            KeyCode::Enter => return Some(self.enter()),
            _ => return None,
        }
        Some(Typed::Changed)
    }

    fn enter(&mut self) -> Typed {
        if let Some(begun) = self.text.strip_suffix('\\') {
            self.text = format!("{begun}\n");
            return Typed::Changed;
        }
        match self.text.trim() {
            "" => Typed::Changed,
            _ => Typed::Line(std::mem::take(&mut self.text)),
        }
    }

    fn drop_grapheme(&mut self) {
        let kept = self.text.grapheme_indices(true).next_back().map_or(0, |(at, _)| at);
        self.text.truncate(kept);
    }

    fn drop_word(&mut self) {
        let kept = self.text.trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
        self.text.truncate(self.text.ceil_char_boundary(kept));
    }
}

/// Reads a line that nobody sees.
pub(crate) fn read_hidden_line(prompt: &str) -> Result<String> {
    let failed = |error: std::io::Error| Error::Local(format!("the keyboard can't be read: {error}"));
    drop(std::io::stderr().write_all(prompt.as_bytes()));
    crossterm::terminal::enable_raw_mode().map_err(failed)?;
    let mut line = LineBuffer::default();
    let typed = loop {
        match crossterm::event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => match line.press(key) {
                Some(Typed::Changed) | None => {}
                Some(typed) => break Ok(typed),
            },
            Ok(_) => {}
            Err(error) => break Err(failed(error)),
        }
    };
    drop(crossterm::terminal::disable_raw_mode());
    drop(std::io::stderr().write_all(b"\n"));
    match typed? {
        Typed::Line(text) => Ok(text),
        Typed::Changed | Typed::Interrupt | Typed::End => Err(Error::Local("nothing was typed".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(line: &mut LineBuffer, keys: &str) -> Option<Typed> {
        let mut last = None;
        for letter in keys.chars() {
            let (code, modifiers) = match letter {
                '\r' => (KeyCode::Enter, KeyModifiers::NONE),
                '\u{8}' => (KeyCode::Backspace, KeyModifiers::NONE),
                '\u{3}' => (KeyCode::Char('c'), KeyModifiers::CONTROL),
                '\u{4}' => (KeyCode::Char('d'), KeyModifiers::CONTROL),
                '\u{17}' => (KeyCode::Char('w'), KeyModifiers::CONTROL),
                letter => (KeyCode::Char(letter), KeyModifiers::NONE),
            };
            last = line.press(KeyEvent::new(code, modifiers));
        }
        last
    }

    #[test]
    fn a_line_is_typed_corrected_and_sent() {
        let mut line = LineBuffer::default();
        assert_eq!(press(&mut line, "你好\u{8}e\u{301}👩‍👩‍👧\u{8}\u{8}!"), Some(Typed::Changed));
        assert_eq!(line.text, "你!");
        assert_eq!(
            press(&mut line, " two　three\u{17}\r"),
            Some(Typed::Line("你! two　".to_owned()))
        );
        assert_eq!(line.text, "");
    }

    #[test]
    fn a_backslash_goes_on_in_the_next_line() {
        let mut line = LineBuffer::default();
        assert_eq!(press(&mut line, "one\\\r"), Some(Typed::Changed));
        assert_eq!(press(&mut line, "two\r"), Some(Typed::Line("one\ntwo".to_owned())));
    }

    #[test]
    fn control_c_and_control_d_are_no_letters() {
        let mut line = LineBuffer::default();
        assert_eq!(press(&mut line, "\u{4}"), Some(Typed::End));
        assert_eq!(press(&mut line, "a\u{4}"), None, "what was typed isn't lost by it");
        assert_eq!(press(&mut line, "\u{3}"), Some(Typed::Interrupt));
        assert_eq!(
            press(&mut line, "\u{8}\r"),
            Some(Typed::Changed),
            "an empty line is nothing to send"
        );
    }
}
