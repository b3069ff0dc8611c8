//! "Did you mean …?"

/// Adds the nearest known key to a message about an unknown one.
pub(super) fn with_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(unknown) = quoted.next().filter(|_| message.contains("unknown field")) else { return message.to_owned() };
    let nearest = quoted.map(|known| (distance(unknown, known), known)).min();
    match nearest {
        Some((steps, known)) if steps <= unknown.chars().count().div_ceil(2) => format!("{message}. Did you mean `{known}`?"),
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
