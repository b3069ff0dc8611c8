//! One term of a query: which tokens a text must have for it, and whether a text has it.

use crate::search_tokens::{encode, fold, humps, is_cjk, is_part, parts, required_of, terms};

/// Hits of one term that count for the order of results.
const MAX_HITS: usize = 100;

/// A word, a phrase or the beginning of a word, folded; it has at least one letter or digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    text: String,
    is_prefix: bool,
}

/// A text, ready to be looked at for terms.
pub(crate) struct FoldedText {
    /// With single spaces.
    text: String,
    /// The parts of its identifiers.
    humps: Vec<String>,
}

impl FoldedText {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: collapse(&fold(text)),
            humps: humps(text).map(|hump| collapse(&hump)).collect(),
        }
    }

    /// How many words it has; at least one.
    pub(crate) fn words(&self) -> usize {
        self.text.split(' ').count().max(1)
    }
}

fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Term {
    /// What stood in quotes, folded; `None` when there is nothing in it to look for.
    pub(crate) fn phrase(text: &str) -> Option<Self> {
        let text = collapse(text);
        text.chars()
            .any(char::is_alphanumeric)
            .then_some(Self { text, is_prefix: false })
    }

    /// A word, folded: with `*` the beginning of one. What ends a sentence is none of it.
    pub(crate) fn word(text: &str) -> Option<Self> {
        if let Some(prefix) = text.strip_suffix('*') {
            return Self::phrase(prefix).map(|term| Self {
                is_prefix: true,
                ..term
            });
        }
        Self::phrase(text.trim_end_matches(['.', ',', ';', ':', '!', '?']))
    }

    /// What is looked for.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Encoded tokens that every text with the term has.
    pub(crate) fn required_tokens(&self) -> Vec<String> {
        let mut tokens = Vec::new();
        let mut words = terms(&self.text).peekable();
        while let Some(word) = words.next() {
            let mut parts = parts(word);
            if self.is_prefix && words.peek().is_none() {
                // Its last letters may go on.
                parts.pop_if(|part| part.is_open());
            }
            tokens.extend(parts.iter().flat_map(required_of));
        }
        tokens
    }

    /// The encoded beginning of a token that every text with the term has, where the term is a beginning.
    pub(crate) fn required_prefix(&self) -> Option<String> {
        let word = terms(&self.text).last().filter(|_| self.is_prefix)?;
        let parts = parts(word);
        let last = parts.last().filter(|part| part.is_open())?;
        // One letter begins too many words to be worth asking for beside others.
        let is_worth_it = parts.len() == 1 || last.text.chars().nth(1).is_some();
        is_worth_it.then(|| encode(last.text))
    }

    /// Whether a text has it as a word of its own, or as a part of an identifier.
    pub(crate) fn is_in(&self, text: &FoldedText) -> bool {
        let is_hump = |hump: &String| {
            if self.is_prefix {
                hump.starts_with(&self.text)
            } else {
                *hump == self.text
            }
        };
        self.positions(&text.text).next().is_some() || text.humps.iter().any(is_hump)
    }

    /// How often a text has it.
    pub(crate) fn count_in(&self, text: &FoldedText) -> usize {
        text.text.matches(&self.text).count().min(MAX_HITS)
    }

    /// Where it stands as a word of its own (anywhere, in scripts that have no spaces).
    fn positions<'a>(&'a self, text: &'a str) -> impl Iterator<Item = usize> + 'a {
        let goes_on = |letter: Option<char>| letter.is_some_and(|letter| is_part(letter) && !is_cjk(letter));
        let (begins, ends) = (goes_on(self.text.chars().next()), goes_on(self.text.chars().last()));
        let mut from = 0;
        // A place that is no word may overlap with one that is.
        let places = std::iter::from_fn(move || {
            let at = from + text.get(from..)?.find(&self.text)?;
            from = at + text[at..].chars().next().map_or(1, char::len_utf8);
            Some(at)
        });
        places.filter(move |at| {
            let before = text[..*at].chars().next_back();
            let after = text[at + self.text.len()..].chars().next();
            !(begins && goes_on(before)) && (self.is_prefix || !(ends && goes_on(after)))
        })
    }
}
