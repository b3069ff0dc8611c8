//! A plan is carried out: in all files, or in none.

use std::path::{Path, PathBuf};

use super::plan::{Planned, Step};
use crate::files::frame::Place;
use crate::files::write::{Staged, make_folders, remove_folders, sync_folder};

/// Does it all: everything is written beside its place first, and put in place last. Answers what was done, with the
/// differences; an error says what was changed, if anything.
pub(super) fn carry_out(planned: &[Planned], place: &Place) -> Result<String, String> {
    let mut made = Vec::new();
    let staged = planned
        .iter()
        .map(|planned| {
            stage(&planned.step, &mut made).map_err(|error| format!("{}: {error}", planned.step.name(place)))
        })
        .collect::<Result<Vec<_>, _>>();
    let staged = match staged {
        Ok(_) if place.cancel.is_cancelled() => Err("the call was stopped".to_owned()),
        staged => staged,
    };
    let staged = staged.map_err(|reason| {
        remove_folders(&made);
        format!("nothing was changed: {reason}")
    })?;
    for (done, (planned_one, staged)) in planned.iter().zip(staged).enumerate() {
        if let Err(error) = put(&planned_one.step, staged) {
            remove_folders(&made);
            return Err(half_done(planned, done, &error));
        }
    }
    let told: Vec<&str> = planned.iter().map(|planned| planned.told.as_str()).collect();
    let diffs: Vec<&str> = planned.iter().map(|planned| planned.diff.as_str()).collect();
    Ok(format!("{}\n{}", told.join("\n"), diffs.concat()))
}

impl Step {
    fn name(&self, place: &Place) -> String {
        match self {
            Self::Write { path, .. } | Self::Rename { to: path, .. } | Self::Remove(path) => {
                format!("`{}`", place.shown(path))
            }
        }
    }
}

/// Everything that can fail for want of room, folders or rights.
fn stage(step: &Step, made: &mut Vec<PathBuf>) -> std::io::Result<Option<Staged>> {
    match step {
        Step::Write { path, text, moved_from } => {
            made.extend(make_folders(path)?);
            let like = moved_from.as_deref().unwrap_or(path);
            Staged::new(path, text.as_bytes(), like).map(Some)
        }
        Step::Rename { to, .. } => {
            made.extend(make_folders(to)?);
            Ok(None)
        }
        Step::Remove(_) => Ok(None),
    }
}

fn put(step: &Step, staged: Option<Staged>) -> std::io::Result<()> {
    staged.map_or(Ok(()), Staged::put)?;
    match step {
        Step::Write { moved_from, .. } => moved_from.as_deref().map_or(Ok(()), remove),
        Step::Rename { from, to } => {
            std::fs::rename(from, to)?;
            to.parent().map_or(Ok(()), sync_folder)?;
            from.parent().map_or(Ok(()), sync_folder)
        }
        Step::Remove(path) => remove(path),
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    std::fs::remove_file(path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// What to say when the host failed in the middle of putting files in place: what is done, and what isn't.
fn half_done(planned: &[Planned], done: usize, error: &std::io::Error) -> String {
    let told = |planned: &[Planned]| -> String {
        let told: Vec<&str> = planned.iter().map(|planned| planned.told.as_str()).collect();
        if told.is_empty() {
            "nothing".to_owned()
        } else {
            told.join(", ")
        }
    };
    let (before, rest) = planned.split_at(done);
    let (failed, after) = rest.split_at(rest.len().min(1));
    format!(
        "the patch is done in part only: {error}. Done: {}. Failed, look at it again: {}. Not done: {}.",
        told(before),
        told(failed),
        told(after)
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::paths::DeniedPaths;

    #[test]
    fn a_plan_that_the_host_stops_halfway_says_how_far_it_came() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            workspace: folder.path().into(),
            denied: Arc::new(DeniedPaths::new(Path::new("/nowhere"), None)),
            cancel: tokio_util::sync::CancellationToken::new(),
        };
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("c"), "c").unwrap();
        let write = Step::Write {
            path: path("a"),
            text: "a".to_owned(),
            moved_from: None,
        };
        // Somebody took the file away after it was looked at.
        let rename = Step::Rename {
            from: path("lost"),
            to: path("b"),
        };
        let steps = [
            ("added a", write),
            ("moved lost to b", rename),
            ("deleted c", Step::Remove(path("c"))),
        ];
        let planned = steps.map(|(told, step)| Planned {
            step,
            told: told.to_owned(),
            diff: String::new(),
        });
        let said = carry_out(&planned, &place).unwrap_err();
        assert!(said.starts_with("the patch is done in part only: "), "{said}");
        assert!(
            said.ends_with("Done: added a. Failed, look at it again: moved lost to b. Not done: deleted c."),
            "{said}"
        );
        assert!(path("a").exists() && path("c").exists());
    }
}
