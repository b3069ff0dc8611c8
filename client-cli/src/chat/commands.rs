//! What a line that begins with `/` does.

use talaria_openapi::ids::SessionId;
use talaria_openapi::messages::Role;
use talaria_openapi::runs::CancelRunRequest;
use talaria_openapi::sessions::{Session, UpdateSessionRequest};
use talaria_text::cut::one_line;

use super::{Chat, Next};
use crate::commands;
use crate::error::{Error, Result};
use crate::outbox::Busy;
use crate::render;

const LISTED: u32 = 20;
/// Commands, and what they do.
const COMMANDS: &[(&str, &str)] = &[
    ("/help", "shows this"),
    ("/new", "begins a new session"),
    ("/sessions", "lists the newest sessions"),
    (
        "/resume [N or ID]",
        "goes on with a session of that list, or with the last one",
    ),
    ("/model [NAME]", "shows the session's model, or sets it"),
    ("/stop", "stops what runs in the session"),
    (
        "/interrupt, /steer, /queue TEXT",
        "says something while a run goes on: stops it, tells it, or waits for its turn",
    ),
    (
        "/busy [MODE]",
        "shows, or sets, which of the three happens to a plain message",
    ),
    ("/approve, /deny, /skip", "answer what a run asks you"),
    ("/tools", "lists the agent's tools"),
    ("/quit", "leaves"),
];
const KEYS: &str = "A line that ends with `\\` goes on in the next one (so does Alt+Enter). What you write while a run goes on \
interrupts it (`/busy` changes that). Ctrl+C stops a run, and a second one leaves; Ctrl+D leaves.";
/// Least likeness for a suggestion; 1 is the same word.
const LIKE: f64 = 0.6;

