//! One answer of the model: reads its stream, shows it as it comes, and puts it together.
//!
//! Deltas are written one commit at a time: what arrives while a commit is under way is merged into the next one. So a slow
//! disk makes larger deltas, not a longer queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use talaria_domain::metrics as names;
use talaria_domain::model::{ModelError, ModelEvent, ModelStream};
use talaria_openapi::events::{EventBody, MAX_EVENT_STRING_BYTES};
use talaria_openapi::ids::{MessageId, RunId, SessionId};
use talaria_openapi::messages::{FinishReason, Message, MessageStatus, Part, Role, Usage};
use talaria_openapi::time::Timestamp;
use talaria_store::{Step, Store};
use talaria_text::redact::{Redactor, StreamRedactor};
use tokio_util::sync::CancellationToken;

use crate::message;

/// Text that may wait for its commit; the model's stream isn't read beyond that.
const MAX_PENDING_BYTES: usize = 256 * 1024;
/// Longest delta, with room for the escapes of JSON.
const MAX_DELTA_BYTES: usize = MAX_EVENT_STRING_BYTES / 2;

/// Who speaks, and where it is written.
pub(crate) struct Speaker<'a> {
    pub(crate) store: &'a Store,
    pub(crate) redactor: &'a Arc<Redactor>,
    pub(crate) run_id: RunId,
    pub(crate) session_id: SessionId,
    pub(crate) fence: i64,
    pub(crate) model: &'a str,
    pub(crate) now: Timestamp,
    /// When the model was asked.
    pub(crate) asked_at: Instant,
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

/// What a part of the answer is.
enum Kind {
    Said,
    Thought,
    Call { id: String, name: String },
}

/// A part, as far as it came.
struct OpenPart {
    kind: Kind,
    text: String,
    /// Holds back what may become a secret (I11). Arguments of calls have none: the tool must get what was said.
    redactor: Option<StreamRedactor>,
}

/// Text of a part that no commit has taken yet.
struct Pending {
    part: usize,
    offset: u64,
    text: String,
}

