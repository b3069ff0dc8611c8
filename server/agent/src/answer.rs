//! One answer of the model: reads its stream, shows it as it comes, and puts it together.
//!
//! Deltas are written one commit at a time: what arrives while a commit is under way is merged into the next one. So a slow
//! disk makes larger deltas, not a longer queue.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use talaria_domain::model::{ModelError, ModelEvent, ModelStream};
use talaria_openapi::events::{EventBody, MAX_EVENT_STRING_BYTES};
use talaria_openapi::ids::{MessageId, RunId, SessionId};
use talaria_openapi::messages::{FinishReason, Message, MessageKind, MessageStatus, Part, Role, Usage};
use talaria_openapi::time::Timestamp;
use talaria_store::{Step, Store};
use tokio_util::sync::CancellationToken;

/// Text that may wait for its commit; the model's stream isn't read beyond that.
const MAX_PENDING_BYTES: usize = 256 * 1024;
/// Longest delta, with room for the escapes of JSON.
const MAX_DELTA_BYTES: usize = MAX_EVENT_STRING_BYTES / 2;

/// Who speaks, and where it is written.
pub(crate) struct Speaker<'a> {
    pub(crate) store: &'a Store,
    pub(crate) run_id: RunId,
    pub(crate) session_id: SessionId,
    pub(crate) fence: i64,
    pub(crate) model: &'a str,
    pub(crate) now: Timestamp,
}

/// How an answer ended.
pub(crate) enum Ended {
    /// To its end.
    Whole(FinishReason),
    /// By a person.
    Cancelled,
    /// By a fault of the model or its provider.
    Broken(ModelError),
}

/// An answer, as far as it came.
pub(crate) struct Answer {
    /// The message; its status is `in_progress`, its parts are whole where the answer is.
    pub(crate) message: Message,
    /// Whether `message.started` was written.
    pub(crate) is_started: bool,
    /// What it cost.
    pub(crate) usage: Option<Usage>,
    /// How it ended.
    pub(crate) ended: Ended,
}

/// What kind of words a part holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Said,
    Thought,
}

impl Words {
    fn delta(self, message_id: MessageId, part: u32, offset: u64, text: String) -> EventBody {
        match self {
            Self::Said => EventBody::TextDelta {
                message_id,
                part,
                offset,
                text,
            },
            Self::Thought => EventBody::ReasoningDelta {
                message_id,
                part,
                offset,
                text,
            },
        }
    }
}

enum OpenPart {
    Words(Words, String),
    Call { id: String, name: String, json: String },
}

struct Listener<'a> {
    speaker: &'a Speaker<'a>,
    message: Message,
    parts: Vec<OpenPart>,
    part_of_call: BTreeMap<usize, usize>,
    usage: Option<Usage>,
    is_started: bool,
    pending: Vec<EventBody>,
    pending_bytes: usize,
    commit: Option<BoxFuture<'static, talaria_store::Result<()>>>,
}

/// Reads an answer to its end. Fails only when the store does.
pub(crate) async fn listen(
    speaker: &Speaker<'_>,
    mut stream: ModelStream,
    cancel: &CancellationToken,
) -> talaria_store::Result<Answer> {
    let mut listener = Listener::new(speaker);
    let ended = loop {
        let may_read = listener.pending_bytes < MAX_PENDING_BYTES;
        tokio::select! {
            biased;
            () = cancel.cancelled() => break Ended::Cancelled,
            done = wait(&mut listener.commit) => {
                done?;
                listener.commit = None;
                listener.flush();
            }
            event = stream.next(), if may_read => match event {
                Some(Ok(ModelEvent::Finished(reason))) => break Ended::Whole(reason),
                Some(Ok(event)) => {
                    listener.take(event);
                    listener.flush();
                }
                Some(Err(error)) => break Ended::Broken(error),
                None => break Ended::Broken(ended_early()),
            },
        }
    };
    // Closes the provider's socket now, not when the last delta is written.
    drop(stream);
    listener.finish(ended).await
}

