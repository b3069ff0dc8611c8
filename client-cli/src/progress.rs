//! What a person needs to know of a run, drawn from its events. Pure.
//!
//! Events may be missing (old deltas are compacted away, a log was reset) and a message may be said again as a whole: the text
//! that was given out is counted, so that every part of an answer comes out once.

use std::collections::HashMap;

use talaria_openapi::events::{EventBody, ResumedAfter, ToolStatus};
use talaria_openapi::ids::MessageId;
use talaria_openapi::messages::{Message, MessageStatus, Part, ResultContent, Role};
use talaria_openapi::runs::Run;

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next piece of the answer.
    Say(String),
    /// What was said so far is a whole message.
    EndOfMessage,
    /// A tool works.
    ToolStarted(Call),
    /// A tool is done.
    ToolEnded(Call, Ending),
    /// It waits for its turn at this place; or no longer.
    Waiting(Option<u32>),
    /// It was told to stop, and has not stopped yet. May be said more than once.
    Stopping,
    /// Something worth knowing.
    Notice(String),
    /// Something went wrong.
    Complaint(String),
    /// The run is over: what it took.
    Sum(String),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Its arguments, for people.
    pub(crate) preview: String,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) status: ToolStatus,
    pub(crate) duration_ms: u64,
    /// The first line of what it gave.
    pub(crate) result: Option<String>,
}

/// A run, as far as it was shown.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Bytes that were given out, by message and part.
    said: HashMap<(MessageId, usize), usize>,
    /// Whether something was said since the last whole message.
    is_saying: bool,
    calls: Vec<(Call, Option<Ending>)>,
}

impl Progress {
    /// What an event brings.
    pub(crate) fn take(&mut self, body: &EventBody) -> Vec<Step> {
        match body {
            EventBody::TextDelta {
                message_id,
                part,
                offset,
                text,
            } => self.delta(*message_id, *part as usize, *offset, text),
            EventBody::MessageCompleted { message } => self.message(message),
            EventBody::ToolStarted {
                tool_call_id,
                name,
                preview,
                ..
            } => {
                let call = Call {
                    id: tool_call_id.clone(),
                    name: name.clone(),
                    preview: preview.clone(),
                };
                self.calls.push((call.clone(), None));
                vec![Step::ToolStarted(call)]
            }
            EventBody::ToolCompleted {
                tool_call_id,
                status,
                duration_ms,
                ..
            } => {
                self.end_call(tool_call_id, *status, *duration_ms);
                Vec::new()
            }
            EventBody::RunQueued { queue_position, .. } => {
                vec![Step::Waiting(Some(*queue_position))]
            }
            EventBody::RunStarted { .. } => vec![Step::Waiting(None)],
            EventBody::RunResumed { after, .. } => match after {
                ResumedAfter::Interaction | ResumedAfter::ResumeCall => Vec::new(),
                ResumedAfter::Restart => vec![Step::Notice("the server was restarted; the run goes on".to_owned())],
            },
            EventBody::RunNotice { message, .. } => vec![Step::Notice(message.clone())],
            EventBody::RunCancelling { .. } => vec![Step::Stopping],
            EventBody::RunCompleted { run }
            | EventBody::RunFailed { run }
            | EventBody::RunCancelled { run }
            | EventBody::RunInterrupted { run } => self.end(body, run),
            _ => Vec::new(),
        }
    }

    fn delta(&mut self, message_id: MessageId, part: usize, offset: u64, text: &str) -> Vec<Step> {
        let said = self.said.entry((message_id, part)).or_default();
        // Behind a gap nothing is said until the whole message is there.
        let Some(fresh) = usize::try_from(offset)
            .ok()
            .and_then(|offset| said.checked_sub(offset))
            .and_then(|known| text.get(known..))
            .filter(|fresh| !fresh.is_empty())
        else {
            return Vec::new();
        };
        *said += fresh.len();
        self.is_saying = true;
        vec![Step::Say(fresh.to_owned())]
    }

