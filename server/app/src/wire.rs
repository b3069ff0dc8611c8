//! Puts the server together, and takes it apart in order. The only file that names concrete tools.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use talaria_agent::{ResolveModel, Runs};
use talaria_domain::clock::{SharedClock, SystemClock};
use talaria_domain::principal::PrincipalName;
use talaria_domain::scope::TaskScope;
use talaria_domain::tool::ToolSet;
use talaria_http::{AppState, CheckWorkspace, HostPolicy, RenderMetrics};
use talaria_store::Store;
use talaria_text::redact::Redactor;
use talaria_tools::paths::DeniedPaths;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, ConfigError, DEFAULT_CONFIG, Loaded};
use crate::home::{Home, HomeError, ServerFile};
use crate::{metrics, model_choice, serve, signing_key, telemetry};

/// How long runs may take to reach a safe place when the server stops.
const DRAIN_PATIENCE: Duration = Duration::from_secs(25);

/// Everything that is known before the server starts.
#[derive(Debug)]
pub struct Prepared {
    /// The configuration.
    pub loaded: Loaded,
    /// The folder that `.` means.
    pub started_in: PathBuf,
}

/// Why a server doesn't start. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The database.
    #[error("the database {path} can't be used: {source}. {advice}")]
    Store {
        /// Its file.
        path: String,
        /// Why.
        source: talaria_store::Error,
        /// What to do.
        advice: &'static str,
    },
    /// The address.
    #[error("{address} can't be listened on: {source}. Stop what listens there, or choose another with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A workspace of the configuration.
    #[error("agent.{key}: {path} can't be a workspace: {reason}")]
    Workspace {
        /// The key.
        key: &'static str,
        /// The folder.
        path: String,
        /// Why.
        reason: String,
    },
    /// An open address needs a credential that a person chose.
    #[error(
        "{0} is not a loopback address, and the only credential is the generated one: set TALARIA_TOKEN to a long random \
         text, such as the output of `openssl rand -hex 32`"
    )]
    Exposed(SocketAddr),
    /// The key that signs tokens.
    #[error("the key that signs tokens can't be used; the log says more. Start again; if it stays so, report it")]
    SigningKey,
    /// The runtime.
    #[error("the runtime can't start: {0}")]
    Runtime(std::io::Error),
}

/// A server that runs.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    home: Home,
    store: Store,
    runs: Runs,
    /// Cancelled first: readiness fails, streams end, new runs are refused.
    shutdown: CancellationToken,
    /// Connections; ends after the streams.
    connections: TaskScope,
}

