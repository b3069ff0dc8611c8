//! The command line, and what it leads to before anything runs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::config::{self, ConfigError, Loaded};
use crate::wire::Prepared;

/// The agent server: sessions, messages and streaming runs over HTTP.
#[derive(Debug, Parser)]
#[command(name = "talaria-server", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Where everything is kept: configuration, keys, database.
    #[arg(long, global = true, env = "TALARIA_HOME", value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,

    /// The configuration file; `<home>/config.yaml` when left out.
    #[arg(long, global = true, env = "TALARIA_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The address to listen on; wins over `server.listen`. Port 0 takes any free port.
    #[arg(long, global = true, env = "TALARIA_LISTEN", value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// A loopback address for operators: metrics, health and readiness without a key; wins over `server.admin_listen`.
    #[arg(long, global = true, env = "TALARIA_ADMIN_LISTEN", value_name = "ADDRESS:PORT")]
    pub(crate) admin_listen: Option<SocketAddr>,

    /// What to log: `error`, `warn`, `info`, `debug`, or a filter such as `info,talaria_agent=debug`.
    #[arg(
        long,
        global = true,
        env = "TALARIA_LOG",
        default_value = "info",
        value_name = "FILTER"
    )]
    pub(crate) log: String,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Serve (what happens without a command).
    Serve,
    /// Print the OpenAPI document.
    Openapi {
        /// Compare with this file instead of printing; exit 1 when they differ.
        #[arg(long, value_name = "FILE")]
        check: Option<PathBuf>,
        /// Print the page `docs/API-TABLES.md` instead: scopes, error codes and events.
        #[arg(long, conflicts_with = "check")]
        tables: bool,
    },
    /// Look at the configuration.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print the version.
    Version,
    /// Supervise a command of the agent. The server calls this; people have no use for it.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    SandboxExec {
        /// Become the command instead of supervising it.
        #[arg(long)]
        child: bool,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read the configuration and say what is wrong with it; exit 78 when something is.
    Check,
}

impl Args {
    pub(crate) fn load_config(&self) -> Result<Loaded, ConfigError> {
        let environment: BTreeMap<String, String> = std::env::vars().collect();
        let home = match &self.home {
            Some(home) => home.clone(),
            None => config::default_home(&environment)?,
        };
        config::load(home, self.config.clone(), environment)
    }

    pub(crate) fn prepare(&self) -> Result<Prepared, ConfigError> {
        let mut loaded = self.load_config()?;
        if let Some(listen) = self.listen {
            loaded.config.server.listen = listen;
        }
        if self.admin_listen.is_some() {
            loaded.config.server.admin_listen = self.admin_listen;
        }
        config::check_admin_listen(&loaded.config)?;
        let started_in = std::env::current_dir().map_err(ConfigError::NoFolder)?;
        Ok(Prepared { loaded, started_in })
    }
}
