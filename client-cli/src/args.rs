//! The command line.

use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use talaria_openapi::ids::{InteractionId, RunId, SessionId};

use crate::outbox::Busy;

/// Talk to your agent.
#[derive(Clone, Parser)]
#[command(name = "talaria", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The server; the one on this host when left out, which is started when it doesn't run.
    #[arg(long, global = true, env = "TALARIA_URL", value_name = "URL")]
    pub(crate) url: Option<String>,

    /// The server's home on this host.
    #[arg(long, global = true, env = "TALARIA_HOME", value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,

    /// The credential, from `TALARIA_TOKEN` only: what stands on a command line can be read by others.
    #[arg(skip)]
    pub(crate) token: Option<String>,

    /// The profile to work in.
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Talk (what happens without a command).
    Chat(Start),
    /// Ask one thing and print the answer. Exit code: 0 completed, 1 failed, 130 cancelled, 2 no server.
    Run {
        /// What to ask; `-` reads standard input.
        prompt: String,
        /// Print the run's events, one JSON a line, instead of the answer.
        #[arg(long)]
        json: bool,
        /// Ask in this session.
        #[arg(long, value_name = "ID")]
        session: Option<SessionId>,
        /// The model, as provider/model.
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
    },
    /// Look at sessions.
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Look at runs.
    Runs {
        #[command(subcommand)]
        command: RunsCommand,
    },
    /// What runs wait for a person for.
    Approvals {
        #[command(subcommand)]
        command: Option<ApprovalsCommand>,
    },
    /// List the agent's tools.
    Tools,
    /// The server on this host.
    Server {
        #[command(subcommand)]
        command: ServerCommand,
    },
    /// Use another server, or another key; it is kept in the home.
    Login {
        /// The server; the one on this host when left out.
        #[arg(value_name = "URL")]
        server: Option<String>,
        /// The key; `-` (or nothing) reads it from the keyboard, unseen, or from a pipe.
        #[arg(long, value_name = "KEY", num_args = 0..=1, default_value = "-", default_missing_value = "-")]
        key: String,
    },
    /// Forget server and key: use the server on this host again.
    Logout,
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Where a conversation begins, and how it goes.
#[derive(Debug, Clone, Parser)]
pub(crate) struct Start {
    /// Go on with this session.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<SessionId>,
    /// Go on with the last session of this folder.
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub(crate) is_continued: bool,
    /// What happens to what you write while a run goes on; `/busy` changes it.
    #[arg(long, env = "TALARIA_BUSY", value_enum, default_value_t, value_name = "MODE")]
    pub(crate) busy: Busy,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SessionsCommand {
    /// The newest sessions.
    List {
        /// How many.
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// What was said.
    Show {
        /// The session.
        id: SessionId,
    },
    /// Search everything that was ever said.
    Search {
        /// Words, "phrases", -without, begin*.
        query: String,
    },
    /// Print a session as a document.
    Export {
        /// The session.
        id: SessionId,
        /// `markdown` or `jsonl`.
        #[arg(long, default_value = "markdown")]
        format: String,
    },
    /// Give a session a title.
    Rename {
        /// The session.
        id: SessionId,
        /// The title.
        title: String,
    },
    /// Delete a session and everything in it.
    Delete {
        /// The session.
        id: SessionId,
        /// Stop what runs in it first.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum RunsCommand {
    /// The newest runs.
    List {
        /// Of this session.
        #[arg(long, value_name = "ID")]
        session: Option<SessionId>,
        /// How many.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
    },
    /// What a run was asked and what became of it.
    Show {
        /// The run.
        id: RunId,
    },
    /// Show a run to its end. Exit code: as of `talaria run`.
    Watch {
        /// The run.
        id: RunId,
        /// Print its events, one JSON a line.
        #[arg(long)]
        json: bool,
    },
    /// Stop a run, and wait until it has stopped.
    Cancel {
        /// The run.
        id: RunId,
        /// Why, for the record.
        why: Option<String>,
        /// Give its tools no time to stop by themselves.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// Everything that waits (what happens without a command).
    List,
    /// Allow a call.
    Approve {
        /// What waits.
        id: InteractionId,
        /// Allow its like in the same session, too.
        #[arg(long, conflicts_with = "always")]
        session: bool,
        /// Allow its like everywhere, too.
        #[arg(long)]
        always: bool,
    },
    /// Don't allow a call, or leave a question to the agent.
    Deny {
        /// What waits.
        id: InteractionId,
        /// Why, for the agent.
        why: Option<String>,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ServerCommand {
    /// Start it, unless it runs.
    Start,
    /// Stop it; runs go on at the next start.
    Stop,
    /// Where it is and what answers.
    Status,
    /// Print the end of its log.
    Logs {
        /// Lines.
        #[arg(short = 'n', long, default_value_t = 50)]
        lines: usize,
        /// Go on printing what is added, until Ctrl+C.
        #[arg(short, long)]
        follow: bool,
    },
}

impl Args {
    /// What happens without a command: `talaria chat`.
    pub(crate) fn conversation() -> Command {
        Command::Chat(Start::parse_from(["talaria"]))
    }

    /// The command line, with the credential of the environment.
    pub(crate) fn read() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place where this program reads its credential"
        )]
        let token = std::env::var("TALARIA_TOKEN").ok().filter(|token| !token.is_empty());
        Self { token, ..Self::parse() }
    }
}

pub(crate) fn print_completions(shell: Shell) {
    clap_complete::generate(shell, &mut Args::command(), "talaria", &mut std::io::stdout());
}
