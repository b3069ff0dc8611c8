//! `patch`: replaces a passage of a file, or changes several files at once.
//!
//! Passages are looked for as they are, then with more and more tolerance ([`view::Tolerance`]). A passage must be found
//! exactly once, unless all are to be replaced. What isn't replaced stays as it is, byte for byte.

mod carry_out;
mod change;
mod closest;
mod diff;
mod envelope;
mod find;
mod hunks;
mod indent;
mod plan;
mod replace;
mod rewrite;
mod unified;
mod view;

use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;
use talaria_domain::tool::{Arguments, Effect, Parallelism, ToolSpec};
use talaria_openapi::tools::Risk;

use super::frame::{FileTool, Place};
use super::{open, write};
use crate::arguments;

pub(crate) struct Patch;

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Replace,
    Patch,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    mode: Option<Mode>,
    path: Option<String>,
    old_string: Option<String>,
    new_string: Option<String>,
    replace_all: Option<bool>,
    patch: Option<String>,
}

impl FileTool for Patch {
    type Wanted = Wanted;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "patch",
            description: "Change text files. Mode `replace`: `old_string` of `path` becomes `new_string`; it must stand in \
                          the file exactly once: give enough lines around the change, or set `replace_all`. Mode `patch`: \
                          `patch` adds, updates, moves and deletes several files, all or none. It is a unified diff, or: \
                          `*** Begin Patch`, a section a file (`*** Add File: p` with lines `+…`; `*** Update File: p`, \
                          perhaps `*** Move to: q`, with `@@ line that the change stands under` and lines that begin with \
                          a blank, `-` or `+`; `*** Delete File: p`), `*** End Patch`. The answer is the change as a diff.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "mode": {"type": "string", "enum": ["replace", "patch"], "description": "`replace` when left out."},
                    "path": {"type": "string", "description": "Of mode `replace`; relative to the workspace."},
                    "old_string": {"type": "string", "description": "The passage, as read_file shows it, without line numbers."},
                    "new_string": {"type": "string", "description": "What to put there; empty removes the passage."},
                    "replace_all": {"type": "boolean", "description": "Replace every occurrence."},
                    "patch": {"type": "string", "description": "Of mode `patch`: the whole patch."}
                },
                "additionalProperties": false
            }),
            toolset: "file",
            risk: Risk::Low,
            effect: Effect::Writes,
            parallelism: Parallelism::ByPath,
        }
    }

    fn preview(arguments: &Arguments) -> String {
        match patch_argument(arguments) {
            Some(patch) => {
                let named = named_in(patch).unwrap_or_default();
                talaria_text::cut::one_line(&named.join(", "), arguments::PREVIEW_CELLS)
            }
            None => arguments::preview(arguments, "path"),
        }
    }

    fn named(arguments: &Arguments) -> Option<Vec<String>> {
        match patch_argument(arguments) {
            Some(patch) => named_in(patch),
            None => Some(vec![arguments.get("path")?.as_str()?.to_owned()]),
        }
    }

    fn work(wanted: Wanted, place: &Place) -> Result<String, String> {
        let is_patch = match wanted.mode {
            Some(mode) => mode == Mode::Patch,
            None => wanted.patch.is_some(),
        };
        if is_patch {
            let text = wanted.patch.ok_or("the mode `patch` needs `patch`")?;
            let changes = change::parse(&text).map_err(|reason| format!("nothing was changed: {reason}"))?;
            return carry_out::carry_out(&plan::plan(&changes, place)?, place);
        }
        let path = wanted.path.ok_or("the mode `replace` needs `path`")?;
        let old = wanted.old_string.ok_or("the mode `replace` needs `old_string`")?;
        let new = wanted.new_string.ok_or("the mode `replace` needs `new_string`")?;
        let resolved = place.resolve(&path)?;
        let failed = |error: std::io::Error| format!("`{path}` can't be changed: {error}");
        let before = text_of(&resolved).map_err(failed)?;
        let replace_all = wanted.replace_all.unwrap_or_default();
        let after = edited(&before, |text| replace::replace(text, &old, &new, replace_all))?;
        write::write_file(&resolved, after.as_bytes()).map_err(failed)?;
        Ok(diff::diff(Some((&path, &before)), Some((&path, &after))))
    }
}

/// The patch of a call of mode `patch`.
fn patch_argument(arguments: &Arguments) -> Option<&str> {
    let mode = arguments.get("mode").and_then(serde_json::Value::as_str);
    let patch = arguments.get("patch").and_then(serde_json::Value::as_str);
    patch.filter(|_| mode != Some("replace"))
}

fn named_in(patch: &str) -> Option<Vec<String>> {
    let changes = change::parse(patch).ok()?;
    Some(
        changes
            .iter()
            .flat_map(change::Change::paths)
            .map(str::to_owned)
            .collect(),
    )
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
