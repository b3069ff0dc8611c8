//! What a change was, as a unified diff.

use std::time::Duration;

use similar::TextDiff;

use super::find::with_line_feeds;

/// After this time a diff is coarser, but still right.
const MAX_TIME: Duration = Duration::from_secs(2);

/// The difference between two versions of a file; `None` is one that doesn't exist.
pub(super) fn diff(before: Option<(&str, &str)>, after: Option<(&str, &str)>) -> String {
    let name = |side: Option<(&str, &str)>| side.map_or("/dev/null".to_owned(), |(name, _)| name.to_owned());
    let text = |side: Option<(&'_ str, &'_ str)>| side.map_or(String::new(), |(_, text)| text.to_owned());
    let (old, new) = (text(before), text(after));
    let (plain_old, plain_new) = (with_line_feeds(&old), with_line_feeds(&new));
    // Carriage returns are shown only where they are the change.
    let (old, new) = if plain_old == plain_new {
        (old.as_str(), new.as_str())
    } else {
        (&*plain_old, &*plain_new)
    };
    let diff = TextDiff::configure().timeout(MAX_TIME).diff_lines(old, new);
    diff.unified_diff()
        .context_radius(3)
        .header(&name(before), &name(after))
        .to_string()
}
