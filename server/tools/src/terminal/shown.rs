//! What a model gets to see of an output: its beginning and its end.

use std::collections::VecDeque;

/// Longest output, in characters.
pub(super) const MAX_CHARS: usize = 50_000;
/// Two fifths are the beginning.
const HEAD_CHARS: usize = MAX_CHARS * 2 / 5;
const TAIL_CHARS: usize = MAX_CHARS - HEAD_CHARS;

/// An output while it grows. Holds no more than what is shown, and one piece.
#[derive(Debug, Default)]
pub(super) struct Shown {
    head: String,
    head_chars: usize,
    tail: VecDeque<(String, usize)>,
    tail_chars: usize,
    left_out: usize,
}

impl Shown {
    /// Adds what comes next.
    pub(super) fn push(&mut self, text: &str) {
        let head = talaria_text::cut::prefix_chars(text, HEAD_CHARS - self.head_chars);
        self.head.push_str(head);
        self.head_chars += head.chars().count();
        let rest = text.strip_prefix(head).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        let chars = rest.chars().count();
        self.tail.push_back((rest.to_owned(), chars));
        self.tail_chars += chars;
        while let Some((_, chars)) = self
            .tail
            .front()
            .filter(|(_, chars)| self.tail_chars - chars >= TAIL_CHARS)
        {
            (self.tail_chars, self.left_out) = (self.tail_chars - chars, self.left_out + chars);
            self.tail.pop_front();
        }
    }

    /// All of it, or its beginning and its end with a line between them that says how much is left out.
    pub(super) fn into_text(self) -> String {
        let tail: String = self.tail.into_iter().map(|(text, _)| text).collect();
        let left_out = self.left_out + self.tail_chars.saturating_sub(TAIL_CHARS);
        if left_out == 0 {
            return self.head + &tail;
        }
        let tail = talaria_text::cut::suffix_chars(&tail, TAIL_CHARS);
        format!(
            "{}\n[{left_out} characters left out here: write long outputs to a file and read parts of it]\n{tail}",
            self.head
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_whole_and_of_the_rest_beginning_and_end_stay() {
        let numbers: Vec<String> = (0..40_000).map(|number| format!("{number} ä\n")).collect();
        for count in [0, 10, 5_000, 6_000, 40_000] {
            let whole: String = numbers.iter().take(count).map(String::as_str).collect();
            for step in [1, 7, 9_999, 1_000_000] {
                let mut shown = Shown::default();
                let letters: Vec<char> = whole.chars().collect();
                for piece in letters.chunks(step) {
                    shown.push(&piece.iter().collect::<String>());
                }
                let text = shown.into_text();
                let chars = whole.chars().count();
                if chars <= MAX_CHARS {
                    assert_eq!(text, whole);
                } else {
                    let left_out = chars - MAX_CHARS;
                    let (head, tail) = text.split_once(&format!("\n[{left_out} characters")).unwrap();
                    let (_, tail) = tail.split_once("]\n").unwrap();
                    assert_eq!((head.chars().count(), tail.chars().count()), (HEAD_CHARS, TAIL_CHARS));
                    assert!(whole.starts_with(head) && whole.ends_with(tail));
                }
            }
        }
    }
}
