//! Sessions: stretches of conversation with one frozen prompt.

use serde::{Deserialize, Serialize};

use crate::ids::{MessageId, ProfileId, RunId, SessionId};
use crate::inputs::{Input, InputMessage};
use crate::interactions::Interaction;
use crate::messages::{Message, Usage};
use crate::time::Timestamp;
use crate::{Metadata, ObjectName};

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Nothing.
    Idle,
    /// Inputs wait, nothing runs yet.
    Queued,
    /// A run is active.
    Running,
    /// A run waits for a person.
    RequiresAction,
    /// Over; its chain may go on in a later session.
    Ended,
}

/// Where a session comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionSource {
    /// A program.
    Api,
    /// The terminal client.
    Cli,
}

/// A stretch of conversation with one frozen prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Always `session`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub object: ObjectName,
    /// What people call its chain.
    pub title: Option<String>,
    /// The profile that owns it.
    pub profile_id: ProfileId,
    /// The first session of its chain; the event log belongs to it.
    pub root_id: SessionId,
    /// The newest session of its chain.
    pub tip_id: SessionId,
    /// What it is doing.
    pub status: SessionStatus,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// The run that is active in its chain.
    pub active_run_id: Option<RunId>,
    /// How many inputs wait.
    pub queue_depth: u32,
    /// The chain's newest sequence number.
    pub head_seq: i64,
    /// The chain's oldest sequence number that can be read.
    pub oldest_seq: i64,
    /// The session that it continues.
    pub parent_session_id: Option<SessionId>,
    /// The session that its chain was copied from.
    pub forked_from: Option<SessionId>,
    /// The folder that its tools work in.
    pub workspace: String,
    /// The model that answers, as `provider/model`.
    pub model: String,
    /// Where it comes from.
    pub source: SessionSource,
    /// Whether it is unlisted, unsearched and soon purged.
    pub ephemeral: bool,
    /// When it was archived.
    pub archived_at: Option<Timestamp>,
    /// Client-made annotations.
    pub metadata: Metadata,
    /// What its chain cost so far.
    pub usage: Usage,
    /// When it began.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Body of `POST /v1/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CreateSessionRequest {
    /// A client-made id; sending the same body again gives the same session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<SessionId>,
    /// At most 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `provider/model`; the configured one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Your own part of the system prompt; frozen with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The folder that tools work in: absolute, under the profile's `workspace_roots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// Unlisted, unsearched, and purged an hour after its last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<bool>,
    /// Messages that the transcript begins with: text only, roles `user` and `assistant`, at most 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_messages: Option<Vec<InputMessage>>,
    /// Where the session comes from; `api` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SessionSource>,
}

/// Body of `PATCH /v1/sessions/{id}`: what is left out stays (RFC 7396).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct UpdateSessionRequest {
    /// A new title; `null` removes it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub title: Option<Option<String>>,
    /// Pairs to set; a value of `null` removes its pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<std::collections::BTreeMap<String, Option<String>>>))]
    pub metadata: Option<std::collections::BTreeMap<String, Option<String>>>,
    /// Hide from lists, or show again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// The model of later runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

// Tells `"title": null` (remove) from a title that was left out (keep).
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// Body of `POST /v1/sessions/{id}/fork`; may be left out. Without a place, everything is copied up to the calls that have
/// no result yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ForkSessionRequest {
    /// A client-made id; sending the same body again gives the same session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<SessionId>,
    /// Copy the messages up to and with this number of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_seq: Option<i64>,
    /// Copy the messages up to and with this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_message_id: Option<MessageId>,
    /// At most 200 characters; the original's when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Body of `POST /v1/sessions/{id}/rewind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RewindSessionRequest {
    /// The message that becomes the last one of the transcript.
    pub to_message_id: MessageId,
}

/// Everything that a client needs to show a session and go on with its stream from `seq`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Snapshot {
    /// The session.
    pub session: Session,
    /// The chain's newest sequence number that this snapshot covers.
    pub seq: i64,
    /// Messages still being said, with their text so far.
    pub open_messages: Vec<Message>,
    /// Inputs that wait, first one first.
    pub queue: Vec<Input>,
    /// What runs of this chain wait for.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub interactions: Vec<Interaction>,
}

/// The system prompt of a session, layer by layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Prompt {
    /// The session.
    pub session_id: SessionId,
    /// SHA-256 of the whole text, in hexadecimal.
    pub sha256: String,
    /// Length of the whole text.
    pub size_bytes: u64,
    /// The layers, in the order that the model sees them; joined by a blank line they are the whole text.
    pub layers: Vec<PromptLayer>,
}

/// One layer of a system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PromptLayer {
    /// What it is, such as `identity`.
    pub name: String,
    /// SHA-256 of its text, in hexadecimal.
    pub sha256: String,
    /// Length of its text.
    pub size_bytes: u64,
    /// Its text.
    pub text: String,
}

/// One line of an export in the format `jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ExportLine {
    /// The first line.
    Session {
        /// The session.
        session: Box<Session>,
    },
    /// Every further line.
    Message {
        /// One message, oldest first.
        message: Box<Message>,
    },
}
