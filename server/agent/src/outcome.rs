//! What follows from an answer: the next round, another try, or the end.

use talaria_domain::model::{FailureReason, ModelError};
use talaria_domain::run_state::Transition;
use talaria_openapi::events::NoticeCode;
use talaria_openapi::messages::{FinishReason, Message, MessageKind, MessageStatus, Part, Role, Usage};
use talaria_openapi::runs::{RunErrorCode, RunOutput, Stop, StopReason};
use talaria_store::Step;

use crate::answer::{Answer, Ended};
use crate::history::calls_of;
use crate::turn::{Next, StoreResult, Turn};
use crate::{message, retry};

/// Answers in a row that may be cut at the output limit, or be empty, before the run ends.
const MAX_POOR_ANSWERS: u32 = 3;
/// First output limit that is asked for after an answer was cut inside a tool call.
const FIRST_OUTPUT_TOKENS: u32 = 8_192;

const CONTINUE: &str = "Your answer was cut at the output limit. Go on exactly where it stopped; repeat nothing.";

impl Turn {
    pub(crate) async fn after_answer(&mut self, mut answer: Answer, is_closing: bool) -> StoreResult<Next> {
        let finish = match answer.ended {
            Ended::Whole(finish) => finish,
            Ended::Cancelled => {
                self.close_message(&mut answer, MessageStatus::Cancelled).await?;
                return Ok(Next::Round);
            }
            Ended::Broken(error) => {
                answer.ended = Ended::Cancelled;
                self.close_message(&mut answer, MessageStatus::Failed).await?;
                return self.after_failure(error).await;
            }
        };
        self.progress.failed_attempts = 0;
        let has_calls = !calls_of(&answer.message).is_empty();
        match finish {
            FinishReason::ContentFilter => {
                self.close_message(&mut answer, MessageStatus::Failed).await?;
                let message = "the model's provider refused to go on with this content; say it differently".to_owned();
                self.fail(RunErrorCode::ContentFiltered, message, false, None).await
            }
            FinishReason::Length if has_calls => self.after_cut_call(answer).await,
            _ if !has_calls && answer.message.text().trim().is_empty() => self.after_empty_answer(answer).await,
            FinishReason::Length => self.after_cut_text(answer, is_closing).await,
            _ if has_calls && !is_closing => {
                self.progress.poor_answers = 0;
                self.progress.answer = RunOutput::default();
                let steps = self.whole_message(answer, FinishReason::ToolCalls);
                self.record(steps).await?;
                Ok(Next::Round)
            }
            _ => self.complete(answer, finish, is_closing).await,
        }
    }

    async fn complete(&mut self, mut answer: Answer, finish: FinishReason, is_closing: bool) -> StoreResult<Next> {
        // A closing answer can't call: the calls that it makes all the same are not part of it.
        answer
            .message
            .parts
            .retain(|part| !matches!(part, Part::ToolCall { .. }));
        self.add_to_answer(&answer.message);
        let mut steps = self.whole_message(answer, finish);
        let (reason, detail) = if is_closing {
            let limit = self.active.run.limits.max_rounds;
            (
                StopReason::MaxRounds,
                Some(format!("the budget of {limit} rounds was used up")),
            )
        } else {
            (StopReason::EndTurn, None)
        };
        steps.push(self.end(Transition::Complete, Stop { reason, detail }, None));
        self.leave(steps).await
    }

    /// An answer cut inside a call is never acted on: it is asked for again with more room.
    async fn after_cut_call(&mut self, mut answer: Answer) -> StoreResult<Next> {
        self.close_message(&mut answer, MessageStatus::Failed).await?;
        self.progress.poor_answers += 1;
        if self.progress.poor_answers >= MAX_POOR_ANSWERS {
            let message = "the model's answer was cut inside a tool call again and again; ask for smaller steps, or \
                           raise the model's output limit";
            return self
                .fail(RunErrorCode::ProviderBadRequest, message.to_owned(), false, None)
                .await;
        }
        let tokens = self
            .progress
            .output_tokens
            .map_or(FIRST_OUTPUT_TOKENS, |tokens| tokens.saturating_mul(2));
        self.progress.output_tokens = Some(tokens);
        self.notice(
            NoticeCode::OutputLimit,
            "the answer was cut inside a tool call; asking again with more room",
        )
        .await?;
        Ok(Next::Round)
    }

