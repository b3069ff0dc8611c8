//! What comes over the wire, before it has a meaning: lines of an event stream, and JSON that isn't quite JSON.

use std::borrow::Cow;

/// Reads the data of server-sent events out of bytes that are split anywhere.
#[derive(Debug, Default)]
pub struct EventLines {
    line: Vec<u8>,
    data: Option<String>,
    event: String,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    bytes_seen: usize,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireEvent {
    /// Its name; empty where none was given.
    pub event: String,
    /// Its data, never empty.
    pub data: String,
}

const BOM: &[u8] = &[0xEF, 0xBB, 0xBF];

impl EventLines {
    /// Reads more bytes, and adds the events that are whole now.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<WireEvent>) {
        for &byte in bytes {
            let was_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if was_cr => {}
                b'\n' | b'\r' => self.end_line(events),
                _ => self.line.push(byte),
            }
            self.bytes_seen = self.bytes_seen.saturating_add(1);
            if self.bytes_seen == BOM.len() && self.line == BOM {
                self.line.clear();
            }
        }
    }

    /// The stream has ended: what was begun counts.
    pub fn finish(&mut self, events: &mut Vec<WireEvent>) {
        if !self.line.is_empty() {
            self.end_line(events);
        }
        self.dispatch(events);
    }

    /// How many bytes wait for their end.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, String::len)
    }

    fn end_line(&mut self, events: &mut Vec<WireEvent>) {
        let bytes = std::mem::take(&mut self.line);
        if bytes.is_empty() {
            self.dispatch(events);
            return;
        }
        // Whole lines only are decoded, so that no character is cut.
        let line = String::from_utf8_lossy(&bytes);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => value.clone_into(&mut self.event),
            // Comments, ids, retry times and what nobody knows.
            _ => {}
        }
    }

    fn dispatch(&mut self, events: &mut Vec<WireEvent>) {
        let event = std::mem::take(&mut self.event);
        if let Some(data) = self.data.take().filter(|data| !data.trim().is_empty()) {
            events.push(WireEvent { event, data });
        }
    }
}

/// JSON text without lone surrogates: each `\ud800` to `\udfff` that has no partner becomes `\ufffd`. Parsers refuse the
/// whole text for one of them.
#[must_use]
pub fn repair_surrogates(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    let mut repaired = false;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        out.push('\\');
        rest = after;
        let Some(unit) = escape_unit(rest) else {
            // Another escape: its character must not be taken for the beginning of one.
            let mut chars = rest.chars();
            out.extend(chars.next());
            rest = chars.as_str();
            continue;
        };
        let tail = rest.get(5..).unwrap_or_default();
        let partner = tail.strip_prefix('\\').and_then(escape_unit);
        let is_pair = matches!((unit, partner), (0xD800..=0xDBFF, Some(0xDC00..=0xDFFF)));
        if is_pair {
            out.push_str(rest.get(..11).unwrap_or_default());
            rest = rest.get(11..).unwrap_or_default();
            continue;
        }
        let is_lone = (0xD800..=0xDFFF).contains(&unit);
        out.push_str(if is_lone { "ufffd" } else { rest.get(..5).unwrap_or_default() });
        repaired |= is_lone;
        rest = tail;
    }
    out.push_str(rest);
    if repaired { Cow::Owned(out) } else { Cow::Borrowed(json) }
}

/// The number in `uXXXX` at the beginning of a text.
fn escape_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

/// Text without NUL, which some databases can't keep.
#[must_use]
pub fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{FFFD}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = EventLines::default();
        let mut events = Vec::new();
        for piece in pieces {
            lines.push(piece, &mut events);
        }
        lines.finish(&mut events);
        events.into_iter().map(|event| event.data).collect()
    }

    #[test]
    fn every_kind_of_line_end_is_understood() {
        for text in ["data: a\n\ndata: b\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r", "data:a\n\ndata:b"] {
            assert_eq!(data(&[text.as_bytes()]), ["a", "b"], "{text:?}");
        }
        assert_eq!(data(&[b"data: a\r", b"\n\r", b"\ndata: b"]), ["a", "b"]);
    }

    #[test]
    fn comments_empty_data_and_a_mark_are_no_events() {
        assert_eq!(data(&[b"\xEF\xBB", b"\xBFdata: a\n\n: ping\n\n:\n\ndata:\n\ndata: \n\nid: 7\nretry: 1\n\n"]), ["a"]);
        assert_eq!(data(&[b"data: a\ndata: b\n\n"]), ["a\nb"]);
    }

    #[test]
    fn lone_surrogates_are_replaced_and_nothing_else() {
        for (json, expected) in [
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\udc00x""#, r#""\ufffdx""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\ud800\n""#, r#""\ufffd\n""#),
            (r#""\u00e9\u12""#, r#""\u00e9\u12""#),
            ("\\", "\\"),
        ] {
            assert_eq!(repair_surrogates(json), expected);
        }
    }
}
