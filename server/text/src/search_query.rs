//! Queries: any text is a legal one.
//!
//! Words are joined by "and"; `"phrase"`, `-word`, `-"phrase"`, `word*`, `tool:name` and `role:user` work; anything else is
//! searched as it is. An engine finds candidates by [`SearchQuery::required_tokens`]; [`SearchQuery::matches`] verifies them.
//! The law between the two: a text that matches has every required token.

use crate::cut::prefix_chars;
use crate::search_term::{FoldedText, Term};
use crate::search_tokens::fold;

/// Terms of one query; what comes after is ignored.
const MAX_TERMS: usize = 32;
/// Tokens that an engine is asked for; more of them would narrow nothing.
const MAX_TOKENS: usize = 64;
/// Roles that a query can ask for; another word behind `role:` is a word like others.
const ROLES: &[&str] = &["user", "assistant", "tool"];

/// A query that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    wanted: Vec<Term>,
    unwanted: Vec<Term>,
    role: Option<String>,
    tool: Option<String>,
}

impl SearchQuery {
    /// Reads a query; never fails.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for piece in pieces(text).into_iter().take(MAX_TERMS) {
            query.take(&piece);
        }
        query
    }

    fn take(&mut self, piece: &Piece<'_>) {
        let folded = fold(piece.text.trim());
        let (is_unwanted, word) = match folded.strip_prefix('-').filter(|_| !piece.is_phrase) {
            Some(word) => (true, word),
            None => (piece.is_unwanted, folded.as_str()),
        };
        if let Some(role) = word
            .strip_prefix("role:")
            .filter(|role| !is_unwanted && ROLES.contains(role))
        {
            self.role = Some(role.to_owned());
            return;
        }
        if let Some(tool) = word
            .strip_prefix("tool:")
            .filter(|tool| !is_unwanted && !tool.is_empty())
        {
            self.tool = Some(tool.to_owned());
            return;
        }
        let term = if piece.is_phrase {
            Term::phrase(word)
        } else {
            Term::word(word)
        };
        let terms = if is_unwanted {
            &mut self.unwanted
        } else {
            &mut self.wanted
        };
        terms.extend(term);
    }

    /// Encoded tokens that every match has.
    #[must_use]
    pub fn required_tokens(&self) -> Vec<String> {
        let mut tokens: Vec<String> = self.wanted.iter().flat_map(Term::required_tokens).collect();
        let tool = self.tool.as_deref().and_then(Term::phrase);
        tokens.extend(tool.iter().flat_map(Term::required_tokens));
        tokens.sort_unstable();
        tokens.dedup();
        tokens.truncate(MAX_TOKENS);
        tokens
    }

    /// Encoded beginnings of tokens that every match has.
    #[must_use]
    pub fn required_prefixes(&self) -> Vec<String> {
        self.wanted.iter().filter_map(Term::required_prefix).collect()
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
        let text = FoldedText::new(text);
        self.wanted.iter().all(|term| term.is_in(&text)) && !self.unwanted.iter().any(|term| term.is_in(&text))
    }

    /// How well a text fits: hits against length.
    #[must_use]
    pub fn score(&self, text: &str) -> f64 {
        let text = FoldedText::new(text);
        let hits: usize = self.wanted.iter().map(|term| term.count_in(&text)).sum();
        hits as f64 / (text.words() as f64).sqrt()
    }

    /// A passage of at most `max_chars` characters around the first hit, in pieces that tell whether they are one.
    #[must_use]
    pub fn snippet(&self, text: &str, max_chars: usize) -> Vec<(String, bool)> {
        let line: Vec<&str> = text.split_whitespace().collect();
        let parts: Vec<&str> = self.wanted.iter().flat_map(|term| term.text().split(' ')).collect();
        let is_hit = |word: &str| {
            let folded = fold(word);
            parts.iter().any(|part| folded.contains(part))
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

/// A word or a phrase of a query.
struct Piece<'a> {
    text: &'a str,
    is_phrase: bool,
    is_unwanted: bool,
}

/// Splits at white space, but for what stands in quotes; a quote without its twin is a letter like others.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        let Some((phrase, behind)) = after.split_once('"') else {
            break;
        };
        let minus = before.strip_suffix('-');
        let is_unwanted = minus.is_some_and(|before| before.chars().last().is_none_or(char::is_whitespace));
        pieces.extend(words(minus.filter(|_| is_unwanted).unwrap_or(before)));
        pieces.push(Piece {
            text: phrase,
            is_phrase: true,
            is_unwanted,
        });
        rest = behind;
    }
    pieces.extend(rest.split('"').flat_map(words));
    pieces
}

fn words(text: &str) -> impl Iterator<Item = Piece<'_>> {
    text.split_whitespace().map(|text| Piece {
        text,
        is_phrase: false,
        is_unwanted: false,
    })
}

#[cfg(test)]
mod tests;
