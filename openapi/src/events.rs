//! The event grammar: what a chain's log holds and what its streams send.
//!
//! Rules of every chain's log:
//! - `seq` strictly increases; gaps are legal and mean nothing.
//! - `message.started` comes before the message's deltas, and they before its `message.completed`; `tool.started` before
//!   `tool.completed`. Everything that started completes before the run's terminal event.
//! - The texts of a part's deltas, one after the other, are the text of its `message.completed`.
//! - A run has at most one terminal event an attempt, and it is the attempt's last event.
//! - An event is stored before it is sent, and sent as it was stored, byte for byte.
//!
//! Clients skip what they don't know: whatever correctness needs is said again in `message.completed` and the run object.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::files::File;
use crate::ids::{InputId, InteractionId, MessageId, RunId, SessionId};
use crate::inputs::Input;
use crate::interactions::Interaction;
use crate::messages::{Message, Usage};
use crate::runs::{CancelMode, Run};
use crate::sessions::Session;
use crate::time::Timestamp;

/// Longest string inside an event, in bytes; a longer one is replaced by a reference to where the whole is.
pub const MAX_EVENT_STRING_BYTES: usize = 16 * 1024;

/// One logged event: the JSON of its `data:` line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Event {
    /// What happened; `type` is also the name in the `event:` line.
    #[serde(flatten)]
    pub body: EventBody,
    /// Its number in the chain's log; also its `id:` line.
    pub seq: i64,
    /// When its owner wrote it. Order by `seq`, never by time.
    pub ts: Timestamp,
    /// The session that it happened in.
    pub session_id: SessionId,
    /// The run that it belongs to.
    pub run_id: Option<RunId>,
}

/// Why a run got a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoticeCode {
    /// A model request failed and is sent again.
    ModelRetry,
    /// The provider asks to wait.
    RateLimited,
    /// The model's answer was cut at its output limit and is being continued.
    OutputLimit,
}

/// Where a tool wrote output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output, with standard error where a tool doesn't tell them apart.
    Stdout,
    /// Standard error.
    Stderr,
    /// What the tool says of its own work.
    Log,
}

/// What became of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It worked.
    Completed,
    /// It failed; the model is told.
    Failed,
    /// It was not allowed to run.
    Declined,
    /// A person stopped it.
    Cancelled,
    /// The server died while it ran.
    UnknownOutcome,
}

/// What a run was resumed after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ResumedAfter {
    /// Its server ended and a server started.
    Restart,
    /// A person has answered.
    Interaction,
    /// A person said so.
    ResumeCall,
}

