//! `write_file`: a whole file, replaced or made.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use talaria_domain::tool::{Arguments, Effect, Parallelism, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use talaria_openapi::tools::Risk;

use super::{path_argument, respond, write_atomically};
use crate::arguments::{preview, read};
use crate::paths::{self, DeniedPaths};

pub(crate) struct WriteFile {
    spec: ToolSpec,
    denied: Arc<DeniedPaths>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    path: String,
    content: String,
}

impl WriteFile {
    pub(crate) fn new(denied: Arc<DeniedPaths>) -> Self {
        let spec = ToolSpec {
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
        };
        Self { spec, denied }
    }
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn preview(&self, arguments: &Arguments) -> String {
        preview(arguments, "path")
    }

    fn paths(&self, arguments: &Arguments, context: &ToolContext) -> Option<Vec<PathBuf>> {
        path_argument(arguments, context, &self.denied)
    }

    async fn run(&self, arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let wanted: Wanted = read(arguments)?;
        let path = paths::resolve(&wanted.path, &context.workspace, &self.denied).map_err(respond)?;
        let written = tokio::task::spawn_blocking(move || {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            write_atomically(&path, wanted.content.as_bytes())?;
            Ok::<_, std::io::Error>((wanted.path, wanted.content.len()))
        });
        match written.await.map_err(|error| ToolError::Fatal(error.into()))? {
            Ok((path, bytes)) => Ok(ToolOutput::ok(format!("wrote {bytes} bytes to {path}"))),
            Err(error) => Err(respond(format!("the file can't be written: {error}"))),
        }
    }
}
