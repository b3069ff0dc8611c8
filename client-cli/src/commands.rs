//! Every command but `chat` and `run`.

use std::process::ExitCode;

use talaria_openapi::ids::SessionId;
use talaria_openapi::messages::Role;
use talaria_openapi::sessions::{CreateSessionRequest, Session, SessionSource, UpdateSessionRequest};

use crate::args::{Args, Command, ServerCommand, SessionsCommand};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::local_server::{LocalServer, tail};
use crate::{chat, render, run};

/// A client, and whether its server is on this host.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) is_local: bool,
}

pub(crate) async fn dispatch(args: Args) -> Result<ExitCode> {
    match args.command.clone().unwrap_or(Command::Chat { session: None }) {
        Command::Chat { session } => {
            chat::chat(connect(&args).await?, session, LocalServer::new(args.home)?.home).await
        }
        Command::Run {
            prompt,
            json,
            session,
            model,
        } => run::run(connect(&args).await?, &prompt, json, session, model).await,
        Command::Sessions { command } => sessions(connect(&args).await?.client, command).await,
        Command::Tools => tools(&connect(&args).await?.client).await,
        Command::Server { command } => server(&LocalServer::new(args.home)?, command).await,
        // Answered before a runtime was needed.
        Command::Completions { .. } => Ok(ExitCode::SUCCESS),
    }
}

async fn connect(args: &Args) -> Result<Connected> {
    let local = LocalServer::new(args.home.clone())?;
    if let Some(url) = &args.url {
        // The home's credential goes to the home's server only.
        let own = local
            .find()
            .await
            .filter(|server| url.trim_end_matches('/') == format!("http://{}", server.address));
        let token = args.token.clone().or_else(|| own.and_then(|_| local.token()));
        let client = Client::new(url, token, args.profile.clone())?;
        return Ok(Connected {
            client,
            is_local: false,
        });
    }
    let server = local.ensure().await?;
    let token = args.token.clone().or_else(|| local.token());
    let client = Client::new(&format!("http://{}", server.address), token, args.profile.clone())?;
    Ok(Connected { client, is_local: true })
}

/// A new session; on the same host it works in the folder that the person stands in.
pub(crate) async fn new_session(connected: &Connected) -> Result<Session> {
    let here = std::env::current_dir()
        .ok()
        .and_then(|folder| folder.to_str().map(str::to_owned));
    let workspace = here.filter(|_| connected.is_local);
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
        SessionsCommand::Export { id, format } => render::print(&client.export_session(id, &format).await?),
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
        let day: String = session.created_at.to_string().chars().take(16).collect();
        let title = session.title.unwrap_or_else(|| "(no title)".to_owned());
        render::print(&format!("{}  {}  {title}\n", session.id, day.replace('T', " ")));
    }
    Ok(())
}

async fn show(client: &Client, session_id: SessionId) -> Result<()> {
    for message in client.list_messages(session_id).await? {
        let text = message.text();
        match message.role {
            Role::User => render::print(&format!("\n> {}\n\n", text.replace('\n', "\n> "))),
            Role::Assistant if !text.is_empty() => render::print(&format!("{text}\n")),
            Role::Assistant | Role::Tool => {}
        }
    }
    Ok(())
}

async fn search(client: &Client, query: &str) -> Result<()> {
    let results = client.search(query, 20).await?;
    if results.data.is_empty() {
        render::notice("nothing found");
    }
    for hit in results.data {
        let passage: String = hit.snippet.into_iter().map(|piece| piece.t).collect();
        render::print(&format!("{}  {passage}\n", hit.session_id));
    }
    Ok(())
}

pub(crate) async fn tools(client: &Client) -> Result<ExitCode> {
    for tool in client.list_tools().await? {
        let first = tool.description.split(". ").next().unwrap_or_default();
        render::print(&format!("{:<14} {}\n", tool.name, first.trim_end_matches('.')));
    }
    Ok(ExitCode::SUCCESS)
}

async fn server(local: &LocalServer, command: ServerCommand) -> Result<ExitCode> {
    match command {
        ServerCommand::Start => {
            let server = local.ensure().await?;
            render::print(&format!(
                "talaria-server runs at http://{} (process {})\n",
                server.address, server.pid
            ));
        }
        ServerCommand::Stop => {
            let text = if local.stop().await? {
                "stopped\n"
            } else {
                "no server runs\n"
            };
            render::print(text);
        }
        ServerCommand::Status => {
            let Some(server) = local.find().await else {
                return Err(Error::Local(
                    "no server runs: start one with `talaria server start`".to_owned(),
                ));
            };
            let info = Client::new(&format!("http://{}", server.address), local.token(), None)?
                .info()
                .await?;
            let model = info
                .model
                .map(|model| format!("{} ({})", model.name, model.chosen_by))
                .unwrap_or_default();
            render::print(&format!(
                "http://{} (process {}), version {}, answers come from {model}\n",
                server.address, server.pid, info.version
            ));
        }
        ServerCommand::Logs { lines } => render::print(&format!("{}\n", tail(&local.log_path(), lines))),
    }
    Ok(ExitCode::SUCCESS)
}
