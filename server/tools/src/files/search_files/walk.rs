//! Which files are searched.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use crate::files::frame::Place;

/// The files to look at, in a stable order; links are not followed. What the person keeps outside of the workspace (ignore
/// files of the home, of folders above) has no say.
pub(super) fn files(root: &Path, place: &Place) -> impl Iterator<Item = PathBuf> + use<> {
    let (workspace, denied) = (Arc::clone(&place.workspace), Arc::clone(&place.denied));
    let walk = WalkBuilder::new(root)
        .follow_links(false)
        .require_git(false)
        .parents(false)
        .git_global(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(move |entry| !denied.is_denied(entry.path(), &workspace))
        .build();
    let entries = walk
        .flatten()
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    entries.map(ignore::DirEntry::into_path)
}

/// Files by name: a pattern, or a part of the name.
pub(super) fn name_matcher(pattern: &str) -> impl Fn(&Path) -> bool {
    let is_glob = pattern.contains(['*', '?', '[', '{']);
    let glob = if is_glob { glob(pattern).ok() } else { None };
    let part = pattern.to_lowercase();
    move |path| match &glob {
        Some(glob) => is_named(glob, path),
        None => path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().to_lowercase().contains(&part)),
    }
}

/// By the name alone, or by the path in the workspace.
pub(super) fn is_named(glob: &GlobMatcher, path: &Path) -> bool {
    path.file_name().is_some_and(|name| glob.is_match(name)) || glob.is_match(path)
}

pub(super) fn glob(pattern: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| format!("`{pattern}` is no file pattern: {error}"))
}
