//! Runs the tool calls of an answer: in segments, each result stored as it arrives, every call answered exactly once (I5).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use talaria_domain::live::{LivePiece, LiveReader};
use talaria_domain::model::ModelCall;
use talaria_domain::tool::{Arguments, Effect, Parallelism, Tool, ToolContext, ToolError, ToolOutput};
use talaria_openapi::events::{EventBody, ToolStatus};
use talaria_openapi::messages::{Message, Part, ResultContent};
use talaria_store::{Result, Step};

use crate::approvals::{self, Gate};
use crate::history::unanswered;
use crate::results::{millis, result, result_message};
use crate::segments::{self, Claim};
use crate::tool_filter::is_allowed;
use crate::turn::Turn;

/// Calls of one segment that run at the same time.
const WORKERS: usize = 8;
/// What a tool has beyond its grace to tell what became of it, before it is abandoned.
const LAST_WORD: Duration = Duration::from_millis(500);

const CANCELLED: &str = "[cancelled by the user: the call was stopped; what it had done by then stays done]";
const NOT_STARTED: &str = "[cancelled by the user: the call was not started]";

/// A call that can run.
struct Ready {
    call: ModelCall,
    tool: Arc<dyn Tool>,
    arguments: Arguments,
    /// Whether a person has changed the arguments.
    is_edited: bool,
}

/// A call that is answered without running.
struct Refused {
    call: ModelCall,
    status: ToolStatus,
    reason: String,
}

/// How a call ended.
struct Done {
    call: ModelCall,
    status: ToolStatus,
    text: String,
    took: Duration,
    /// The arguments that it ran with, where a person has changed them.
    edited: Option<Arguments>,
}

/// How far the calls of an answer have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// As far as they can.
    Done,
    /// The run waits for a person.
    Parked,
}

/// Runs calls and stores their results. A person's cancel leaves the rest unanswered: [`close_unanswered`] closes it.
pub(crate) async fn run(turn: &mut Turn, calls: Vec<ModelCall>) -> Result<Progress> {
    let context = context(turn);
    let (mut ready, mut asked, mut still_pending) = (Vec::new(), Vec::new(), Vec::new());
    let known = approvals::known(turn).await?;
    for call in calls {
        let mut call = match prepare(turn, call) {
            Ok(call) => call,
            Err(refused) => {
                refuse(turn, refused).await?;
                continue;
            }
        };
        let request = (&call.arguments, &context);
        match approvals::gate(turn, &call.call, call.tool.as_ref(), request, &known).await? {
            Gate::Open(edited) => {
                call.is_edited = edited.is_some();
                call.arguments = edited.unwrap_or(call.arguments);
                // What comes after a call that waits may build on it: it waits, too.
                if asked.is_empty() && still_pending.is_empty() {
                    ready.push(call);
                }
            }
            Gate::Ask(question) => asked.push(*question),
            Gate::Wait(interaction_id) => still_pending.push(interaction_id),
            Gate::Refuse(reason) => {
                let (call, status) = (call.call, ToolStatus::Declined);
                refuse(turn, Refused { call, status, reason }).await?;
            }
            Gate::Answer(text) => finish(turn, done(call.call, ToolStatus::Completed, text)).await?,
        }
    }
    run_all(turn, &context, ready).await?;
    if turn.cancel.is_cancelled() || asked.is_empty() && still_pending.is_empty() {
        return Ok(Progress::Done);
    }
    turn.record(vec![Step::Park { asked, still_pending }]).await?;
    Ok(Progress::Parked)
}

async fn run_all(turn: &mut Turn, context: &ToolContext, ready: Vec<Ready>) -> Result<()> {
    let claims: Vec<Claim> = ready.iter().map(|ready| claim(ready, context)).collect();
    let mut ready = ready.into_iter();
    for (group, length) in segments::lengths(&claims).into_iter().enumerate() {
        if turn.cancel.is_cancelled() {
            return Ok(());
        }
        let segment: Vec<Ready> = ready.by_ref().take(length).collect();
        run_segment(turn, context, group, segment).await?;
    }
    Ok(())
}

/// A call that ended without having run.
fn done(call: ModelCall, status: ToolStatus, text: String) -> Done {
    Done {
        call,
        status,
        text,
        took: Duration::ZERO,
        edited: None,
    }
}

