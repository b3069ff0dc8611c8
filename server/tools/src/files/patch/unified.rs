//! Unified diffs, with or without what git adds to them. Counts in `@@` lines are not trusted: models get them wrong.

use super::change::{Change, Hunk, Line};

/// Whether a line begins the section of a file.
pub(super) fn is_header(line: &str) -> bool {
    line.starts_with("--- ") || line.starts_with("diff --git ")
}

/// The line of the old file in `@@ -12,3 +12,4 @@`.
pub(super) fn hunk_line(line: &str) -> Option<usize> {
    let old = line.strip_prefix("@@ -")?.split([' ', ',']).next()?;
    old.parse().ok()
}

/// A section as it is read.
#[derive(Default)]
struct Section {
    old: Option<String>,
    new: Option<String>,
    is_deleted: bool,
    is_added: bool,
    hunks: Vec<Hunk>,
}

pub(super) fn parse(lines: &[&str]) -> Result<Vec<Change>, String> {
    let mut sections: Vec<Section> = Vec::new();
    let mut in_git_header = false;
    let mut rest = lines.iter().enumerate().peekable();
    while let Some((index, line)) = rest.next() {
        let follows = rest.peek().map(|(_, next)| **next).unwrap_or_default();
        if line.starts_with("diff --git ") {
            sections.push(Section::default());
            in_git_header = true;
        } else if line.starts_with("--- ") && follows.starts_with("+++ ") {
            rest.next();
            let named = Section::named(line, follows);
            // A section of git's that only moves a file has no such lines: these begin another one.
            match sections
                .last_mut()
                .filter(|section| in_git_header && section.may_be(&named))
            {
                Some(section) => section.take_names(named),
                None => sections.push(named),
            }
            in_git_header = false;
        } else if let Some(section) = sections.last_mut() {
            let taken = if in_git_header && !line.starts_with("@@") {
                section.take_header(line)
            } else {
                section.take_line(line)
            };
            taken.map_err(|reason| format!("line {} of the patch: {reason}", index + 1))?;
        }
    }
    sections.into_iter().map(Section::into_change).collect()
}

/// The path of a `---` or `+++` line, without what some tools put behind it.
fn path_of(line: &str) -> &str {
    let path = line.get(4..).unwrap_or_default();
    path.split('\t').next().unwrap_or_default().trim().trim_matches('"')
}

impl Section {
    /// From a `---` and a `+++` line.
    fn named(old: &str, new: &str) -> Self {
        const NOTHING: &str = "/dev/null";
        let (old, new) = (path_of(old), path_of(new));
        // git's `a/` and `b/` are no folders.
        let is_plain = (old == NOTHING || old.starts_with("a/")) && (new == NOTHING || new.starts_with("b/"));
        let name = |path: &str, prefix| {
            let plain = path.strip_prefix(prefix).filter(|_| is_plain).unwrap_or(path);
            Some(plain.to_owned()).filter(|_| path != NOTHING)
        };
        Self {
            is_added: old == NOTHING,
            is_deleted: new == NOTHING,
            old: name(old, "a/"),
            new: name(new, "b/"),
            hunks: Vec::new(),
        }
    }

    fn may_be(&self, named: &Self) -> bool {
        self.old.is_none() || self.old == named.old
    }

    fn take_names(&mut self, named: Self) {
        *self = Self {
            hunks: std::mem::take(&mut self.hunks),
            ..named
        };
    }

    fn take_header(&mut self, line: &str) -> Result<(), String> {
        if let Some(path) = line.strip_prefix("rename from ") {
            self.old = Some(path.trim().to_owned());
        } else if let Some(path) = line.strip_prefix("rename to ") {
            self.new = Some(path.trim().to_owned());
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            return Err("binary files can't be patched".to_owned());
        }
        // Modes and hashes say nothing that is used.
        Ok(())
    }

    fn take_line(&mut self, line: &str) -> Result<(), String> {
        if line.starts_with("@@") {
            let number = hunk_line(line)
                .ok_or_else(|| format!("`{line}` names no line of the old file, as in `@@ -12,3 +12,4 @@`"))?;
            self.hunks.push(Hunk {
                line: Some(number),
                ..Hunk::default()
            });
            return Ok(());
        }
        let Some(hunk) = self.hunks.last_mut() else {
            return if line.trim().is_empty() {
                Ok(())
            } else {
                Err(format!("`{line}` stands before the first `@@` of its file"))
            };
        };
        if line.starts_with('\\') {
            match hunk.lines.last() {
                Some(Line::Drop(_)) => hunk.ends_line = Some(true),
                Some(Line::Put(_)) => hunk.ends_line = Some(false),
                _ => hunk.is_last = true,
            }
            return Ok(());
        }
        let read = if line.is_empty() {
            Some(Line::Keep(String::new()))
        } else {
            Line::read(line)
        };
        let read = read.ok_or_else(|| {
            format!("a line of a change begins with a blank (kept), `-` (goes) or `+` (comes), not so `{line}`")
        })?;
        hunk.lines.push(read);
        Ok(())
    }

    fn into_change(mut self) -> Result<Change, String> {
        for hunk in &mut self.hunks {
            while matches!(hunk.lines.last(), Some(Line::Keep(line)) if line.is_empty()) {
                hunk.lines.pop();
            }
        }
        let Self { old, new, hunks, .. } = self;
        match (old, new) {
            (None, Some(path)) if self.is_added => Ok(Change::Add {
                content: added(&hunks),
                path,
            }),
            (Some(path), None) if self.is_deleted => Ok(Change::Delete { path, hunks }),
            (Some(path), Some(new)) if path == new && !hunks.is_empty() => Ok(Change::Update {
                path,
                moved_to: None,
                hunks,
            }),
            (Some(path), Some(new)) if path != new => Ok(Change::Update {
                path,
                moved_to: Some(new),
                hunks,
            }),
            (Some(path), _) | (None, Some(path)) => Err(format!("the patch changes nothing in `{path}`")),
            (None, None) => Err("a section of the patch names no file: `--- a/path` and `+++ b/path` do".to_owned()),
        }
    }
}

/// The text of a new file.
fn added(hunks: &[Hunk]) -> String {
    let mut content = String::new();
    for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
        if let Line::Put(text) = line {
            content.push_str(text);
            content.push('\n');
        }
    }
    if hunks.last().and_then(|hunk| hunk.ends_line) == Some(false) {
        content.pop();
    }
    content
}
