//! Runs the tool calls of an answer: in segments, each result stored as it arrives, every call answered exactly once (I5).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use talaria_domain::model::ModelCall;
use talaria_domain::tool::{Arguments, Effect, Parallelism, Tool, ToolContext, ToolError, ToolOutput};
use talaria_openapi::events::{EventBody, ToolStatus};
use talaria_openapi::tools::Risk;
use talaria_store::{Result, Step};

use crate::history::unanswered;
use crate::results::{millis, result, result_message};
use crate::segments::{self, Claim};
use crate::tool_filter::is_allowed;
use crate::turn::Turn;

/// Calls of one segment that run at the same time.
const WORKERS: usize = 8;
/// How long a tool has to stop after a cancel before it is abandoned.
const GRACE: Duration = Duration::from_secs(5);

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
        .flat_map(|ready| start_steps(turn, ready, parallel_group))
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
    let duration_ms = millis(done.took);
    let result = result(turn, &done.call, &done.text, done.status, done.took).await;
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
