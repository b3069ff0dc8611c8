//! What becomes of runs whose server died (design.md 4, the recovery table).
//!
//! A half-said message is closed as failed: visible, but not part of the model's history. Calls that only read run again.
//! A call that may have changed something is closed as "outcome unknown", and the run as interrupted. Everything else goes
//! on in a new attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use talaria_domain::model::ModelCall;
use talaria_domain::run_state::Transition;
use talaria_openapi::events::{EventBody, ResumedAfter, ToolStatus};
use talaria_openapi::messages::MessageStatus;
use talaria_openapi::runs::{RunStatus, Stop, StopReason};
use talaria_store::{ActiveRun, Result, Step};

use crate::history::unanswered;
use crate::results::result_message;
use crate::turn::Turn;

const UNKNOWN: &str = "[the server stopped while this call was running: nobody knows whether it took effect. Look before \
you try it again]";
const NOT_RUN: &str = "[the server stopped before this call was run]";

/// What recovery decides.
pub(crate) enum Decision {
    /// The run goes on with this turn.
    GoOn(Box<Turn>),
    /// The run has ended; the chain's next one was claimed.
    Ended(Option<Box<ActiveRun>>),
}

/// Closes what was cut off, and decides.
pub(crate) async fn recover(mut turn: Box<Turn>, started_calls: &BTreeMap<String, bool>) -> Result<Decision> {
    close_half_said(&mut turn).await?;
    turn.transcript = turn.store.history(turn.active.session.id).await?;
    if turn.active.run.status == RunStatus::Cancelling {
        turn.cancel.cancel();
        return Ok(Decision::GoOn(turn));
    }
    let calls = unanswered(&turn.transcript);
    let is_unknown = |call: &ModelCall| started_calls.get(&call.id) == Some(&false);
    if calls.iter().any(is_unknown) {
        let ended = interrupt(&mut turn, calls, is_unknown).await?;
        return Ok(Decision::Ended(ended));
    }
    turn.record(vec![Step::Resume(ResumedAfter::Restart)]).await?;
    Ok(Decision::GoOn(turn))
}

async fn close_half_said(turn: &mut Turn) -> Result<()> {
    let open = turn.store.open_messages(turn.active.run.root_id, i64::MAX).await?;
    for mut message in open {
        message.status = MessageStatus::Failed;
        message.completed_at = Some(turn.clock.now());
        turn.record(vec![Step::Message(Box::new(message))]).await?;
    }
    Ok(())
}

async fn interrupt(
    turn: &mut Turn,
    calls: Vec<ModelCall>,
    is_unknown: impl Fn(&ModelCall) -> bool,
) -> Result<Option<Box<ActiveRun>>> {
    let mut steps = Vec::new();
    for call in calls {
        let (status, text) = if is_unknown(&call) {
            (ToolStatus::UnknownOutcome, UNKNOWN)
        } else {
            (ToolStatus::Cancelled, NOT_RUN)
        };
        let message = result_message(turn, &call, text, status, Duration::ZERO);
        if status == ToolStatus::UnknownOutcome {
            let (tool_call_id, name, message_id) = (call.id, call.name, message.id);
            let completed = EventBody::ToolCompleted {
                tool_call_id,
                name,
                status,
                duration_ms: 0,
                message_id,
            };
            steps.push(Step::Event(completed));
        }
        steps.push(Step::Message(Box::new(message)));
    }
    let detail = Some("the server stopped while a tool that changes things was running".to_owned());
    let stop = Stop {
        reason: StopReason::ServerRestart,
        detail,
    };
    steps.push(turn.end(Transition::Interrupt, stop, None));
    turn.record(steps).await
}
