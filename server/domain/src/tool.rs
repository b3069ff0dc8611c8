//! The port to tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use talaria_openapi::ids::{ProfileId, RunId, SessionId};
use talaria_openapi::interactions::Question;
use talaria_openapi::tools::Risk;
use tokio_util::sync::CancellationToken;

use crate::live::LiveWriter;

/// Arguments of a call: always an object.
pub type Arguments = Map<String, Value>;

/// Whether a tool changes anything; what recovery may do with a call that was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Only reads: may run again.
    ReadOnly,
    /// May have changed something: its outcome is unknown when it was cut off.
    Writes,
}

/// Which calls may run at the same time (mission L6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parallelism {
    /// With any other that is not alone.
    Safe,
    /// With those whose paths don't overlap.
    ByPath,
    /// Alone.
    Alone,
}

/// What a tool is.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// What the model calls it.
    pub name: &'static str,
    /// What the model is told of it.
    pub description: &'static str,
    /// JSON schema of its arguments; always of type `object`.
    pub parameters: Value,
    /// The group that it belongs to.
    pub toolset: &'static str,
    /// The least risk of a call.
    pub risk: Risk,
    /// Whether it changes anything.
    pub effect: Effect,
    /// Which calls may run beside it.
    pub parallelism: Parallelism,
}

/// How long a tool has to stop by itself, when nobody says otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// How long the tools of a run have to stop by themselves after a cancel. Whoever cancels sets it first.
#[derive(Debug, Clone)]
pub struct Grace(Arc<AtomicU64>);

impl Default for Grace {
    fn default() -> Self {
        let grace = Self(Arc::default());
        grace.set(DEFAULT_GRACE);
        grace
    }
}

impl Grace {
    /// How long it is now.
    #[must_use]
    pub fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Acquire))
    }

    /// Changes it.
    pub fn set(&self, grace: Duration) {
        let millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis, Ordering::Release);
    }
}

/// What a call may touch, and how it is told to stop.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The profile that it acts for.
    pub profile_id: ProfileId,
    /// The session that it acts for.
    pub session_id: SessionId,
    /// The run that it acts for.
    pub run_id: RunId,
    /// The folder that relative paths are under and that no path may leave; canonical.
    pub workspace: Arc<Path>,
    /// Cancelled when the run is told to stop: end soon, keep what is consistent.
    pub cancel: CancellationToken,
    /// How long it has to stop then; read it when `cancel` fires.
    pub grace: Grace,
    /// Where to show output while the call works; `None` where nobody can see it.
    pub live: Option<LiveWriter>,
}

/// What a call answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// What the model gets to see.
    pub text: String,
    /// Whether the tool failed at what it was asked for.
    pub is_error: bool,
}

impl ToolOutput {
    /// A good answer.
    #[must_use]
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: false,
        }
    }
}

/// Why a call gave no output. A tool's failure is for the model, or fatal, nothing between.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model is told and goes on.
    #[error("{0}")]
    Respond(String),
    /// The run ends as failed.
    #[error("the tool broke")]
    Fatal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What a call would do, as far as a person must know to allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// How much harm it can do.
    pub risk: Risk,
    /// Which calls of the tool are alike: what a person who allows "calls like this" allows.
    pub kind_of_call: String,
    /// What it is about, in a few words, such as `Run a command`.
    pub title: String,
    /// What exactly would be done, and why it is risky.
    pub message: String,
}

/// A tool.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// What it is; the same for the whole life of the process.
    fn spec(&self) -> &ToolSpec;

    /// One line for people about a call with these arguments, such as the path that it reads. At most 80 characters.
    fn preview(&self, arguments: &Arguments) -> String;

    /// The canonical paths that a call touches, for [`Parallelism::ByPath`]; `None` when they can't be told, and the call
    /// then runs alone.
    fn paths(&self, _arguments: &Arguments, _context: &ToolContext) -> Option<Vec<PathBuf>> {
        None
    }

    /// What a call would do. Judged without doing anything; the more exact, the less a person is asked in vain.
    fn assess(&self, arguments: &Arguments, _context: &ToolContext) -> Assessment {
        Assessment {
            risk: self.spec().risk,
            kind_of_call: String::new(),
            title: format!("Use {}", self.spec().name),
            message: self.preview(arguments),
        }
    }

    /// The questions that a call asks a person, when that is all that it does: the answers are its result, and
    /// [`Tool::run`] isn't called.
    fn questions(&self, _arguments: &Arguments) -> Option<Vec<Question>> {
        None
    }

    /// Does the work. Must not panic on any arguments; must return soon after `context.cancel`.
    async fn run(&self, arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError>;
}

/// The tools of a server, sorted by name so that the list sent to a model is always the same.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: Arc<[Arc<dyn Tool>]>,
}

impl ToolSet {
    /// From tools in any order.
    #[must_use]
    pub fn new(mut tools: Vec<Arc<dyn Tool>>) -> Self {
        tools.sort_by_key(|tool| tool.spec().name);
        Self { tools: tools.into() }
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    /// The tool of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }
}

impl std::fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.tools.iter().map(|tool| tool.spec().name))
            .finish()
    }
}
