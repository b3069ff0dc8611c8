//! `patch`: replaces a passage of a file.
//!
//! The passage is looked for as it is, then without regard to white space at line ends, then without regard to indentation.
//! It must be found exactly once, unless all are to be replaced. Line ends of the file are kept.

use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;
use similar::TextDiff;
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
    let mut before = String::new();
    open(path)
        .and_then(|mut file| file.read_to_string(&mut before))
        .map_err(failed)?;
    let has_crlf = before.contains("\r\n");
    let text = if has_crlf { before.replace("\r\n", "\n") } else { before };
    let after = replace(
        &text,
        &wanted.old_string.replace("\r\n", "\n"),
        &wanted.new_string.replace("\r\n", "\n"),
        wanted.replace_all,
    )?;
    let written = if has_crlf {
        after.replace('\n', "\r\n")
    } else {
        after.clone()
    };
    write::write_file(path, written.as_bytes()).map_err(failed)?;
    let diff = TextDiff::from_lines(text.as_str(), after.as_str());
    Ok(diff
        .unified_diff()
        .context_radius(3)
        .header(&wanted.path, &wanted.path)
        .to_string())
}

/// The text with the passage replaced, or why not.
fn replace(text: &str, old: &str, new: &str, replace_all: bool) -> Result<String, String> {
    if old.trim().is_empty() {
        return Err("`old_string` is empty: give the passage that is to be replaced".to_owned());
    }
    if old == new {
        return Err("`old_string` and `new_string` are the same: there is nothing to change".to_owned());
    }
    let exact: Vec<(usize, usize)> = text
        .match_indices(old)
        .map(|(at, found)| (at, at + found.len()))
        .collect();
    let mut found = exact;
    for same in [same_but_for_line_ends, same_but_for_indentation] {
        if found.is_empty() {
            found = find_lines(text, old, same);
        }
    }
    match found.as_slice() {
        [] => Err("the passage isn't in the file: read the file again and copy the lines as they are".to_owned()),
        [_, _, ..] if !replace_all => {
            let lines: Vec<String> = found.iter().map(|(at, _)| line_number(text, *at).to_string()).collect();
            Err(format!(
                "the passage stands {} times in the file (lines {}): give more lines around it, or set `replace_all`",
                found.len(),
                lines.join(", ")
            ))
        }
        places => Ok(put(text, places, new)),
    }
}

fn put(text: &str, places: &[(usize, usize)], new: &str) -> String {
    let mut out = String::with_capacity(text.len() + new.len());
    let mut done = 0;
    for (from, to) in places {
        out.push_str(text.get(done..*from).unwrap_or_default());
        out.push_str(new);
        done = *to;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

fn line_number(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn same_but_for_line_ends(one: &str, other: &str) -> bool {
    one.trim_end() == other.trim_end()
}

fn same_but_for_indentation(one: &str, other: &str) -> bool {
    one.trim() == other.trim()
}

/// Where whole lines match, as ranges of bytes without the last line's end.
fn find_lines(text: &str, old: &str, same: fn(&str, &str) -> bool) -> Vec<(usize, usize)> {
    let wanted: Vec<&str> = old.trim_end_matches('\n').split('\n').collect();
    let mut at = 0;
    let lines: Vec<(usize, &str)> = text
        .split('\n')
        .map(|line| {
            let begin = at;
            at += line.len() + 1;
            (begin, line)
        })
        .collect();
    let mut found: Vec<(usize, usize)> = Vec::new();
    for window in lines.windows(wanted.len()) {
        let fits = window.iter().zip(&wanted).all(|((_, line), wanted)| same(line, wanted));
        let (Some((begin, _)), Some((last, line))) = (window.first(), window.last()) else {
            continue;
        };
        if fits && found.last().is_none_or(|(_, end)| end <= begin) {
            let end = last + line.len();
            // A passage that ends a line takes the line's end with it, as an exact match does.
            let ends_line = old.ends_with('\n') && end < text.len();
            found.push((*begin, end + usize::from(ends_line)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies() {
        for (text, old, new, expected) in [
            ("a\nb\nc\n", "b", "x", Ok("a\nx\nc\n")),
            ("a  \nb\n", "a\nb", "x\ny", Ok("x\ny\n")),
            ("a  \nb\n", "a\nb\n", "x\ny\n", Ok("x\ny\n")),
            ("    if a:\n        b\n", "if a:\n    b", "pass", Ok("pass\n")),
            ("a\na\n", "a", "x", Err("stands 2 times")),
            ("a\n", "z", "x", Err("isn't in the file")),
            ("a\n", " ", "x", Err("is empty")),
            ("a\n", "a", "a", Err("are the same")),
        ] {
            let replaced = replace(text, old, new, false);
            match expected {
                Ok(after) => assert_eq!(replaced, Ok(after.to_owned()), "{old:?} in {text:?}"),
                Err(reason) => assert!(replaced.unwrap_err().contains(reason), "{old:?} in {text:?}"),
            }
        }
        assert_eq!(replace("a\na\n", "a", "b", true), Ok("b\nb\n".to_owned()));
    }
}
