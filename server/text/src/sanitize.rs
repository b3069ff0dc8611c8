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

/// Characters that turn the order of what is read around: an old trick to show other words than are there.
fn turns_order(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character does something to a terminal or to its reader instead of being shown: controls but for newline and
/// tab, and what turns the reading order.
#[must_use]
pub fn is_harmful(letter: char) -> bool {
    letter.is_control() && letter != '\n' && letter != '\t' || turns_order(letter)
}

/// Text that does nothing to a terminal: harmful characters are left out, so that no escape sequence is left. Works letter by
/// letter, so that it doesn't matter where a text is cut in pieces.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(is_harmful) {
        text.replace(is_harmful, "").into()
    } else {
        text.into()
    }
}
