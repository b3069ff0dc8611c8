//! The loop: model round, tools, model round, until the model has said its answer, the budget is used up, or a person
//! stops it (mission L1-L3). Reads top to bottom; what follows from an answer is in `outcome.rs`, how a run ends in
//! `ending.rs`, each policy in its own file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use talaria_domain::clock::SharedClock;
use talaria_domain::live::LiveReader;
use talaria_domain::model::{ModelRequest, ModelTool};
use talaria_domain::tool::{Grace, ToolSet};
use talaria_openapi::events::{EventBody, NoticeCode};
use talaria_openapi::messages::{Message, Role};
use talaria_openapi::runs::{ApprovalPolicy, RunErrorCode, RunOutput, RunStatus};
use talaria_store::{ActiveRun, Step, Store};
use talaria_text::redact::Redactor;
use tokio_util::sync::CancellationToken;

use crate::answer::{Speaker, listen};
use crate::history::{repair, unanswered};
use crate::live_output::LiveOutput;
use crate::run::{ResolveModel, Settings, Signals};
use crate::{prompt, tool_calls, tool_filter};

const CLOSING: &str = "You have used up your budget of rounds and can't call tools any more. Say in a few sentences what \
you found and did, and what is left to do.";

/// What the loop works with.
pub(crate) struct Turn {
    pub(crate) store: Store,
    pub(crate) clock: SharedClock,
    pub(crate) resolve_model: ResolveModel,
    pub(crate) tools: ToolSet,
    /// Takes secrets out of what is stored (I11).
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) active: Box<ActiveRun>,
    /// A person wants the run to stop.
    pub(crate) cancel: CancellationToken,
    pub(crate) grace: Grace,
    /// Something waits for the next safe point.
    has_steers: Arc<AtomicBool>,
    /// The server wants to stop: leave at the next safe place.
    pub(crate) drain: CancellationToken,
    pub(crate) transcript: Vec<Message>,
    configured_policy: ApprovalPolicy,
    /// How long a person has to answer.
    pub(crate) approval_timeout_millis: i64,
    pub(crate) progress: Progress,
    /// What tools show while they work.
    pub(crate) live: LiveReader,
    pub(crate) live_output: LiveOutput,
}

/// How far the run has come in this attempt.
#[derive(Default)]
pub(crate) struct Progress {
    /// Rounds of the budget that are used.
    pub(crate) rounds: u32,
    /// Requests in a row that failed.
    pub(crate) failed_attempts: u32,
    /// Answers in a row that were cut or empty.
    pub(crate) poor_answers: u32,
    /// The output limit to ask for, once the provider's own was too low.
    pub(crate) output_tokens: Option<u32>,
    /// The answer so far, when it comes in more than one message.
    pub(crate) answer: RunOutput,
}

/// How the loop leaves.
pub(crate) enum Left {
    /// The run has ended; the chain's next one was claimed.
    Ended(Option<Box<ActiveRun>>),
    /// At a safe place, for the next server to go on from.
    AtCheckpoint,
    /// It waits for a person: with the answer it goes on in a turn of its own.
    Parked,
}

/// What comes after a round.
pub(crate) enum Next {
    /// Another one.
    Round,
    /// Nothing more.
    Leave(Left),
}

pub(crate) type StoreResult<T> = talaria_store::Result<T>;

impl Turn {
    pub(crate) fn new(settings: &Settings, active: Box<ActiveRun>, signals: Signals, drain: CancellationToken) -> Self {
        Self {
            store: settings.store.clone(),
            clock: Arc::clone(&settings.clock),
            resolve_model: Arc::clone(&settings.resolve_model),
            tools: settings.tools.clone(),
            redactor: Arc::clone(&settings.redactor),
            configured_policy: settings.approval_policy,
            approval_timeout_millis: i64::try_from(settings.approval_timeout.as_millis()).unwrap_or(i64::MAX / 2),
            active,
            cancel: signals.cancel,
            grace: signals.grace,
            has_steers: signals.has_steers,
            drain,
            transcript: Vec::new(),
            progress: Progress::default(),
            live: LiveReader::default(),
            live_output: LiveOutput::new(Arc::clone(&settings.redactor)),
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
                match tool_calls::run(&mut self, calls).await? {
                    tool_calls::Progress::Done => continue,
                    tool_calls::Progress::Parked => return Ok(Left::Parked),
                }
            }
            if !self.take_steers().await? {
                continue;
            }
            if let Next::Leave(left) = self.round().await? {
                return Ok(left);
            }
        }
    }

    /// Takes in what people have said since the last safe point. `false` when the run is being cancelled instead.
    async fn take_steers(&mut self) -> StoreResult<bool> {
        if !self.has_steers.swap(false, Ordering::AcqRel) {
            return Ok(true);
        }
        let (run_id, fence) = (self.active.run.id, self.active.fence);
        match self.store.deliver_steers(run_id, fence).await {
            Ok(told) => {
                self.transcript.extend(told);
                Ok(true)
            }
            // The row may say so a moment before the token does.
            Err(talaria_store::Error::Fenced) => {
                self.cancel_if_told().await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// After a refused write: a run that is being cancelled goes on to its end; one that was taken over stops here.
    async fn cancel_if_told(&mut self) -> StoreResult<()> {
        let run = self
            .store
            .get_run(self.active.run.profile_id, self.active.run.id)
            .await?;
        if run.status == RunStatus::Cancelling {
            self.cancel.cancel();
            Ok(())
        } else {
            Err(talaria_store::Error::Fenced)
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
        let asked_at = Instant::now();
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
            redactor: &self.redactor,
            run_id: self.active.run.id,
            session_id: self.active.session.id,
            fence: self.active.fence,
            model: &self.active.run.model,
            now: self.clock.now(),
            asked_at,
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
            .filter(|spec| tool_filter::is_allowed(&self.active.options, spec.name))
            .map(|spec| ModelTool {
                name: spec.name.to_owned(),
                description: spec.description.to_owned(),
                parameters: spec.parameters.clone(),
            });
        tools.collect()
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

    pub(crate) async fn notice(&mut self, code: NoticeCode, message: &str) -> StoreResult<()> {
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

    /// Who must agree before a tool acts. A request was accepted under a configuration that may be tighter now.
    pub(crate) fn approval_policy(&self) -> ApprovalPolicy {
        let asked = self.active.options.approval_policy.unwrap_or(self.configured_policy);
        asked.min(self.configured_policy)
    }

    /// The tools, shared with the calls of a segment.
    pub(crate) fn workspace(&self) -> Arc<std::path::Path> {
        std::path::Path::new(&self.active.session.workspace).into()
    }
}
