//! Shows a run to its end, while the person may type.

use std::io::IsTerminal as _;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use talaria_openapi::events::EventBody;
use talaria_openapi::ids::{InteractionId, RunId, SessionId};
use talaria_openapi::interactions::{Interaction, ResolveInteractionRequest};
use talaria_openapi::messages::Role;
use talaria_openapi::runs::{CancelRunRequest, Run, RunStatus};
use tokio::signal::unix::{SignalKind, signal};

use crate::asked::{self, Asked, Heard};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::keyboard::{Keyboard, Typed};
use crate::outbox::{Busy, Outbox, Waiting};
use crate::progress::{Progress, Step};
use crate::render::{self, View};
use crate::watch::{RunWatch, Watched};

/// How often what moves is painted.
const TICK: Duration = Duration::from_millis(100);

/// How following a run ended.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// Where the run stands; `None` when the person left before it ended.
    pub(crate) status: Option<RunStatus>,
    /// Runs that the person started meanwhile.
    pub(crate) waiting: Waiting,
    /// What was typed but not sent.
    pub(crate) unsent: String,
}

/// Shows runs to a person.
pub(crate) struct Follower<'a> {
    client: &'a Client,
    run_id: RunId,
    /// What the person says meanwhile; `None` when there is only this run.
    outbox: Option<Outbox>,
    /// What happens to it.
    busy: Busy,
    progress: Progress,
    view: Box<dyn View>,
    keyboard: Option<Keyboard>,
    interrupts: u32,
    cancelling: Option<BoxFuture<'static, Result<Run>>>,
    /// What the run waits for.
    asked: Asked,
    resolving: Option<BoxFuture<'static, Result<()>>>,
    followed: Followed,
}

impl<'a> Follower<'a> {
    /// `talking`: the session that the person talks in, and what happens to what is said while the run goes on.
    pub(crate) fn new(client: &'a Client, run_id: RunId, talking: Option<(SessionId, Busy)>) -> Result<Self> {
        let has_keyboard = render::is_lively() && std::io::stdin().is_terminal();
        Ok(Self {
            client,
            run_id,
            outbox: talking.map(|(session_id, _)| Outbox::new(client.clone(), session_id, run_id)),
            busy: talking.map(|(_, busy)| busy).unwrap_or_default(),
            progress: Progress::default(),
            view: render::view(talking.filter(|_| has_keyboard).map(|(_, busy)| busy.does())),
            keyboard: if has_keyboard { Some(Keyboard::open()?) } else { None },
            interrupts: 0,
            cancelling: None,
            asked: Asked::default(),
            resolving: None,
            followed: Followed::default(),
        })
    }

    /// Shows the run to its end, or until the person leaves.
    pub(crate) async fn follow(mut self) -> Result<Followed> {
        let result = self.watch().await;
        if let Some(keyboard) = &self.keyboard {
            keyboard.text().clone_into(&mut self.followed.unsent);
        }
        self.view.close()?;
        result?;
        Ok(self.followed)
    }

    async fn watch(&mut self) -> Result<()> {
        let watch = RunWatch::new(self.client.clone(), self.run_id, None);
        let connection = watch.connection();
        let mut events = pin!(watch.into_stream());
        let listen = |kind| signal(kind).map_err(|error| Error::Local(error.to_string()));
        let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let mut hang_up = listen(SignalKind::hangup())?;
        let mut ticks = tokio::time::interval(TICK);
        let mut status = None;
        loop {
            let is_left = tokio::select! {
                event = events.next() => {
                    let Some(watched) = event.transpose()? else { break };
                    status = ended(&watched).or(status);
                    self.show(watched).await?;
                    false
                }
                typed = typed_on(&mut self.keyboard) => self.take(typed)?,
                _ = ticks.tick() => {
                    self.view.connection(connection.is_lost())?;
                    self.view.tick()?;
                    false
                }
                answer = answer_of(&mut self.cancelling) => {
                    self.complain_of(answer.err())?;
                    false
                }
                answer = sent_by(&mut self.outbox) => {
                    self.complain_of(answer.err())?;
                    false
                }
                answer = answer_of(&mut self.resolving) => {
                    self.complain_of(answer.err())?;
                    false
                }
                _ = interrupt.recv() => self.take(Typed::Interrupt)?,
                _ = terminate.recv() => true,
                _ = hang_up.recv() => true,
            };
            if is_left {
                return Ok(());
            }
        }
        if let Some(outbox) = self.outbox.take() {
            let (waiting, failed) = outbox.finish().await;
            self.followed.waiting = waiting;
            failed.into_iter().try_for_each(|error| self.complain_of(Some(error)))?;
        }
        if status.is_none() {
            // The log was reset past the end: the transcript and the run itself say what is missing.
            self.catch_up().await?;
        }
        self.followed.status = Some(final_status(self.client, self.run_id, status).await?);
        Ok(())
    }

    async fn show(&mut self, mut watched: Watched) -> Result<()> {
        if watched.after_reset {
            self.catch_up().await?;
        }
        if let EventBody::MessageCompleted { message } = &mut watched.event.body
            && message.role == Role::Assistant
            && is_abridged(&watched.data)
        {
            **message = self.client.get_message(message.session_id, message.id).await?;
        }
        for step in self.progress.take(&watched.event.body) {
            self.view.step(step)?;
        }
        match &watched.event.body {
            EventBody::InteractionRequested { interaction } => self.ask(interaction),
            EventBody::InteractionResolved { interaction } => {
                let said = self.asked.close(interaction);
                self.say(said)
            }
            _ => Ok(()),
        }
    }

