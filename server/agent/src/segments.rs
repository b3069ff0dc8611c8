//! Which tool calls of an answer run at the same time (mission L6).
//!
//! A segment is a run of neighbouring calls that don't get in each other's way; a call that must be alone is a segment of
//! its own. Segments run one after the other, in the order of the answer.

use std::path::{Path, PathBuf};

use talaria_domain::tool::{Effect, Parallelism};

/// What a call needs for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) parallelism: Parallelism,
    pub(crate) effect: Effect,
    /// Canonical; `None` when they can't be told.
    pub(crate) paths: Option<Vec<PathBuf>>,
}

/// Splits calls, by their claims, into the lengths of their segments.
pub(crate) fn lengths(claims: &[Claim]) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut segment: Vec<&Claim> = Vec::new();
    for claim in claims {
        let fits = segment.iter().all(|other| can_run_beside(claim, other));
        if !fits && !segment.is_empty() {
            lengths.push(segment.len());
            segment.clear();
        }
        segment.push(claim);
    }
    if !segment.is_empty() {
        lengths.push(segment.len());
    }
    lengths
}

fn can_run_beside(one: &Claim, other: &Claim) -> bool {
    match (one.parallelism, other.parallelism) {
        (Parallelism::Alone, _) | (_, Parallelism::Alone) => false,
        (Parallelism::Safe, Parallelism::Safe) => true,
        // A search reads anywhere: it may stand beside reads, not beside writes.
        (Parallelism::Safe, Parallelism::ByPath) => other.effect == Effect::ReadOnly && other.paths.is_some(),
        (Parallelism::ByPath, Parallelism::Safe) => one.effect == Effect::ReadOnly && one.paths.is_some(),
        (Parallelism::ByPath, Parallelism::ByPath) => match (&one.paths, &other.paths) {
            (Some(_), Some(_)) if one.effect == Effect::ReadOnly && other.effect == Effect::ReadOnly => true,
            (Some(ours), Some(theirs)) => !ours.iter().any(|our| theirs.iter().any(|their| overlap(our, their))),
            _ => false,
        },
    }
}

/// The same path, or one above the other; by whole components.
fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(text: &str) -> Claim {
        let (kind, path) = text.split_once(' ').unwrap_or((text, ""));
        let paths = (!path.is_empty()).then(|| vec![PathBuf::from(path)]);
        let (parallelism, effect) = match kind {
            "read" => (Parallelism::ByPath, Effect::ReadOnly),
            "write" => (Parallelism::ByPath, Effect::Writes),
            "search" => (Parallelism::Safe, Effect::ReadOnly),
            _ => (Parallelism::Alone, Effect::ReadOnly),
        };
        Claim {
            parallelism,
            effect,
            paths,
        }
    }

    #[test]
    fn row_l6_segments() {
        let cases: &[(&[&str], &[usize])] = &[
            (&[], &[]),
            (&["read /a", "read /a", "search", "search"], &[4]),
            (&["write /a", "write /b"], &[2]),
            (&["write /a", "write /a"], &[1, 1]),
            (&["write /a", "read /a/b"], &[1, 1]),
            (&["write /src/a", "write /src/ab"], &[2]),
            (&["read /a", "alone", "read /b", "read /c"], &[1, 1, 2]),
            (&["write", "write /b"], &[1, 1]),
            (&["search", "write /b"], &[1, 1]),
        ];
        for (calls, expected) in cases {
            let claims: Vec<_> = calls.iter().map(|text| claim(text)).collect();
            assert_eq!(lengths(&claims), *expected, "{calls:?}");
        }
    }
}
