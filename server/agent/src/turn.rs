//! The loop: model round, tools, model round, until the model has said its answer, the budget is used up, or a person
//! stops it (mission L1-L3). Reads top to bottom; each policy is in its own file.

use std::sync::Arc;

use talaria_domain::clock::SharedClock;
use talaria_domain::model::{ModelError, ModelRequest, ModelTool};
use talaria_domain::run_state::Transition;
use talaria_domain::tool::ToolSet;
use talaria_openapi::events::{EventBody, NoticeCode};
use talaria_openapi::ids::MessageId;
use talaria_openapi::messages::{FinishReason, Message, MessageKind, MessageStatus, Part, Role, Usage};
use talaria_openapi::runs::{RunError, RunErrorCode, RunOutput, Stop, StopReason};
use talaria_store::{ActiveRun, End, Step, Store};
use tokio_util::sync::CancellationToken;

use crate::answer::{Answer, Ended, Speaker, listen};
use crate::history::{calls_of, repair, unanswered};
use crate::run::ResolveModel;
use crate::{prompt, retry, tool_calls};

/// Answers in a row that may be cut at the output limit, or be empty, before the run ends.
const MAX_POOR_ANSWERS: u32 = 3;
/// First output limit that is asked for after an answer was cut inside a tool call.
const FIRST_OUTPUT_TOKENS: u32 = 8_192;

const CLOSING: &str = "You have used up your budget of rounds and can't call tools any more. Say in a few sentences what \
you found and did, and what is left to do.";
const CONTINUE: &str = "Your answer was cut at the output limit. Go on exactly where it stopped; repeat nothing.";

/// What the loop works with.
pub(crate) struct Turn {
    pub(crate) store: Store,
    pub(crate) clock: SharedClock,
    pub(crate) resolve_model: ResolveModel,
    pub(crate) tools: ToolSet,
    pub(crate) active: Box<ActiveRun>,
    /// A person wants the run to stop.
    pub(crate) cancel: CancellationToken,
    /// The server wants to stop: leave at the next safe place.
    pub(crate) drain: CancellationToken,
    pub(crate) transcript: Vec<Message>,
    progress: Progress,
}

#[derive(Default)]
struct Progress {
    rounds: u32,
    failed_attempts: u32,
    poor_answers: u32,
    output_tokens: Option<u32>,
    answer: Said,
}

#[derive(Default, Clone)]
struct Said {
    text: String,
    message_ids: Vec<MessageId>,
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
    let output = RunOutput {
        text: String::new(),
        message_ids: Vec::new(),
    };
    Step::End(Box::new(End {
        transition: Transition::Fail,
        stop,
        error: Some(error),
        output,
    }))
}

/// How the loop leaves.
pub(crate) enum Left {
    /// The run has ended; the chain's next one was claimed.
    Ended(Option<Box<ActiveRun>>),
    /// At a safe place, for the next server to go on from.
    AtCheckpoint,
}

enum Next {
    Round,
    Leave(Left),
}

type StoreResult<T> = talaria_store::Result<T>;

impl Turn {
    pub(crate) fn new(
        parts: (Store, SharedClock, ResolveModel, ToolSet),
        active: Box<ActiveRun>,
        cancel: CancellationToken,
        drain: CancellationToken,
    ) -> Self {
        let (store, clock, resolve_model, tools) = parts;
        Self {
            store,
            clock,
            resolve_model,
            tools,
            active,
            cancel,
            drain,
            transcript: Vec::new(),
            progress: Progress::default(),
        }
    }

    /// Runs to an end or a safe place. Fails only when the store does.
    pub(crate) async fn run(mut self) -> StoreResult<Left> {
        self.transcript = self.store.history(self.active.session.id).await?;
        self.progress.rounds = self.rounds_so_far();
        loop {
            if self.cancel.is_cancelled() {
                return self.end_cancelled().await;
            }
            if self.drain.is_cancelled() {
                return Ok(Left::AtCheckpoint);
            }
            let calls = unanswered(&self.transcript);
            if !calls.is_empty() {
                tool_calls::run(&mut self, calls).await?;
                continue;
            }
            if let Next::Leave(left) = self.round().await? {
                return Ok(left);
            }
        }
    }

