//! "Did you mean …?"

/// Adds the nearest known key to a message of the form "unknown field `x`, expected one of a, b at line …".
pub(super) fn with_suggestion(message: &str) -> String {
    let unknown = message.split('`').nth(1).filter(|_| message.contains("unknown field"));
    let known = message
        .split_once("expected ")
        .map(|(_, known)| known.split(" at line ").next().unwrap_or_default());
    let (Some(unknown), Some(known)) = (unknown, known) else {
        return message.to_owned();
    };
    let names = known
        .split([',', ' ', '`'])
        .filter(|word| !["", "one", "of", "or"].contains(word));
    match names.map(|name| (distance(unknown, name), name)).min() {
        Some((steps, name)) if steps <= unknown.chars().count().div_ceil(2) => {
            format!("{message}. Did you mean `{name}`?")
        }
        _ => message.to_owned(),
    }
}

/// Single-letter edits between two words.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = at;
        let mut left = at + 1;
        for (cell, other_letter) in row.iter_mut().skip(1).zip(&other) {
            let replaced = diagonal + usize::from(letter != *other_letter);
            diagonal = *cell;
            left = replaced.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
