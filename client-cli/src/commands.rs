//! Every command but `chat` and `run`.

use std::path::Path;
use std::process::ExitCode;

use futures_util::StreamExt as _;
use talaria_openapi::ids::SessionId;
use talaria_openapi::messages::{Message, Role};
use talaria_openapi::sessions::{CreateSessionRequest, Session, SessionSource, UpdateSessionRequest};
use talaria_openapi::time::Timestamp;

use crate::account::Account;
use crate::args::{Args, Command, ServerCommand, SessionsCommand};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::local_server::LocalServer;
use crate::{approvals, chat, log_file, login, render, run, runs};

/// Most sessions that a server lists at once.
const MAX_PAGE: u32 = 200;
/// Room for the name of a tool.
const TOOL_CELLS: usize = 14;

/// A client, and whether its server is on this host.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) is_local: bool,
}

pub(crate) async fn dispatch(args: Args) -> Result<ExitCode> {
    match args.command.clone().unwrap_or_else(Args::conversation) {
        Command::Chat(start) => chat::chat(connect(&args).await?, &start, &LocalServer::new(args.home)?.home).await,
        Command::Run {
            prompt,
            json,
            session,
            model,
        } => run::run(connect(&args).await?, &prompt, json, session, model).await,
        Command::Sessions { command } => sessions(connect(&args).await?.client, command).await,
        Command::Runs { command } => runs::runs(&connect(&args).await?.client, command).await,
        Command::Approvals { command } => done(approvals::approvals(&connect(&args).await?.client, command).await),
        Command::Tools => done(tools(&connect(&args).await?.client).await),
        Command::Login { server, key } => done(login::login(&args, server, &key).await),
        Command::Logout => done(login::logout(&args)),
        Command::Server { command } => server(&LocalServer::new(args.home)?, command).await,
        // Answered before a runtime was needed.
        Command::Completions { .. } => Ok(ExitCode::SUCCESS),
    }
}

fn done(outcome: Result<()>) -> Result<ExitCode> {
    outcome.map(|()| ExitCode::SUCCESS)
}

/// The server that is meant: the named one, else the one that the person logged in at, else the one on this host.
async fn connect(args: &Args) -> Result<Connected> {
    let local = LocalServer::new(args.home.clone())?;
    let account = Account::load(&local.home)?;
    let known = account.as_ref().and_then(|account| account.url.clone());
    let Some(url) = args.url.clone().or_else(|| known.clone()) else {
        let server = local.ensure().await?;
        // A key without an address is one of the server on this host.
        let key = account.map(|account| account.key);
        let token = args.token.clone().or(key).or_else(|| local.token());
        let client = Client::of_home(local, &server, token, args.profile.clone())?;
        return Ok(Connected { client, is_local: true });
    };
    let is_same = |other: &str| url.trim_end_matches('/') == other.trim_end_matches('/');
    // The home's credential goes to the home's server only, and a key to the server that it was given for.
    let own = local.find().await.filter(|server| is_same(&server.url()));
    let key = account
        .filter(|_| known.is_some_and(|known| is_same(&known)))
        .map(|account| account.key);
    let token = args.token.clone().or(key).or_else(|| own.and_then(|_| local.token()));
    let client = Client::new(&url, token, args.profile.clone())?;
    Ok(Connected {
        client,
        is_local: false,
    })
}

impl Connected {
    /// The newest session of the folder that the person stands in (of the terminal, where the server is elsewhere), but for one.
    pub(crate) async fn last_session(&self, but: Option<SessionId>) -> Result<Option<SessionId>> {
        let sessions = self.client.list_sessions(MAX_PAGE).await?.data;
        let here = if self.is_local { here() } else { None };
        let is_meant = |session: &Session| match &here {
            Some(here) => session.workspace == *here,
            None => session.source == SessionSource::Cli,
        };
        let newest = sessions
            .into_iter()
            .filter(|session| is_meant(session) && Some(session.tip_id) != but)
            .max_by_key(|session| session.updated_at);
        Ok(newest.map(|session| session.tip_id))
    }
}

/// The folder that the person stands in.
fn here() -> Option<String> {
    let folder = std::env::current_dir().ok()?;
    folder.to_str().map(str::to_owned)
}

/// A new session; on the same host it works in the folder that the person stands in.
pub(crate) async fn new_session(connected: &Connected) -> Result<Session> {
    let workspace = here().filter(|_| connected.is_local);
    let request = CreateSessionRequest {
        workspace,
        source: Some(SessionSource::Cli),
        ..CreateSessionRequest::default()
    };
    connected.client.create_session(&request).await
}

