//! Queries: any text is a legal one.
//!
//! Words are joined by "and"; `"phrase"`, `-word`, `word*`, `tool:name` and `role:user` work; anything else is searched as it
//! is. An engine finds candidates by [`SearchQuery::required_tokens`]; [`SearchQuery::matches`] verifies them.

use crate::cut::prefix_chars;
use crate::search_tokens::{encode, fold, is_cjk, is_compound, runs, search_tokens, words};

/// Terms of one query; what comes after is ignored.
const MAX_TERMS: usize = 32;

/// A query that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// Folded words and phrases that must stand in the text.
    wanted: Vec<String>,
    /// Folded words that mustn't.
    unwanted: Vec<String>,
    /// Folded beginnings of words that must stand in the text.
    prefixes: Vec<String>,
    role: Option<String>,
    tool: Option<String>,
}

impl SearchQuery {
    /// Reads a query; never fails.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for (piece, is_phrase) in pieces(text).into_iter().take(MAX_TERMS) {
            query.take(&piece, is_phrase);
        }
        query
    }

    fn take(&mut self, piece: &str, is_phrase: bool) {
        let folded = fold(piece.trim());
        let has_word = |text: &str| text.chars().any(char::is_alphanumeric);
        if !has_word(&folded) {
            return;
        }
        if is_phrase {
            self.wanted.push(folded);
        } else if let Some(role) = folded.strip_prefix("role:").filter(|role| !role.is_empty()) {
            self.role = Some(role.to_owned());
        } else if let Some(tool) = folded.strip_prefix("tool:").filter(|tool| !tool.is_empty()) {
            self.tool = Some(tool.to_owned());
        } else if let Some(word) = folded.strip_prefix('-') {
            self.unwanted.push(word.to_owned());
        } else if let Some(word) = folded
            .strip_suffix('*')
            .filter(|word| word.chars().all(char::is_alphanumeric))
        {
            self.prefixes.push(word.to_owned());
        } else {
            self.wanted.push(folded);
        }
    }

    /// Encoded tokens that every match has.
    #[must_use]
    pub fn required_tokens(&self) -> Vec<String> {
        let mut tokens: Vec<String> = self.wanted.iter().flat_map(|wanted| required(wanted)).collect();
        tokens.extend(self.tool.iter().flat_map(|tool| required(tool)));
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    /// Encoded beginnings of tokens that every match has.
    #[must_use]
    pub fn required_prefixes(&self) -> Vec<String> {
        self.prefixes.iter().map(|prefix| encode(prefix)).collect()
    }

    /// The role that was asked for.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        self.role.as_deref()
    }

    /// The tool that was asked for.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    /// Whether a text has everything that is wanted and nothing that isn't.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let folded = collapse(&fold(text));
        let has_word = |word: &String| positions(&folded, word).next().is_some();
        self.wanted
            .iter()
            .map(|wanted| collapse(wanted))
            .all(|wanted| has_word(&wanted) || has_parts(text, &wanted))
            && self.prefixes.iter().all(|prefix| begins(&folded, prefix))
            && !self.unwanted.iter().any(has_word)
    }

    /// How well a text fits: hits against length.
    #[must_use]
    pub fn score(&self, text: &str) -> f64 {
        let folded = collapse(&fold(text));
        let terms = self.wanted.iter().chain(&self.prefixes);
        let hits: usize = terms.map(|term| folded.matches(term.as_str()).count().min(100)).sum();
        let words = folded.split(' ').count().max(1);
        hits as f64 / (words as f64).sqrt()
    }

    /// A passage of at most `max_chars` characters around the first hit, in pieces that tell whether they are one.
    #[must_use]
    pub fn snippet(&self, text: &str, max_chars: usize) -> Vec<(String, bool)> {
        let line: Vec<&str> = text.split_whitespace().collect();
        let terms: Vec<&str> = self.wanted.iter().chain(&self.prefixes).map(String::as_str).collect();
        let is_hit = |word: &str| {
            let folded = fold(word);
            terms
                .iter()
                .any(|term| term.split(' ').any(|part| !part.is_empty() && folded.contains(part)))
        };
        let first = line.iter().position(|word| is_hit(word)).unwrap_or(0);
        let mut pieces: Vec<(String, bool)> = Vec::new();
        let mut left = max_chars;
        for word in line.iter().skip(first.saturating_sub(6)) {
            let piece = prefix_chars(word, left);
            if piece.is_empty() {
                break;
            }
            left = left.saturating_sub(piece.chars().count() + 1);
            let is_hit = is_hit(word);
            match pieces.last_mut() {
                Some((text, was_hit)) if *was_hit == is_hit => {
                    text.push(' ');
                    text.push_str(piece);
                }
                Some((text, _)) => {
                    text.push(' ');
                    pieces.push((piece.to_owned(), is_hit));
                }
                None => pieces.push((piece.to_owned(), is_hit)),
            }
        }
        pieces
    }
}

