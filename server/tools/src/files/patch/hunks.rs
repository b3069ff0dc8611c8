//! The hunks of one file: where each stands, and the text after all of them.

use std::borrow::Cow;
use std::ops::Range;

use super::change::{Hunk, Line};
use super::closest::closest;
use super::find::{Found, find, line_number, line_numbers};
use super::rewrite::{Step, end_at, indented, rewrite};

/// The text after the hunks, or why one doesn't fit.
pub(super) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (index, hunk) in hunks.iter().enumerate() {
        let edit = edit(text, hunk, &edits).map_err(|reason| {
            if hunks.len() > 1 {
                format!("change {} of {}: {reason}", index + 1, hunks.len())
            } else {
                reason
            }
        })?;
        edits.push(edit);
    }
    edits.sort_by_key(|(place, _)| (place.start, place.end));
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (place, new) in &edits {
        out.push_str(text.get(done..place.start).unwrap_or_default());
        out.push_str(new);
        done = place.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    match hunks.iter().find_map(|hunk| hunk.ends_line) {
        Some(true) if !out.is_empty() && !out.ends_with('\n') => out.push_str(end_at(&out, out.len())),
        Some(false) => {
            let line = out.strip_suffix('\n').unwrap_or(&out);
            out.truncate(line.strip_suffix('\r').unwrap_or(line).len());
        }
        _ => {}
    }
    Ok(out)
}

/// Where one hunk stands and what comes there; `earlier` are those before it.
fn edit(text: &str, hunk: &Hunk, earlier: &[(Range<usize>, String)]) -> Result<(Range<usize>, String), String> {
    let after = earlier.last().map_or(0, |(place, _)| place.end);
    let anchor = anchor(text, hunk, after)?;
    let old: Vec<&str> = hunk.lines.iter().filter_map(old_line).collect();
    if old.is_empty() {
        return insertion(text, hunk, anchor);
    }
    let old = old.join("\n");
    let found = find(text, &old, true).ok_or_else(|| not_found(text, &old))?;
    let is_free = |place: &&Range<usize>| {
        earlier
            .iter()
            .all(|(taken, _)| place.end <= taken.start || place.start >= taken.end)
    };
    let free: Vec<Range<usize>> = found.places.iter().filter(is_free).cloned().collect();
    let place = choose(
        text,
        hunk,
        &free,
        anchor.as_ref().map_or(after, |line| line.start),
        anchor.is_some(),
    )?;
    let place = match text.get(place.end..) {
        Some(rest) if rest.starts_with("\r\n") => place.start..place.end + 2,
        Some(rest) if rest.starts_with('\n') => place.start..place.end + 1,
        _ => place,
    };
    let new = rewritten(text, hunk, &old, &found, &place);
    Ok((place, new))
}

fn old_line(line: &Line) -> Option<&str> {
    match line {
        Line::Keep(text) | Line::Drop(text) => Some(text),
        Line::Put(_) => None,
    }
}

fn rewritten(text: &str, hunk: &Hunk, old: &str, found: &Found, place: &Range<usize>) -> String {
    let passage = text.get(place.clone()).unwrap_or_default();
    let mut steps: Vec<Step<'_>> = hunk
        .lines
        .iter()
        .map(|line| match line {
            Line::Keep(_) => Step::Keep,
            Line::Drop(_) => Step::Drop,
            Line::Put(text) => Step::Put(Cow::Borrowed(text)),
        })
        .collect();
    if found.is_indented {
        steps = indented(steps, old, passage);
    }
    if passage.ends_with('\n') {
        // The empty piece behind the last line end.
        steps.push(Step::Keep);
    }
    rewrite(text, place, &steps)
}

/// The line that the innermost anchor names.
fn anchor(text: &str, hunk: &Hunk, after: usize) -> Result<Option<Range<usize>>, String> {
    let mut at = after;
    let mut line = None;
    for anchor in &hunk.anchors {
        let rest = text.get(at..).unwrap_or_default();
        let found = line_of(rest, |line| line.trim() == anchor)
            .or_else(|| line_of(rest, |line| line.contains(anchor.as_str())))
            .ok_or_else(|| format!("no line `{anchor}` after line {}", line_number(text, at)))?;
        line = Some(at + found.start..at + found.end);
        at += found.end;
    }
    Ok(line)
}

fn line_of(text: &str, is_it: impl Fn(&str) -> bool) -> Option<Range<usize>> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let range = at..at + line.len();
        if is_it(line) {
            return Some(range);
        }
        at = range.end;
    }
    None
}

/// The place that is meant, of several that fit.
fn choose(
    text: &str,
    hunk: &Hunk,
    places: &[Range<usize>],
    after: usize,
    is_anchored: bool,
) -> Result<Range<usize>, String> {
    let is_end = |place: &&Range<usize>| text.get(place.end..).is_some_and(|rest| rest.trim().is_empty());
    if hunk.is_last
        && let Some(place) = places.iter().rfind(is_end)
    {
        return Ok(place.clone());
    }
    if let Some(number) = hunk.line
        && let Some(place) = places.iter().find(|place| line_number(text, place.start) == number)
    {
        return Ok(place.clone());
    }
    let later: Vec<Range<usize>> = places.iter().filter(|place| place.start >= after).cloned().collect();
    match (later.as_slice(), places) {
        ([first, ..], _) if is_anchored => Ok(first.clone()),
        ([only], _) | ([], [only]) if !is_anchored => Ok(only.clone()),
        ([], _) if is_anchored => Err("its lines don't stand after its `@@` line".to_owned()),
        ([], []) => Err("another change of the patch has taken its lines already".to_owned()),
        ([], several) | (several, _) => Err(format!(
            "its lines stand {} times in the file (lines {}): give more lines around it, or an `@@` line with the line that \
             it stands under",
            several.len(),
            line_numbers(text, several)
        )),
    }
}

/// Lines that come without any that are there: after the anchor, at the line, or at the end.
fn insertion(text: &str, hunk: &Hunk, anchor: Option<Range<usize>>) -> Result<(Range<usize>, String), String> {
    let at = match (anchor, hunk.line) {
        (Some(line), _) => line.end,
        (None, Some(number)) => text.split_inclusive('\n').take(number).map(str::len).sum(),
        (None, None) if hunk.is_last || text.is_empty() => text.len(),
        (None, None) => {
            return Err("it has only new lines: give a line around them, or an `@@` line that they follow".to_owned());
        }
    };
    let end = end_at(text, at);
    let open = text
        .get(..at)
        .is_some_and(|before| !before.is_empty() && !before.ends_with('\n'));
    let lines: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Put(text) => Some(text.as_str()),
            Line::Keep(_) | Line::Drop(_) => None,
        })
        .collect();
    let new = lines.join(end);
    let new = if open {
        format!("{end}{new}")
    } else {
        format!("{new}{end}")
    };
    Ok((at..at, new))
}

fn not_found(text: &str, old: &str) -> String {
    match closest(text, old) {
        Some(lines) => format!(
            "its lines aren't in the file. Most like them are these; copy them as they are, without the numbers:\n{lines}"
        ),
        None => "its lines aren't in the file, nor anything like them: read the file again".to_owned(),
    }
}
