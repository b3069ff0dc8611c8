//! `search_files`: finds text in files, or files by name, with ripgrep's crates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use ignore::WalkBuilder;
use serde::Deserialize;
use serde_json::json;
use talaria_domain::tool::{Arguments, Effect, Parallelism, ToolSpec};
use talaria_openapi::tools::Risk;

use super::frame::{FileTool, Place};
use crate::arguments::{number, preview};

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;
const MAX_LINE_CHARS: usize = 500;
const MAX_TIME: Duration = Duration::from_secs(20);

pub(crate) struct SearchFiles;

#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    #[default]
    Content,
    Files,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pattern: String,
    #[serde(default)]
    target: Target,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    file_glob: Option<String>,
    #[serde(default, deserialize_with = "number")]
    limit: Option<usize>,
    #[serde(default, deserialize_with = "number")]
    offset: Option<usize>,
}

impl FileTool for SearchFiles {
    type Wanted = Wanted;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "search_files",
            description: "Find text in the files of the workspace (target `content`, a regular expression), or files by \
                          name (target `files`, a pattern such as `*.rs` or a part of the name). Files that git ignores \
                          and hidden ones are left out.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string"},
                    "target": {"type": "string", "enum": ["content", "files"], "description": "`content` when left out."},
                    "path": {"type": "string", "description": "Folder or file to search in; the workspace when left out."},
                    "file_glob": {"type": "string", "description": "Only files whose name fits, such as `*.py`."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": "Results; 50 when left out."},
                    "offset": {"type": "integer", "minimum": 0, "description": "Results to skip."}
                },
                "required": ["pattern"],
                "additionalProperties": false
            }),
            toolset: "file",
            risk: Risk::Low,
            effect: Effect::ReadOnly,
            parallelism: Parallelism::Safe,
        }
    }

    fn preview(arguments: &Arguments) -> String {
        preview(arguments, "pattern")
    }

    fn work(wanted: Wanted, place: &Place) -> Result<String, String> {
        search(&place.resolve(wanted.path.as_deref().unwrap_or("."))?, &wanted, place)
    }
}

/// What has been found, up to the limit.
struct Found {
    lines: Vec<String>,
    skip: usize,
    limit: usize,
    has_more: bool,
}

impl Found {
    /// Takes a result; `false` when no more are wanted.
    fn push(&mut self, line: String) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return true;
        }
        if self.lines.len() == self.limit {
            self.has_more = true;
            return false;
        }
        self.lines.push(line);
        true
    }
}

fn search(root: &Path, wanted: &Wanted, place: &Place) -> Result<String, String> {
    let begun = Instant::now();
    let by_name = wanted.file_glob.as_deref().map(glob).transpose()?;
    let skip = wanted.offset.unwrap_or(0);
    let mut found = Found {
        lines: Vec::new(),
        skip,
        limit: wanted.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
        has_more: false,
    };
    let (matcher, is_literal) = content_matcher(&wanted.pattern)?;
    let named = name_matcher(&wanted.pattern);
    let mut note = "";
    for path in files(root, place) {
        if place.cancel.is_cancelled() {
            return Err("the search was stopped".to_owned());
        }
        if begun.elapsed() > MAX_TIME {
            note = "\n(stopped after 20 seconds: search in a smaller folder)";
            break;
        }
        let shown = place.shown(&path);
        if by_name.as_ref().is_some_and(|glob| !is_named(glob, Path::new(&shown))) {
            continue;
        }
        let goes_on = match wanted.target {
            Target::Files => !named(Path::new(&shown)) || found.push(shown),
            Target::Content => search_in(&path, &shown, &matcher, &mut found),
        };
        if !goes_on {
            break;
        }
    }
    let mut text = if found.lines.is_empty() {
        "nothing found".to_owned()
    } else {
        found.lines.join("\n")
    };
    if found.has_more {
        text.push_str(&format!("\n(more: go on with offset {})", skip + found.lines.len()));
    }
    if is_literal && wanted.target == Target::Content {
        text.push_str("\n(the pattern is no regular expression and was searched as it is)");
    }
    text.push_str(note);
    Ok(text)
}

/// The files to look at, in a stable order; links are not followed.
fn files(root: &Path, place: &Place) -> impl Iterator<Item = PathBuf> + use<> {
    let (workspace, denied) = (Arc::clone(&place.workspace), Arc::clone(&place.denied));
    let walk = WalkBuilder::new(root)
        .follow_links(false)
        .require_git(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(move |entry| !denied.is_denied(entry.path(), &workspace))
        .build();
    let entries = walk
        .flatten()
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    entries.map(ignore::DirEntry::into_path)
}

fn content_matcher(pattern: &str) -> Result<(RegexMatcher, bool), String> {
    let build = |literal: bool| {
        RegexMatcherBuilder::new()
            .case_smart(true)
            .fixed_strings(literal)
            .build(pattern)
    };
    match build(false) {
        Ok(matcher) => Ok((matcher, false)),
        Err(_) => build(true)
            .map(|matcher| (matcher, true))
            .map_err(|error| format!("the pattern can't be searched: {error}")),
    }
}

fn name_matcher(pattern: &str) -> impl Fn(&Path) -> bool {
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
fn is_named(glob: &GlobMatcher, path: &Path) -> bool {
    path.file_name().is_some_and(|name| glob.is_match(name)) || glob.is_match(path)
}

fn glob(pattern: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| format!("`{pattern}` is no file pattern: {error}"))
}

fn search_in(path: &Path, shown: &str, matcher: &RegexMatcher, found: &mut Found) -> bool {
    let mut goes_on = true;
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .build();
    let sink = Lossy(|number, line| {
        let line = talaria_text::cut::prefix_chars(line.trim_end(), MAX_LINE_CHARS);
        goes_on = found.push(format!("{shown}:{number}:{line}"));
        Ok(goes_on)
    });
    if let Err(error) = searcher.search_path(matcher, path, sink) {
        // A file that can't be read is one that has nothing to show.
        tracing::debug!(error = %error, "a file was skipped: {error}");
    }
    goes_on
}