async fn wait(commit: &mut Option<BoxFuture<'static, talaria_store::Result<()>>>) -> talaria_store::Result<()> {
    match commit {
        Some(commit) => commit.await,
        None => std::future::pending().await,
    }
}

fn ended_early() -> ModelError {
    use talaria_domain::model::{FailureFlags, FailureReason};
    ModelError {
        reason: FailureReason::MalformedStream,
        flags: FailureFlags {
            retryable: true,
            ..FailureFlags::default()
        },
        message: "the model's answer ended before it was whole".to_owned(),
        provider_status: None,
        retry_after: None,
    }
}

impl<'a> Listener<'a> {
    fn new(speaker: &'a Speaker<'a>) -> Self {
        let message = Message {
            id: MessageId::new(),
            object: "message".into(),
            session_id: speaker.session_id,
            run_id: Some(speaker.run_id),
            seq: 0,
            role: Role::Assistant,
            status: MessageStatus::InProgress,
            parts: Vec::new(),
            model: Some(speaker.model.to_owned()),
            finish_reason: None,
            usage: None,
            kind: MessageKind::Normal,
            created_at: speaker.now,
            completed_at: None,
        };
        Self {
            speaker,
            message,
            parts: Vec::new(),
            part_of_call: BTreeMap::new(),
            usage: None,
            is_started: false,
            pending: Vec::new(),
            pending_bytes: 0,
            commit: None,
        }
    }

    fn take(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::Text(text) => self.take_words(Words::Said, &talaria_text::sanitize::storable(&text)),
            ModelEvent::Reasoning(text) => self.take_words(Words::Thought, &talaria_text::sanitize::storable(&text)),
            ModelEvent::CallStarted { index, id, name } => {
                let id = self.unused_call_id(id);
                self.part_of_call.insert(index, self.parts.len());
                self.parts.push(OpenPart::Call {
                    id,
                    name,
                    json: String::new(),
                });
                self.take_arguments(index, "");
            }
            ModelEvent::CallArguments { index, json } => {
                self.take_arguments(index, &talaria_text::sanitize::storable(&json));
            }
            ModelEvent::Usage(usage) => self.usage = Some(usage),
            ModelEvent::Finished(_) => {}
        }
    }

    fn take_words(&mut self, kind: Words, text: &str) {
        if !matches!(self.parts.last(), Some(OpenPart::Words(last, _)) if *last == kind) {
            self.parts.push(OpenPart::Words(kind, String::new()));
        }
        let part = part_number(self.parts.len() - 1);
        let Some(OpenPart::Words(_, whole)) = self.parts.last_mut() else {
            return;
        };
        let offset = whole.len() as u64;
        whole.push_str(text);
        self.pending_bytes += text.len();
        // Another part begins with another delta, so that the same part is the same kind of words.
        match self.pending.last_mut() {
            Some(
                EventBody::TextDelta {
                    part: last,
                    text: pending,
                    ..
                }
                | EventBody::ReasoningDelta {
                    part: last,
                    text: pending,
                    ..
                },
            ) if *last == part => pending.push_str(text),
            _ => self
                .pending
                .push(kind.delta(self.message.id, part, offset, text.to_owned())),
        }
    }

    fn take_arguments(&mut self, index: usize, more: &str) {
        let Some(at) = self.part_of_call.get(&index).copied() else {
            return;
        };
        let Some(OpenPart::Call { id, name, json }) = self.parts.get_mut(at) else {
            return;
        };
        let (offset, part) = (json.len() as u64, part_number(at));
        json.push_str(more);
        self.pending_bytes += more.len();
        match self.pending.last_mut() {
            Some(EventBody::ToolCallDelta {
                part: last,
                json: pending,
                ..
            }) if *last == part => pending.push_str(more),
            _ => self.pending.push(EventBody::ToolCallDelta {
                message_id: self.message.id,
                part,
                tool_call_id: id.clone(),
                name: name.clone(),
                offset,
                json: more.to_owned(),
            }),
        }
    }

    /// Two calls of one answer never share an id: a result couldn't be told from the other's.
    fn unused_call_id(&self, id: String) -> String {
        let is_used = self
            .parts
            .iter()
            .any(|part| matches!(part, OpenPart::Call { id: used, .. } if *used == id));
        if is_used {
            format!("{id}_{}", self.parts.len())
        } else {
            id
        }
    }

    /// Begins a commit of what waits, unless one is under way.
    fn flush(&mut self) {
        if self.commit.is_some() || self.pending.is_empty() {
            return;
        }
        let events: Vec<EventBody> = std::mem::take(&mut self.pending).into_iter().flat_map(pieces).collect();
        self.pending_bytes = 0;
        let store = self.speaker.store.clone();
        let (run_id, session_id, fence) = (self.speaker.run_id, self.speaker.session_id, self.speaker.fence);
        self.commit = Some(if self.is_started {
            Box::pin(async move { store.append(session_id, run_id, fence, events).await })
        } else {
            self.is_started = true;
            let started = Step::Message(Box::new(self.message.clone()));
            let steps = std::iter::once(started)
                .chain(events.into_iter().map(Step::Event))
                .collect();
            Box::pin(async move { store.record(run_id, fence, steps).await.map(drop) })
        });
    }

    async fn finish(mut self, ended: Ended) -> talaria_store::Result<Answer> {
        while self.commit.is_some() || !self.pending.is_empty() {
            self.flush();
            if let Some(commit) = self.commit.take() {
                commit.await?;
            }
        }
        let is_whole = matches!(ended, Ended::Whole(_));
        // A call that was cut off was never made.
        let parts = self
            .parts
            .into_iter()
            .filter(|part| is_whole || !matches!(part, OpenPart::Call { .. }));
        self.message.parts = parts.map(close).collect();
        self.message.usage = self.usage;
        Ok(Answer {
            message: self.message,
            is_started: self.is_started,
            usage: self.usage,
            ended,
        })
    }
}