macro_rules! event_bodies {
    ($($(#[$doc:meta])* $name:ident = $text:tt { $($(#[$field_meta:meta])* $field:ident: $ty:ty),* $(,)? };)+) => {
        /// What happened.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(tag = "type")]
        pub enum EventBody {
            $(
                $(#[$doc])*
                #[serde(rename = $text)]
                $name { $($(#[$field_meta])* $field: $ty),* },
            )+
            /// An event of a later version: skip it.
            #[serde(other)]
            Unknown,
        }

        impl EventBody {
            /// Every type of event that this version writes.
            pub const TYPES: &'static [&'static str] = &[$($text),+];

            /// Its `type`.
            #[must_use]
            pub fn event_type(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $text,)+
                    Self::Unknown => "unknown",
                }
            }
        }
    };
}

event_bodies! {
    /// A session began.
    SessionCreated = "session.created" {
        /// The session.
        session: Box<Session>,
    };
    /// A session's title, metadata, model or archive mark changed.
    SessionUpdated = "session.updated" {
        /// The session.
        session: Box<Session>,
    };
    /// A session's transcript went back to a message.
    SessionRewound = "session.rewound" {
        /// The message that is the transcript's last one now.
        to_message_id: MessageId,
        /// What is no longer in the transcript.
        superseded_message_ids: Vec<MessageId>,
    };
    /// A session was deleted; the last event of a log, kept for 24 hours.
    SessionDeleted = "session.deleted" {
        /// Who deleted it.
        by: String,
    };
    /// An input was stored.
    InputAccepted = "input.accepted" {
        /// The input.
        input: Box<Input>,
    };
    /// An input entered the transcript.
    InputDelivered = "input.delivered" {
        /// The input.
        input_id: InputId,
        /// The message that it became.
        message_id: MessageId,
    };
    /// An input that was meant for another run became one of its own.
    InputPromoted = "input.promoted" {
        /// The input.
        input_id: InputId,
        /// The run that it became.
        run_id: RunId,
        /// Why.
        reason: String,
    };
    /// An input will never be delivered.
    InputCancelled = "input.cancelled" {
        /// The input.
        input_id: InputId,
        /// Why.
        reason: String,
    };
    /// A run waits for a person.
    RunRequiresAction = "run.requires_action" {
        /// What it waits for: all of it.
        interaction_ids: Vec<InteractionId>,
    };
    /// A person is asked for something.
    InteractionRequested = "interaction.requested" {
        /// What.
        interaction: Box<Interaction>,
    };
    /// An interaction was answered, or doesn't wait any more.
    InteractionResolved = "interaction.resolved" {
        /// How.
        interaction: Box<Interaction>,
    };
    /// A run waits for its turn.
    RunQueued = "run.queued" {
        /// The run.
        run: Box<Run>,
        /// Its place, from 1.
        queue_position: u32,
    };
    /// A run began to work.
    RunStarted = "run.started" {
        /// The run.
        run: Box<Run>,
        /// Its attempt.
        attempt: u32,
    };
    /// A run goes on in a new attempt.
    RunResumed = "run.resumed" {
        /// After what.
        after: ResumedAfter,
        /// The new attempt.
        attempt: u32,
    };
    /// A model call was paid for.
    RunUsage = "run.usage" {
        /// What it cost.
        usage: Usage,
        /// The round, from 1.
        round: u32,
        /// Rounds left.
        budget_remaining: u32,
    };
    /// Something that a person may want to know; the run goes on.
    RunNotice = "run.notice" {
        /// For programs.
        code: NoticeCode,
        /// For people.
        message: String,
        /// More, for programs.
        #[cfg_attr(feature = "schema", schema(value_type = Object))]
        data: Map<String, Value>,
    };
    /// A run was told to stop.
    RunCancelling = "run.cancelling" {
        /// How.
        mode: CancelMode,
        /// By whom.
        by: String,
        /// Why.
        reason: Option<String>,
    };
    /// A run is done.
    RunCompleted = "run.completed" {
        /// The run.
        run: Box<Run>,
    };
    /// A run was stopped by a fault.
    RunFailed = "run.failed" {
        /// The run.
        run: Box<Run>,
    };
    /// A run was stopped by a person.
    RunCancelled = "run.cancelled" {
        /// The run.
        run: Box<Run>,
    };
    /// A run was stopped by the end of its server.
    RunInterrupted = "run.interrupted" {
        /// The run.
        run: Box<Run>,
    };
    /// The model begins to speak.
    MessageStarted = "message.started" {
        /// The message, without parts.
        message: Box<Message>,
    };
    /// Text became visible.
    TextDelta = "text.delta" {
        /// The message.
        message_id: MessageId,
        /// The index of the part.
        part: u32,
        /// Where in the part, in bytes of UTF-8.
        offset: u64,
        /// The text.
        text: String,
    };
    /// Thoughts became visible.
    ReasoningDelta = "reasoning.delta" {
        /// The message.
        message_id: MessageId,
        /// The index of the part.
        part: u32,
        /// Where in the part, in bytes of UTF-8.
        offset: u64,
        /// The text.
        text: String,
    };
    /// A piece of a call's arguments became visible.
    ToolCallDelta = "tool_call.delta" {
        /// The message.
        message_id: MessageId,
        /// The index of the part.
        part: u32,
        /// The call.
        tool_call_id: String,
        /// The tool.
        name: String,
        /// Where in the arguments, in bytes of UTF-8.
        offset: u64,
        /// A raw fragment of JSON.
        json: String,
    };
    /// A message is whole; it replaces whatever was put together from deltas.
    MessageCompleted = "message.completed" {
        /// The message.
        message: Box<Message>,
    };
    /// A tool began to work.
    ToolStarted = "tool.started" {
        /// The call.
        tool_call_id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        #[cfg_attr(feature = "schema", schema(value_type = Object))]
        arguments: Map<String, Value>,
        /// One line for people.
        preview: String,
        /// Calls with the same number run at the same time; `null` for a call that runs alone.
        parallel_group: Option<u32>,
    };
    /// A tool that still works wrote something. What comes too fast is left out: the result counts.
    ToolOutputDelta = "tool.output.delta" {
        /// The call.
        tool_call_id: String,
        /// Where it was written.
        stream: OutputStream,
        /// Where in this output of the call, in bytes of UTF-8; what was left out counts, too.
        offset: u64,
        /// The text, as it was written.
        text: String,
    };
    /// A tool is done; its message follows as `message.completed`.
    ToolCompleted = "tool.completed" {
        /// The call.
        tool_call_id: String,
        /// The tool.
        name: String,
        /// What became of it.
        status: ToolStatus,
        /// How long it took.
        duration_ms: u64,
        /// The message that holds the result.
        message_id: MessageId,
    };
    /// A file of the session is ready.
    FileCreated = "file.created" {
        /// The file.
        file: File,
    };
}

impl EventBody {
    /// Whether it ends its run's attempt.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::RunCompleted { .. }
                | Self::RunFailed { .. }
                | Self::RunCancelled { .. }
                | Self::RunInterrupted { .. }
        )
    }

    /// Whether it is a piece that `message.completed` says again.
    #[must_use]
    pub fn is_delta(&self) -> bool {
        matches!(
            self,
            Self::TextDelta { .. }
                | Self::ReasoningDelta { .. }
                | Self::ToolCallDelta { .. }
                | Self::ToolOutputDelta { .. }
        )
    }
}

impl Event {
    /// Reads the JSON of a `data:` line. A string that was replaced by a reference becomes a short text that names it.
    pub fn parse(data: &str) -> Result<Self, serde_json::Error> {
        let mut value: Value = serde_json::from_str(data)?;
        name_references(&mut value);
        serde_json::from_value(value.clone()).or_else(|error| {
            // A known type with a part of a later version: as good as unknown, but its number counts.
            let Value::Object(mut fields) = value else {
                return Err(error);
            };
            fields.retain(|name, _| ["seq", "ts", "session_id", "run_id"].contains(&name.as_str()));
            fields.insert("type".to_owned(), Value::from("unknown"));
            serde_json::from_value(Value::Object(fields))
        })
    }
}

fn name_references(value: &mut Value) {
    if let Some((bytes, url)) = as_reference(value) {
        *value = Value::String(format!("[{bytes} bytes: GET {url}]"));
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(name_references),
        Value::Object(fields) => fields.values_mut().for_each(name_references),
        _ => {}
    }
}

fn as_reference(value: &Value) -> Option<(u64, &str)> {
    let fields = value.as_object().filter(|fields| fields.len() == 3)?;
    fields.get("truncated")?.as_bool().filter(|truncated| *truncated)?;
    Some((fields.get("bytes")?.as_u64()?, fields.get("url")?.as_str()?))
}

/// Events that a stream makes by itself: they are in no log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type")]
pub enum ControlEvent {
    /// The first event of every stream; without an `id:`.
    #[serde(rename = "stream.open")]
    StreamOpen {
        /// The session.
        session_id: SessionId,
        /// The run, on a run's stream.
        run_id: Option<RunId>,
        /// The chain's newest number.
        head_seq: i64,
        /// The chain's oldest number that can be read.
        oldest_seq: i64,
        /// Events after this number follow.
        resume_from: i64,
        /// How the stream begins.
        status: StreamStatus,
        /// The server's clock.
        server_time: Timestamp,
        /// How often an idle stream sends a comment.
        heartbeat_ms: u64,
    },
    /// The cursor was outside the log: load the snapshot and forget what you had. Its `id:` is `head_seq`.
    #[serde(rename = "stream.reset")]
    StreamReset {
        /// Why.
        reason: ResetReason,
        /// The chain's oldest number that can be read.
        oldest_seq: i64,
        /// The chain's newest number; the stream goes on from here.
        head_seq: i64,
        /// Where the snapshot is.
        snapshot_url: String,
    },
    /// The last event of every stream that ends by itself. Its `id:` is the last number covered.
    #[serde(rename = "stream.end")]
    StreamEnd {
        /// Why.
        reason: EndReason,
        /// The last number covered.
        seq: i64,
        /// Whether more may come: connect again.
        reconnect: bool,
        /// How long to wait before that.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        retry_ms: Option<u64>,
    },
}

impl ControlEvent {
    /// Its `type`.
    #[must_use]
    pub fn event_type(&self) -> &'static str {
        match self {
            Self::StreamOpen { .. } => "stream.open",
            Self::StreamReset { .. } => "stream.reset",
            Self::StreamEnd { .. } => "stream.end",
        }
    }
}

