//! Runs: the crate's public face. Starts them, stops them, brings them back after a restart, and lets them leave before one.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use talaria_domain::clock::SharedClock;
use talaria_domain::metrics as names;
use talaria_domain::model::ModelClient;
use talaria_domain::principal::Principal;
use talaria_domain::scope::TaskScope;
use talaria_domain::tool::ToolSet;
use talaria_openapi::ids::RunId;
use talaria_openapi::runs::{CancelMode, Run};
use talaria_store::{ActiveRun, CutRun, NewRun, Started, Store};
use talaria_text::redact::Redactor;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::recovery::{self, Decision};
use crate::turn::{Left, Turn};
use crate::{Error, Result, ending};

/// Finds the client and the provider's own name of a model, from `provider/model`.
pub type ResolveModel = Arc<dyn Fn(&str) -> Option<(Arc<dyn ModelClient>, String)> + Send + Sync>;

/// How many runs work at the same time, when the configuration doesn't say.
pub const DEFAULT_MAX_ACTIVE_RUNS: usize = 1_000;
/// Writes that a run tries again while the database is away, before it gives up its run to the next start.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// What runs need.
#[derive(Clone)]
pub struct Settings {
    /// The store.
    pub store: Store,
    /// The clock.
    pub clock: SharedClock,
    /// Finds models.
    pub resolve_model: ResolveModel,
    /// The tools.
    pub tools: ToolSet,
    /// Takes secrets out of what models say and tools give (I11).
    pub redactor: Arc<Redactor>,
    /// How many runs work at the same time.
    pub max_active_runs: usize,
}

/// The runs of this server. Cheap to clone.
#[derive(Clone)]
pub struct Runs {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    scope: TaskScope,
    /// Tells every run to leave at its next safe place.
    drain: CancellationToken,
    /// The runs that this server owns. Removed by the task of the run, whatever becomes of it.
    owned: Mutex<HashMap<RunId, CancellationToken>>,
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs")
            .field("active", &self.active())
            .finish_non_exhaustive()
    }
}

impl Runs {
    /// No runs yet; their tasks will live in `scope`.
    #[must_use]
    pub fn new(settings: Settings, scope: TaskScope) -> Self {
        let drain = scope.token().child_token();
        Self {
            shared: Arc::new(Shared {
                settings,
                scope,
                drain,
                owned: Mutex::default(),
            }),
        }
    }

    /// The tools that runs can use.
    #[must_use]
    pub fn tools(&self) -> &ToolSet {
        &self.shared.settings.tools
    }

    /// Whether a model's name is known.
    #[must_use]
    pub fn knows_model(&self, model: &str) -> bool {
        (self.shared.settings.resolve_model)(model).is_some()
    }

    /// How many runs this server works on.
    #[must_use]
    pub fn active(&self) -> usize {
        self.shared.owned.lock().len()
    }

