//! A patch of several files, checked completely: nothing is written here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::change::{Change, Hunk};
use super::diff::diff;
use super::{edited, hunks, text_of};
use crate::files::frame::Place;

/// Largest text that is shown when its file is deleted.
const MAX_SHOWN_BYTES: u64 = 64 * 1024;

/// What is to be done with one file; nothing of it has been done.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) step: Step,
    /// What people are told: `changed src/a.rs`.
    pub(super) told: String,
    /// The difference that it makes.
    pub(super) diff: String,
}

/// What is to be done on the disk.
#[derive(Debug)]
pub(super) enum Step {
    /// Puts a whole text in place, with the permissions of another file where it has moved from there.
    Write {
        path: PathBuf,
        text: String,
        moved_from: Option<PathBuf>,
    },
    /// Moves a file as it is.
    Rename { from: PathBuf, to: PathBuf },
    /// Takes a file away.
    Remove(PathBuf),
}

/// What all changes come to, or why one of them can't be made.
pub(super) fn plan(changes: &[Change], place: &Place) -> Result<Vec<Planned>, String> {
    let mut seen = BTreeSet::new();
    for named in changes.iter().flat_map(Change::paths) {
        if !seen.insert(place.resolve(named)?) {
            return Err(format!("nothing was changed: the patch names `{named}` twice"));
        }
    }
    // What is inside of a folder follows right on it.
    if let Some((outer, inner)) = seen
        .iter()
        .zip(seen.iter().skip(1))
        .find(|(outer, inner)| inner.starts_with(outer))
    {
        let (outer, inner) = (place.shown(outer), place.shown(inner));
        return Err(format!(
            "nothing was changed: `{outer}` can't be a file and hold `{inner}`"
        ));
    }
    let planned = changes.iter().map(|change| {
        let name = change.paths().next().unwrap_or_default();
        plan_one(change, place).map_err(|reason| format!("nothing was changed: `{name}`: {reason}"))
    });
    planned.collect()
}

fn plan_one(change: &Change, place: &Place) -> Result<Planned, String> {
    match change {
        Change::Add { path, content } => Ok(Planned {
            step: Step::Write {
                path: vacant(path, place)?,
                text: content.clone(),
                moved_from: None,
            },
            told: format!("added {path}"),
            diff: diff(None, Some((path, content))),
        }),
        Change::Delete { path, hunks } => delete(path, hunks, place),
        Change::Update {
            path,
            moved_to: None,
            hunks,
        } => {
            let resolved = regular(path, place)?;
            let before = text_of(&resolved).map_err(|error| error.to_string())?;
            let after = edited(&before, |text| hunks::apply(text, hunks))?;
            if before == after {
                return Err("it has the new lines already: there is nothing to change".to_owned());
            }
            Ok(Planned {
                diff: diff(Some((path, &before)), Some((path, &after))),
                step: Step::Write {
                    path: resolved,
                    text: after,
                    moved_from: None,
                },
                told: format!("changed {path}"),
            })
        }
        Change::Update {
            path,
            moved_to: Some(to),
            hunks,
        } => rename(path, to, hunks, place),
    }
}

fn delete(path: &str, hunks: &[Hunk], place: &Place) -> Result<Planned, String> {
    let resolved = regular(path, place)?;
    let is_small = resolved
        .metadata()
        .is_ok_and(|metadata| metadata.len() <= MAX_SHOWN_BYTES);
    let text = if is_small || !hunks.is_empty() {
        text_of(&resolved).ok()
    } else {
        None
    };
    if !hunks.is_empty() {
        let left = edited(text.as_deref().unwrap_or_default(), |text| hunks::apply(text, hunks))?;
        if !left.trim().is_empty() {
            return Err("it holds more lines than those that the patch deletes".to_owned());
        }
    }
    Ok(Planned {
        step: Step::Remove(resolved),
        told: format!("deleted {path}"),
        diff: text.map_or(String::new(), |text| diff(Some((path, &text)), None)),
    })
}

fn rename(path: &str, to: &str, hunks: &[Hunk], place: &Place) -> Result<Planned, String> {
    let (from, target) = (regular(path, place)?, vacant(to, place)?);
    let told = format!("moved {path} to {to}");
    if hunks.is_empty() {
        return Ok(Planned {
            step: Step::Rename { from, to: target },
            told,
            diff: String::new(),
        });
    }
    let before = text_of(&from).map_err(|error| error.to_string())?;
    let after = edited(&before, |text| hunks::apply(text, hunks))?;
    Ok(Planned {
        diff: diff(Some((path, &before)), Some((to, &after))),
        step: Step::Write {
            path: target,
            text: after,
            moved_from: Some(from),
        },
        told,
    })
}

/// The path of a file that is there.
fn regular(named: &str, place: &Place) -> Result<PathBuf, String> {
    let path = place.resolve(named)?;
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => Ok(path),
        Ok(metadata) if metadata.is_dir() => Err("it is a folder".to_owned()),
        Ok(_) => Err("it is not a regular file".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err("it doesn't exist".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The path of a file that isn't there yet.
fn vacant(named: &str, place: &Place) -> Result<PathBuf, String> {
    let path = place.resolve(named)?;
    if path.symlink_metadata().is_ok() {
        return Err(format!(
            "`{named}` exists already: update it, or delete it in another patch first"
        ));
    }
    if path.ancestors().skip(1).any(Path::is_file) {
        return Err(format!("`{named}` would be in a folder that is a file"));
    }
    Ok(path)
}
