//! What is to be changed in a text.

use std::borrow::Cow;

/// A part that is left out; with a kind, a mark stands in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: Option<&'static str>,
}

impl Edit {
    /// A secret of this kind.
    pub(super) fn secret(start: usize, end: usize, kind: &'static str) -> Self {
        let kind = Some(kind);
        Self { start, end, kind }
    }

    /// More of a secret that has its mark already.
    pub(super) fn more(start: usize, end: usize) -> Self {
        let kind = None;
        Self { start, end, kind }
    }
}

/// Brings the edits from `first` on into order. Of two that overlap the earlier takes in the later.
pub(super) fn put_in_order(edits: &mut Vec<Edit>, first: usize) {
    let Some(new) = edits.get_mut(first..).filter(|new| new.len() > 1) else {
        return;
    };
    // Stable: the vendor's mark goes before that of the field which holds nothing else.
    new.sort_by_key(|edit| (edit.start, std::cmp::Reverse(edit.end)));
    let mut kept = first;
    for at in first + 1..edits.len() {
        let (edit, last) = (edits[at], edits[kept]);
        if edit.start < last.end {
            edits[kept].end = last.end.max(edit.end);
        } else {
            kept += 1;
            edits[kept] = edit;
        }
    }
    edits.truncate(kept + 1);
}

/// The text with its edits, which are in order and don't overlap.
pub(super) fn apply<'t>(text: &'t str, edits: &[Edit]) -> Cow<'t, str> {
    if edits.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        out.push_str(&text[at..edit.start]);
        if let Some(kind) = edit.kind {
            out.push_str("[redacted:");
            out.push_str(kind);
            out.push(']');
        }
        at = edit.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}
