//! `write_file`: a whole file, replaced or made.

use serde::Deserialize;
use serde_json::json;
use talaria_domain::tool::{Effect, Parallelism, ToolSpec};
use talaria_openapi::tools::Risk;

use super::frame::{FileTool, Place};
use super::write;

pub(crate) struct WriteFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    path: String,
    content: String,
}

impl FileTool for WriteFile {
    type Wanted = Wanted;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "write_file",
            description: "Write a whole file of the workspace; replaces what was there, makes missing folders. To change a \
                          part of a file use `patch`.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the workspace."},
                    "content": {"type": "string", "description": "The whole new content."}
                },
                "required": ["path", "content"],
                "additionalProperties": false
            }),
            toolset: "file",
            risk: Risk::Low,
            effect: Effect::Writes,
            parallelism: Parallelism::ByPath,
        }
    }

    fn work(wanted: Wanted, place: &Place) -> Result<String, String> {
        let path = place.resolve(&wanted.path)?;
        let made = write::write_file(&path, wanted.content.as_bytes())
            .map_err(|error| format!("`{}` can't be written: {error}", wanted.path))?;
        let folders: Vec<String> = made.iter().map(|folder| format!("{}/", place.shown(folder))).collect();
        let with_folders = if folders.is_empty() {
            String::new()
        } else {
            format!("; made the folders {}", folders.join(", "))
        };
        Ok(format!(
            "wrote {} bytes to {}{with_folders}",
            wanted.content.len(),
            wanted.path
        ))
    }
}
