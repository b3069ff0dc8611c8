//! Cuts and splits.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// The longest prefix of at most `max_bytes` bytes.
#[must_use]
pub fn prefix_bytes(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// The longest suffix of at most `max_bytes` bytes.
#[must_use]
pub fn suffix_bytes(text: &str, max_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes))..]
}

/// The first `max_chars` characters.
#[must_use]
pub fn prefix_chars(text: &str, max_chars: usize) -> &str {
    let end = text.char_indices().nth(max_chars).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// The last `max_chars` characters.
#[must_use]
pub fn suffix_chars(text: &str, max_chars: usize) -> &str {
    let mut letters = text.char_indices().rev();
    let begin = max_chars
        .checked_sub(1)
        .map_or(text.len(), |last| letters.nth(last).map_or(0, |(at, _)| at));
    &text[begin..]
}

/// Width on a terminal, in cells.
#[must_use]
pub fn width(text: &str) -> usize {
    text.width()
}

/// Head and tail of a text that is longer than `max_chars` characters, with a notice between them that gets the number of
/// characters left out; `None` when the text fits. Two fifths are head.
pub fn head_tail(text: &str, max_chars: usize, notice: impl FnOnce(usize) -> String) -> Option<String> {
    // Bytes are never fewer than characters: most texts need no counting.
    if text.len() <= max_chars {
        return None;
    }
    let count = text.chars().count();
    if count <= max_chars {
        return None;
    }
    let head_chars = max_chars * 2 / 5;
    let head = prefix_chars(text, head_chars);
    let tail_chars = max_chars - head_chars;
    let tail_at = text
        .char_indices()
        .rev()
        .nth(tail_chars.saturating_sub(1))
        .map_or(text.len(), |(at, _)| at);
    Some(format!("{head}{}{}", notice(count - max_chars), &text[tail_at..]))
}

/// One line of at most `max_cells` cells: white space and control characters become single spaces, and what is left out is
/// told by `…`.
#[must_use]
pub fn one_line(text: &str, max_cells: usize) -> String {
    let is_gap = |letter: char| letter.is_whitespace() || letter.is_control();
    let words: Vec<&str> = text
        .split(is_gap)
        .filter(|word| !word.is_empty())
        .take(max_cells + 1)
        .collect();
    let line = words.join(" ");
    if line.width() <= max_cells {
        return line;
    }
    let mut cut = String::new();
    for grapheme in line.graphemes(true) {
        if cut.width() + grapheme.width() + 1 > max_cells {
            break;
        }
        cut.push_str(grapheme);
    }
    if max_cells > 0 {
        cut.push('…');
    }
    cut
}

/// Pieces of at most `max_bytes` bytes (at least one character each); between graphemes where a grapheme fits.
pub fn utf8_pieces(text: &str, max_bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = piece_end(rest, max_bytes);
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

fn piece_end(text: &str, max_bytes: usize) -> usize {
    if text.len() <= max_bytes {
        return text.len();
    }
    let first = text.chars().next().map_or(0, char::len_utf8);
    let end = text.floor_char_boundary(max_bytes).max(first);
    // Only the last grapheme can be cut in two; it begins at most a few dozen bytes before the end.
    let window = text.floor_char_boundary(end.saturating_sub(64));
    let beyond = text.ceil_char_boundary((end + 64).min(text.len()));
    let boundaries = text[window..beyond].grapheme_indices(true).map(|(at, _)| window + at);
    boundaries
        .take_while(|at| *at <= end)
        .last()
        .filter(|at| *at > window)
        .unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn graphemes_stay_whole() {
        let family = "👩‍👩‍👧";
        let text = format!("ab{family}cd");
        let pieces: Vec<_> = utf8_pieces(&text, 2 + family.len() - 1).collect();
        assert_eq!(pieces, ["ab", &format!("{family}c"), "d"]);
    }

    #[test]
    fn lines_are_cut_to_cells() {
        assert_eq!(one_line("a\n\tb\u{1b}[31m", 20), "a b [31m");
        assert_eq!(one_line("日本語テキスト", 7), "日本語…");
        assert_eq!(width(&one_line("日本語テキスト", 8)), 7);
    }

    #[test]
    fn ends_have_their_letters() {
        for (count, expected) in [(0, ""), (1, "é"), (2, "日é"), (3, "a日é"), (9, "a日é")] {
            assert_eq!(suffix_chars("a日é", count), expected);
        }
    }

    proptest! {
        #[test]
        fn hard_h12_pieces_are_the_text(text: String, max_bytes in 1_usize..40) {
            let pieces: Vec<_> = utf8_pieces(&text, max_bytes).collect();
            prop_assert_eq!(pieces.concat(), text.as_str());
            prop_assert!(pieces.iter().all(|piece| piece.len() <= max_bytes.max(4)));
        }

        #[test]
        fn head_and_tail_fit(text: String, max_chars in 1_usize..40) {
            match head_tail(&text, max_chars, |_| String::new()) {
                None => prop_assert!(text.chars().count() <= max_chars),
                Some(cut) => prop_assert_eq!(cut.chars().count(), max_chars),
            }
        }

        #[test]
        fn a_line_fits(text: String, max_cells in 0_usize..40) {
            prop_assert!(width(&one_line(&text, max_cells)) <= max_cells);
        }
    }
}
