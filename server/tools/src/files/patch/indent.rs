//! New lines get the indentation of the file when the passage was found without regard to it.

use std::borrow::Cow;

/// What the model's indentation is in the file.
#[derive(Debug, Default)]
pub(super) struct Indentation<'a> {
    /// The model's and the file's, shortest first.
    known: Vec<(&'a str, &'a str)>,
    /// One level deeper: the model's and the file's.
    unit: Option<(&'a str, &'a str)>,
}

/// Blanks at the beginning of a line, and the rest.
pub(super) fn split(line: &str) -> (&str, &str) {
    let rest = line.trim_start_matches([' ', '\t']);
    line.split_at(line.len() - rest.len())
}

impl<'a> Indentation<'a> {
    /// From lines as the model gave them, beside the same ones of the file.
    pub(super) fn learn(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut known: Vec<(&str, &str)> = Vec::new();
        for (given, own) in pairs.filter(|(given, _)| !given.trim().is_empty()) {
            let (given, own) = (split(given).0, split(own).0);
            if known.iter().all(|(other, _)| *other != given) {
                known.push((given, own));
            }
        }
        known.sort_by_key(|(given, _)| given.len());
        let unit = known.windows(2).find_map(|pair| match pair {
            [(given, own), (deeper, own_deeper)] => {
                Some((deeper.strip_prefix(given)?, own_deeper.strip_prefix(own)?)).filter(|(_, own)| !own.is_empty())
            }
            _ => None,
        });
        Self { known, unit }
    }

    /// A new line as the file would have it.
    pub(super) fn apply<'l>(&self, line: &'l str) -> Cow<'l, str> {
        let (given, rest) = split(line);
        if rest.is_empty() {
            return Cow::Borrowed(line);
        }
        let shallower = self.known.iter().rev().find_map(|(known, own)| {
            let more = given.strip_prefix(known)?;
            Some(format!("{own}{}{rest}", self.translate(more, own)))
        });
        let deeper = || {
            self.known.iter().find_map(|(known, own)| {
                let less = self.translate(known.strip_prefix(given)?, own);
                let kept = own
                    .strip_suffix(less.as_ref())
                    .unwrap_or_else(|| own.get(..own.len().saturating_sub(less.len())).unwrap_or_default());
                Some(format!("{kept}{rest}"))
            })
        };
        shallower.or_else(deeper).map_or(Cow::Borrowed(line), Cow::Owned)
    }

    /// A difference in indentation, in the file's units.
    fn translate<'b>(&self, more: &'b str, own: &str) -> Cow<'b, str> {
        let levels = |unit: &str| {
            let count = if unit.is_empty() { 0 } else { more.len() / unit.len() };
            Some(count).filter(|count| unit.repeat(*count) == more)
        };
        if let Some((unit, own_unit)) = self.unit
            && let Some(count) = levels(unit)
        {
            return Cow::Owned(own_unit.repeat(count));
        }
        if own.ends_with('\t') && !more.contains('\t') {
            let count = levels("    ").or_else(|| levels("  ")).unwrap_or(more.len());
            return Cow::Owned("\t".repeat(count));
        }
        Cow::Borrowed(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_move_to_the_files_indentation() {
        for (pairs, line, expected) in [
            (vec![("a", "    a")], "b", "    b"),
            (vec![("a", "    a")], "  b", "      b"),
            (vec![("    a", "  a")], "b", "b"),
            (
                vec![("  a", "    a"), ("    b", "        b")],
                "      c",
                "            c",
            ),
            (vec![("  a", "    a"), ("    b", "        b")], "c", "c"),
            (vec![("a", "\ta")], "    b", "\t\tb"),
            (vec![("a", "\ta"), ("  b", "\t\tb")], "    c", "\t\t\tc"),
            (
                vec![("\ta", "    a"), ("\t\tb", "        b")],
                "\t\t\tc",
                "            c",
            ),
            (vec![("a", "    a")], "", ""),
        ] {
            assert_eq!(
                Indentation::learn(pairs.clone().into_iter()).apply(line),
                expected,
                "{pairs:?}"
            );
        }
    }
}
