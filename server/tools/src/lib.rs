//! The built-in tools, behind `domain::Tool`.
//!
//! What it is *not*: a tool knows no session, no run and no model. Every path that a model names goes through [`paths`].
#![warn(missing_docs)]

mod arguments;
mod clarify;
mod files;
pub mod paths;
#[cfg(target_os = "linux")]
pub mod sandbox;
#[cfg(target_os = "linux")]
pub mod terminal;
mod todo;

use std::sync::Arc;

use talaria_domain::tool::Tool;

use crate::paths::DeniedPaths;

/// Every built-in tool.
#[must_use]
pub fn builtin_tools(denied: Arc<DeniedPaths>) -> Vec<Arc<dyn Tool>> {
    let mut tools = files::tools(denied);
    tools.push(Arc::new(todo::Todo::new()));
    tools.push(Arc::new(clarify::Clarify::new()));
    tools
}
