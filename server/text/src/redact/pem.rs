//! Private keys in their armour: `-----BEGIN … PRIVATE KEY-----`, lines, `-----END …`.

use super::edit::Edit;
use super::vendors::Alphabet;

const BEGIN: &str = "-----BEGIN";
const END: &str = "-----END";
const DASHES: &str = "-----";
/// Words between `BEGIN` and the dashes.
const MAX_HEADER_WORDS: u8 = 5;
/// A run of base64 as long as this is part of the key.
const MIN_LINE: usize = 32;
/// Words without such a run after which the key is over, though no `END` came: it was a text about keys.
const PATIENCE: u8 = 12;

/// Where in a private key the text is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Pem {
    /// In none.
    #[default]
    Outside,
    /// In the line that begins it.
    Header { is_private: bool, words: u8 },
    /// In the key; so many words since its last line. Its mark is set with the first of it.
    Body { words: u8, is_marked: bool },
}

impl Pem {
    /// A separator: whether it belongs to the key.
    pub(super) fn separate(&mut self, separator: &str, offset: usize, edits: &mut Vec<Edit>) -> bool {
        if separator != " " && matches!(self, Self::Header { .. }) {
            *self = Self::Outside;
        }
        let Self::Body { is_marked, .. } = self else {
            return false;
        };
        // No key begins so, but a mark does.
        if separator == "[" && !*is_marked {
            *self = Self::Outside;
            return false;
        }
        leave_out(is_marked, offset, offset + separator.len(), edits);
        true
    }

    /// A word: whether there is nothing else to say about it.
    pub(super) fn word(&mut self, word: &str, offset: usize, edits: &mut Vec<Edit>) -> bool {
        match self {
            Self::Outside => self.may_begin(word),
            Self::Header { is_private, words } => {
                *is_private |= word == "PRIVATE";
                *words += 1;
                let (is_private, is_long) = (*is_private, *words > MAX_HEADER_WORDS);
                if let Some(dashes) = word.find(DASHES).filter(|_| is_private) {
                    let start = offset + dashes + DASHES.len();
                    let mut is_marked = false;
                    if start < offset + word.len() {
                        leave_out(&mut is_marked, start, offset + word.len(), edits);
                    }
                    *self = Self::Body { words: 0, is_marked };
                    return true;
                }
                if word.contains(DASHES) || is_long {
                    *self = Self::Outside;
                    self.may_begin(word);
                }
                false
            }
            Self::Body { words, is_marked } => {
                if let Some(end) = word.find(END) {
                    if end > 0 {
                        leave_out(is_marked, offset, offset + end, edits);
                    }
                    *self = Self::Outside;
                    return true;
                }
                let is_line = word.len() >= MIN_LINE && has_line(word);
                *words = if is_line { 0 } else { *words + 1 };
                if *words > PATIENCE {
                    *self = Self::Outside;
                    return false;
                }
                leave_out(is_marked, offset, offset + word.len(), edits);
                true
            }
        }
    }

    fn may_begin(&mut self, word: &str) -> bool {
        if word.ends_with(BEGIN) {
            *self = Self::Header {
                is_private: false,
                words: 0,
            };
        }
        false
    }
}

fn leave_out(is_marked: &mut bool, start: usize, end: usize, edits: &mut Vec<Edit>) {
    edits.push(if std::mem::replace(is_marked, true) {
        Edit::more(start, end)
    } else {
        Edit::secret(start, end, "private-key")
    });
}

fn has_line(word: &str) -> bool {
    word.as_bytes()
        .split(|byte| !Alphabet::Base64.has(*byte))
        .any(|run| run.len() >= MIN_LINE)
}
