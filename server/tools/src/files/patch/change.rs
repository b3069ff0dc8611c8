//! What a patch of several files says, in whichever of its two notations.

use super::{envelope, unified};

/// What becomes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A new one.
    Add {
        /// Where.
        path: String,
        /// Its whole text.
        content: String,
    },
    /// One that is there.
    Update {
        /// Which.
        path: String,
        /// Where it goes, if it moves.
        moved_to: Option<String>,
        /// What changes in it; nothing when it only moves.
        hunks: Vec<Hunk>,
    },
    /// One that goes.
    Delete {
        /// Which.
        path: String,
        /// What must stand in it, where the patch says that.
        hunks: Vec<Hunk>,
    },
}

/// A passage of a file and what becomes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines that stand before it, from the outermost in: `class A`, `def b`.
    pub(super) anchors: Vec<String>,
    /// The line of the old file that it begins at, counted from 1, where the patch says it.
    pub(super) line: Option<usize>,
    /// Its lines.
    pub(super) lines: Vec<Line>,
    /// Whether it stands at the end of the file.
    pub(super) is_last: bool,
    /// Whether the new file ends with a line end, where the patch says that this changes.
    pub(super) ends_line: Option<bool>,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// Stays.
    Keep(String),
    /// Goes.
    Drop(String),
    /// Comes.
    Put(String),
}

impl Line {
    /// From a line of a patch; `None` when it is none of a hunk.
    pub(super) fn read(line: &str) -> Option<Self> {
        let (sign, text) = line.split_at_checked(1)?;
        match sign {
            " " => Some(Self::Keep(text.to_owned())),
            "-" => Some(Self::Drop(text.to_owned())),
            "+" => Some(Self::Put(text.to_owned())),
            _ => None,
        }
    }
}

impl Change {
    /// The paths that it names.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let (path, moved_to) = match self {
            Self::Add { path, .. } | Self::Delete { path, .. } => (path, None),
            Self::Update { path, moved_to, .. } => (path, moved_to.as_deref()),
        };
        std::iter::once(path.as_str()).chain(moved_to)
    }
}

/// Reads a patch. Two sections that change the same file become one.
pub(super) fn parse(patch: &str) -> Result<Vec<Change>, String> {
    let lines: Vec<&str> = patch.lines().collect();
    let changes = if lines.iter().any(|line| envelope::is_header(line)) {
        envelope::parse(&lines)?
    } else if lines.iter().any(|line| unified::is_header(line)) {
        unified::parse(&lines)?
    } else {
        Vec::new()
    };
    if changes.is_empty() {
        return Err("the patch names no file. Write it so:\n*** Begin Patch\n*** Update File: src/a.py\n@@ def f():\n \
                    kept line\n-old line\n+new line\n*** Add File: b.txt\n+first line\n*** Delete File: c.txt\n*** End Patch"
            .to_owned());
    }
    Ok(joined(changes))
}

fn joined(changes: Vec<Change>) -> Vec<Change> {
    let mut joined: Vec<Change> = Vec::new();
    for change in changes {
        if let Change::Update {
            path,
            moved_to: None,
            hunks,
        } = &change
            && let Some(Change::Update { hunks: earlier, .. }) = joined
                .iter_mut()
                .find(|other| matches!(other, Change::Update { path: same, .. } if same == path))
        {
            earlier.extend(hunks.iter().cloned());
        } else {
            joined.push(change);
        }
    }
    joined
}
