//! Messages: the entries of a transcript, exactly what the model sees.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ObjectName;
use crate::ids::{FileId, MessageId, RunId, SessionId};
use crate::time::Timestamp;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person or the program that asks.
    User,
    /// The model.
    Assistant,
    /// The result of one tool call.
    Tool,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// Still being said.
    InProgress,
    /// Said to its end.
    Completed,
    /// Cut off by a person; its text stays in the model's history.
    Cancelled,
    /// Cut off by a fault; kept visible, left out of the model's history.
    Failed,
    /// A tool that was running when the server died: nobody knows what it did.
    UnknownOutcome,
}

/// Where a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Said by its role.
    #[default]
    Normal,
    /// A hand-over written by a compression.
    Summary,
    /// Inserted while the agent was working.
    Steer,
    /// Written by the server to keep the history legal.
    Forged,
}

/// Why the model stopped speaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It had said everything.
    Stop,
    /// It asks for tools.
    ToolCalls,
    /// It reached its output limit.
    Length,
    /// The provider's filter cut it off.
    ContentFilter,
    /// A person cut it off.
    Cancelled,
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Tokens sent, the cached ones included.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Tokens sent that the provider had in its cache.
    pub cached_tokens: u64,
    /// Price in US dollars; 0 where it isn't known.
    pub cost_usd: f64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cost_usd += other.cost_usd;
    }
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text for people.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought aloud.
    Reasoning {
        /// The text.
        text: String,
    },
    /// A picture, by its file.
    Image {
        /// The file.
        file_id: FileId,
    },
    /// Any other attachment, by its file.
    File {
        /// The file.
        file_id: FileId,
    },
    /// The model asks for a tool.
    ToolCall {
        /// The model's id of the call; unique within the message.
        id: String,
        /// The tool's name, as the model said it.
        name: String,
        /// The arguments: an object; a string where what the model said is no JSON object.
        arguments: Value,
    },
    /// What a tool answered.
    ToolResult {
        /// The call that it answers.
        tool_call_id: String,
        /// What the model gets to see.
        content: Vec<ResultContent>,
        /// Whether the tool failed.
        is_error: bool,
        /// Whether the content was cut for the model.
        truncated: bool,
        /// The whole output, where it was cut.
        full_output_file_id: Option<FileId>,
        /// How long the tool took.
        duration_ms: u64,
        /// The arguments that the call ran with, where a person has changed them.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
        effective_arguments: Option<serde_json::Map<String, Value>>,
    },
}

/// A piece of a tool's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResultContent {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
}

/// One entry of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Always `message`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub object: ObjectName,
    /// The session that it belongs to.
    pub session_id: SessionId,
    /// The run that made it; `null` for messages that a session was created with.
    pub run_id: Option<RunId>,
    /// The chain's sequence number of the event that completed it (that started it, while it is in progress).
    pub seq: i64,
    /// Who speaks.
    pub role: Role,
    /// What became of it.
    pub status: MessageStatus,
    /// What is said.
    pub parts: Vec<Part>,
    /// The model that said it.
    pub model: Option<String>,
    /// Why the model stopped.
    pub finish_reason: Option<FinishReason>,
    /// What it cost.
    pub usage: Option<Usage>,
    /// Where it comes from.
    pub kind: MessageKind,
    /// Whether a rewind took it out of the transcript; left out when not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub superseded: bool,
    /// When it began.
    pub created_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
}

impl Message {
    /// All text parts, one after the other.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}
