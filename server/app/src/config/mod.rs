//! The configuration file: strict, with every mistake told by file, line, key and what was expected.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use talaria_openapi::runs::ApprovalPolicy;

mod expand;
mod nearest;

pub use expand::expand;

/// What a new home gets; every value in it is the default.
pub const DEFAULT_CONFIG: &str = include_str!("../../config.default.yaml");

/// Longest time that a person can be given to answer: 30 days.
const MAX_APPROVAL_TIMEOUT: u64 = 30 * 24 * 60 * 60;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The model that answers, as `provider/model`.
    pub model: Option<String>,
    /// The providers, by the name that models are called with.
    pub providers: BTreeMap<String, Provider>,
    /// The agent.
    pub agent: Agent,
    /// The server.
    pub server: Server,
}

/// A model provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// The wire that it speaks.
    pub kind: ProviderKind,
    /// Where it is, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// Its key, as `${NAME}`.
    #[serde(default)]
    pub api_key: Option<String>,
    /// How many tokens its models read.
    #[serde(default)]
    pub context_length: Option<u64>,
}

/// A wire that providers speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// Chat completions: OpenAI, OpenRouter, Ollama, llama.cpp, vLLM and many others.
    OpenaiChat,
}

/// The agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Agent {
    /// Model rounds of a run.
    pub max_rounds: u32,
    /// The folder that tools work in when a client names none; `.` is where the server was started.
    pub workspace: PathBuf,
    /// Folders that a client's workspace must be in.
    pub workspace_roots: Vec<PathBuf>,
    /// Who must agree before a tool acts.
    pub approval_policy: ApprovalPolicy,
    /// Seconds that a person has to answer before it counts as no.
    pub approval_timeout: u64,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            max_rounds: 90,
            workspace: PathBuf::from("."),
            workspace_roots: vec![PathBuf::from(".")],
            approval_policy: ApprovalPolicy::Ask,
            approval_timeout: 1_800,
        }
    }
}

/// The server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// A loopback address for operators: metrics, health and readiness without a key.
    pub admin_listen: Option<SocketAddr>,
    /// The address that clients use, such as `https://agent.example.org`; named in tokens and where they come from.
    pub public_url: Option<String>,
    /// Further names that the server is called by.
    pub hosts: Vec<String>,
    /// Origins of browsers that may call.
    pub origins: Vec<String>,
    /// Streams that may be open at the same time.
    pub max_streams: usize,
    /// Runs that may work at the same time.
    pub max_active_runs: usize,
    /// What one key may ask for.
    pub rate_limits: RateLimits,
}

/// What one key may ask for in a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimits {
    /// Runs that it may create.
    pub runs: NonZeroU32,
    /// Requests of any other kind.
    pub requests: NonZeroU32,
}

impl Default for RateLimits {
    fn default() -> Self {
        const RUNS: NonZeroU32 = NonZeroU32::new(600).unwrap();
        const REQUESTS: NonZeroU32 = NonZeroU32::new(6_000).unwrap();
        Self {
            runs: RUNS,
            requests: REQUESTS,
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8640)),
            admin_listen: None,
            public_url: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            max_streams: 1_000,
            max_active_runs: talaria_agent::run::DEFAULT_MAX_ACTIVE_RUNS,
            rate_limits: RateLimits::default(),
        }
    }
}

/// A configuration that was read.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The home.
    pub home: PathBuf,
    /// The file, whether it exists or not.
    pub path: PathBuf,
    /// What it says.
    pub config: Config,
    /// The environment, with `<home>/.env` over it.
    pub environment: BTreeMap<String, String>,
}

/// What is wrong with a configuration. Each names the file, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{path} can't be read: {source}. Make it readable, or name another one with --config")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file isn't what was expected.
    #[error("{path}: {problem}")]
    Invalid {
        /// The file.
        path: String,
        /// Line, key, what was expected, what may have been meant.
        problem: String,
    },
    /// What asks for no key must not be open to others.
    #[error("the operators' address {0} is not a loopback one, and it asks for no key: use 127.0.0.1 or [::1]")]
    AdminNotLoopback(SocketAddr),
    /// Nobody knows where the home is.
    #[error("there is no home: set TALARIA_HOME, or HOME, or name a folder with --home")]
    NoHome,
    /// The current folder is gone.
    #[error("the current folder can't be told ({0}): start the server in a folder that exists")]
    NoFolder(std::io::Error),
}

