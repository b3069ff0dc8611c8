//! Reads a text word by word, and knows from the words before what the next may be. The same for a whole text and for one
//! that comes in pieces: a word is judged only when it is whole.

use super::edit::{Edit, put_in_order};
use super::fields::{self, Expect};
use super::keys;
use super::pem::Pem;
use super::vendors::Alphabet;
use super::work;

/// Longest word that is judged as one, in bytes: a longer one is judged in parts. Also the most that a stream holds back.
pub(super) const MAX_WORD: usize = 8 * 1024;
/// Longest run of numbers in an escape of a terminal.
const MAX_COLOUR: usize = 16;
/// Longest unfinished word of which a part may go out early.
const MAX_EARLY: usize = 128;

/// What is known from the words before.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    expect: Expect,
    pem: Pem,
    /// A secret was cut at the end of a part of a word: its rest follows.
    is_inside: bool,
}

/// Quotes, brackets, space, and all that isn't ASCII.
fn is_separator(byte: u8) -> bool {
    !byte.is_ascii_graphic()
        || matches!(
            byte,
            b'"' | b'\'' | b'`' | b'<' | b'>' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b',' | b';' | b'|' | b'\\'
        )
}

impl Machine {
    /// Reads on. Gives how much of the text is decided; the rest must come again, with more behind it. `searched` bytes of
    /// the text are known to hold no separator.
    pub(super) fn read(&mut self, text: &str, searched: usize, is_last: bool, edits: &mut Vec<Edit>) -> usize {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if is_separator(*byte) {
                let Some(length) = separator_length(bytes, at, is_last) else {
                    return at;
                };
                self.separate(text, at, length, edits);
                at += length;
                continue;
            }
            let from = if at == 0 { searched } else { at };
            let limit = bytes.len().min(at + MAX_WORD);
            let length = bytes
                .get(from..limit)
                .and_then(|rest| rest.iter().position(|byte| is_separator(*byte)));
            let end = length.map_or(limit, |length| from + length);
            work::note(end - from.min(end));
            let is_cut = length.is_none() && end - at == MAX_WORD;
            if length.is_none() && end == bytes.len() && !is_cut && !is_last {
                return at;
            }
            let end = if is_cut { cut(bytes, at, end) } else { end };
            if let Some(word) = text.get(at..end) {
                self.word(word, at, is_cut, edits);
            }
            at = end;
        }
        text.len()
    }

    fn separate(&mut self, text: &str, at: usize, length: usize, edits: &mut Vec<Edit>) {
        let bytes = text.as_bytes();
        let is_line_end = matches!(bytes.get(at..at + length), Some(b"\n" | b"\r" | b"\\n" | b"\\r"));
        self.is_inside = false;
        let separator = text.get(at..at + length).unwrap_or_default();
        if self.pem.separate(separator, at, edits) {
            return;
        }
        let byte = bytes.get(at).copied().unwrap_or_default();
        self.expect = std::mem::take(&mut self.expect).after_separator(byte, is_line_end);
    }

    fn word(&mut self, word: &str, offset: usize, is_cut: bool, edits: &mut Vec<Edit>) {
        let first = edits.len();
        let (mut word, mut offset) = (word, offset);
        if std::mem::take(&mut self.is_inside) {
            let is_more = |byte: &u8| Alphabet::Base64.has(*byte) || *byte == b'.';
            let length = word.bytes().take_while(is_more).count();
            edits.push(Edit::more(offset, offset + length));
            (word, offset) = (word.get(length..).unwrap_or_default(), offset + length);
            self.is_inside = is_cut && word.is_empty();
        }
        if word.is_empty() || self.pem.word(word, offset, edits) {
            return;
        }
        if word.starts_with("redacted:") {
            self.expect = std::mem::take(&mut self.expect).after_value();
            return;
        }
        keys::find(word, offset, edits);
        keys::find_in_addresses(word, offset, edits);
        let before = std::mem::take(&mut self.expect);
        self.expect = fields::find(before, word, offset, edits);
        put_in_order(edits, first);
        let is_last_cut = |edit: &Edit| edit.end == offset + word.len() && edit.end > edit.start;
        self.is_inside = is_cut && edits.get(first..).and_then(<[Edit]>::last).is_some_and(is_last_cut);
    }

    /// How much of an unfinished word no edit will touch, whatever follows.
    pub(super) fn sure(&self, word: &str) -> usize {
        let is_plain = word.len() <= MAX_EARLY && word.bytes().all(super::names::is_name_byte);
        let is_sure = is_plain
            && !self.is_inside
            && self.expect == Expect::Nothing
            && self.pem == Pem::Outside
            && !keys::may_become_key(word);
        if is_sure { word.len() } else { 0 }
    }
}

/// A character that separates, or an escape of JSON as a whole. `None`: more text must tell.
fn separator_length(bytes: &[u8], at: usize, is_last: bool) -> Option<usize> {
    match bytes.get(at) {
        Some(b'\\') => {}
        Some(0x1b) => return colour_length(bytes, at, is_last),
        Some(0xF0..) => return Some(4),
        Some(0xE0..) => return Some(3),
        Some(0xC0..) => return Some(2),
        _ => return Some(1),
    }
    match bytes.get(at + 1) {
        None if is_last => Some(1),
        None => None,
        Some(b'n' | b'r' | b't' | b'b' | b'f' | b'"' | b'\\' | b'/') => Some(2),
        Some(b'u') => {
            let digits = bytes.get(at + 2..bytes.len().min(at + 6)).unwrap_or_default();
            let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
            match (is_hex, digits.len() == 4) {
                (true, true) => Some(6),
                (true, false) if !is_last => None,
                _ => Some(1),
            }
        }
        Some(_) => Some(1),
    }
}

/// `ESC [ 3 1 m` and its like: its last letter isn't the beginning of a word.
fn colour_length(bytes: &[u8], at: usize, is_last: bool) -> Option<usize> {
    let rest = bytes.get(at + 1..).unwrap_or_default();
    let Some((first, parameters)) = rest.split_first() else {
        return is_last.then_some(1);
    };
    if *first != b'[' {
        return Some(1);
    }
    let is_parameter = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b';' | b'?');
    let length = parameters.iter().take(MAX_COLOUR).take_while(is_parameter).count();
    match parameters.get(length) {
        // Other escapes write no words, and their letter may be the beginning of one in a text that is no terminal's.
        Some(b'm' | b'K') => Some(length + 3),
        None if length < MAX_COLOUR && !is_last => None,
        _ => Some(1),
    }
}

/// Where a word that is too long is cut: at a mark in its second half, so that a key in it stays whole.
fn cut(bytes: &[u8], start: usize, end: usize) -> usize {
    let half = start + MAX_WORD / 2;
    let second = bytes.get(half..end).unwrap_or_default();
    work::note(second.len());
    second
        .iter()
        .rposition(|byte| !Alphabet::UrlSafe.has(*byte))
        .map_or(end, |mark| half + mark + 1)
}
