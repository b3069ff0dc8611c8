//! The tools as a model would use them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test binary: its helpers fail like its tests"
)]

mod arguments;
mod files;
mod patch;
mod paths;
#[cfg(target_os = "linux")]
mod sandbox;
mod search;
#[cfg(target_os = "linux")]
mod terminal;
mod todo;

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use talaria_domain::tool::{ToolContext, ToolError, ToolSet};
use talaria_openapi::ids::{ProfileId, RunId, SessionId};
use talaria_tools::paths::DeniedPaths;
use tokio_util::sync::CancellationToken;

struct Bench {
    folder: tempfile::TempDir,
    tools: ToolSet,
    context: ToolContext,
}

/// A workspace beside a server's home and a person's home.
fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["home/inside", "user/.ssh", "ws"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("home/token"), "secret").unwrap();
    std::fs::write(root.join("user/.ssh/id_ed25519"), "secret").unwrap();
    let denied = Arc::new(DeniedPaths::new(&root.join("home"), Some(&root.join("user"))));
    let context = context(&root.join("ws"));
    Bench {
        folder,
        tools: ToolSet::new(talaria_tools::builtin_tools(denied)),
        context,
    }
}

fn context(workspace: &Path) -> ToolContext {
    ToolContext {
        profile_id: ProfileId::new(),
        session_id: SessionId::new(),
        run_id: RunId::new(),
        workspace: workspace.into(),
        cancel: CancellationToken::new(),
        grace: talaria_domain::tool::Grace::default(),
        live: None,
    }
}

impl Bench {
    async fn call(&self, name: &str, arguments: Value) -> Result<String, String> {
        let tool = self.tools.get(name).unwrap();
        match tool.run(arguments.as_object().unwrap(), &self.context).await {
            Ok(output) => Ok(output.text),
            Err(ToolError::Respond(text)) => Err(text),
            Err(ToolError::Fatal(error)) => panic!("{error}"),
        }
    }

    /// Writes a file of the workspace, with its folders.
    fn put(&self, name: &str, text: &str) {
        let path = self.path("ws").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The text of a file of the workspace.
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path("ws").join(name)).unwrap()
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }
}
