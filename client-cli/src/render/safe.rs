//! Text of others on a terminal: nothing that a model, a tool or a page says may steer it.

use std::borrow::Cow;

use talaria_text::sanitize::is_harmful;
pub(crate) use talaria_text::sanitize::printable as safe;

/// A line of JSON in which harmful characters are written as `\u…`: the same JSON, but a terminal can be given it. (Valid JSON
/// has such characters inside strings only.)
pub(crate) fn safe_json(line: &str) -> Cow<'_, str> {
    // A line of JSON holds neither newline nor tab as they are.
    if !line.contains(is_harmful) {
        return line.into();
    }
    let mut safe = String::with_capacity(line.len() + 16);
    for letter in line.chars() {
        if is_harmful(letter) {
            // All of them lie in the first plane: one escape each.
            safe.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            safe.push(letter);
        }
    }
    safe.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{7f}\u{8}\r\u{202e}evil\u{2066}b\n\tc";

    #[test]
    fn nothing_of_others_steers_the_terminal() {
        assert_eq!(safe(HOSTILE), "a[2J31mevilb\n\tc");
    }

    #[test]
    fn json_stays_the_same_json() {
        let line = format!("{{\"text\":\"\u{9b}\u{7f}\u{202e}{}\"}}", "ü🙂");
        let shown = safe_json(&line);
        assert!(!shown.contains(is_harmful), "{shown}");
        let (before, after): (serde_json::Value, serde_json::Value) = (
            serde_json::from_str(&line).unwrap(),
            serde_json::from_str(&shown).unwrap(),
        );
        assert_eq!(before, after);
    }

    proptest! {
        #[test]
        fn any_json_stays_the_same(text: String) {
            let line = serde_json::to_string(&text).unwrap();
            let shown = safe_json(&line);
            prop_assert!(!shown.contains(is_harmful));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }

        #[test]
        fn cuts_make_no_difference(text: String, at in 0_usize..64) {
            let at = text.floor_char_boundary(at);
            let (head, tail) = text.split_at(at);
            prop_assert_eq!(format!("{}{}", safe(head), safe(tail)), safe(&text));
        }
    }
}
