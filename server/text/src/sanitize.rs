//! Cleans text of what can't be stored or shown.

use std::borrow::Cow;

/// Text that every database stores: NUL becomes U+FFFD.
#[must_use]
pub fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}").into()
    } else {
        text.into()
    }
}

/// Text that does nothing to a terminal: control characters but for newline and tab are left out, so that no escape sequence
/// is left.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_harmful = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if text.contains(is_harmful) {
        text.replace(is_harmful, "").into()
    } else {
        text.into()
    }
}
