//! `talaria chat`: a conversation.

mod commands;
mod lines;

use std::collections::VecDeque;
use std::path::Path;
use std::process::ExitCode;

use talaria_openapi::ids::{RunId, SessionId};

use self::lines::{Lines, Read};
use crate::args::Start;
use crate::commands::{Connected, new_session};
use crate::error::{Error, Result};
use crate::follow::Follower;
use crate::outbox::{Busy, say};
use crate::render;

/// Whether the conversation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Go,
    Leave,
}

struct Chat {
    connected: Connected,
    /// A session begins with its first message: one that nobody spoke in is in no list.
    session_id: Option<SessionId>,
    /// The sessions of the last list, which `/resume 2` counts in.
    listed: Vec<SessionId>,
    /// What was typed during a run and not sent.
    unsent: String,
    /// What happens to what is said while a run goes on.
    busy: Busy,
}

pub(crate) async fn chat(connected: Connected, start: &Start, home: &Path) -> Result<ExitCode> {
    let mut lines = Lines::open(home)?;
    greet(&connected).await?;
    let Some(mut chat) = Chat::begin(connected, start).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut interrupts = 0;
    loop {
        let unsent = std::mem::take(&mut chat.unsent);
        // Reading blocks: the line is read beside the runtime, and the reader comes back with it.
        let read = tokio::task::spawn_blocking(move || {
            let read = lines.next(&unsent);
            (lines, read)
        });
        let (reader, read) = read.await.map_err(|error| Error::Local(error.to_string()))?;
        lines = reader;
        match read? {
            Read::End => break,
            Read::Interrupted => {
                interrupts += 1;
                if interrupts > 1 {
                    break;
                }
                render::notice("Ctrl+C again or Ctrl+D leaves");
            }
            Read::Text(text) => {
                interrupts = 0;
                if chat.hear(text.trim()).await? == Next::Leave {
                    break;
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn greet(connected: &Connected) -> Result<()> {
    let info = connected.client.info().await?;
    let model = info.model.map(|model| model.name).unwrap_or_default();
    render::notice(&format!(
        "Talaria {} with {model}. /help lists what you can do, Ctrl+D leaves.",
        info.version
    ));
    if model == "demo/demo" {
        render::notice(
            "This is the built-in demo model. To connect a real one, set `model` in config.yaml, or OPENAI_API_KEY.",
        );
    }
    Ok(())
}

impl Chat {
    /// `None` when the person has left already, while a run was shown.
    async fn begin(connected: Connected, start: &Start) -> Result<Option<Self>> {
        let found = match (start.session, start.is_continued) {
            (Some(session_id), _) => Some(session_id),
            (None, true) => connected.last_session(None).await?,
            (None, false) => None,
        };
        if start.is_continued && found.is_none() {
            render::notice("there is no session of this folder yet: a new one begins");
        }
        let mut chat = Self {
            connected,
            session_id: None,
            listed: Vec::new(),
            unsent: String::new(),
            busy: start.busy,
        };
        let next = match found {
            Some(session_id) => chat.enter(session_id).await?,
            None => Next::Go,
        };
        Ok((next == Next::Go).then_some(chat))
    }

    /// Does what the person wrote. Whatever fails is said, and the conversation goes on; only a closed output ends it.
    async fn hear(&mut self, text: &str) -> Result<Next> {
        match self.answer(text).await {
            Ok(next) => Ok(next),
            Err(Error::Output(error)) => Err(Error::Output(error)),
            Err(error) => {
                render::complain(&error.to_string());
                Ok(Next::Go)
            }
        }
    }

    async fn answer(&mut self, text: &str) -> Result<Next> {
        match text {
            "" => return Ok(Next::Go),
            "/quit" | "/exit" => return Ok(Next::Leave),
            _ => {}
        }
        // The server may have been stopped since the last message.
        self.connected.client.wake().await?;
        match text.strip_prefix('/') {
            Some(command) => self.command(command).await,
            None => self.say(text, self.busy).await,
        }
    }

    async fn say(&mut self, text: &str, busy: Busy) -> Result<Next> {
        let session_id = self.session().await?;
        let run = say(self.connected.client.clone(), session_id, text.to_owned(), busy).await?;
        // A session that was continued goes on in its newest part.
        self.session_id = Some(run.session_id);
        self.follow(run.id).await
    }

    /// The session, begun if need be.
    async fn session(&mut self) -> Result<SessionId> {
        match self.session_id {
            Some(session_id) => Ok(session_id),
            None => {
                let session = new_session(&self.connected).await?;
                self.session_id = Some(session.id);
                Ok(session.id)
            }
        }
    }

    /// Shows a run, and those that the person starts meanwhile.
    async fn follow(&mut self, run_id: RunId) -> Result<Next> {
        let mut waiting: VecDeque<(RunId, Option<String>)> = VecDeque::from([(run_id, None)]);
        while let Some((run_id, text)) = waiting.pop_front() {
            if let Some(text) = text {
                render::echo(&text)?;
            }
            let talking = self.session_id.map(|session_id| (session_id, self.busy));
            let follower = Follower::new(&self.connected.client, run_id, talking)?;
            let followed = follower.follow().await?;
            let started = followed.waiting;
            for (run_id, text) in started.first.into_iter().rev() {
                waiting.push_front((run_id, Some(text)));
            }
            waiting.extend(started.later.into_iter().map(|(run_id, text)| (run_id, Some(text))));
            self.unsent = followed.unsent;
            if followed.status.is_none() {
                let id = self.session_id.map(|id| id.to_string()).unwrap_or_default();
                render::notice(&format!("what runs goes on without you: talaria chat --session {id}"));
                return Ok(Next::Leave);
            }
        }
        Ok(Next::Go)
    }
}