impl Chat {
    pub(super) async fn command(&mut self, command: &str) -> Result<Next> {
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, rest.trim()) {
            ("help", _) => help()?,
            ("new", _) => {
                self.session_id = None;
                render::notice("a new session begins with your next message");
            }
            ("sessions", _) => self.list().await?,
            ("resume", which) => {
                let session_id = self.which(which).await?;
                return self.enter(session_id).await;
            }
            ("model", "") => {
                let model = self.model().await?;
                render::notice(&model);
            }
            ("model", model) => self.set_model(model).await?,
            ("stop", _) => self.stop().await?,
            ("busy", "") => render::notice(&busy_told(self.busy)),
            ("busy", mode) => {
                self.busy = Busy::named(mode)
                    .ok_or_else(|| Error::Local(format!("/busy: `{mode}` is none of interrupt, steer and queue")))?;
                render::notice(&busy_told(self.busy));
            }
            (name, text) if Busy::named(name).is_some() && !text.is_empty() => {
                return self.say(text, Busy::named(name).unwrap_or_default()).await;
            }
            ("tools", _) => commands::tools(&self.connected.client).await?,
            _ => render::notice(&unknown(name)),
        }
        Ok(Next::Go)
    }

    async fn list(&mut self) -> Result<()> {
        let sessions = self.connected.client.list_sessions(LISTED).await?.data;
        for (index, session) in sessions.iter().enumerate() {
            let mark = if Some(session.tip_id) == self.session_id {
                "*"
            } else {
                " "
            };
            let line = format!(
                "{:>2}{mark} {}  {}",
                index + 1,
                commands::minute(session.created_at),
                title(session)
            );
            render::print(&format!("{}\n", one_line(&line, render::size().0)))?;
        }
        self.listed = sessions.iter().map(|session| session.tip_id).collect();
        render::notice("/resume N goes on with one");
        Ok(())
    }

    /// The session that is meant by a number of the list, an id, or nothing.
    async fn which(&self, text: &str) -> Result<SessionId> {
        if text.is_empty() {
            let last = self.connected.last_session(self.session_id).await?;
            return last.ok_or_else(|| {
                Error::Local("there is no other session of this folder: /sessions lists all".to_owned())
            });
        }
        if let Ok(number) = text.parse::<usize>() {
            let listed = number.checked_sub(1).and_then(|index| self.listed.get(index));
            return listed
                .copied()
                .ok_or_else(|| Error::Local(format!("there is no session {number} in the list: /sessions shows it")));
        }
        text.parse()
            .map_err(|error| Error::Local(format!("/resume: {error}; /sessions lists them")))
    }

    /// Goes on with a session: shows where it stands, and what runs in it.
    pub(super) async fn enter(&mut self, session_id: SessionId) -> Result<Next> {
        let client = &self.connected.client;
        let session = client.get_session(session_id).await?;
        let session = match session.tip_id {
            tip_id if tip_id == session.id => session,
            tip_id => client.get_session(tip_id).await?,
        };
        let messages = client.list_messages(session.id).await?;
        let asked = messages
            .iter()
            .rposition(|message| message.role == Role::User)
            .unwrap_or(0);
        for message in messages.iter().skip(asked) {
            if session.active_run_id.is_none() || message.run_id != session.active_run_id || message.role == Role::User
            {
                commands::show_message(message)?;
            }
        }
        let name = session
            .title
            .as_ref()
            .map_or_else(String::new, |title| format!(": {title}"));
        render::notice(&format!("in session {}{name}", session.id));
        self.session_id = Some(session.id);
        match session.active_run_id {
            Some(run_id) => self.follow(run_id).await,
            None => Ok(Next::Go),
        }
    }

    async fn model(&self) -> Result<String> {
        let client = &self.connected.client;
        match self.session_id {
            Some(session_id) => Ok(client.get_session(session_id).await?.model),
            None => Ok(client.info().await?.model.map(|model| model.name).unwrap_or_default()),
        }
    }

    async fn set_model(&mut self, model: &str) -> Result<()> {
        let request = UpdateSessionRequest {
            model: Some(model.to_owned()),
            ..UpdateSessionRequest::default()
        };
        let session_id = self.session().await?;
        let session = self.connected.client.update_session(session_id, &request).await?;
        render::notice(&format!("{} answers from now on", session.model));
        Ok(())
    }

    async fn stop(&self) -> Result<()> {
        let client = &self.connected.client;
        let active = match self.session_id {
            Some(session_id) => client.get_session(session_id).await?.active_run_id,
            None => None,
        };
        match active {
            Some(run_id) => {
                client.cancel_run(run_id, &CancelRunRequest::default()).await?;
                render::notice("stopping");
            }
            None => render::notice("nothing runs in this session"),
        }
        Ok(())
    }
}

fn busy_told(busy: Busy) -> String {
    let what = match busy {
        Busy::Interrupt => "interrupts it: it stops, and your message comes next",
        Busy::Steer => "is told to the agent after its tools; the run goes on",
        Busy::Queue => "waits for its turn",
    };
    format!("what you write while a run goes on {what}")
}

fn help() -> Result<()> {
    render::print_entries(COMMANDS.iter().copied(), 18)?;
    render::print_markdown(KEYS)
}

fn title(session: &Session) -> &str {
    session.title.as_deref().unwrap_or("(no title)")
}

fn unknown(name: &str) -> String {
    let names = COMMANDS
        .iter()
        .filter_map(|(command, _)| command.split([' ', '/']).nth(1));
    let likeness = |other: &str| strsim::normalized_damerau_levenshtein(name, other);
    let nearest = names.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    match nearest.filter(|nearest| likeness(nearest) >= LIKE || nearest.starts_with(name) && !name.is_empty()) {
        Some(nearest) => format!("there is no /{name}: did you mean /{nearest}? /help lists all"),
        None => format!("there is no /{name}: /help lists what there is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_commands_get_the_nearest_known_one() {
        for (typed, meant) in [
            ("sesions", "/sessions"),
            ("hlep", "/help"),
            ("qit", "/quit"),
            ("resmue", "/resume"),
        ] {
            assert!(
                unknown(typed).contains(&format!("did you mean {meant}?")),
                "{}",
                unknown(typed)
            );
        }
        assert!(!unknown("frobnicate").contains("did you mean"));
        assert!(!unknown("").contains("did you mean"));
    }
}
