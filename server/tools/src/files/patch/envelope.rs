//! Patches between `*** Begin Patch` and `*** End Patch`, with a section a file and no line numbers.

use super::change::{Change, Hunk, Line};
use super::unified;

const ADD: &str = "*** Add File:";
const UPDATE: &str = "*** Update File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move File:";
const MOVE_TO: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Whether a line begins the section of a file.
pub(super) fn is_header(line: &str) -> bool {
    [ADD, UPDATE, DELETE, MOVE]
        .iter()
        .any(|header| line.starts_with(header))
}

pub(super) fn parse(lines: &[&str]) -> Result<Vec<Change>, String> {
    // What stands before the first section is the frame, or a word of the model's.
    let begin = lines.iter().position(|line| is_header(line)).unwrap_or(lines.len());
    let mut changes = Vec::new();
    for (index, line) in lines.iter().enumerate().skip(begin) {
        if line.trim_end() == "*** End Patch" {
            break;
        }
        if let Some(change) = header(line)? {
            changes.push(change);
        } else if let Some(change) = changes.last_mut() {
            let taken = take(change, line);
            taken.map_err(|reason| format!("line {} of the patch: {reason}", index + 1))?;
        }
    }
    changes.iter_mut().for_each(tidy);
    for change in &changes {
        check(change)?;
    }
    Ok(changes)
}

fn header(line: &str) -> Result<Option<Change>, String> {
    let named = |prefix: &str| line.strip_prefix(prefix).map(|path| path.trim().to_owned());
    if let Some(path) = named(ADD) {
        return Ok(Some(Change::Add {
            path,
            content: String::new(),
        }));
    }
    if let Some(path) = named(DELETE) {
        return Ok(Some(Change::Delete {
            path,
            hunks: Vec::new(),
        }));
    }
    if let Some(both) = named(MOVE) {
        let (from, to) = both
            .split_once(" -> ")
            .ok_or_else(|| format!("`{line}`: write `{MOVE} old/path -> new/path`"))?;
        return Ok(Some(Change::Update {
            path: from.trim().to_owned(),
            moved_to: Some(to.trim().to_owned()),
            hunks: Vec::new(),
        }));
    }
    Ok(named(UPDATE).map(|path| Change::Update {
        path,
        moved_to: None,
        hunks: Vec::new(),
    }))
}

/// Takes a line into the section that it stands in.
fn take(change: &mut Change, line: &str) -> Result<(), String> {
    match change {
        Change::Add { path, content } => match line.strip_prefix('+') {
            Some(text) => {
                content.push_str(text);
                content.push('\n');
                Ok(())
            }
            None if line.trim().is_empty() || line == END_OF_FILE => Ok(()),
            None => Err(format!(
                "each line of the new file `{path}` begins with `+`, not so `{line}`"
            )),
        },
        Change::Delete { .. } if line.trim().is_empty() => Ok(()),
        Change::Delete { path, .. } => Err(format!("nothing follows on the deletion of `{path}`, found `{line}`")),
        Change::Update { moved_to, hunks, .. } => match line.strip_prefix(MOVE_TO) {
            Some(path) => {
                *moved_to = Some(path.trim().to_owned());
                Ok(())
            }
            None => take_line(hunks, line),
        },
    }
}

fn take_line(hunks: &mut Vec<Hunk>, line: &str) -> Result<(), String> {
    if let Some(header) = line.strip_prefix("@@") {
        let anchor = header.trim().trim_end_matches("@@").trim();
        if hunks.last().is_none_or(|hunk| !hunk.lines.is_empty()) {
            hunks.push(Hunk::default());
        }
        let Some(hunk) = hunks.last_mut() else { return Ok(()) };
        if let Some(number) = unified::hunk_line(line) {
            hunk.line = Some(number);
        } else if !anchor.is_empty() {
            hunk.anchors.push(anchor.to_owned());
        }
        return Ok(());
    }
    if line == END_OF_FILE {
        if let Some(hunk) = hunks.last_mut() {
            hunk.is_last = true;
        }
        return Ok(());
    }
    // An empty line is a line that is kept and lost its blank.
    let read = if line.is_empty() {
        Line::Keep(String::new())
    } else {
        Line::read(line).ok_or_else(|| {
            format!("a line of a change begins with a blank (kept), `-` (goes) or `+` (comes), not so `{line}`")
        })?
    };
    if hunks.last().is_none_or(|hunk| hunk.is_last) {
        hunks.push(Hunk::default());
    }
    if let Some(hunk) = hunks.last_mut() {
        hunk.lines.push(read);
    }
    Ok(())
}

/// Empty lines between two sections belong to neither.
fn tidy(change: &mut Change) {
    let Change::Update { hunks, .. } = change else { return };
    for hunk in hunks.iter_mut() {
        while matches!(hunk.lines.last(), Some(Line::Keep(line)) if line.is_empty()) {
            hunk.lines.pop();
        }
    }
    hunks.retain(|hunk| !hunk.lines.is_empty());
}

fn check(change: &Change) -> Result<(), String> {
    match change {
        Change::Update {
            path,
            moved_to: None,
            hunks,
        } if hunks.is_empty() => Err(format!("the patch changes nothing in `{path}`")),
        _ => Ok(()),
    }
}
