//! Tools: what the agent can do.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ObjectName;

/// How much harm a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Reads, and writes inside the workspace.
    Low,
    /// Unknown effect, the network, or outside the workspace.
    Medium,
    /// A dangerous kind of command.
    High,
    /// Always refused.
    Critical,
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Tool {
    /// What the model calls it.
    pub name: String,
    /// Always `tool`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub object: ObjectName,
    /// What the model is told of it.
    pub description: String,
    /// JSON schema of its arguments.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub parameters: Value,
    /// The group that it belongs to.
    pub toolset: String,
    /// The least risk of a call.
    pub risk: Risk,
    /// Where it comes from; `builtin` for now.
    pub source: String,
    /// Whether it can be used now.
    pub available: bool,
    /// Why it can't.
    pub unavailable_reason: Option<String>,
}