/// Starts a server.
pub async fn start(prepared: Prepared) -> Result<Running, StartError> {
    let Prepared { loaded, started_in } = prepared;
    let token = loaded.environment.get("TALARIA_TOKEN").cloned();
    let listen = loaded.config.server.listen;
    if !listen.ip().is_loopback() && token.is_none() {
        return Err(StartError::Exposed(listen));
    }
    let home = Home::open(&loaded.home, token, DEFAULT_CONFIG)?;
    let redactor = Arc::new(Redactor::new(model_choice::keys(&loaded).chain([home.token.as_str()])));
    telemetry::redact_with(Arc::clone(&redactor));
    let user_home = loaded.environment.get("HOME").map(PathBuf::from);
    let denied = Arc::new(DeniedPaths::new(&home.path, user_home.as_deref()));
    let workspaces = Workspaces::of(&loaded.config, &started_in, &denied)?;

    let clock: SharedClock = Arc::new(SystemClock);
    let store = open_store(&home.path, &clock).await?;
    let profile = store
        .ensure_profile("default")
        .await
        .map_err(|source| store_failed(&home.path, source))?;
    let (models, model) = model_choice::choose(&loaded).await;
    tracing::info!("answers come from {} ({})", model.name, model.chosen_by);
    let resolve_model: ResolveModel = Arc::new(move |name| models.resolve(name));
    let settings = talaria_agent::Settings {
        store: store.clone(),
        clock: Arc::clone(&clock),
        resolve_model,
        tools: tools(&home, &denied, &loaded.environment),
        redactor,
        max_active_runs: loaded.config.server.max_active_runs,
        approval_policy: loaded.config.agent.approval_policy,
        approval_timeout: Duration::from_secs(loaded.config.agent.approval_timeout),
    };
    let runs = Runs::new(settings, TaskScope::new());
    take_up(&runs, &home.path).await?;

    let (listener, address) = bind(listen).await?;
    let operators = match loaded.config.server.admin_listen {
        Some(listen) => Some(bind(listen).await?),
        None => None,
    };
    let signing_key = signing_key::load_or_make(&store, &derive(&home.master_key, b"talaria sealing v1"))
        .await
        .map_err(|error| match error {
            signing_key::Error::Store(source) => store_failed(&home.path, source),
            signing_key::Error::NoRandom => HomeError::NoRandom.into(),
            signing_key::Error::Encoding => StartError::SigningKey,
        })?;
    let shutdown = CancellationToken::new();
    let connections = TaskScope::new();
    let settings = talaria_http::Settings {
        store: store.clone(),
        runs: runs.clone(),
        clock: Arc::clone(&clock),
        profile,
        bootstrap_sha256: Sha256::digest(home.token.as_bytes()).into(),
        cursor_secret: derive(&home.master_key, b"talaria cursors v1"),
        signing_key,
        public_url: loaded
            .config
            .server
            .public_url
            .unwrap_or_else(|| format!("http://{address}")),
        check_workspace: workspaces.check(),
        default_workspace: workspaces.default,
        model,
        max_rounds: loaded.config.agent.max_rounds,
        approval_policy: loaded.config.agent.approval_policy,
        hosts: HostPolicy {
            is_loopback: address.ip().is_loopback(),
            hosts: loaded.config.server.hosts,
            origins: loaded.config.server.origins,
        },
        max_streams: loaded.config.server.max_streams,
        rate_limits: rate_limits(loaded.config.server.rate_limits),
        render_metrics: render_metrics(&connections, shutdown.clone()),
        shutdown: shutdown.clone(),
    };
    let state = AppState::new(settings).ok_or(StartError::SigningKey)?;
    if let Some((listener, address)) = operators {
        tracing::info!("metrics, health and readiness without a key: http://{address}");
        let router = talaria_http::router::operators(state.clone());
        connections.spawn(serve::serve(listener, router, connections.clone(), shutdown.clone()));
    }
    let router = talaria_http::router::router(state);
    connections.spawn(serve::serve(listener, router, connections.clone(), shutdown.clone()));
    home.announce(&ServerFile {
        address,
        pid: std::process::id(),
        started_at: clock.now(),
    })?;
    Ok(Running {
        address,
        home,
        store,
        runs,
        shutdown,
        connections,
    })
}

impl Running {
    /// The local credential.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.home.token
    }

    /// Stops in order: streams and connections end, runs reach a safe place, the database is told that all is written.
    pub async fn stop(self) {
        self.shutdown.cancel();
        let ((), left) = tokio::join!(self.connections.drained(), self.runs.drain(DRAIN_PATIENCE));
        if left > 0 {
            tracing::warn!("{left} runs did not reach a safe place: the next start decides what becomes of them");
        }
        if let Err(error) = self.store.mark_stopped().await {
            tracing::warn!(error = %error, "the clean stop could not be noted: {error}");
        }
        self.home.withdraw();
        tracing::info!("stopped");
    }
}