/// `~/.talaria`.
pub fn default_home(environment: &BTreeMap<String, String>) -> Result<PathBuf, ConfigError> {
    let user_home = environment
        .get("HOME")
        .filter(|home| !home.is_empty())
        .ok_or(ConfigError::NoHome)?;
    Ok(Path::new(user_home).join(".talaria"))
}

/// Reads the configuration of a home. A file that doesn't exist says nothing.
pub fn load(
    home: PathBuf,
    path: Option<PathBuf>,
    mut environment: BTreeMap<String, String>,
) -> Result<Loaded, ConfigError> {
    let is_named = path.is_some();
    let path = path.unwrap_or_else(|| home.join("config.yaml"));
    read_dot_env(&home.join(".env"), &mut environment)?;
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => String::new(),
        Err(source) => {
            return Err(ConfigError::Unreadable {
                path: path.display().to_string(),
                source,
            });
        }
    };
    let mut config = parse(&text).map_err(|problem| ConfigError::Invalid {
        path: path.display().to_string(),
        problem,
    })?;
    resolve(&mut config, &environment).map_err(|problem| ConfigError::Invalid {
        path: path.display().to_string(),
        problem,
    })?;
    Ok(Loaded {
        home,
        path,
        config,
        environment,
    })
}

/// Reads a configuration from its text. The error names line, key, and the nearest key there is.
pub fn parse(text: &str) -> Result<Config, String> {
    if text
        .lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
    {
        return Ok(Config::default());
    }
    serde_saphyr::from_str(text).map_err(|error| nearest::with_suggestion(&error.without_snippet().to_string()))
}

/// Puts values of the environment into the places that name them, and checks what only a look at all can tell.
fn resolve(config: &mut Config, environment: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, provider) in &mut config.providers {
        let expand = |key: &str, text: &str| {
            expand(text, environment).map_err(|variable| {
                format!("providers.{name}.{key}: `${{{variable}}}` is not set: put it into the environment or into .env beside this file")
            })
        };
        provider.base_url = expand("base_url", &provider.base_url)?;
        provider.api_key = provider
            .api_key
            .as_deref()
            .map(|text| expand("api_key", text))
            .transpose()?;
        if !provider.base_url.starts_with("http://") && !provider.base_url.starts_with("https://") {
            return Err(format!(
                "providers.{name}.base_url: expected an address that begins with http:// or https://"
            ));
        }
    }
    if let Some(model) = &config.model {
        let (provider, rest) = model.split_once('/').unwrap_or((model, ""));
        let is_known = provider == "demo" || config.providers.contains_key(provider);
        if rest.is_empty() || !is_known {
            let known: Vec<&str> = config.providers.keys().map(String::as_str).chain(["demo"]).collect();
            return Err(format!(
                "model: expected `provider/model` with a provider of this file ({}), found `{model}`",
                known.join(", ")
            ));
        }
    }
    if !(1..=MAX_APPROVAL_TIMEOUT).contains(&config.agent.approval_timeout) {
        return Err(format!(
            "agent.approval_timeout: expected seconds from 1 to {MAX_APPROVAL_TIMEOUT}"
        ));
    }
    if config.agent.max_rounds == 0 {
        return Err("agent.max_rounds: expected a number from 1".to_owned());
    }
    Ok(())
}

/// Refuses an operators' address that others could reach.
pub fn check_admin_listen(config: &Config) -> Result<(), ConfigError> {
    match config.server.admin_listen.filter(|address| !address.ip().is_loopback()) {
        Some(address) => Err(ConfigError::AdminNotLoopback(address)),
        None => Ok(()),
    }
}

fn read_dot_env(path: &Path, environment: &mut BTreeMap<String, String>) -> Result<(), ConfigError> {
    let pairs = match dotenvy::from_path_iter(path) {
        Ok(pairs) => pairs,
        Err(error) if error.not_found() => return Ok(()),
        Err(error) => {
            return Err(ConfigError::Invalid {
                path: path.display().to_string(),
                problem: error.to_string(),
            });
        }
    };
    for pair in pairs {
        // The error would show the line, which holds a secret.
        let problem = "a line is not of the form NAME=value".to_owned();
        let (name, value) = pair.map_err(|_| ConfigError::Invalid {
            path: path.display().to_string(),
            problem,
        })?;
        environment.insert(name, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
