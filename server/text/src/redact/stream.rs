//! Redaction of text that comes in pieces.

use std::sync::Arc;

use super::Redactor;
use super::edit::{Edit, apply};
use super::machine::{MAX_WORD, Machine};

/// Most bytes that a stream holds back, besides the length of the longest known secret.
pub const MAX_HELD_BYTES: usize = MAX_WORD + 8;

/// Redacts a text that comes in pieces, however it is split, as [`Redactor::redact`] does the whole. It holds back only
/// what may still become a secret.
pub struct StreamRedactor {
    redactor: Arc<Redactor>,
    machine: Machine,
    /// What may be the beginning of a known secret.
    raw: String,
    /// The last word, as far as it has come.
    word: String,
    /// How much of it has gone out.
    gone_out: usize,
    edits: Vec<Edit>,
}

impl std::fmt::Debug for StreamRedactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamRedactor").finish_non_exhaustive()
    }
}

impl StreamRedactor {
    /// At the beginning of a text.
    #[must_use]
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor,
            machine: Machine::default(),
            raw: String::new(),
            word: String::new(),
            gone_out: 0,
            edits: Vec::new(),
        }
    }

    /// Takes the next piece and gives what is sure by now.
    pub fn push(&mut self, piece: &str) -> String {
        self.read(piece, false)
    }

    /// The text is over: gives the rest. Afterwards a new text may begin.
    pub fn finish(&mut self) -> String {
        let rest = self.read("", true);
        self.machine = Machine::default();
        rest
    }

    /// Bytes that are held back now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.raw.len() + self.word.len() - self.gone_out
    }

    fn read(&mut self, piece: &str, is_last: bool) -> String {
        self.raw.push_str(piece);
        self.edits.clear();
        let known = self.redactor.own.find(&self.raw, is_last, &mut self.edits);
        let searched = self.word.len();
        self.word.push_str(&apply(&self.raw[..known], &self.edits));
        self.raw.drain(..known);

        self.edits.clear();
        let known = self.machine.read(&self.word, searched, is_last, &mut self.edits);
        let mut out = String::new();
        if known > 0 {
            let decided = apply(&self.word[..known], &self.edits);
            // What went out early is a part of the first word which no edit touches.
            out.push_str(&decided[self.gone_out..]);
            drop(decided);
            self.word.drain(..known);
            self.gone_out = 0;
        }
        let sure = self.machine.sure(&self.word);
        if sure > self.gone_out {
            out.push_str(&self.word[self.gone_out..sure]);
            self.gone_out = sure;
        }
        out
    }
}
