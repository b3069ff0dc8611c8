//! Which tools a request lets through.

use talaria_store::RunOptions;

/// Whether a request's filter lets a tool through.
pub(crate) fn is_allowed(options: &RunOptions, name: &str) -> bool {
    let Some(filter) = &options.tools else { return true };
    let is_in = |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, name));
    filter.allow.as_deref().is_none_or(is_in) && !is_in(&filter.deny)
}

/// A name with `*` for any characters.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else {
        return rest.is_empty();
    };
    for piece in middle {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("read_file", "read_file", true),
            ("read_file", "read_files", false),
            ("*", "x", true),
            ("web_*", "web_search", true),
            ("*_file", "read_file", true),
            ("r*_*e", "read_file", true),
            ("w*", "read_file", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }
}