async fn sessions(client: Client, command: SessionsCommand) -> Result<ExitCode> {
    match command {
        SessionsCommand::List { limit } => list(&client, limit).await?,
        SessionsCommand::Show { id } => show(&client, id).await?,
        SessionsCommand::Search { query } => search(&client, &query).await?,
        SessionsCommand::Export { id, format } => export(&client, id, &format).await?,
        SessionsCommand::Rename { id, title } => {
            let request = UpdateSessionRequest {
                title: Some(Some(title)),
                ..UpdateSessionRequest::default()
            };
            client.update_session(id, &request).await?;
        }
        SessionsCommand::Delete { id, force } => client.delete_session(id, force).await?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn list(client: &Client, limit: u32) -> Result<()> {
    let page = client.list_sessions(limit.clamp(1, 200)).await?;
    if page.data.is_empty() {
        render::notice("no sessions yet: begin one with `talaria`");
    }
    for session in page.data {
        let day = minute(session.created_at);
        let title = session.title.unwrap_or_else(|| "(no title)".to_owned());
        render::print(&format!("{}  {day}  {title}\n", session.id))?;
    }
    Ok(())
}

/// A time, to the minute.
pub(crate) fn minute(at: Timestamp) -> String {
    let minute: String = at.to_string().chars().take(16).collect();
    minute.replace('T', " ")
}

/// Prints a session line by line as it comes: it may be longer than memory.
async fn export(client: &Client, session_id: SessionId, format: &str) -> Result<()> {
    let mut pieces = client.open_export(session_id, format).await?.bytes_stream();
    let mut open = Vec::new();
    while let Some(piece) = pieces.next().await {
        open.extend_from_slice(&piece.map_err(|error| client.unreachable(&error))?);
        // Whole lines: a character may be cut in two between pieces.
        if let Some(last) = open.iter().rposition(|byte| *byte == b'\n') {
            let rest = open.split_off(last + 1);
            render::print(&String::from_utf8_lossy(&open))?;
            open = rest;
        }
    }
    render::print(&String::from_utf8_lossy(&open))
}

async fn show(client: &Client, session_id: SessionId) -> Result<()> {
    client
        .list_messages(session_id)
        .await?
        .iter()
        .try_for_each(show_message)
}

/// Shows what was said; what tools gave is left out.
pub(crate) fn show_message(message: &Message) -> Result<()> {
    let text = message.text();
    match message.role {
        Role::User => {
            render::echo(&text)?;
            render::print("\n")
        }
        Role::Assistant if !text.is_empty() => {
            render::print_markdown(&text)?;
            render::print("\n")
        }
        Role::Assistant | Role::Tool => Ok(()),
    }
}

async fn search(client: &Client, query: &str) -> Result<()> {
    let results = client.search(query, 20).await?;
    if results.data.is_empty() {
        render::notice("nothing found");
    }
    for hit in results.data {
        let passage: String = hit.snippet.into_iter().map(|piece| piece.t).collect();
        render::print(&format!("{}  {passage}\n", hit.session_id))?;
    }
    Ok(())
}

pub(crate) async fn tools(client: &Client) -> Result<()> {
    let tools = client.list_tools().await?;
    let entries = tools.iter().map(|tool| {
        let first = tool.description.split(". ").next().unwrap_or_default();
        (tool.name.as_str(), first.trim_end_matches('.'))
    });
    render::print_entries(entries, TOOL_CELLS)
}

async fn server(local: &LocalServer, command: ServerCommand) -> Result<ExitCode> {
    match command {
        ServerCommand::Start => {
            let server = local.ensure().await?;
            render::print(&format!(
                "talaria-server runs at http://{} (process {})\n",
                server.address, server.pid
            ))?;
        }
        ServerCommand::Stop => {
            let text = if local.stop().await? {
                "stopped\n"
            } else {
                "no server runs\n"
            };
            render::print(text)?;
        }
        ServerCommand::Status => {
            let Some(server) = local.find().await else {
                return Err(Error::Local(
                    "no server runs: start one with `talaria server start`".to_owned(),
                ));
            };
            let info = Client::new(&server.url(), local.token(), None)?.info().await?;
            let model = info
                .model
                .map(|model| format!("{} ({})", model.name, model.chosen_by))
                .unwrap_or_default();
            render::print(&format!(
                "http://{} (process {}), version {}, answers come from {model}\n",
                server.address, server.pid, info.version
            ))?;
        }
        ServerCommand::Logs { lines, follow } => logs(&local.log_path(), lines, follow).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn logs(path: &Path, lines: usize, follow: bool) -> Result<()> {
    // Its length first: what is added meanwhile is rather said twice than not at all.
    let length = std::fs::metadata(path).map_or(0, |log| log.len());
    let end = log_file::tail(path, lines)
        .map_err(|error| Error::Local(format!("{} can't be read: {error}", path.display())))?;
    if end.is_empty() && !follow {
        render::notice(&format!("{} is empty or not there", path.display()));
    }
    let show = |bytes: &[u8]| render::print(&String::from_utf8_lossy(bytes));
    show(&end)?;
    if follow {
        log_file::follow(path, length, show).await?;
    }
    Ok(())
}