    async fn after_empty_answer(&mut self, mut answer: Answer) -> StoreResult<Next> {
        self.close_message(&mut answer, MessageStatus::Failed).await?;
        self.progress.poor_answers += 1;
        if self.progress.poor_answers >= MAX_POOR_ANSWERS {
            let message = "the model gave an empty answer again and again; try another model".to_owned();
            return self.fail(RunErrorCode::ProviderBadRequest, message, true, None).await;
        }
        self.notice(NoticeCode::ModelRetry, "the model's answer was empty; asking again")
            .await?;
        Ok(Next::Round)
    }

    async fn after_cut_text(&mut self, answer: Answer, is_closing: bool) -> StoreResult<Next> {
        self.progress.poor_answers += 1;
        self.add_to_answer(&answer.message);
        let mut steps = self.whole_message(answer, FinishReason::Length);
        if is_closing || self.progress.poor_answers >= MAX_POOR_ANSWERS {
            let detail = Some("the answer was cut at the model's output limit again and again".to_owned());
            steps.push(self.end(
                Transition::Complete,
                Stop {
                    reason: StopReason::MaxTokens,
                    detail,
                },
                None,
            ));
            return self.leave(steps).await;
        }
        steps.push(Step::Message(Box::new(self.forged_user(CONTINUE))));
        self.record(steps).await?;
        self.notice(
            NoticeCode::OutputLimit,
            "the answer was cut at the model's output limit; it goes on",
        )
        .await?;
        Ok(Next::Round)
    }

    /// A failed request is sent again, or ends the run; the flags of the failure decide.
    pub(crate) async fn after_failure(&mut self, error: ModelError) -> StoreResult<Next> {
        self.progress.failed_attempts += 1;
        let Some(delay) = retry::delay(&error, self.progress.failed_attempts) else {
            let code = error.reason.run_error_code();
            return self
                .fail(code, error.message, error.flags.retryable, error.provider_status)
                .await;
        };
        let code = match error.reason {
            FailureReason::RateLimited => NoticeCode::RateLimited,
            _ => NoticeCode::ModelRetry,
        };
        let message = format!("{}; trying again in {:.1} s", error.message, delay.as_secs_f64());
        self.notice(code, &message).await?;
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.drain.cancelled() => {}
            () = tokio::time::sleep(delay) => {}
        }
        Ok(Next::Round)
    }

    async fn close_message(&mut self, answer: &mut Answer, status: MessageStatus) -> StoreResult<()> {
        let mut steps = self.usage_steps(answer.usage);
        if answer.is_started {
            let mut message = answer.message.clone();
            message.status = status;
            message.finish_reason = (status == MessageStatus::Cancelled).then_some(FinishReason::Cancelled);
            if status == MessageStatus::Cancelled {
                message.parts.retain(|part| !matches!(part, Part::ToolCall { .. }));
            }
            message.completed_at = Some(self.clock.now());
            steps.insert(0, Step::Message(Box::new(message)));
        }
        if !steps.is_empty() {
            self.record(steps).await?;
        }
        Ok(())
    }

    fn whole_message(&self, answer: Answer, finish: FinishReason) -> Vec<Step> {
        let mut message = answer.message;
        message.status = MessageStatus::Completed;
        message.finish_reason = Some(finish);
        message.completed_at = Some(self.clock.now());
        let mut steps = vec![Step::Message(Box::new(message))];
        steps.extend(self.usage_steps(answer.usage));
        steps
    }

    fn usage_steps(&self, usage: Option<Usage>) -> Vec<Step> {
        let round = self.progress.rounds;
        let budget_remaining = self.active.run.limits.max_rounds.saturating_sub(round);
        usage
            .map(|usage| Step::Usage {
                usage,
                round,
                budget_remaining,
            })
            .into_iter()
            .collect()
    }

    fn forged_user(&self, text: &str) -> Message {
        let (session_id, run_id) = (self.active.session.id, self.active.run.id);
        Message {
            parts: vec![Part::Text { text: text.to_owned() }],
            kind: MessageKind::Forged,
            superseded: false,
            ..message::new(session_id, run_id, Role::User, self.clock.now())
        }
    }

    fn add_to_answer(&mut self, message: &Message) {
        self.progress.answer.text.push_str(&message.text());
        self.progress.answer.message_ids.push(message.id);
    }
}
