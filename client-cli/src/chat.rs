//! `talaria chat`: a conversation.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use reedline::{DefaultPrompt, DefaultPromptSegment, FileBackedHistory, Reedline, Signal};
use talaria_openapi::ids::SessionId;
use talaria_openapi::runs::{CreateRunRequest, OnBusy};

use crate::commands::{self, Connected, new_session};
use crate::error::{Error, Result};
use crate::render;
use crate::run::follow;

const MAX_HISTORY: usize = 1_000;
const HELP: &str = "/new begins a session, /sessions lists them, /resume ID goes on with one, /model [NAME] shows or sets the \
model, /tools lists the tools, /quit leaves. A line that ends with \\ goes on in the next one.\n";

/// Where lines come from.
enum Lines {
    Person(Box<Reedline>, DefaultPrompt),
    Pipe(std::io::Stdin),
}

struct Chat {
    connected: Connected,
    session_id: SessionId,
    model: Option<String>,
}

pub(crate) async fn chat(connected: Connected, session: Option<SessionId>, home: PathBuf) -> Result<ExitCode> {
    let session_id = match session {
        Some(session_id) => connected.client.get_session(session_id).await?.tip_id,
        None => new_session(&connected).await?.id,
    };
    greet(&connected).await?;
    let mut chat = Chat {
        connected,
        session_id,
        model: None,
    };
    let mut lines = Lines::open(&home)?;
    // Reading blocks: the line is read beside the runtime, and the reader comes back with it.
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let text = lines.next();
            (lines, text)
        });
        let (reader, text) = read.await.map_err(|error| Error::Local(error.to_string()))?;
        lines = reader;
        let Some(text) = text? else { break };
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        if text == "/quit" || text == "/exit" {
            break;
        }
        let outcome = match text.strip_prefix('/') {
            Some(command) => chat.command(command).await,
            None => chat.say(text).await,
        };
        if let Err(error) = outcome {
            render::complain(&error.to_string());
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
    async fn say(&self, text: &str) -> Result<()> {
        let request = CreateRunRequest {
            model: self.model.clone(),
            on_busy: OnBusy::Queue,
            ..CreateRunRequest::text(text)
        };
        let run = self.connected.client.create_run(self.session_id, &request).await?;
        follow(&self.connected.client, run.id, false).await.map(drop)
    }

    async fn command(&mut self, command: &str) -> Result<()> {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        match (name, rest.trim()) {
            ("help", _) => render::print(HELP),
            ("new", _) => {
                self.session_id = new_session(&self.connected).await?.id;
                render::notice(&format!("new session {}", self.session_id));
            }
            ("sessions", _) => commands::list(&self.connected.client, 20).await?,
            ("resume", id) => {
                let id = id
                    .parse()
                    .map_err(|error| Error::Local(format!("/resume: {error}; /sessions lists them")))?;
                self.session_id = self.connected.client.get_session(id).await?.tip_id;
                render::notice(&format!("in session {}", self.session_id));
            }
            ("model", "") => render::notice(self.model.as_deref().unwrap_or("the session's model")),
            ("model", model) => self.model = Some(model.to_owned()),
            ("tools", _) => drop(commands::tools(&self.connected.client).await?),
            _ => render::notice(&format!("there is no /{name}: /help lists what there is")),
        }
        Ok(())
    }
}

impl Lines {
    fn open(home: &Path) -> Result<Self> {
        if !std::io::stdin().is_terminal() {
            return Ok(Self::Pipe(std::io::stdin()));
        }
        let history = FileBackedHistory::with_file(MAX_HISTORY, home.join("history"))
            .map_err(|error| Error::Local(format!("the history can't be kept: {error}")))?;
        let editor = Reedline::create().with_history(Box::new(history));
        let prompt = DefaultPrompt::new(DefaultPromptSegment::Empty, DefaultPromptSegment::Empty);
        Ok(Self::Person(Box::new(editor), prompt))
    }

    /// The next message; `None` at the end.
    fn next(&mut self) -> Result<Option<String>> {
        let mut text = String::new();
        loop {
            let line = match self {
                Self::Pipe(input) => read_pipe(input)?,
                Self::Person(editor, prompt) => match editor.read_line(prompt) {
                    Ok(Signal::Success(line)) => Some(line),
                    Ok(Signal::CtrlC) => Some(String::new()),
                    Ok(_) => None,
                    Err(error) => return Err(Error::Local(error.to_string())),
                },
            };
            let Some(line) = line else {
                return Ok((!text.is_empty()).then_some(text));
            };
            text.push_str(line.strip_suffix('\\').unwrap_or(&line));
            if !line.ends_with('\\') {
                return Ok(Some(text));
            }
            text.push('\n');
        }
    }
}

fn read_pipe(input: &std::io::Stdin) -> Result<Option<String>> {
    let mut line = String::new();
    let length = input
        .read_line(&mut line)
        .map_err(|error| Error::Local(error.to_string()))?;
    Ok((length > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
}
