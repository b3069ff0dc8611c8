//! Secrets that are known by value, also as they look in base64, in an address and in JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::edit::Edit;
use super::shape::MIN_SECRET;

const KIND: &str = "own-secret";

/// The known secrets.
pub(super) struct Own {
    forms: Vec<String>,
    longest: usize,
    automaton: Option<AhoCorasick>,
}

impl Own {
    pub(super) fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut forms = BTreeSet::new();
        for secret in secrets {
            let secret = secret.as_ref().trim();
            // A part of the mark itself would be found again and again.
            if secret.chars().count() >= MIN_SECRET && !"[redacted:own-secret]".contains(secret) {
                forms.extend(forms_of(secret));
            }
        }
        let forms: Vec<String> = forms.into_iter().collect();
        let longest = forms.iter().map(String::len).max().unwrap_or(0);
        let automaton = (!forms.is_empty())
            .then(|| {
                AhoCorasick::builder()
                    .match_kind(MatchKind::LeftmostLongest)
                    .build(&forms)
                    .ok()
            })
            .flatten();
        Self {
            forms,
            longest,
            automaton,
        }
    }

    /// Finds them. Gives how much of the text is decided: the rest may be the beginning of one.
    pub(super) fn find(&self, text: &str, is_last: bool, edits: &mut Vec<Edit>) -> usize {
        let Some(automaton) = &self.automaton else {
            return text.len();
        };
        let mut from = 0;
        let mut held = self.held(text, from, is_last);
        for found in automaton.find_iter(text) {
            if found.start() >= held {
                break;
            }
            edits.push(Edit::secret(found.start(), found.end(), KIND));
            from = found.end();
            if held < from {
                held = self.held(text, from, is_last);
            }
        }
        held
    }

    /// Where the first secret begins that the end of the text cuts.
    fn held(&self, text: &str, from: usize, is_last: bool) -> usize {
        let earliest = from.max((text.len() + 1).saturating_sub(self.longest));
        let is_beginning = |rest: &[u8]| {
            let longer = |form: &String| form.len() > rest.len() && form.as_bytes().starts_with(rest);
            self.forms.iter().any(longer)
        };
        (earliest..text.len())
            .find(|at| !is_last && is_beginning(text.as_bytes().get(*at..).unwrap_or_default()))
            .unwrap_or(text.len())
    }
}

fn forms_of(secret: &str) -> Vec<String> {
    let in_json: String = secret.chars().flat_map(json_escaped).collect();
    let mut forms = vec![
        secret.to_owned(),
        in_json,
        in_address(secret, true),
        in_address(secret, false),
    ];
    // What stands before it in an encoded text shifts it by up to two bytes.
    for shift in 0..3_usize {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(secret.as_bytes());
        let is_whole = bytes.len().is_multiple_of(3);
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            let start = if shift == 0 { 0 } else { shift + 1 };
            let end = encoded.len() - usize::from(!is_whole);
            let sure = encoded.get(start..end).unwrap_or_default();
            if sure.len() >= MIN_SECRET {
                forms.push(sure.to_owned());
            }
        }
    }
    forms
}

fn json_escaped(char: char) -> Vec<char> {
    match char {
        '"' | '\\' => vec!['\\', char],
        '\n' => vec!['\\', 'n'],
        '\r' => vec!['\\', 'r'],
        '\t' => vec!['\\', 't'],
        other => vec![other],
    }
}

fn in_address(secret: &str, is_upper: bool) -> String {
    let mut out = String::new();
    for byte in secret.bytes() {
        let written = match byte {
            b'-' | b'.' | b'_' | b'~' => write!(out, "{}", char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => write!(out, "{}", char::from(byte)),
            _ if is_upper => write!(out, "%{byte:02X}"),
            _ => write!(out, "%{byte:02x}"),
        };
        debug_assert!(written.is_ok(), "a text takes everything");
    }
    out
}
