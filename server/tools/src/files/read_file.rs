//! `read_file`: a file's lines, numbered.

use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::path::Path;

use serde::Deserialize;
use serde_json::json;
use talaria_domain::tool::{Effect, Parallelism, ToolSpec};
use talaria_openapi::tools::Risk;

use super::frame::{FileTool, Place};
use super::open;
use crate::arguments::number;

const DEFAULT_LINES: usize = 500;
const MAX_LINES: usize = 2_000;
const MAX_LINE_CHARS: usize = 2_000;
/// Bytes that tell whether a file is text.
const PROBE_BYTES: usize = 8 * 1024;
const MAX_ENTRIES: usize = 100;

pub(crate) struct ReadFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    path: String,
    #[serde(default, deserialize_with = "number")]
    offset: Option<usize>,
    #[serde(default, deserialize_with = "number")]
    limit: Option<usize>,
}

impl FileTool for ReadFile {
    type Wanted = Wanted;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "read_file",
            description: "Read a text file of the workspace. Lines come as `number|text`. For a long file, go on with \
                          `offset`. A folder is answered with its entries.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the workspace."},
                    "offset": {"type": "integer", "minimum": 1, "description": "First line; 1 when left out."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LINES, "description": "Lines; 500 when left out."}
                },
                "required": ["path"],
                "additionalProperties": false
            }),
            toolset: "file",
            risk: Risk::Low,
            effect: Effect::ReadOnly,
            parallelism: Parallelism::ByPath,
        }
    }

    fn work(wanted: Wanted, place: &Place) -> Result<String, String> {
        let path = place.resolve(&wanted.path)?;
        if path.is_dir() {
            return entries(&path, place);
        }
        let file = open(&path).map_err(|error| missing(&path, &wanted.path, &error))?;
        lines(file, &wanted).map_err(|error| format!("`{}` can't be read: {error}", wanted.path))
    }
}

fn lines(mut file: std::fs::File, wanted: &Wanted) -> std::io::Result<String> {
    let mut probe = Vec::new();
    file.by_ref().take(PROBE_BYTES as u64).read_to_end(&mut probe)?;
    // An incomplete character at the end of the probe is no sign of a binary file.
    let is_text =
        !probe.contains(&0) && std::str::from_utf8(&probe).map_or_else(|error| error.error_len().is_none(), |_| true);
    if !is_text {
        return Err(std::io::Error::other(format!(
            "it is a binary file of {} bytes",
            file.metadata()?.len()
        )));
    }
    file.rewind()?;
    let first = wanted.offset.unwrap_or(1).max(1);
    let limit = wanted.limit.unwrap_or(DEFAULT_LINES).clamp(1, MAX_LINES);
    let (mut text, mut total) = (String::new(), 0_usize);
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        total += 1;
        if total >= first && total - first < limit {
            let decoded = String::from_utf8_lossy(&line);
            let whole = decoded.trim_end_matches(['\n', '\r']);
            let shown = talaria_text::cut::prefix_chars(whole, MAX_LINE_CHARS);
            let rest = if shown.len() < whole.len() {
                " … [line cut]"
            } else {
                ""
            };
            text.push_str(&format!("{total}|{shown}{rest}\n"));
        }
        line.clear();
    }
    Ok(match total {
        0 => "(the file is empty)".to_owned(),
        total if first > total => format!("(the file has {total} lines; line {first} doesn't exist)"),
        total if first - 1 + limit < total => {
            format!("{text}({total} lines in all; go on with offset {})", first + limit)
        }
        _ => text,
    })
}

fn entries(path: &Path, place: &Place) -> Result<String, String> {
    let listed =
        std::fs::read_dir(path).map_err(|error| format!("`{}` can't be listed: {error}", place.shown(path)))?;
    let mut names: Vec<String> = listed
        .flatten()
        .filter(|entry| !place.is_denied(&entry.path()))
        .map(|entry| {
            let slash = if entry.path().is_dir() { "/" } else { "" };
            format!("{}{slash}", entry.file_name().to_string_lossy())
        })
        .collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(MAX_ENTRIES);
    names.truncate(MAX_ENTRIES);
    let rest = if more > 0 {
        format!("\n({more} more)")
    } else {
        String::new()
    };
    Ok(format!(
        "`{}` is a folder:\n{}{rest}",
        place.shown(path),
        names.join("\n")
    ))
}

/// Names that are like the missing one, from the same folder.
fn missing(path: &Path, named: &str, error: &std::io::Error) -> String {
    if error.kind() != std::io::ErrorKind::NotFound {
        return format!("`{named}` can't be read: {error}");
    }
    let wanted = path
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    let stem: String = wanted.chars().take(3).collect();
    let listed = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let names = listed
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut similar: Vec<String> = names
        .filter(|name| !stem.is_empty() && name.to_lowercase().contains(&stem))
        .collect();
    similar.sort_unstable();
    similar.truncate(3);
    let hint = if similar.is_empty() {
        String::new()
    } else {
        format!(" Similar names there: {}.", similar.join(", "))
    };
    format!("`{named}` doesn't exist.{hint}")
}
