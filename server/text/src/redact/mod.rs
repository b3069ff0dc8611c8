//! The redactor (I11): takes secrets out of text before it is stored, logged, shown or sent.
//!
//! Three kinds of evidence count: a value that is known, a form that only a key has (a vendor's prefix, a JSON web token, a
//! private key, a password in an address), and a secret name before a value that looks made by chance. Chance alone is no
//! evidence: hashes, ids and checksums stay.

mod edit;
mod fields;
mod keys;
mod machine;
mod names;
mod own;
mod pem;
mod shape;
mod stream;
mod vendors;
mod work;

use std::borrow::Cow;

use edit::apply;
use machine::Machine;
use own::Own;
pub use stream::{MAX_HELD_BYTES, StreamRedactor};

/// Takes secrets out of text. Linear in the text; without a secret in it nothing is allocated.
pub struct Redactor {
    own: Own,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new(std::iter::empty::<&str>())
    }
}

impl Redactor {
    /// Knows these secrets by value too, from 8 characters on: also in base64, in addresses and in JSON.
    #[must_use]
    pub fn new<S: AsRef<str>>(own_secrets: impl IntoIterator<Item = S>) -> Self {
        let own = Own::new(own_secrets);
        Self { own }
    }

    /// The text with `[redacted:<kind>]` in the place of each secret.
    #[must_use]
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut edits = Vec::new();
        self.own.find(text, true, &mut edits);
        let text = apply(text, &edits);
        edits.clear();
        Machine::default().read(&text, 0, true, &mut edits);
        if edits.is_empty() {
            text
        } else {
            Cow::Owned(apply(&text, &edits).into_owned())
        }
    }
}

#[cfg(test)]
mod tests;
