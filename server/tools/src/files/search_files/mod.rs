//! `search_files`: finds text in files, or files by name, with ripgrep's crates.

mod hits;
mod reader;
mod walk;

use std::path::Path;
use std::time::{Duration, Instant};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use serde::Deserialize;
use serde_json::json;
use talaria_domain::tool::{Arguments, Effect, Parallelism, ToolSpec};
use talaria_openapi::tools::Risk;

use self::hits::Found;
use self::reader::Limits;
use super::frame::{FileTool, Place};
use crate::arguments::{number, preview};

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;
const MAX_CONTEXT: usize = 20;
const MAX_TIME: Duration = Duration::from_secs(20);

pub(crate) struct SearchFiles;

#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    #[default]
    Content,
    Files,
}

/// What is told of a file that has the text.
#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputMode {
    /// Its lines.
    #[default]
    Content,
    /// Its name.
    #[serde(alias = "files_only")]
    FilesWithMatches,
    /// How many lines.
    Count,
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
    #[serde(default)]
    output_mode: Option<OutputMode>,
    #[serde(default, deserialize_with = "number")]
    context: Option<usize>,
}

impl FileTool for SearchFiles {
    type Wanted = Wanted;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "search_files",
            description: "Find text in the files of the workspace (target `content`, a regular expression), or files by \
                          name (target `files`, a pattern such as `*.rs` or a part of the name). Lines come as \
                          `path:number:text`. Files that git ignores and hidden ones are left out.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string"},
                    "target": {"type": "string", "enum": ["content", "files"], "description": "`content` when left out."},
                    "path": {"type": "string", "description": "Folder or file to search in; the workspace when left out."},
                    "file_glob": {"type": "string", "description": "Only files whose name fits, such as `*.py`."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": "Results; 50 when left out."},
                    "offset": {"type": "integer", "minimum": 0, "description": "Results to skip."},
                    "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"],
                                    "description": "Of target `content`: lines, files, or lines counted; `content` when left out."},
                    "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT,
                                "description": "Lines to show before and after each one found."}
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

/// Whether the search goes on.
enum Next {
    GoOn,
    Stop,
}

fn search(root: &Path, wanted: &Wanted, place: &Place) -> Result<String, String> {
    if !root.exists() {
        return Err(format!("`{}` doesn't exist", place.shown(root)));
    }
    let limits = Limits {
        cancel: place.cancel.clone(),
        until: Instant::now() + MAX_TIME,
    };
    let by_name = wanted.file_glob.as_deref().map(walk::glob).transpose()?;
    let skip = wanted.offset.unwrap_or(0);
    let mut found = Found::new(skip, wanted.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT));
    let (matcher, is_literal) = content_matcher(&wanted.pattern)?;
    let named = walk::name_matcher(&wanted.pattern);
    let context = wanted.context.unwrap_or(0).min(MAX_CONTEXT);
    let look = hits::Look::new(&matcher, &limits, wanted.output_mode.unwrap_or_default(), context);
    for path in walk::files(root, place) {
        if limits.are_reached() {
            break;
        }
        let shown = place.shown(&path);
        if by_name
            .as_ref()
            .is_some_and(|glob| !walk::is_named(glob, Path::new(&shown)))
        {
            continue;
        }
        let next = match wanted.target {
            Target::Files if named(Path::new(&shown)) => found.row(shown),
            Target::Files => Next::GoOn,
            Target::Content => look.at_file(&path, &shown, &mut found),
        };
        if matches!(next, Next::Stop) {
            break;
        }
    }
    if place.cancel.is_cancelled() {
        return Err("the search was stopped".to_owned());
    }
    let mut text = found.text();
    if found.has_more {
        text.push_str(&format!("\n(more: go on with offset {})", skip + found.count));
    }
    if is_literal && wanted.target == Target::Content {
        text.push_str("\n(the pattern is no regular expression and was searched as it is)");
    }
    if found.has_cut {
        text.push_str("\n(of lines longer than 1 MiB only the beginning was searched)");
    }
    if limits.are_reached() {
        text.push_str("\n(stopped after 20 seconds: search in a smaller folder)");
    }
    Ok(text)
}

/// A regular expression, or the text itself where it is none.
fn content_matcher(pattern: &str) -> Result<(RegexMatcher, bool), String> {
    let builder = |literal: bool| {
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_smart(true)
            .multi_line(true)
            .fixed_strings(literal)
            .crlf(true);
        builder
    };
    let build = |literal: bool| builder(literal).line_terminator(Some(b'\n')).build(pattern);
    match build(false) {
        Ok(matcher) => Ok((matcher, false)),
        Err(_) if pattern.contains('\n') || builder(false).line_terminator(None).build(pattern).is_ok() => {
            Err("a pattern is looked for within one line: search for one line of it, with `context`".to_owned())
        }
        Err(_) => build(true)
            .map(|matcher| (matcher, true))
            .map_err(|error| format!("the pattern can't be searched: {error}")),
    }
}
