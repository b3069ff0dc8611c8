//! Where a passage stands: as it is, or else by the first step of tolerance that finds it.

use std::borrow::Cow;
use std::ops::Range;

use super::view::{Tolerance, View};

/// Lines that an error names.
const MAX_NAMED_LINES: usize = 20;

/// The places of a passage; at least one.
#[derive(Debug)]
pub(super) struct Found {
    /// In the text's own bytes, in order, without overlap.
    pub(super) places: Vec<Range<usize>>,
    /// Whether indentation was not regarded.
    pub(super) is_indented: bool,
}

/// All places of `wanted` (lines end with `\n`), by the strictest step that finds one.
pub(super) fn find(text: &str, wanted: &str, whole_lines: bool) -> Option<Found> {
    // No step forgives another word: where one is missing there is nothing to compare.
    let mut words = wanted.split(|letter: char| !letter.is_ascii_alphanumeric());
    if !words.all(|word| text.contains(word)) {
        return None;
    }
    Tolerance::LADDER.into_iter().find_map(|tolerance| {
        let wanted = View::new(wanted, tolerance);
        if wanted.text().trim().is_empty() {
            return None;
        }
        let places = View::new(text, tolerance).places(wanted.text(), text, whole_lines);
        (!places.is_empty()).then(|| Found {
            places,
            is_indented: tolerance.forgives_indentation(),
        })
    })
}

/// The line that a byte is in, counted from 1.
pub(super) fn line_number(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The lines where places begin, for people: `3, 8, 12`.
pub(super) fn line_numbers(text: &str, places: &[Range<usize>]) -> String {
    let numbers: Vec<String> = places
        .iter()
        .take(MAX_NAMED_LINES)
        .map(|place| line_number(text, place.start).to_string())
        .collect();
    let more = if places.len() > MAX_NAMED_LINES { ", …" } else { "" };
    format!("{}{more}", numbers.join(", "))
}

/// A text whose line ends are `\n`.
pub(super) fn with_line_feeds(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// What a text says that was escaped once too often (`\n` in two letters); `None` when nothing in it is escaped.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut is_changed = false;
    while let Some(letter) = letters.next() {
        let meant = match (letter, letters.peek()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some(quote @ ('"' | '\'' | '\\'))) => *quote,
            _ => {
                out.push(letter);
                continue;
            }
        };
        letters.next();
        is_changed = true;
        out.push(meant);
    }
    is_changed.then_some(out)
}
