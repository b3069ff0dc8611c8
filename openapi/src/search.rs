//! Search: everything that was ever said in a profile.

use serde::{Deserialize, Serialize};

use crate::ids::{MessageId, RunId, SessionId};
use crate::messages::Role;
use crate::time::Timestamp;

/// Answer of `GET /v1/search`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SearchResults {
    /// The hits, newest first, ranked within the newest 2,000.
    pub data: Vec<SearchHit>,
    /// Hand it back as `?cursor=` to get the next page.
    pub next_cursor: Option<String>,
    /// Whether a next page exists.
    pub has_more: bool,
    /// How long the search took.
    pub took_ms: u64,
}

/// One message that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SearchHit {
    /// Always `message` for now.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub kind: crate::ObjectName,
    /// The session.
    pub session_id: SessionId,
    /// What people call it.
    pub session_title: Option<String>,
    /// The run.
    pub run_id: Option<RunId>,
    /// The message.
    pub message_id: MessageId,
    /// Who spoke.
    pub role: Role,
    /// When.
    pub created_at: Timestamp,
    /// How well it fits; more is better.
    pub score: f64,
    /// A passage around the first hit.
    pub snippet: Vec<SnippetPiece>,
}

/// A piece of a passage: plain text, nothing to escape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SnippetPiece {
    /// The text.
    pub t: String,
    /// Whether it is what was searched for.
    #[serde(skip_serializing_if = "is_false", default)]
    pub hit: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