    /// Puts what the run waits for to the person. Where nobody is there, that is the answer.
    fn ask(&mut self, interaction: &Interaction) -> Result<()> {
        if self.keyboard.is_some() {
            let said = self.asked.ask(interaction);
            return self.say(said);
        }
        self.say(vec![format!(
            "{}: nobody is there who could be asked",
            interaction.title
        )])?;
        self.resolve(interaction.id, asked::nobody(interaction));
        Ok(())
    }

    fn say(&mut self, said: Vec<String>) -> Result<()> {
        said.into_iter().try_for_each(|text| self.view.step(Step::Notice(text)))
    }

    fn resolve(&mut self, interaction_id: InteractionId, request: ResolveInteractionRequest) {
        let (client, before) = (self.client.clone(), self.resolving.take());
        self.resolving = Some(Box::pin(async move {
            // One after the other: two answers are two questions' answers.
            if let Some(before) = before {
                before.await?;
            }
            client.resolve_interaction(interaction_id, &request).await.map(drop)
        }));
    }

    /// Shows what the transcript has of this run and was not shown.
    async fn catch_up(&mut self) -> Result<()> {
        let run = self.client.get_run(self.run_id, 0).await?;
        for message in self.client.list_messages(run.session_id).await? {
            if message.run_id == Some(self.run_id) {
                for step in self.progress.message(&message) {
                    self.view.step(step)?;
                }
            }
        }
        Ok(())
    }

    /// Takes what the person did; whether they leave.
    fn take(&mut self, typed: Typed) -> Result<bool> {
        let mut is_left = false;
        match typed {
            Typed::Interrupt => {
                self.interrupts += 1;
                if self.interrupts > 1 {
                    return Ok(true);
                }
                self.stop()?;
            }
            Typed::End if self.outbox.is_some() => return Ok(true),
            // A single run goes on without a keyboard.
            Typed::End => self.keyboard = None,
            Typed::Changed => {}
            Typed::Line(line) if self.asked.is_waiting() && !is_command_of_runs(&line) => {
                match self.asked.hear(&line) {
                    Some(Heard::Answer(interaction_id, request)) => self.resolve(interaction_id, *request),
                    Some(Heard::Say(said)) => self.say(said)?,
                    None => {}
                }
            }
            Typed::Line(line) => is_left = self.hear(line.trim())?,
        }
        let text = self.keyboard.as_ref().map(|keyboard| keyboard.text().to_owned());
        self.view.typed(&text.unwrap_or_default())?;
        Ok(is_left)
    }

    fn stop(&mut self) -> Result<()> {
        if self.cancelling.is_none() {
            self.cancelling = Some(cancel(self.client.clone(), self.run_id));
        }
        self.view.step(Step::Stopping)
    }

    /// Takes a line that answers nothing; whether the person leaves.
    fn hear(&mut self, line: &str) -> Result<bool> {
        if self.outbox.is_none() {
            return Ok(false);
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (word, word.strip_prefix('/').and_then(Busy::named)) {
            ("", _) => {}
            ("/stop", _) => self.stop()?,
            ("/quit" | "/exit", _) => return Ok(true),
            (_, Some(busy)) if !rest.is_empty() => self.send(rest, busy)?,
            (command, _) if command.starts_with('/') => {
                self.view.step(Step::Notice(format!(
                    "{command}: while a run goes on there are /stop, /quit, and /interrupt, /steer or /queue with a message"
                )))?;
            }
            _ => self.send(line, self.busy)?,
        }
        Ok(false)
    }

    fn send(&mut self, text: &str, busy: Busy) -> Result<()> {
        self.view.step(Step::Notice(format!("{}: {text}", busy.doing())))?;
        if let Some(outbox) = &mut self.outbox {
            outbox.send(text.to_owned(), busy);
        }
        Ok(())
    }

    fn complain_of(&mut self, error: Option<Error>) -> Result<()> {
        error.map_or(Ok(()), |error| self.view.step(Step::Complaint(error.to_string())))
    }
}

/// What a person can say to any run, whatever it waits for.
fn is_command_of_runs(line: &str) -> bool {
    ["/stop", "/quit", "/exit"].contains(&line.trim())
}

pub(crate) fn ended(watched: &Watched) -> Option<RunStatus> {
    match &watched.event.body {
        EventBody::RunCompleted { run }
        | EventBody::RunFailed { run }
        | EventBody::RunCancelled { run }
        | EventBody::RunInterrupted { run } => Some(run.status),
        _ => None,
    }
}

pub(crate) async fn final_status(client: &Client, run_id: RunId, status: Option<RunStatus>) -> Result<RunStatus> {
    match status {
        Some(status) => Ok(status),
        None => Ok(client.get_run(run_id, 0).await?.status),
    }
}

pub(crate) fn cancel(client: Client, run_id: RunId) -> BoxFuture<'static, Result<Run>> {
    Box::pin(async move { client.cancel_run(run_id, &CancelRunRequest::default()).await })
}

/// The answer to a request; never, when there is none.
pub(crate) async fn answer_of<T>(request: &mut Option<BoxFuture<'static, Result<T>>>) -> Result<T> {
    let Some(waiting) = request else {
        return std::future::pending().await;
    };
    let answer = waiting.await;
    *request = None;
    answer
}

async fn sent_by(outbox: &mut Option<Outbox>) -> Result<()> {
    match outbox {
        Some(outbox) => outbox.next().await,
        None => std::future::pending().await,
    }
}

async fn typed_on(keyboard: &mut Option<Keyboard>) -> Typed {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}

/// Whether an event holds a reference in the place of a text that was too long for it.
fn is_abridged(data: &str) -> bool {
    let value: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
    let parts = value.pointer("/message/parts").and_then(serde_json::Value::as_array);
    parts.is_some_and(|parts| {
        parts
            .iter()
            .any(|part| part.get("text").is_some_and(serde_json::Value::is_object))
    })
}