/// Takes up what a former server left, and looks after what waits for people.
async fn take_up(runs: &Runs, home: &Path) -> Result<(), StartError> {
    let recovered = runs.recover().await.map_err(|error| match error {
        talaria_agent::Error::Store(source) => store_failed(home, source),
        other => StartError::Runtime(std::io::Error::other(other)),
    })?;
    if recovered > 0 {
        tracing::info!("{recovered} runs of the former server go on");
    }
    runs.watch_timers();
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |source| StartError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// The tools of this server.
fn tools(home: &Home, denied: &Arc<DeniedPaths>, environment: &BTreeMap<String, String>) -> ToolSet {
    let mut tools = talaria_tools::builtin_tools(Arc::clone(denied));
    #[cfg(target_os = "linux")]
    {
        use talaria_tools::sandbox::{Kernel, Sandbox};
        let kernel = Kernel::probe();
        if kernel.confines_files() {
            tracing::info!("{kernel}");
        } else {
            tracing::warn!("{kernel}");
        }
        let sandbox = Sandbox::new(None, denied);
        sandbox.end_leftovers();
        let scratch = home.path.join("scratch");
        let terminal = talaria_tools::terminal::terminal_tools(sandbox, Arc::clone(denied), scratch, environment);
        tools.extend(terminal);
    }
    ToolSet::new(tools)
}

/// Begins to measure. A server that can't still serves, and says so at `/metrics`.
fn render_metrics(scope: &TaskScope, stop: CancellationToken) -> RenderMetrics {
    match metrics::start(scope, stop) {
        Ok(Some(handle)) => Arc::new(move || metrics::open_metrics(&handle)),
        Ok(None) => Arc::new(|| "# EOF\n".to_owned()),
        Err(error) => {
            tracing::error!(error = %error, "nothing is measured: {error}");
            Arc::new(|| "# EOF\n".to_owned())
        }
    }
}

fn rate_limits(limits: crate::config::RateLimits) -> talaria_http::RateLimits {
    talaria_http::RateLimits {
        runs: limits.runs,
        requests: limits.requests,
    }
}

async fn open_store(home: &Path, clock: &SharedClock) -> Result<Store, StartError> {
    let settings = talaria_store::Settings {
        path: home.join("talaria.db"),
        backups: home.join("backups"),
        blobs: home.join("files"),
    };
    let failed = |source| store_failed(home, source);
    let store = Store::open(&settings, Arc::clone(clock), &TaskScope::new())
        .await
        .map_err(failed)?;
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    store.mark_serving(boot_id.trim().to_owned()).await.map_err(failed)?;
    Ok(store)
}

fn store_failed(home: &Path, source: talaria_store::Error) -> StartError {
    let advice = match source {
        talaria_store::Error::Newer => "Start the newer version again, or use another home",
        _ => "Copies made before migrations are in the folder `backups` of the home",
    };
    StartError::Store {
        path: home.join("talaria.db").display().to_string(),
        source,
        advice,
    }
}

/// A key for one purpose, from the master key.
fn derive(master_key: &[u8; 32], purpose: &[u8]) -> [u8; 32] {
    let mut key = [0_u8; 32];
    if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(master_key) {
        mac.update(purpose);
        key = mac.finalize().into_bytes().into();
    }
    key
}

/// Folders that tools may work in.
struct Workspaces {
    default: String,
    roots: Arc<[PathBuf]>,
    denied: Arc<DeniedPaths>,
}

impl Workspaces {
    fn of(config: &Config, started_in: &Path, denied: &Arc<DeniedPaths>) -> Result<Self, StartError> {
        let canonical = |key: &'static str, path: &Path| {
            let named = started_in.join(path);
            let failed = |reason: String| StartError::Workspace {
                key,
                path: named.display().to_string(),
                reason,
            };
            named.canonicalize().map_err(|error| failed(error.to_string()))
        };
        let roots = config
            .agent
            .workspace_roots
            .iter()
            .map(|root| canonical("workspace_roots", root));
        let roots: Arc<[PathBuf]> = roots.collect::<Result<Vec<_>, _>>()?.into();
        let default = canonical("workspace", &config.agent.workspace)?;
        let allowed = talaria_tools::paths::workspace_allowed(&default, std::slice::from_ref(&default), denied);
        allowed.map_err(|reason| StartError::Workspace {
            key: "workspace",
            path: default.display().to_string(),
            reason,
        })?;
        Ok(Self {
            default: default.to_string_lossy().into_owned(),
            roots,
            denied: Arc::clone(denied),
        })
    }

    fn check(&self) -> CheckWorkspace {
        let (roots, denied) = (Arc::clone(&self.roots), Arc::clone(&self.denied));
        let everywhere: Arc<[PathBuf]> = [PathBuf::from("/")].into();
        Arc::new(move |named, principal| {
            let roots = match principal {
                PrincipalName::Local => &everywhere,
                PrincipalName::Key(_) => &roots,
            };
            let path = Path::new(named);
            if !path.is_absolute() {
                return Err(format!("{named} is not an absolute path"));
            }
            let path = path
                .canonicalize()
                .map_err(|error| format!("{named} can't be used: {error}"))?;
            talaria_tools::paths::workspace_allowed(&path, roots, &denied)?;
            Ok(path)
        })
    }
}
