//! Interactions: anything that a run waits for a person for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ObjectName;
use crate::ids::{InteractionId, RunId, SessionId};
use crate::time::Timestamp;
use crate::tools::Risk;

/// What a person is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum InteractionKind {
    /// Whether a tool may act.
    Approval,
    /// An answer that the agent needs.
    Question,
}

/// Where an interaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum InteractionStatus {
    /// Nobody has answered yet.
    Pending,
    /// Somebody has.
    Resolved,
    /// Nobody did in time: that counts as no.
    Expired,
    /// Its run was stopped.
    Cancelled,
}

/// What a person can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChoiceId {
    /// This call.
    AllowOnce,
    /// This call, and its like in this session.
    AllowSession,
    /// This call, and its like in every session of the profile.
    AllowAlways,
    /// Not this call.
    Deny,
    /// No answer to the questions.
    Skip,
}

/// One of the choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Choice {
    /// Which.
    pub id: ChoiceId,
}

/// The call that an approval is about. Its arguments never change: the person decides on exactly these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct InteractionTool {
    /// The tool.
    pub name: String,
    /// The arguments of the call.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub arguments: Map<String, Value>,
    /// SHA-256 of the arguments as compact JSON, in hexadecimal.
    pub arguments_sha256: String,
    /// How much harm the call can do.
    pub risk: Risk,
}

/// A question of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Question {
    /// Names it in the answers.
    pub id: String,
    /// The question.
    pub text: String,
    /// What can be chosen; none for a free answer.
    pub options: Vec<String>,
    /// Whether more than one option can be chosen.
    pub multiple: bool,
    /// Whether an answer of one's own is taken, too.
    pub free_text: bool,
}

/// How an interaction was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Resolution {
    /// What was chosen; nothing when questions were answered.
    pub choice: Option<ChoiceId>,
    /// The arguments that the call runs with instead of its own.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub edited_arguments: Option<Map<String, Value>>,
    /// Answers by the id of their question.
    pub answers: Option<BTreeMap<String, Vec<String>>>,
    /// What the agent is told with it.
    pub message: Option<String>,
    /// Who answered, such as `local` or `key:key_01…`.
    pub resolved_by: String,
    /// When.
    pub resolved_at: Timestamp,
}

/// Something that a run waits for a person for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Interaction {
    /// Its id.
    pub id: InteractionId,
    /// Always `interaction`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub object: ObjectName,
    /// What is asked for.
    pub kind: InteractionKind,
    /// Where it stands.
    pub status: InteractionStatus,
    /// The session.
    pub session_id: SessionId,
    /// The run that waits.
    pub run_id: RunId,
    /// The call that waits.
    pub tool_call_id: String,
    /// What it is about, in a few words.
    pub title: String,
    /// What exactly would be done, or why it is asked.
    pub message: String,
    /// The call, of an approval.
    pub tool: Option<InteractionTool>,
    /// What can be chosen.
    pub choices: Vec<Choice>,
    /// Whether the arguments may be changed with the answer.
    pub editable: bool,
    /// The questions, of a question.
    pub questions: Vec<Question>,
    /// When it counts as no.
    pub expires_at: Timestamp,
    /// The milliseconds until then, counted when this was sent; in an event, at the time of the event.
    pub expires_in_ms: i64,
    /// How it was answered.
    pub resolution: Option<Resolution>,
}

/// Body of `POST /v1/interactions/{id}/resolve`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ResolveInteractionRequest {
    /// What is chosen: one of the interaction's choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<ChoiceId>,
    /// The arguments that the call is to run with instead of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub edited_arguments: Option<Map<String, Value>>,
    /// Answers by the id of their question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, Vec<String>>>,
    /// What the agent is to be told with it; at most 2,000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a person has allowed beyond one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ApprovalRule {
    /// The interaction that it was made with.
    pub id: InteractionId,
    /// Always `approval_rule`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub object: ObjectName,
    /// The session whose chain it holds in; every session of the profile when `null`.
    pub root_id: Option<SessionId>,
    /// The tool.
    pub tool: String,
    /// Which calls of the tool are alike.
    pub kind_of_call: String,
    /// The greatest risk that it allows.
    pub risk: Risk,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: String,
}