/// Answers every call that has no result, because a person stopped the run.
pub(crate) async fn close_unanswered(turn: &mut Turn) -> Result<()> {
    for call in unanswered(&turn.transcript) {
        let message = result_message(turn, &call, NOT_STARTED, ToolStatus::Cancelled, Duration::ZERO);
        turn.record(vec![Step::Message(Box::new(message))]).await?;
    }
    Ok(())
}

fn context(turn: &Turn) -> ToolContext {
    ToolContext {
        profile_id: turn.active.run.profile_id,
        session_id: turn.active.session.id,
        run_id: turn.active.run.id,
        workspace: turn.workspace(),
        cancel: turn.cancel.clone(),
        grace: turn.grace.clone(),
        live: None,
    }
}

fn prepare(turn: &Turn, call: ModelCall) -> std::result::Result<Ready, Refused> {
    let refuse = |call, status, reason| Err(Refused { call, status, reason });
    let tool = turn
        .tools
        .get(&call.name)
        .filter(|tool| is_allowed(&turn.active.options, tool.spec().name));
    let Some(tool) = tool.cloned() else {
        let names: Vec<_> = turn
            .tools
            .iter()
            .map(|tool| tool.spec().name)
            .filter(|name| is_allowed(&turn.active.options, name))
            .collect();
        let reason = format!("there is no tool `{}`; the tools are: {}", call.name, names.join(", "));
        return refuse(call, ToolStatus::Failed, reason);
    };
    match parse_arguments(&call.arguments, &tool.spec().parameters) {
        Ok(arguments) => Ok(Ready {
            call,
            tool,
            arguments,
            is_edited: false,
        }),
        Err(reason) => refuse(call, ToolStatus::Failed, reason),
    }
}

/// Nothing runs on arguments that are no object. Nothing at all stands for `{}` where the tool requires nothing.
fn parse_arguments(raw: &str, schema: &Value) -> std::result::Result<Arguments, String> {
    let requires_nothing = schema
        .get("required")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty);
    if raw.trim().is_empty() && requires_nothing {
        return Ok(Arguments::new());
    }
    let problem = match serde_json::from_str(raw) {
        Ok(Value::Object(arguments)) => return Ok(arguments),
        Ok(_) => "they are no JSON object".to_owned(),
        Err(error) => format!("they are not valid JSON ({error})"),
    };
    Err(format!(
        "the call was not run, since its arguments can't be read: {problem}. Send an object that fits {schema}"
    ))
}

fn claim(ready: &Ready, context: &ToolContext) -> Claim {
    let spec = ready.tool.spec();
    let paths = match spec.parallelism {
        Parallelism::ByPath => ready.tool.paths(&ready.arguments, context),
        Parallelism::Safe | Parallelism::Alone => None,
    };
    Claim {
        parallelism: spec.parallelism,
        effect: spec.effect,
        paths,
    }
}

async fn run_segment(turn: &mut Turn, context: &ToolContext, group: usize, segment: Vec<Ready>) -> Result<()> {
    let parallel_group = (segment.len() > 1).then(|| u32::try_from(group).unwrap_or(u32::MAX));
    let started = segment
        .iter()
        .flat_map(|ready| start_steps(turn, ready, parallel_group))
        .collect();
    turn.record(started).await?;
    let mut waiting = segment.into_iter();
    let mut live = std::mem::take(&mut turn.live);
    let begin = |ready: Ready, live: &LiveReader| {
        let live = Some(live.writer(&ready.call.id));
        work(
            ready,
            ToolContext {
                live,
                ..context.clone()
            },
        )
    };
    let first = waiting.by_ref().take(WORKERS).map(|ready| begin(ready, &live));
    let mut running: FuturesUnordered<_> = first.collect();
    loop {
        let done = tokio::select! {
            done = running.next() => done,
            pieces = live.next() => {
                show(turn, pieces).await?;
                continue;
            }
        };
        let Some(done) = done else { break };
        show(turn, live.take()).await?;
        finish(turn, done).await?;
        if !turn.cancel.is_cancelled() {
            running.extend(waiting.next().map(|ready| begin(ready, &live)));
        }
    }
    turn.live = live;
    // Announced, but stopped before a worker was free.
    for ready in waiting {
        finish(turn, done(ready.call, ToolStatus::Cancelled, NOT_STARTED.to_owned())).await?;
    }
    Ok(())
}