struct Listener<'a> {
    speaker: &'a Speaker<'a>,
    message: Message,
    parts: Vec<OpenPart>,
    part_of_call: BTreeMap<usize, usize>,
    usage: Option<Usage>,
    is_started: bool,
    pending: Vec<Pending>,
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
                    listener.note_first();
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
            status: MessageStatus::InProgress,
            model: Some(speaker.model.to_owned()),
            completed_at: None,
            ..message::new(speaker.session_id, speaker.run_id, Role::Assistant, speaker.now)
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

    /// Measures how long the model took to say something.
    fn note_first(&self) {
        if self.parts.is_empty() {
            metrics::histogram!(names::FIRST_TOKEN_SECONDS).record(self.speaker.asked_at.elapsed());
        }
    }

    fn take(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::Text(text) => self.take_words(Kind::Said, &text),
            ModelEvent::Reasoning(text) => self.take_words(Kind::Thought, &text),
            ModelEvent::CallStarted { index, id, name } => {
                let id = self.unused_call_id(id);
                self.part_of_call.insert(index, self.parts.len());
                self.open(Kind::Call { id, name });
                self.take_text(self.parts.len() - 1, "");
            }
            ModelEvent::CallArguments { index, json } => {
                if let Some(part) = self.part_of_call.get(&index) {
                    self.take_text(*part, &json);
                }
            }
            ModelEvent::Usage(usage) => self.usage = Some(usage),
            ModelEvent::Finished(_) => {}
        }
    }

    fn open(&mut self, kind: Kind) {
        self.finish_words();
        let is_call = matches!(kind, Kind::Call { .. });
        let redactor = (!is_call).then(|| StreamRedactor::new(Arc::clone(self.speaker.redactor)));
        let text = String::new();
        self.parts.push(OpenPart { kind, text, redactor });
    }

    /// Lets go what the last part still holds back: nothing follows in it.
    fn finish_words(&mut self) {
        let Some(part) = self.parts.len().checked_sub(1) else {
            return;
        };
        let Some(open) = self.parts.get_mut(part) else { return };
        let rest = open.redactor.take().map(|mut redactor| redactor.finish());
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            self.add(part, &rest);
        }
    }

    /// Words go on in the last part when it is of their kind.
    fn take_words(&mut self, kind: Kind, text: &str) {
        let same = |part: &OpenPart| std::mem::discriminant(&part.kind) == std::mem::discriminant(&kind);
        if !self.parts.last().is_some_and(same) {
            self.open(kind);
        }
        self.take_text(self.parts.len() - 1, text);
    }

    fn take_text(&mut self, part: usize, more: &str) {
        let Some(open) = self.parts.get_mut(part) else { return };
        let more = talaria_text::sanitize::storable(more);
        let Some(redactor) = &mut open.redactor else {
            return self.add(part, &more);
        };
        let sure = redactor.push(&more);
        if !sure.is_empty() {
            self.add(part, &sure);
        }
    }

    fn add(&mut self, part: usize, more: &str) {
        let Some(open) = self.parts.get_mut(part) else { return };
        let offset = open.text.len() as u64;
        open.text.push_str(more);
        self.pending_bytes += more.len();
        match self.pending.last_mut() {
            Some(pending) if pending.part == part => pending.text.push_str(more),
            _ => self.pending.push(Pending {
                part,
                offset,
                text: more.to_owned(),
            }),
        }
    }

    /// Two calls of one answer never share an id: a result couldn't be told from the other's.
    fn unused_call_id(&self, id: String) -> String {
        let is_used = self
            .parts
            .iter()
            .any(|part| matches!(&part.kind, Kind::Call { id: used, .. } if *used == id));
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
        let pending = std::mem::take(&mut self.pending);
        let events: Vec<EventBody> = pending.iter().flat_map(|pending| self.deltas(pending)).collect();
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

    /// The events of a pending text: more than one when it is too long for one.
    fn deltas(&self, pending: &Pending) -> Vec<EventBody> {
        let Some(open) = self.parts.get(pending.part) else {
            return Vec::new();
        };
        let (message_id, part) = (self.message.id, u32::try_from(pending.part).unwrap_or(u32::MAX));
        let mut offset = pending.offset;
        let mut deltas = Vec::new();
        for piece in pieces(&pending.text) {
            deltas.push(open.kind.delta(message_id, part, offset, piece.to_owned()));
            offset += piece.len() as u64;
        }
        deltas
    }

    async fn finish(mut self, ended: Ended) -> talaria_store::Result<Answer> {
        self.finish_words();
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
            .filter(|part| is_whole || !matches!(part.kind, Kind::Call { .. }));
        self.message.parts = parts.map(OpenPart::close).collect();
        self.message.usage = self.usage;
        Ok(Answer {
            message: self.message,
            is_started: self.is_started,
            usage: self.usage,
            ended,
        })
    }
}

/// A call without arguments still has one piece: an empty one, which tells that it began.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let nothing = text.is_empty().then_some("");
    nothing
        .into_iter()
        .chain(talaria_text::cut::utf8_pieces(text, MAX_DELTA_BYTES))
}

impl Kind {
    fn delta(&self, message_id: MessageId, part: u32, offset: u64, text: String) -> EventBody {
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
            Self::Call { id, name } => EventBody::ToolCallDelta {
                message_id,
                part,
                tool_call_id: id.clone(),
                name: name.clone(),
                offset,
                json: text,
            },
        }
    }
}

impl OpenPart {
    fn close(self) -> Part {
        let text = self.text;
        match self.kind {
            Kind::Said => Part::Text { text },
            Kind::Thought => Part::Reasoning { text },
            Kind::Call { id, name } => {
                let arguments = match serde_json::from_str(&text) {
                    Ok(Value::Object(fields)) => Value::Object(fields),
                    // Kept as it was said: the model is told that it made no sense.
                    _ => Value::String(text),
                };
                Part::ToolCall { id, name, arguments }
            }
        }
    }
}
