//! `patch`: replaces a passage of a file.
//!
//! The passage is looked for as it is, then with more and more tolerance ([`view::Tolerance`]). It must be found exactly
//! once, unless all are to be replaced. What isn't replaced stays as it is, byte for byte.

mod closest;
mod diff;
mod find;
mod indent;
mod replace;
mod rewrite;
mod view;

use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;
use talaria_domain::tool::{Effect, Parallelism, ToolSpec};
use talaria_openapi::tools::Risk;

use super::frame::{FileTool, Place};
use super::{open, write};

pub(crate) struct Patch;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl FileTool for Patch {
    type Wanted = Wanted;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "patch",
            description: "Replace a passage of a text file. `old_string` must stand in the file exactly once: give enough \
                          lines around the change, or set `replace_all`. The answer is the change as a diff.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the workspace."},
                    "old_string": {"type": "string", "description": "The passage, as read_file shows it, without line numbers."},
                    "new_string": {"type": "string", "description": "What to put there; empty removes the passage."},
                    "replace_all": {"type": "boolean", "description": "Replace every occurrence."}
                },
                "required": ["path", "old_string", "new_string"],
                "additionalProperties": false
            }),
            toolset: "file",
            risk: Risk::Low,
            effect: Effect::Writes,
            parallelism: Parallelism::ByPath,
        }
    }

    fn work(wanted: Wanted, place: &Place) -> Result<String, String> {
        change_file(&place.resolve(&wanted.path)?, &wanted)
    }
}

fn change_file(path: &Path, wanted: &Wanted) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("`{}` can't be changed: {error}", wanted.path);
    let before = text_of(path).map_err(failed)?;
    let after = edited(&before, |text| {
        replace::replace(text, &wanted.old_string, &wanted.new_string, wanted.replace_all)
    })?;
    write::write_file(path, after.as_bytes()).map_err(failed)?;
    Ok(diff::diff(Some((&wanted.path, &before)), Some((&wanted.path, &after))))
}

/// The text of a file that is to be changed.
fn text_of(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// A text changed; a byte order mark stays in front of it.
fn edited(text: &str, change: impl FnOnce(&str) -> Result<String, String>) -> Result<String, String> {
    match text.strip_prefix('\u{feff}') {
        Some(body) => change(body).map(|body| format!("\u{feff}{body}")),
        None => change(text),
    }
}

#[cfg(test)]
mod tests;