/// Splits at white space, but for what stands in quotes; a quote without its twin is a letter like others.
fn pieces(text: &str) -> Vec<(String, bool)> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        let Some((phrase, behind)) = after.split_once('"') else {
            break;
        };
        pieces.extend(before.split_whitespace().map(|word| (word.to_owned(), false)));
        pieces.push((phrase.to_owned(), true));
        rest = behind;
    }
    pieces.extend(rest.split_whitespace().map(|word| (word.replace('"', ""), false)));
    pieces
}

fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Tokens that a text with this term certainly has.
fn required(term: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for word in words(term).flat_map(runs) {
        let letters: Vec<char> = word.chars().collect();
        if letters.iter().any(|letter| is_cjk(*letter)) {
            match letters.as_slice() {
                [only] => tokens.push(encode(&only.to_string())),
                more => tokens.extend(more.windows(2).map(|pair| encode(&pair.iter().collect::<String>()))),
            }
        } else {
            tokens.push(encode(&word));
        }
    }
    if is_compound(term) && !term.contains(' ') {
        // A single letter is in most texts; the compound as a whole is not.
        tokens.retain(|token| token.len() > 1);
        if tokens.is_empty() {
            tokens.push(encode(term));
        }
    }
    tokens
}

/// Where a term stands in a text as a word of its own (anywhere, in scripts that have no spaces).
fn positions<'a>(folded: &'a str, term: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() && !is_cjk(letter));
    let (first, last) = (term.chars().next(), term.chars().last());
    folded.match_indices(term).map(|(at, _)| at).filter(move |at| {
        let (before, after) = (folded[..*at].chars().last(), folded[at + term.len()..].chars().next());
        !(is_part(before) && is_part(first) || is_part(after) && is_part(last))
    })
}

/// A part of an identifier counts as a word too.
fn has_parts(text: &str, term: &str) -> bool {
    let tokens = search_tokens(text);
    !term.contains(' ') && tokens.binary_search(&encode(term)).is_ok()
}

fn begins(folded: &str, prefix: &str) -> bool {
    words(folded)
        .flat_map(runs)
        .any(|word| word.starts_with(prefix) || word.split('_').any(|part| part.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn finds(query: &str, text: &str) -> bool {
        let query = SearchQuery::parse(query);
        let tokens = search_tokens(text);
        let has_all = query.required_tokens().iter().all(|token| tokens.contains(token));
        let has_prefixes = query
            .required_prefixes()
            .iter()
            .all(|prefix| tokens.iter().any(|token| token.starts_with(prefix.as_str())));
        has_all && has_prefixes && query.matches(text)
    }

    #[test]
    fn row_h2_grammar() {
        for (query, text, expected) in [
            ("exit code", "the code of the exit", true),
            ("\"exit code\"", "the code of the exit", false),
            ("\"exit code\"", "an Exit  Code of 1", true),
            ("exit -code", "exit code", false),
            ("exit -code", "exit now", true),
            ("conf*", "the configuration", true),
            ("conf*", "unconfigured", false),
            ("c++", "I write C++.", true),
            ("c++", "I write C.", false),
            ("host-a", "on host-a, then", true),
            ("user@host", "mail user@host now", true),
            ("桂林", "我去桂林看漓江", true),
            ("林", "我去桂林", true),
            ("山林", "山上的林", false),
            ("youer", "修改youer服务端", true),
            ("file", "read_file", true),
            ("\"unbalanced", "an unbalanced quote", true),
            ("AND OR *", "x and y or z", true),
        ] {
            assert_eq!(finds(query, text), expected, "{query} in {text}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_a_query(query: String, text: String) {
            let query = SearchQuery::parse(&query);
            let snippet = query.snippet(&text, 20);
            prop_assert!(!query.matches(&text) || text.trim().is_empty() || !snippet.is_empty());
            prop_assert!(query.required_tokens().iter().all(|token| token.bytes().all(|b| b.is_ascii_alphanumeric())));
        }

        #[test]
        fn every_word_finds_its_text(words in proptest::collection::vec("[a-zA-Zäß桂林0-9]{1,8}", 1..6)) {
            let text = words.join(" ");
            for word in &words {
                prop_assert!(finds(word, &text), "{} in {}", word, text);
            }
        }
    }
}