fn part_number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn close(part: OpenPart) -> Part {
    match part {
        OpenPart::Words(Words::Said, text) => Part::Text { text },
        OpenPart::Words(Words::Thought, text) => Part::Reasoning { text },
        OpenPart::Call { id, name, json } => {
            let arguments = match serde_json::from_str(&json) {
                Ok(Value::Object(fields)) => Value::Object(fields),
                // Kept as it was said: the model is told that it made no sense.
                _ => Value::String(json),
            };
            Part::ToolCall { id, name, arguments }
        }
    }
}

/// Splits a delta that is too long for one event.
fn pieces(delta: EventBody) -> Vec<EventBody> {
    let length = match &delta {
        EventBody::TextDelta { text, .. } | EventBody::ReasoningDelta { text, .. } => text.len(),
        EventBody::ToolCallDelta { json, .. } => json.len(),
        _ => 0,
    };
    if length <= MAX_DELTA_BYTES {
        return vec![delta];
    }
    match delta {
        EventBody::TextDelta {
            message_id,
            part,
            offset,
            text,
        } => split(&text, offset)
            .map(|(offset, text)| EventBody::TextDelta {
                message_id,
                part,
                offset,
                text,
            })
            .collect(),
        EventBody::ReasoningDelta {
            message_id,
            part,
            offset,
            text,
        } => split(&text, offset)
            .map(|(offset, text)| EventBody::ReasoningDelta {
                message_id,
                part,
                offset,
                text,
            })
            .collect(),
        EventBody::ToolCallDelta {
            message_id,
            part,
            tool_call_id,
            name,
            offset,
            json,
        } => split(&json, offset)
            .map(|(offset, json)| {
                let (tool_call_id, name) = (tool_call_id.clone(), name.clone());
                EventBody::ToolCallDelta {
                    message_id,
                    part,
                    tool_call_id,
                    name,
                    offset,
                    json,
                }
            })
            .collect(),
        other => vec![other],
    }
}

fn split(text: &str, offset: u64) -> impl Iterator<Item = (u64, String)> {
    talaria_text::cut::utf8_pieces(text, MAX_DELTA_BYTES).scan(offset, |at, piece| {
        let begin = *at;
        *at += piece.len() as u64;
        Some((begin, piece.to_owned()))
    })
}