    /// One model request and what follows from its answer.
    async fn round(&mut self) -> StoreResult<Next> {
        let max_rounds = self.active.run.limits.max_rounds;
        let is_closing = self.progress.rounds >= max_rounds;
        let Some((client, model)) = (self.resolve_model)(&self.active.run.model) else {
            let message = format!(
                "there is no model `{}`; see `providers` in config.yaml",
                self.active.run.model
            );
            return self.fail(RunErrorCode::ProviderBadRequest, message, false, None).await;
        };
        let request = self.request(model, is_closing).await?;
        let stream = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Ok(Next::Round),
            stream = client.stream(request) => stream,
        };
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => return self.after_failure(error).await,
        };
        let speaker = Speaker {
            store: &self.store,
            run_id: self.active.run.id,
            session_id: self.active.session.id,
            fence: self.active.fence,
            model: &self.active.run.model,
            now: self.clock.now(),
        };
        let answer = listen(&speaker, stream, &self.cancel).await?;
        self.progress.rounds += u32::from(!is_closing);
        self.after_answer(answer, is_closing).await
    }

    async fn request(&self, model: String, is_closing: bool) -> StoreResult<ModelRequest> {
        let session = &self.active.session;
        let layers = self.store.get_prompt(session.profile_id, session.id).await?;
        let mut system = prompt::whole(&layers);
        // The ephemeral part stands at the end and is stored nowhere (mission S8).
        let ephemeral = [
            self.active.options.instructions.as_deref(),
            is_closing.then_some(CLOSING),
        ];
        for text in ephemeral.into_iter().flatten() {
            system.push_str("\n\n");
            system.push_str(text);
        }
        let tools = if is_closing { Vec::new() } else { self.model_tools() };
        let messages = repair(&self.transcript);
        Ok(ModelRequest {
            model,
            system,
            messages,
            tools,
            max_output_tokens: self.progress.output_tokens,
        })
    }

    fn model_tools(&self) -> Vec<ModelTool> {
        let specs = self.tools.iter().map(|tool| tool.spec());
        let tools = specs
            .filter(|spec| tool_calls::is_allowed(&self.active.options, spec.name))
            .map(|spec| ModelTool {
                name: spec.name.to_owned(),
                description: spec.description.to_owned(),
                parameters: spec.parameters.clone(),
            });
        tools.collect()
    }

    async fn after_answer(&mut self, mut answer: Answer, is_closing: bool) -> StoreResult<Next> {
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
                self.progress.answer = Said::default();
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
    async fn after_failure(&mut self, error: ModelError) -> StoreResult<Next> {
        self.progress.failed_attempts += 1;
        let Some(delay) = retry::delay(&error, self.progress.failed_attempts) else {
            let code = error.reason.run_error_code();
            return self
                .fail(code, error.message, error.flags.retryable, error.provider_status)
                .await;
        };
        let code = match error.reason {
            talaria_domain::model::FailureReason::RateLimited => NoticeCode::RateLimited,
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

    async fn fail(
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

    async fn end_cancelled(&mut self) -> StoreResult<Left> {
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

    fn end(&mut self, transition: Transition, stop: Stop, error: Option<RunError>) -> Step {
        let answer = std::mem::take(&mut self.progress.answer);
        let output = if answer.message_ids.is_empty() {
            self.partial_output()
        } else {
            answer
        };
        let output = RunOutput {
            text: output.text,
            message_ids: output.message_ids,
        };
        Step::End(Box::new(End {
            transition,
            stop,
            error,
            output,
        }))
    }

    /// What the run has said last, for one that didn't get to its answer.
    fn partial_output(&self) -> Said {
        let run_id = Some(self.active.run.id);
        let said =
            self.transcript.iter().rev().find(|message| {
                message.run_id == run_id && message.role == Role::Assistant && !message.text().is_empty()
            });
        said.map_or_else(Said::default, |message| Said {
            text: message.text(),
            message_ids: vec![message.id],
        })
    }

    fn add_to_answer(&mut self, message: &Message) {
        self.progress.answer.text.push_str(&message.text());
        self.progress.answer.message_ids.push(message.id);
    }

    async fn leave(&mut self, steps: Vec<Step>) -> StoreResult<Next> {
        let claimed = self.record(steps).await?;
        Ok(Next::Leave(Left::Ended(claimed)))
    }

    /// Writes steps, and takes their whole messages into the transcript.
    pub(crate) async fn record(&mut self, steps: Vec<Step>) -> StoreResult<Option<Box<ActiveRun>>> {
        for step in &steps {
            if let Step::Message(message) = step {
                self.transcript.push((**message).clone());
            }
        }
        self.store.record(self.active.run.id, self.active.fence, steps).await
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
        let now = self.clock.now();
        Message {
            id: MessageId::new(),
            object: "message".into(),
            session_id: self.active.session.id,
            run_id: Some(self.active.run.id),
            seq: 0,
            role: Role::User,
            status: MessageStatus::Completed,
            parts: vec![Part::Text { text: text.to_owned() }],
            model: None,
            finish_reason: None,
            usage: None,
            kind: MessageKind::Forged,
            created_at: now,
            completed_at: Some(now),
        }
    }

    async fn notice(&mut self, code: NoticeCode, message: &str) -> StoreResult<()> {
        let body = EventBody::RunNotice {
            code,
            message: message.to_owned(),
            data: serde_json::Map::new(),
        };
        self.record(vec![Step::Event(body)]).await.map(drop)
    }

    /// Rounds that earlier attempts of this run have used: one for every answer that was kept.
    fn rounds_so_far(&self) -> u32 {
        let run_id = Some(self.active.run.id);
        let answers = self
            .transcript
            .iter()
            .filter(|message| message.run_id == run_id && message.role == Role::Assistant);
        u32::try_from(answers.count()).unwrap_or(u32::MAX)
    }

    /// The tools, shared with the calls of a segment.
    pub(crate) fn workspace(&self) -> Arc<std::path::Path> {
        std::path::Path::new(&self.active.session.workspace).into()
    }
}
