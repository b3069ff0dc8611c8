//! The mode `replace`: one passage, found once, becomes another.

use super::closest::closest;
use super::find::{Found, find, line_numbers, unescaped, with_line_feeds};
use super::rewrite::{indented, rewrite, steps};

/// The text with the passage replaced, or why not. What is outside of the passage stays as it is, byte for byte.
pub(super) fn replace(text: &str, old: &str, new: &str, replace_all: bool) -> Result<String, String> {
    let (old, new) = (with_line_feeds(old), with_line_feeds(new));
    if old.trim().is_empty() {
        return Err("`old_string` is empty: give the passage that is to be replaced".to_owned());
    }
    if old == new {
        return Err("`old_string` and `new_string` are the same: there is nothing to change".to_owned());
    }
    if let Some(found) = find(text, &old, false) {
        return put(text, &found, &old, &new, replace_all);
    }
    // Escaped once too often: then the new text is, too.
    if let Some(plain) = unescaped(&old)
        && let Some(found) = find(text, &plain, false)
    {
        let new = unescaped(&new).unwrap_or_else(|| new.into_owned());
        return put(text, &found, &plain, &new, replace_all);
    }
    Err(not_found(text, &old, &new))
}

fn put(text: &str, found: &Found, old: &str, new: &str, replace_all: bool) -> Result<String, String> {
    let places = &found.places;
    if places.len() > 1 && !replace_all {
        return Err(format!(
            "the passage stands {} times in the file (lines {}): give more lines around it, or set `replace_all`",
            places.len(),
            line_numbers(text, places)
        ));
    }
    let plain = steps(old, new);
    let mut out = String::with_capacity(text.len() + new.len());
    let mut done = 0;
    for place in places {
        out.push_str(text.get(done..place.start).unwrap_or_default());
        let steps = if found.is_indented {
            indented(plain.clone(), old, text.get(place.clone()).unwrap_or_default())
        } else {
            plain.clone()
        };
        out.push_str(&rewrite(text, place, &steps));
        done = place.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    if out == text {
        return Err("the file has the new text already: there is nothing to change".to_owned());
    }
    Ok(out)
}

fn not_found(text: &str, old: &str, new: &str) -> String {
    if let Some(found) = find(text, new, false) {
        return format!(
            "the passage isn't in the file, but the new text is (lines {}): was it changed already?",
            line_numbers(text, &found.places)
        );
    }
    match closest(text, old) {
        Some(lines) => format!(
            "the passage isn't in the file. Most like it are these lines; copy them as they are, without the numbers:\n{lines}"
        ),
        None => "the passage isn't in the file, nor anything like it: read the file again".to_owned(),
    }
}
