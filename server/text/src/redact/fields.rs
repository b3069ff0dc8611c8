//! Values of fields, headers and options whose names are secret.

use super::edit::Edit;
use super::names::{AUTHORIZATION, COOKIE, MAX_NAME, is_cookie_attribute, is_name_byte, kind_of};
use super::shape::{MIN_SECRET, is_placeholder, is_random, is_secret_value};
use super::work;

/// Shortest credential of a header that only mixes capitals and small letters.
const MIN_MIXED: usize = 12;
/// How often it then goes from one to the other.
const MIN_CHANGES: usize = 4;

/// What the next word may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Expect {
    /// Anything.
    #[default]
    Nothing,
    /// A `:` or `=`, since a secret name stood alone.
    Sign(&'static str),
    /// The value.
    Value(&'static str),
    /// `name=value`, to the end of the line.
    Cookies,
}

impl Expect {
    /// What a secret name leads to, once its sign has come.
    fn value(kind: &'static str) -> Self {
        if kind == COOKIE {
            Self::Cookies
        } else {
            Self::Value(kind)
        }
    }

    /// After a value.
    pub(super) fn after_value(self) -> Self {
        match self {
            Self::Cookies => self,
            Self::Nothing | Self::Sign(_) | Self::Value(_) => Self::Nothing,
        }
    }

    /// After a quote, a bracket, a space, or a line.
    pub(super) fn after_separator(self, byte: u8, is_line_end: bool) -> Self {
        match (self, byte) {
            _ if is_line_end => Self::Nothing,
            // An element of XML.
            (Self::Sign(kind), b'>') => Self::value(kind),
            (Self::Sign(_) | Self::Value(_), b',' | b';' | b'}' | b')' | b'(' | b'<') => Self::Nothing,
            (expect, _) => expect,
        }
    }
}

/// Finds the secrets among the fields of a word, and says what may follow it.
pub(super) fn find(expect: Expect, word: &str, offset: usize, edits: &mut Vec<Edit>) -> Expect {
    work::note(word.len());
    match expect {
        Expect::Cookies => {
            if let Some((name, value)) = word.split_once('=').filter(|(name, _)| !is_cookie_attribute(name)) {
                redact_value(value, offset + name.len() + 1, COOKIE, edits);
            }
            return Expect::Cookies;
        }
        Expect::Value(AUTHORIZATION) if is_scheme(word) => return Expect::Value(AUTHORIZATION),
        Expect::Value(kind) => {
            let value = word.trim_start_matches([':', '=']);
            if value.is_empty() {
                return Expect::Value(kind);
            }
            if redact_value(value, offset + word.len() - value.len(), kind, edits) {
                return Expect::Nothing;
            }
        }
        Expect::Sign(kind) if word.starts_with([':', '=']) => {
            let value = word.trim_start_matches([':', '=']);
            if value.is_empty() {
                return Expect::value(kind);
            }
            redact_value(value, offset + word.len() - value.len(), kind, edits);
            return Expect::Nothing;
        }
        Expect::Sign(_) | Expect::Nothing => {}
    }
    named(word, offset, edits)
}

/// `name=value` and `name:value` inside the word; a name at its end.
fn named(word: &str, offset: usize, edits: &mut Vec<Edit>) -> Expect {
    let bytes = word.as_bytes();
    let mut name_start = 0;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if matches!(byte, b'=' | b':') {
            let start = name_start.max(at.saturating_sub(MAX_NAME));
            if let Some(kind) = word.get(start..at).and_then(kind_of) {
                let rest = word.get(at..).unwrap_or_default();
                let value = rest.trim_start_matches([':', '=']);
                let start = word.len() - value.len();
                let value = value.split('&').next().unwrap_or_default();
                if value.is_empty() && start == word.len() {
                    return Expect::value(kind);
                }
                redact_value(value, offset + start, kind, edits);
                at = start + value.len();
                name_start = at;
                continue;
            }
        }
        if !is_name_byte(*byte) {
            name_start = at + 1;
        }
        at += 1;
    }
    bare(word)
}

/// A word that is nothing but a secret name, or a scheme of a header.
fn bare(word: &str) -> Expect {
    if word.eq_ignore_ascii_case("bearer") {
        return Expect::Value(AUTHORIZATION);
    }
    if word.len() > MAX_NAME || !word.bytes().all(is_name_byte) {
        return Expect::Nothing;
    }
    match kind_of(word) {
        Some(kind) if word.starts_with("--") => Expect::value(kind),
        Some(kind) => Expect::Sign(kind),
        None => Expect::Nothing,
    }
}

fn is_scheme(word: &str) -> bool {
    [
        "bearer",
        "basic",
        "digest",
        "token",
        "apikey",
        "key",
        "bot",
        "negotiate",
        ":",
        "=",
    ]
    .iter()
    .any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Whether the value was a secret.
fn redact_value(value: &str, offset: usize, kind: &'static str, edits: &mut Vec<Edit>) -> bool {
    let value = value.trim_end_matches(['.', ':']);
    work::note(value.len());
    let is_secret = is_secret_value(value, kind) || (kind == AUTHORIZATION && is_credential(value));
    if is_secret {
        edits.push(Edit::secret(offset, offset + value.len(), kind));
    }
    is_secret
}

/// Base64 of a short text may have no digit.
fn is_credential(value: &str) -> bool {
    let changes = value
        .as_bytes()
        .windows(2)
        .filter(|pair| matches!(pair, [a, b] if a.is_ascii_uppercase() != b.is_ascii_uppercase()))
        .count();
    value.len() >= MIN_SECRET
        && !is_placeholder(value)
        && !value.contains("://")
        && !value.contains("::")
        && (is_random(value) || (value.len() >= MIN_MIXED && changes >= MIN_CHANGES))
}
