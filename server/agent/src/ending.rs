//! How a run ends: its last step, with what it has said.

use talaria_domain::run_state::Transition;
use talaria_openapi::messages::Role;
use talaria_openapi::runs::{RunError, RunErrorCode, RunOutput, Stop, StopReason};
use talaria_store::{End, Step};

use crate::tool_calls;
use crate::turn::{Left, Next, StoreResult, Turn};

impl Turn {
    pub(crate) async fn fail(
        &mut self,
        code: RunErrorCode,
        message: String,
        retryable: bool,
        provider_status: Option<u16>,
    ) -> StoreResult<Next> {
        let stop = Stop {
            reason: StopReason::Error,
            detail: Some(message.clone()),
        };
        let error = RunError {
            code,
            message,
            retryable,
            provider_status,
        };
        let end = self.end(Transition::Fail, stop, Some(error));
        self.leave(vec![end]).await
    }

    pub(crate) async fn end_cancelled(&mut self) -> StoreResult<Left> {
        tool_calls::close_unanswered(self).await?;
        let stop = Stop {
            reason: StopReason::Cancelled,
            detail: None,
        };
        let end = self.end(Transition::ConfirmCancel, stop, None);
        match self.leave(vec![end]).await? {
            Next::Leave(left) => Ok(left),
            Next::Round => Ok(Left::Ended(None)),
        }
    }

    pub(crate) fn end(&mut self, transition: Transition, stop: Stop, error: Option<RunError>) -> Step {
        let answer = std::mem::take(&mut self.progress.answer);
        let output = if answer.message_ids.is_empty() {
            self.partial_output()
        } else {
            answer
        };
        Step::End(Box::new(End {
            transition,
            stop,
            error,
            output,
        }))
    }

    /// What the run has said last, for one that didn't get to its answer.
    pub(crate) fn partial_output(&self) -> RunOutput {
        let run_id = Some(self.active.run.id);
        let said =
            self.transcript.iter().rev().find(|message| {
                message.run_id == run_id && message.role == Role::Assistant && !message.text().is_empty()
            });
        said.map_or_else(RunOutput::default, |message| RunOutput {
            text: message.text(),
            message_ids: vec![message.id],
        })
    }

    pub(crate) async fn leave(&mut self, steps: Vec<Step>) -> StoreResult<Next> {
        let claimed = self.record(steps).await?;
        Ok(Next::Leave(Left::Ended(claimed)))
    }
}

/// The end of a run whose task broke.
pub(crate) fn broken() -> Step {
    let message = "the server failed while it worked on this run, and has logged why".to_owned();
    let stop = Stop {
        reason: StopReason::Error,
        detail: Some(message.clone()),
    };
    let error = RunError {
        code: RunErrorCode::Internal,
        message,
        retryable: true,
        provider_status: None,
    };
    let output = RunOutput::default();
    Step::End(Box::new(End {
        transition: Transition::Fail,
        stop,
        error: Some(error),
        output,
    }))
}