    /// A whole message: what of it was not said yet.
    pub(crate) fn message(&mut self, message: &Message) -> Vec<Step> {
        match message.role {
            Role::User => Vec::new(),
            Role::Assistant => self.answer(message),
            Role::Tool => message.parts.iter().filter_map(|part| self.result(part)).collect(),
        }
    }

    fn answer(&mut self, message: &Message) -> Vec<Step> {
        let mut steps = Vec::new();
        for (part, text) in message.parts.iter().enumerate() {
            if let Part::Text { text } = text {
                let from = self.said.get(&(message.id, part)).copied().unwrap_or(0);
                let fresh = text.get(from..).unwrap_or_default();
                steps.extend(self.delta(message.id, part, from as u64, fresh));
            }
        }
        if std::mem::take(&mut self.is_saying) {
            steps.push(Step::EndOfMessage);
            if message.status == MessageStatus::Failed {
                steps.push(Step::Notice("the answer broke off here".to_owned()));
            }
        }
        steps
    }

    fn end_call(&mut self, id: &str, status: ToolStatus, duration_ms: u64) {
        if let Some((_, ending)) = self.calls.iter_mut().find(|(call, _)| call.id == id) {
            *ending = Some(Ending {
                status,
                duration_ms,
                result: None,
            });
        }
    }

    /// The result of a call: it is over when its message is there.
    fn result(&mut self, part: &Part) -> Option<Step> {
        let Part::ToolResult {
            tool_call_id,
            content,
            is_error,
            duration_ms,
            ..
        } = part
        else {
            return None;
        };
        let index = self.calls.iter().position(|(call, _)| call.id == *tool_call_id)?;
        let (call, ending) = self.calls.remove(index);
        let status = if *is_error {
            ToolStatus::Failed
        } else {
            ToolStatus::Completed
        };
        let mut ending = ending.unwrap_or(Ending {
            status,
            duration_ms: *duration_ms,
            result: None,
        });
        ending.result = content.iter().find_map(first_line);
        Some(Step::ToolEnded(call, ending))
    }

    fn end(&mut self, body: &EventBody, run: &Run) -> Vec<Step> {
        let mut steps = Vec::new();
        if std::mem::take(&mut self.is_saying) {
            steps.push(Step::EndOfMessage);
        }
        for (call, ending) in std::mem::take(&mut self.calls) {
            let ending = ending.unwrap_or(Ending {
                status: ToolStatus::UnknownOutcome,
                duration_ms: 0,
                result: None,
            });
            steps.push(Step::ToolEnded(call, ending));
        }
        let detail = run.stop.as_ref().and_then(|stop| stop.detail.clone());
        match body {
            EventBody::RunFailed { .. } => {
                let why = run.error.as_ref().map(|error| error.message.clone()).or(detail);
                steps.push(Step::Complaint(format!("the run failed: {}", why.unwrap_or_default())));
            }
            EventBody::RunCancelled { .. } => steps.push(Step::Notice("stopped".to_owned())),
            EventBody::RunInterrupted { .. } => {
                steps.push(Step::Complaint(format!("interrupted: {}", detail.unwrap_or_default())));
            }
            _ => steps.extend(detail.map(Step::Notice)),
        }
        steps.push(Step::Sum(sum(run)));
        steps
    }
}

fn first_line(content: &ResultContent) -> Option<String> {
    let ResultContent::Text { text } = content;
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(str::to_owned)
}

fn sum(run: &Run) -> String {
    let took = run.started_at.zip(run.ended_at);
    let millis = took.map_or(0, |(from, to)| to.as_millis() - from.as_millis());
    let mut text = duration(u64::try_from(millis).unwrap_or(0));
    let usage = &run.usage;
    // Many providers don't tell.
    if usage.input_tokens + usage.output_tokens > 0 {
        text.push_str(&format!(
            " · {} tokens in · {} out",
            usage.input_tokens, usage.output_tokens
        ));
    }
    if usage.cost_usd > 0.0 {
        text.push_str(&format!(" · ${:.4}", usage.cost_usd));
    }
    text
}

/// A duration for people.
pub(crate) fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis / 1_000 % 60),
    }
}

#[cfg(test)]
mod tests;