/// How a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StreamStatus {
    /// Without a cursor of the client's.
    New,
    /// After the client's cursor.
    Resumed,
    /// The client's cursor was outside the log.
    Reset,
}

/// Why a stream was reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ResetReason {
    /// Below what can be read.
    CursorExpired,
    /// Above the newest number.
    CursorAhead,
    /// In a range that was lost with its machine or a restore.
    LogRestored,
}

impl ResetReason {
    /// Its name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CursorExpired => "cursor_expired",
            Self::CursorAhead => "cursor_ahead",
            Self::LogRestored => "log_restored",
        }
    }
}

/// Why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The run ended.
    RunEnded,
    /// The session was deleted.
    SessionDeleted,
    /// The credential ended.
    TokenExpired,
    /// An hour has passed.
    MaxAge,
    /// The server is shutting down.
    Shutdown,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        r#""seq":7,"ts":"2026-12-01T03:40:00.123Z","session_id":"ses_01JDZK8Q0V8M0F3H6S9W2B4C5D","run_id":null"#;

    #[test]
    fn an_event_survives_json() {
        let data = format!(r#"{{"type":"session.deleted",{HEAD},"by":"local"}}"#);
        let event = Event::parse(&data).unwrap();
        assert_eq!(event.body, EventBody::SessionDeleted { by: "local".to_owned() });
        assert_eq!((event.seq, event.run_id), (7, None));
        let again = serde_json::to_string(&event).unwrap();
        assert!(again.starts_with(r#"{"type":"session.deleted""#), "{again}");
        assert_eq!(Event::parse(&again).unwrap(), event);
    }

    #[test]
    fn unknown_events_are_read_as_unknown() {
        let data = format!(r#"{{"type":"dream.started",{HEAD},"dream":{{"of":"sheep"}}}}"#);
        assert_eq!(Event::parse(&data).unwrap().body, EventBody::Unknown);
    }

    #[test]
    fn hard_h30_a_known_event_with_a_later_part_is_unknown() {
        let data = format!(r#"{{"type":"run.notice",{HEAD},"code":"from_the_future","message":"","data":{{}}}}"#);
        let event = Event::parse(&data).unwrap();
        assert_eq!((event.body, event.seq), (EventBody::Unknown, 7));
    }

    #[test]
    fn references_are_named() {
        let reference = r#"{"truncated":true,"bytes":20000,"url":"/v1/x"}"#;
        let data = format!(r#"{{"type":"session.deleted",{HEAD},"by":{reference}}}"#);
        let body = Event::parse(&data).unwrap().body;
        assert_eq!(
            body,
            EventBody::SessionDeleted {
                by: "[20000 bytes: GET /v1/x]".to_owned()
            }
        );
    }

    #[test]
    fn every_type_is_named_after_its_tag() {
        for event_type in EventBody::TYPES {
            assert!(event_type.contains('.'), "{event_type}");
        }
    }
}
