//! Runs the tool calls of an answer: in segments, each result stored as it arrives, every call answered exactly once (I5).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use talaria_domain::model::ModelCall;
use talaria_domain::tool::{Arguments, Effect, Parallelism, Tool, ToolContext, ToolError, ToolOutput};
use talaria_openapi::events::{EventBody, ToolStatus};
use talaria_openapi::ids::MessageId;
use talaria_openapi::messages::{Message, MessageKind, MessageStatus, Part, ResultContent, Role};
use talaria_openapi::tools::Risk;
use talaria_store::{Result, RunOptions, Step};

use crate::history::unanswered;
use crate::segments::{self, Claim};
use crate::turn::Turn;

/// Calls of one segment that run at the same time.
const WORKERS: usize = 8;
/// How long a tool has to stop after a cancel before it is abandoned.
const GRACE: Duration = Duration::from_secs(5);
/// Longest result that a model gets to see, in characters.
const MAX_RESULT_CHARS: usize = 100_000;

const CANCELLED: &str = "[cancelled by the user: the call was stopped; what it had done by then stays done]";
const NOT_STARTED: &str = "[cancelled by the user: the call was not started]";

/// A call that can run.
struct Ready {
    call: ModelCall,
    tool: Arc<dyn Tool>,
    arguments: Arguments,
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
}

/// Runs calls and stores their results. A person's cancel leaves the rest unanswered: [`close_unanswered`] closes it.
pub(crate) async fn run(turn: &mut Turn, calls: Vec<ModelCall>) -> Result<()> {
    let context = context(turn);
    let mut ready = Vec::new();
    for call in calls {
        match prepare(turn, call) {
            Ok(call) => ready.push(call),
            Err(refused) => refuse(turn, refused).await?,
        }
    }
    let claims: Vec<Claim> = ready.iter().map(|ready| claim(ready, &context)).collect();
    let mut ready = ready.into_iter();
    for (group, length) in segments::lengths(&claims).into_iter().enumerate() {
        if turn.cancel.is_cancelled() {
            return Ok(());
        }
        let segment: Vec<Ready> = ready.by_ref().take(length).collect();
        run_segment(turn, &context, group, segment).await?;
    }
    Ok(())
}

/// Answers every call that has no result, because a person stopped the run.
pub(crate) async fn close_unanswered(turn: &mut Turn) -> Result<()> {
    for call in unanswered(&turn.transcript) {
        let message = result_message(turn, &call, NOT_STARTED, ToolStatus::Cancelled, Duration::ZERO);
        turn.record(vec![Step::Message(Box::new(message))]).await?;
    }
    Ok(())
}

/// Whether a request's filter lets a tool through.
pub(crate) fn is_allowed(options: &RunOptions, name: &str) -> bool {
    let Some(filter) = &options.tools else { return true };
    let is_in = |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, name));
    filter.allow.as_deref().is_none_or(is_in) && !is_in(&filter.deny)
}

/// A name with `*` for any characters.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else {
        return rest.is_empty();
    };
    for piece in middle {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn context(turn: &Turn) -> ToolContext {
    ToolContext {
        profile_id: turn.active.run.profile_id,
        session_id: turn.active.session.id,
        run_id: turn.active.run.id,
        workspace: turn.workspace(),
        cancel: turn.cancel.clone(),
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
    if tool.spec().risk > Risk::Low {
        let reason = format!(
            "`{}` needs a person's approval, and nobody can be asked yet: refused",
            call.name
        );
        return refuse(call, ToolStatus::Declined, reason);
    }
    match parse_arguments(&call.arguments, &tool.spec().parameters) {
        Ok(arguments) => Ok(Ready { call, tool, arguments }),
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
        .flat_map(|ready| start_steps(ready, parallel_group))
        .collect();
    turn.record(started).await?;
    let mut waiting = segment.into_iter();
    let mut running: FuturesUnordered<_> = waiting
        .by_ref()
        .take(WORKERS)
        .map(|ready| work(ready, context.clone()))
        .collect();
    while let Some(done) = running.next().await {
        finish(turn, done).await?;
        if !turn.cancel.is_cancelled() {
            running.extend(waiting.next().map(|ready| work(ready, context.clone())));
        }
    }
    // Announced, but stopped before a worker was free.
    for ready in waiting {
        let text = NOT_STARTED.to_owned();
        finish(
            turn,
            Done {
                call: ready.call,
                status: ToolStatus::Cancelled,
                text,
                took: Duration::ZERO,
            },
        )
        .await?;
    }
    Ok(())
}

fn start_steps(ready: &Ready, parallel_group: Option<u32>) -> [Step; 2] {
    let (call_id, name) = (ready.call.id.clone(), ready.tool.spec().name.to_owned());
    let event = EventBody::ToolStarted {
        tool_call_id: call_id.clone(),
        name: name.clone(),
        arguments: ready.arguments.clone(),
        preview: ready.tool.preview(&ready.arguments),
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
        tokio::time::sleep(GRACE).await;
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
    }
}

async fn finish(turn: &mut Turn, done: Done) -> Result<()> {
    let message = result_message(turn, &done.call, &done.text, done.status, done.took);
    let completed = EventBody::ToolCompleted {
        tool_call_id: done.call.id,
        name: done.call.name,
        status: done.status,
        duration_ms: millis(done.took),
        message_id: message.id,
    };
    turn.record(vec![Step::Event(completed), Step::Message(Box::new(message))])
        .await
        .map(drop)
}

async fn refuse(turn: &mut Turn, refused: Refused) -> Result<()> {
    let message = result_message(turn, &refused.call, &refused.reason, refused.status, Duration::ZERO);
    turn.record(vec![Step::Message(Box::new(message))]).await.map(drop)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The message that answers a call.
pub(crate) fn result_message(turn: &Turn, call: &ModelCall, text: &str, status: ToolStatus, took: Duration) -> Message {
    let text = talaria_text::sanitize::storable(text).into_owned();
    let cut = talaria_text::cut::head_tail(&text, MAX_RESULT_CHARS, |left_out| {
        format!("\n[{left_out} characters left out here; ask for a smaller part]\n")
    });
    let truncated = cut.is_some();
    let content = vec![ResultContent::Text {
        text: cut.unwrap_or(text),
    }];
    let (message_status, kind) = match status {
        ToolStatus::Completed | ToolStatus::Failed | ToolStatus::Declined => {
            (MessageStatus::Completed, MessageKind::Normal)
        }
        ToolStatus::Cancelled => (MessageStatus::Cancelled, MessageKind::Forged),
        ToolStatus::UnknownOutcome => (MessageStatus::UnknownOutcome, MessageKind::Forged),
    };
    let now = turn.clock.now();
    let part = Part::ToolResult {
        tool_call_id: call.id.clone(),
        content,
        is_error: status != ToolStatus::Completed,
        truncated,
        full_output_file_id: None,
        duration_ms: millis(took),
    };
    Message {
        id: MessageId::new(),
        object: "message".into(),
        session_id: turn.active.session.id,
        run_id: Some(turn.active.run.id),
        seq: 0,
        role: Role::Tool,
        status: message_status,
        parts: vec![part],
        model: None,
        finish_reason: None,
        usage: None,
        kind,
        created_at: now,
        completed_at: Some(now),
    }
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

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("read_file", "read_file", true),
            ("read_file", "read_files", false),
            ("*", "x", true),
            ("web_*", "web_search", true),
            ("*_file", "read_file", true),
            ("r*_*e", "read_file", true),
            ("w*", "read_file", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }
}
