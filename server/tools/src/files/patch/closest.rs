//! What in a file is most like a passage that isn't in it, so that a model can mend its call.

use std::collections::HashMap;

use talaria_text::cut::prefix_chars;

/// Lines shown before and after.
const AROUND: usize = 2;
const MAX_LINES: usize = 24;
const MAX_LINE_CHARS: usize = 200;
/// Lines that are compared letter by letter, and how long they may be.
const MAX_COMPARED: usize = 20_000;
const MAX_COMPARED_BYTES: usize = 400;
const LEAST_LIKENESS: f32 = 0.6;

/// The lines of `text` most like `wanted`, numbered as `read_file` does; `None` when nothing is like it.
pub(super) fn closest(text: &str, wanted: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = wanted.lines().map(str::trim).collect();
    let first = by_equal_lines(&lines, &wanted).or_else(|| by_likeness(&lines, &wanted))?;
    let from = first.saturating_sub(AROUND);
    let count = (wanted.len() + 2 * AROUND).min(MAX_LINES);
    let shown = lines.iter().enumerate().skip(from).take(count);
    let shown: Vec<String> = shown
        .map(|(index, line)| format!("{}|{}", index + 1, prefix_chars(line, MAX_LINE_CHARS)))
        .collect();
    Some(shown.join("\n"))
}

/// Where most lines are equal but for white space around them.
fn by_equal_lines(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut offsets: HashMap<&str, Vec<usize>> = HashMap::new();
    for (offset, line) in wanted.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        offsets.entry(line).or_default().push(offset);
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        for offset in offsets.get(line.trim()).into_iter().flatten() {
            *votes.entry(index.saturating_sub(*offset)).or_default() += line.trim().len();
        }
    }
    let best = votes
        .into_iter()
        .max_by_key(|(index, votes)| (*votes, std::cmp::Reverse(*index)));
    // A lone brace is no likeness.
    best.filter(|(_, letters)| *letters > 3).map(|(index, _)| index)
}

/// Where the longest line has its likest one.
fn by_likeness(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let (offset, longest) = wanted
        .iter()
        .enumerate()
        .filter(|(_, line)| line.len() <= MAX_COMPARED_BYTES)
        .max_by_key(|(_, line)| line.len())?;
    let candidates: Vec<&str> = lines
        .iter()
        .take(MAX_COMPARED)
        .map(|line| line.trim())
        .filter(|line| !line.is_empty() && line.len() <= MAX_COMPARED_BYTES)
        .collect();
    let longest: &str = longest;
    let likest = *similar::get_close_matches(longest, &candidates, 1, LEAST_LIKENESS).first()?;
    let index = lines.iter().position(|line| line.trim() == likest)?;
    Some(index.saturating_sub(offset))
}
