//! Rows of a terminal: styled text, broken between words where possible and between graphemes always.

use talaria_text::cut::width;
use unicode_segmentation::UnicodeSegmentation as _;

use super::style::{Line, Span, Style};

/// The narrowest terminal: a wide character must fit.
const MIN_COLUMNS: usize = 2;
/// Marks that no row begins with: they belong to what stands before them.
const CLOSING: &str = "，。、．：；！？）］｝」』】〕〉》…ー々ゝゞっゃゅょッャュョ,.:;!?)]}";
/// Marks that no row ends with.
const OPENING: &str = "（［｛「『【〔〈《([{";

/// What stands before the rows of a block: marks of quotes and lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Margin {
    /// Before the first row.
    pub(crate) first: Line,
    /// Before every other row, as wide as `first`.
    pub(crate) rest: Line,
}

struct Cell<'a> {
    text: &'a str,
    style: Style,
    cells: usize,
}

/// The rows of a text, at least one. Breaks at spaces, beside wide characters, and inside a word that is longer than a row.
pub(crate) fn wrap(body: &[Span], margin: &Margin, columns: usize) -> Vec<Line> {
    rows(body, margin, columns, true)
}

/// The rows of a line of code: every space stays, and it is broken where the row ends.
pub(crate) fn chop(body: &[Span], margin: &Margin, columns: usize) -> Vec<Line> {
    rows(body, margin, columns, false)
}

/// Width of a line, in cells.
pub(crate) fn line_width(line: &[Span]) -> usize {
    line.iter().map(|span| width(&span.text)).sum()
}

fn rows(body: &[Span], margin: &Margin, columns: usize, between_words: bool) -> Vec<Line> {
    let columns = columns.max(MIN_COLUMNS);
    let taken = line_width(&margin.first);
    // A margin that leaves no room for text is left out.
    let (margin, limit) = match columns.checked_sub(taken).filter(|left| *left >= MIN_COLUMNS) {
        Some(left) => (margin, left),
        None => (&Margin::default(), columns),
    };
    let cells = cells(body);
    let mut rows = Vec::new();
    let mut start = 0;
    while start < cells.len() || rows.is_empty() {
        let mut end = row_end(&cells, start, limit);
        if between_words && end < cells.len() {
            end = break_before(&cells, start, end);
        }
        let before = if rows.is_empty() { &margin.first } else { &margin.rest };
        rows.push(row(before, cells.get(start..end).unwrap_or_default(), between_words));
        start = end;
        while between_words && cells.get(start).is_some_and(|cell| cell.text == " ") {
            start += 1;
        }
    }
    rows
}

fn cells(body: &[Span]) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for span in body {
        cells.extend(span.text.graphemes(true).map(|text| Cell {
            text,
            style: span.style,
            cells: width(text),
        }));
    }
    cells
}

/// Where a row that begins at `start` is full; after one grapheme at the earliest.
fn row_end(cells: &[Cell<'_>], start: usize, limit: usize) -> usize {
    let mut used = 0;
    for (index, cell) in cells.iter().enumerate().skip(start) {
        used += cell.cells;
        if used > limit && index > start {
            return index;
        }
    }
    cells.len()
}

/// The last place for a break at or before `end`; `end` itself when there is none.
fn break_before(cells: &[Cell<'_>], start: usize, end: usize) -> usize {
    let may_break = |at: &usize| match (cells.get(*at - 1), cells.get(*at)) {
        (Some(before), Some(after)) if before.text == " " || after.text == " " => true,
        (Some(before), Some(after)) => {
            (before.cells > 1 || after.cells > 1) && !CLOSING.contains(after.text) && !OPENING.contains(before.text)
        }
        _ => false,
    };
    (start + 1..=end).rev().find(may_break).unwrap_or(end)
}

fn row(before: &[Span], cells: &[Cell<'_>], between_words: bool) -> Line {
    let mut line = before.to_vec();
    let mut cells = cells;
    while let (true, Some((last, rest))) = (between_words, cells.split_last()) {
        if last.text != " " {
            break;
        }
        cells = rest;
    }
    for cell in cells {
        match line.last_mut() {
            Some(span) if span.style == cell.style => span.text.push_str(cell.text),
            _ => line.push(Span::new(cell.text, cell.style)),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::render::style::letters;

    fn wrapped(text: &str, columns: usize) -> Vec<String> {
        let rows = wrap(&[Span::new(text, Style::PLAIN)], &Margin::default(), columns);
        rows.iter().map(|row| letters(row)).collect()
    }

    #[test]
    fn rows_break_between_words() {
        assert_eq!(wrapped("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(wrapped("an extraordinarily", 6), ["an", "extrao", "rdinar", "ily"]);
        assert_eq!(wrapped("", 10), [""]);
    }

    #[test]
    fn k1_wide_characters_take_two_cells() {
        assert_eq!(wrapped("你好测试一下", 5), ["你好", "测试", "一下"]);
        assert_eq!(
            wrapped("这是测试。好", 8),
            ["这是测", "试。好"],
            "no row begins with a full stop"
        );
        assert_eq!(wrapped("👩‍👩‍👧👩‍👩‍👧", 3), ["👩‍👩‍👧", "👩‍👩‍👧"]);
    }

    #[test]
    fn margins_hang() {
        let margin = Margin {
            first: vec![Span::new("- ", Style::DIM)],
            rest: vec![Span::new("  ", Style::PLAIN)],
        };
        let rows = wrap(&[Span::new("one two three", Style::PLAIN)], &margin, 9);
        assert_eq!(
            rows.iter().map(|row| letters(row)).collect::<Vec<_>>(),
            ["- one two", "  three"]
        );
    }

    proptest! {
        #[test]
        fn every_row_fits_and_no_letter_is_lost(text in "[a-z 你好🙂é\u{301}。()]{0,80}", columns in 2_usize..30) {
            let rows = wrapped(&text, columns);
            prop_assert!(rows.iter().all(|row| width(row) <= columns), "{:?}", rows);
            let without_spaces = |text: &str| text.replace(' ', "");
            prop_assert_eq!(without_spaces(&rows.concat()), without_spaces(&text));
        }

        #[test]
        fn code_keeps_every_space(text in "[a-z 你]{0,60}", columns in 2_usize..30) {
            let rows = chop(&[Span::new(text.clone(), Style::CODE)], &Margin::default(), columns);
            prop_assert_eq!(rows.iter().map(|row| letters(row)).collect::<String>(), text);
        }
    }
}
