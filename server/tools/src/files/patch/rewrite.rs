//! A passage of a file, rewritten: lines that stay keep their bytes, new ones get the line end of those around them.

use std::borrow::Cow;
use std::ops::Range;

use similar::{Algorithm, DiffOp};

use super::indent::{Indentation, split};

/// What happens to the lines of a passage, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// The next line stays.
    Keep,
    /// The next line goes.
    Drop,
    /// A new line.
    Put(Cow<'a, str>),
}

/// The steps from one text to another. Texts are taken apart at line feeds: a text that ends with one has an empty last
/// piece.
pub(super) fn steps<'a>(old: &str, new: &'a str) -> Vec<Step<'a>> {
    let old: Vec<&str> = old.split('\n').collect();
    let new: Vec<&'a str> = new.split('\n').collect();
    let mut steps = Vec::new();
    for op in similar::capture_diff_slices(Algorithm::Myers, &old, &new) {
        let (gone, came) = (op.old_range().len(), op.new_range());
        if matches!(op, DiffOp::Equal { .. }) {
            steps.extend((0..gone).map(|_| Step::Keep));
        } else {
            steps.extend((0..gone).map(|_| Step::Drop));
            let came = new.get(came).unwrap_or_default();
            steps.extend(came.iter().map(|line| Step::Put(Cow::Borrowed(*line))));
        }
    }
    steps
}

/// A line of the file and its end; the last piece of a passage has none.
struct Piece<'a> {
    text: &'a str,
    end: Option<&'static str>,
}

fn pieces(passage: &str) -> impl Iterator<Item = Piece<'_>> {
    let count = passage.split('\n').count();
    passage.split('\n').enumerate().map(move |(index, line)| {
        if index + 1 == count {
            return Piece { text: line, end: None };
        }
        match line.strip_suffix('\r') {
            Some(text) => Piece {
                text,
                end: Some("\r\n"),
            },
            None => Piece {
                text: line,
                end: Some("\n"),
            },
        }
    })
}

/// The lines of a passage without their ends.
fn lines(passage: &str) -> impl Iterator<Item = &str> {
    pieces(passage).map(|piece| piece.text)
}

/// How lines end around a place: as the one before it, else the one at it, else `\n`.
pub(super) fn end_at(text: &str, at: usize) -> &'static str {
    let before = text.get(..at).and_then(|before| before.rfind('\n'));
    let after = || {
        text.get(at..)
            .and_then(|after| after.find('\n'))
            .map(|found| at + found)
    };
    let newline = before.or_else(after);
    let is_crlf = newline
        .and_then(|newline| text.get(..newline))
        .is_some_and(|line| line.ends_with('\r'));
    if is_crlf { "\r\n" } else { "\n" }
}

/// New lines of `steps` indented as the file is; `old` is the passage as it was given.
pub(super) fn indented<'a>(steps: Vec<Step<'a>>, old: &str, passage: &str) -> Vec<Step<'a>> {
    let pairs: Vec<(&str, &str)> = old.split('\n').zip(lines(passage)).collect();
    let indentation = Indentation::learn(pairs.iter().copied());
    // The lines `gone..at` went since the last one that stayed; `put` new ones stand in their places.
    let (mut at, mut gone, mut put) = (0, 0, 0);
    let indent = |step| match step {
        Step::Keep => {
            at += 1;
            (gone, put) = (at, 0);
            Step::Keep
        }
        Step::Drop => {
            at += 1;
            Step::Drop
        }
        Step::Put(line) => {
            let same = pairs.get(gone..at).and_then(|pairs| pairs.get(put));
            put += 1;
            let same = same.filter(|(given, _)| split(given).0 == split(&line).0 && !line.trim().is_empty());
            Step::Put(Cow::Owned(match same {
                Some((_, own)) => format!("{}{}", split(own).0, split(&line).1),
                None => indentation.apply(&line).into_owned(),
            }))
        }
    };
    steps.into_iter().map(indent).collect()
}

/// The passage after the steps.
pub(super) fn rewrite(text: &str, range: &Range<usize>, steps: &[Step<'_>]) -> String {
    let mut around = end_at(text, range.start);
    let mut pieces = pieces(text.get(range.clone()).unwrap_or_default());
    let mut out = String::new();
    // The last line of a passage has no end: an end is written when another line follows.
    let mut end = None;
    for step in steps {
        let piece = match step {
            Step::Put(line) => Piece { text: line, end: None },
            Step::Keep | Step::Drop => {
                let Some(piece) = pieces.next() else { continue };
                around = piece.end.unwrap_or(around);
                if *step == Step::Drop {
                    continue;
                }
                piece
            }
        };
        out.push_str(end.unwrap_or_default());
        out.push_str(piece.text);
        end = Some(piece.end.unwrap_or(around));
    }
    out
}