fn start_steps(turn: &Turn, ready: &Ready, parallel_group: Option<u32>) -> [Step; 2] {
    let (call_id, name) = (ready.call.id.clone(), ready.tool.spec().name.to_owned());
    let event = EventBody::ToolStarted {
        tool_call_id: call_id.clone(),
        name: name.clone(),
        // As the model said them and the tool gets them: the history must tell the model the same (I5, I6).
        arguments: ready.arguments.clone(),
        preview: turn.redactor.redact(&ready.tool.preview(&ready.arguments)).into_owned(),
        parallel_group,
    };
    let is_read_only = ready.tool.spec().effect == Effect::ReadOnly;
    [
        Step::StartTool {
            call_id,
            name,
            is_read_only,
        },
        Step::Event(event),
    ]
}

async fn work(ready: Ready, context: ToolContext) -> Done {
    let begun = Instant::now();
    let abandon = async {
        context.cancel.cancelled().await;
        tokio::time::sleep(context.grace.get() + LAST_WORD).await;
    };
    let outcome = tokio::select! {
        outcome = ready.tool.run(&ready.arguments, &context) => Some(outcome),
        () = abandon => None,
    };
    let (status, text) = match outcome {
        Some(Ok(ToolOutput { text, is_error: false })) => (ToolStatus::Completed, text),
        Some(Ok(ToolOutput { text, is_error: true }) | Err(ToolError::Respond(text))) => (ToolStatus::Failed, text),
        Some(Err(ToolError::Fatal(error))) => {
            tracing::error!(tool.name = ready.tool.spec().name, error = %error, "a tool broke");
            (
                ToolStatus::Failed,
                "the tool broke; this is a fault of the server, which has logged it".to_owned(),
            )
        }
        None => (ToolStatus::Cancelled, CANCELLED.to_owned()),
    };
    let status = if context.cancel.is_cancelled() && status == ToolStatus::Failed {
        ToolStatus::Cancelled
    } else {
        status
    };
    Done {
        call: ready.call,
        status,
        text,
        took: begun.elapsed(),
        edited: ready.is_edited.then_some(ready.arguments),
    }
}

/// What tools that still work have written.
async fn show(turn: &mut Turn, pieces: Vec<LivePiece>) -> Result<()> {
    let events: Vec<EventBody> = pieces.iter().flat_map(|piece| turn.live_output.take(piece)).collect();
    record_events(turn, events).await
}

async fn record_events(turn: &mut Turn, events: Vec<EventBody>) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    turn.record(events.into_iter().map(Step::Event).collect())
        .await
        .map(drop)
}

async fn finish(turn: &mut Turn, done: Done) -> Result<()> {
    let duration_ms = millis(done.took);
    let held_back = turn.live_output.end(&done.call.id);
    record_events(turn, held_back).await?;
    let mut result = result(turn, &done.call, &done.text, done.status, done.took).await;
    if let Some(edited) = done.edited {
        tell_of_edit(&mut result.message, edited);
    }
    let completed = EventBody::ToolCompleted {
        tool_call_id: done.call.id,
        name: done.call.name,
        status: done.status,
        duration_ms,
        message_id: result.message.id,
    };
    let file = result.file.map(|file| Step::File(Box::new(file)));
    let steps = file
        .into_iter()
        .chain([Step::Event(completed), Step::Message(Box::new(result.message))]);
    turn.record(steps.collect()).await.map(drop)
}

/// What the model said stays as it said it: the result tells it that a person has changed the arguments (I5).
fn tell_of_edit(message: &mut Message, edited: Arguments) {
    let Some(Part::ToolResult {
        content,
        effective_arguments,
        ..
    }) = message.parts.first_mut()
    else {
        return;
    };
    let json = Value::Object(edited.clone());
    let text = format!("[the user changed the arguments; this is what happened with {json}]");
    content.insert(0, ResultContent::Text { text });
    *effective_arguments = Some(edited);
}

async fn refuse(turn: &mut Turn, refused: Refused) -> Result<()> {
    let message = result_message(turn, &refused.call, &refused.reason, refused.status, Duration::ZERO);
    turn.record(vec![Step::Message(Box::new(message))]).await.map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fault_d3_d4_broken_arguments_never_run() {
        let schema = json!({"type": "object", "required": ["path"]});
        for raw in ["", "{\"path\": \"a", "[]", "null", "\"x\"", "{\"a\":1}{\"b\":2}"] {
            assert!(parse_arguments(raw, &schema).is_err(), "{raw}");
        }
        assert!(parse_arguments("{\"path\":\"a\"}", &schema).is_ok());
    }

    #[test]
    fn fault_d5_nothing_stands_for_an_empty_object_where_nothing_is_required() {
        assert_eq!(parse_arguments(" ", &json!({"type": "object"})), Ok(Arguments::new()));
    }
}
