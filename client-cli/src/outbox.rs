//! What a person says while a run goes on: sent one after the other, and what became of it.

use std::collections::VecDeque;

use clap::ValueEnum;
use futures_util::future::BoxFuture;
use talaria_openapi::ids::{InputId, RunId, SessionId};
use talaria_openapi::inputs::InputStatus;
use talaria_openapi::runs::{CreateRunRequest, OnBusy, Run};

use crate::client::Client;
use crate::error::Result;

/// What happens to a message when the session is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Busy {
    /// The run stops, and the message comes next.
    #[default]
    Interrupt,
    /// The run is told after its tools, and goes on.
    Steer,
    /// The message waits for its turn.
    Queue,
}

impl Busy {
    /// A name that people write.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::from_str(name, true).ok()
    }

    /// What is happening to a message.
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupting",
            Self::Steer => "telling the agent",
            Self::Queue => "queued",
        }
    }

    /// What typing does, in a word.
    pub(crate) fn does(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupts",
            Self::Steer => "steers",
            Self::Queue => "queues",
        }
    }

    fn on_busy(self) -> OnBusy {
        match self {
            Self::Interrupt => OnBusy::Interrupt,
            Self::Steer => OnBusy::Steer,
            Self::Queue => OnBusy::Queue,
        }
    }
}

/// Says something in a session.
pub(crate) fn say(client: Client, session_id: SessionId, text: String, busy: Busy) -> BoxFuture<'static, Result<Run>> {
    Box::pin(async move {
        let request = CreateRunRequest {
            on_busy: busy.on_busy(),
            ..CreateRunRequest::text(text)
        };
        client.create_run(session_id, &request).await
    })
}

/// Messages on their way, during one run.
pub(crate) struct Outbox {
    client: Client,
    session_id: SessionId,
    /// The run that is shown.
    run_id: RunId,
    /// The first one is on its way.
    to_send: VecDeque<(String, Busy)>,
    sending: Option<BoxFuture<'static, Result<Run>>>,
    /// What the shown run is to be told.
    told: Vec<(InputId, String)>,
    waiting: Waiting,
}

/// Runs that the person started meanwhile, with what was said.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Those that come before all others.
    pub(crate) first: Vec<(RunId, String)>,
    /// Those that come after them.
    pub(crate) later: Vec<(RunId, String)>,
}

impl Outbox {
    pub(crate) fn new(client: Client, session_id: SessionId, run_id: RunId) -> Self {
        Self {
            client,
            session_id,
            run_id,
            to_send: VecDeque::new(),
            sending: None,
            told: Vec::new(),
            waiting: Waiting::default(),
        }
    }

    pub(crate) fn send(&mut self, text: String, busy: Busy) {
        self.to_send.push_back((text, busy));
        self.send_next();
    }

    fn send_next(&mut self) {
        if let (None, Some((text, busy))) = (&self.sending, self.to_send.front()) {
            self.sending = Some(say(self.client.clone(), self.session_id, text.clone(), *busy));
        }
    }

    /// Waits for the answer to what is on its way, and keeps it; never ends while nothing is. To be dropped at any time.
    pub(crate) async fn next(&mut self) -> Result<()> {
        let Some(sending) = &mut self.sending else {
            return std::future::pending().await;
        };
        let answer = sending.await;
        self.sending = None;
        self.keep(answer)
    }

    fn keep(&mut self, answer: Result<Run>) -> Result<()> {
        let sent = self.to_send.pop_front();
        self.send_next();
        let (run, (text, busy)) = (answer?, sent.unwrap_or_default());
        match run.input {
            Some(input) if run.id == self.run_id => self.told.push((input.id, text)),
            _ if busy == Busy::Interrupt => self.waiting.first.push((run.id, text)),
            _ => self.waiting.later.push((run.id, text)),
        }
        Ok(())
    }

    /// After the end of the shown run: what waits. What the person wrote last is not lost by the end, and what the run was
    /// not told any more has become a run of its own.
    pub(crate) async fn finish(mut self) -> (Waiting, Vec<crate::error::Error>) {
        let mut failed = Vec::new();
        while self.sending.is_some() {
            failed.extend(self.next().await.err());
        }
        for (input_id, text) in std::mem::take(&mut self.told) {
            match self.client.get_input(input_id).await {
                Ok(input) if input.status == InputStatus::Promoted => {
                    self.waiting.later.extend(input.run_id.map(|run_id| (run_id, text)));
                }
                Ok(_) => {}
                Err(error) => failed.push(error),
            }
        }
        (self.waiting, failed)
    }
}