    /// Whether the server is about to stop.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.shared.drain.is_cancelled()
    }

    /// Accepts an input: stores it and its run, and starts the run unless it has to wait.
    pub async fn start(&self, new: NewRun) -> Result<Run> {
        if self.is_draining() {
            return Err(Error::Draining);
        }
        let limit = self.shared.settings.max_active_runs;
        if self.active() >= limit {
            return Err(Error::TooManyRuns { limit });
        }
        if let Some(model) = new.model.as_ref().filter(|model| !self.knows_model(model)) {
            return Err(Error::UnknownModel { model: model.clone() });
        }
        let Started { run, active } = self.shared.settings.store.start_run(new).await?;
        if let Some(active) = active {
            self.own(active);
        }
        Ok(run)
    }

    /// Tells a run to stop. An ended run is given back as it is. Gives whether the run is still about to stop.
    pub async fn cancel(
        &self,
        principal: &Principal,
        run_id: RunId,
        mode: CancelMode,
        reason: Option<String>,
    ) -> Result<Run> {
        let store = &self.shared.settings.store;
        let by = principal.name.to_string();
        let (run, _) = store.cancel_run(principal.profile_id, run_id, by, mode, reason).await?;
        let token = self.shared.owned.lock().get(&run_id).cloned();
        if let Some(token) = token.filter(|_| !run.status.is_ended()) {
            token.cancel();
        }
        Ok(run)
    }

    /// Brings back every run that a former server left. Only before anything is served.
    pub async fn recover(&self) -> Result<usize> {
        let recovered = self.shared.settings.store.recover().await?;
        let count = recovered.cut.len() + recovered.claimed.len();
        for cut in recovered.cut {
            self.own_cut(cut);
        }
        for active in recovered.claimed {
            self.own(Box::new(active));
        }
        Ok(count)
    }

    /// Tells every run to leave at its next safe place and waits for that, at most `patience`. Gives how many didn't.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.shared.drain.cancel();
        drop(tokio::time::timeout(patience, self.shared.scope.drained()).await);
        self.active()
    }

    /// Works on a run until its chain has nothing left to do.
    fn own(&self, active: Box<ActiveRun>) {
        let runs = self.clone();
        let cancel = self.register(&active);
        let span = span(&active);
        self.shared.scope.spawn(
            async move {
                let turn = runs.turn(active, cancel);
                runs.work(Box::new(turn)).await;
            }
            .instrument(span),
        );
    }

    fn own_cut(&self, cut: CutRun) {
        let runs = self.clone();
        let cancel = self.register(&cut.active);
        let span = span(&cut.active);
        self.shared.scope.spawn(
            async move {
                let run_id = cut.active.run.id;
                let turn = Box::new(runs.turn(cut.active, cancel));
                match recovery::recover(turn, &cut.started_calls).await {
                    Ok(Decision::GoOn(turn)) => runs.work(turn).await,
                    Ok(Decision::Ended(next)) => runs.after(run_id, next),
                    Err(error) => runs.give_up(run_id, &error),
                }
            }
            .instrument(span),
        );
    }

    fn turn(&self, active: Box<ActiveRun>, cancel: CancellationToken) -> Turn {
        let settings = self.shared.settings.clone();
        let parts = (
            settings.store,
            settings.clock,
            settings.resolve_model,
            settings.tools,
            settings.redactor,
        );
        Turn::new(parts, active, cancel, self.shared.drain.clone())
    }

    fn register(&self, active: &ActiveRun) -> CancellationToken {
        // Not a child of the drain token: a server that stops doesn't cancel runs.
        let cancel = CancellationToken::new();
        self.shared.owned.lock().insert(active.run.id, cancel.clone());
        cancel
    }

    async fn work(&self, turn: Box<Turn>) {
        let (run_id, fence) = (turn.active.run.id, turn.active.fence);
        let begun = Instant::now();
        // A panic ends this run alone.
        let Ok(left) = AssertUnwindSafe(turn.run()).catch_unwind().await else {
            return self.after_panic(run_id, fence).await;
        };
        metrics::histogram!(names::RUN_SECONDS).record(begun.elapsed());
        match left {
            Ok(Left::Ended(next)) => {
                tracing::info!(run.id = %run_id, "run {run_id} ended");
                self.after(run_id, next);
            }
            Ok(Left::AtCheckpoint) => drop(self.shared.owned.lock().remove(&run_id)),
            Err(error) => self.give_up(run_id, &error),
        }
    }

    async fn after_panic(&self, run_id: RunId, fence: i64) {
        tracing::error!(run.id = %run_id, "run {run_id} broke: this is a fault of the server");
        match self
            .shared
            .settings
            .store
            .record(run_id, fence, vec![ending::broken()])
            .await
        {
            Ok(next) => self.after(run_id, next),
            Err(error) => self.give_up(run_id, &error),
        }
    }

    fn after(&self, run_id: RunId, next: Option<Box<ActiveRun>>) {
        self.shared.owned.lock().remove(&run_id);
        if let Some(next) = next {
            self.own(next);
        }
    }

    fn give_up(&self, run_id: RunId, error: &talaria_store::Error) {
        self.shared.owned.lock().remove(&run_id);
        tracing::error!(run.id = %run_id, error = %error, "run {run_id} stopped, since the store refused: {error}");
        self.take_back_later();
    }

    /// Once the database can be written again, takes over the runs that nobody works on.
    fn take_back_later(&self) {
        let runs = self.clone();
        self.shared.scope.spawn(async move {
            let store = &runs.shared.settings.store;
            while !store.is_writable(STORE_RETRY).await {
                tokio::select! {
                    () = runs.shared.drain.cancelled() => return,
                    () = tokio::time::sleep(STORE_RETRY) => {}
                }
            }
            runs.take_back_orphans().await;
        });
    }

    async fn take_back_orphans(&self) {
        let owned: Vec<RunId> = self.shared.owned.lock().keys().copied().collect();
        match self.shared.settings.store.recover_except(&owned).await {
            Ok(recovered) => {
                for cut in recovered.cut {
                    self.own_cut(cut);
                }
                for active in recovered.claimed {
                    self.own(Box::new(active));
                }
            }
            Err(error) => tracing::error!(error = %error, "runs could not be taken back: {error}"),
        }
    }
}

fn span(active: &ActiveRun) -> tracing::Span {
    tracing::info_span!("run", run.id = %active.run.id, session.id = %active.session.id, profile.id = %active.run.profile_id)
}
