//! What every handler works with.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest as _, Sha256};
use talaria_agent::Runs;
use talaria_domain::clock::SharedClock;
use talaria_domain::principal::PrincipalName;
use talaria_openapi::info::ModelInfo;
use talaria_openapi::runs::ApprovalPolicy;
use talaria_store::{Profile, Store};
use tokio_util::sync::CancellationToken;

use crate::attendance::Attendance;
use crate::cursor::CursorKey;
use crate::rate_limits::{Policies, RateLimits};
use crate::tokens::{SigningKey, Tokens};

/// Decides whether a folder may be a workspace; gives it in canonical form, or says why not.
///
/// The person who owns the home may name any folder but the denied ones, others only those under the configured roots.
pub type CheckWorkspace = Arc<dyn Fn(&str, PrincipalName) -> Result<PathBuf, String> + Send + Sync>;

/// Writes everything that was measured, as OpenMetrics.
pub type RenderMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// Which `Host` and `Origin` headers are accepted.
#[derive(Debug, Clone, Default)]
pub struct HostPolicy {
    /// Whether the server listens on a loopback address: then only loopback names are hosts (DNS rebinding).
    pub is_loopback: bool,
    /// Further host names.
    pub hosts: Vec<String>,
    /// Origins of browsers that may call, such as `https://chat.example.org`.
    pub origins: Vec<String>,
}

/// What the wiring hands to the border.
pub struct Settings {
    /// The store.
    pub store: Store,
    /// The runs.
    pub runs: Runs,
    /// The clock.
    pub clock: SharedClock,
    /// The one profile there is.
    pub profile: Profile,
    /// SHA-256 of the local credential.
    pub bootstrap_sha256: [u8; 32],
    /// Signs cursors.
    pub cursor_secret: [u8; 32],
    /// Signs tokens.
    pub signing_key: SigningKey,
    /// The server's address as clients know it, such as `https://agent.example.org`.
    pub public_url: String,
    /// Checks folders that clients name.
    pub check_workspace: CheckWorkspace,
    /// The workspace of sessions that name none.
    pub default_workspace: String,
    /// The model that answers when nobody names another.
    pub model: ModelInfo,
    /// The budget of a run.
    pub max_rounds: u32,
    /// Who must agree before a tool acts.
    pub approval_policy: ApprovalPolicy,
    /// Accepted hosts and origins.
    pub hosts: HostPolicy,
    /// Streams that may be open at the same time.
    pub max_streams: usize,
    /// What one credential may ask for.
    pub rate_limits: RateLimits,
    /// Writes what was measured.
    pub render_metrics: RenderMetrics,
    /// Cancelled when the server begins to stop.
    pub shutdown: CancellationToken,
}

/// The state of the router. Cheap to clone.
#[derive(Clone)]
pub struct AppState {
    pub(crate) settings: Arc<Settings>,
    pub(crate) cursor_key: Arc<CursorKey>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) attendance: Arc<Attendance>,
    pub(crate) rates: Arc<Policies>,
    streams: Arc<AtomicUsize>,
}

impl AppState {
    /// The state of a server. `None` when the signing key is no Ed25519 key.
    #[must_use]
    pub fn new(settings: Settings) -> Option<Self> {
        let cursor_key = Arc::new(CursorKey::new(settings.cursor_secret));
        let rates = Arc::new(Policies::new(settings.rate_limits));
        let tokens = Tokens::new(settings.public_url.clone(), &settings.signing_key)?;
        Some(Self {
            settings: Arc::new(settings),
            cursor_key,
            tokens: Arc::new(tokens),
            attendance: Arc::default(),
            rates,
            streams: Arc::default(),
        })
    }

    /// Streams that are open.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// Takes a place for one stream; gives it back when dropped. `None` when all are taken.
    pub(crate) fn open_stream(&self) -> Option<StreamPlace> {
        let open = self.streams.fetch_add(1, Ordering::Relaxed);
        let place = StreamPlace(Arc::clone(&self.streams));
        (open < self.settings.max_streams).then_some(place)
    }
}

/// The place of one open stream.
pub(crate) struct StreamPlace(Arc<AtomicUsize>);

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// SHA-256 in hexadecimal.
pub(crate) fn sha256_hex(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
