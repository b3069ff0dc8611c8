//! Runs: the crate's public face. Starts them, stops them, brings them back after a restart, and lets them leave before one.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use talaria_domain::clock::SharedClock;
use talaria_domain::metrics as names;
use talaria_domain::model::ModelClient;
use talaria_domain::principal::Principal;
use talaria_domain::scope::TaskScope;
use talaria_domain::tool::{DEFAULT_GRACE, Grace, ToolSet};
use talaria_openapi::ids::{InputId, InteractionId, ProfileId, RunId, SessionId};
use talaria_openapi::inputs::Input;
use talaria_openapi::interactions::Resolution;
use talaria_openapi::messages::Part;
use talaria_openapi::runs::{ApprovalPolicy, CancelMode, Run};
use talaria_store::{ActiveRun, CutRun, NewRun, QueueChanges, Resolved, Started, Store};
use talaria_text::redact::Redactor;
use tokio::sync::Notify;
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
    /// Who must agree before a tool acts.
    pub approval_policy: ApprovalPolicy,
    /// How long a person has to answer before it counts as no.
    pub approval_timeout: Duration,
}

/// The runs of this server. Cheap to clone.
#[derive(Clone)]
pub struct Runs {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) scope: TaskScope,
    /// Tells every run to leave at its next safe place.
    pub(crate) drain: CancellationToken,
    /// The runs that this server owns. Removed by the task of the run, whatever becomes of it.
    owned: Mutex<HashMap<RunId, Signals>>,
    /// Something new may be due soon.
    pub(crate) timers: Notify,
}

/// How a person stops a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// With force, tools get no time to stop by themselves.
    pub mode: CancelMode,
    /// Why, for people.
    pub reason: Option<String>,
    /// How long tools have to stop by themselves.
    pub grace: Duration,
}

impl Cancel {
    /// At once.
    #[must_use]
    pub fn now(reason: impl Into<String>) -> Self {
        Self {
            mode: CancelMode::Force,
            reason: Some(reason.into()),
            grace: Duration::ZERO,
        }
    }

    /// With the usual time to stop.
    #[must_use]
    pub fn gracefully(reason: Option<String>) -> Self {
        Self {
            mode: CancelMode::Graceful,
            reason,
            grace: DEFAULT_GRACE,
        }
    }
}

/// How a run that is at work is reached.
#[derive(Clone)]
pub(crate) struct Signals {
    /// A person wants it to stop.
    pub(crate) cancel: CancellationToken,
    /// How long its tools have then.
    pub(crate) grace: Grace,
    /// Something waits for its next safe point. Set at first: a former server may have left something.
    pub(crate) has_steers: Arc<AtomicBool>,
}

impl Signals {
    fn new() -> Self {
        Self {
            // Not a child of the drain token: a server that stops doesn't cancel runs.
            cancel: CancellationToken::new(),
            grace: Grace::default(),
            has_steers: Arc::new(AtomicBool::new(true)),
        }
    }
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
                timers: Notify::new(),
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

    /// Accepts an input: stores it and its run, and starts the run unless it has to wait. Gives the run, and whether the
    /// input had been accepted before.
    pub async fn start(&self, new: NewRun) -> Result<(Run, bool)> {
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
        let Started {
            run,
            active,
            superseded,
            is_steer,
            is_repeated,
        } = self.shared.settings.store.start_run(new).await?;
        if let Some(active) = active {
            self.own(active);
        }
        self.stop_superseded(superseded);
        if is_steer {
            self.tell_of_steer(run.id);
        }
        if run.start_after.is_some() {
            self.shared.timers.notify_one();
        }
        Ok((run, is_repeated))
    }

    /// Changes an input that waits in a chain: see [`Store::change_queued`].
    pub async fn change_queued(
        &self,
        principal: &Principal,
        place: (SessionId, InputId),
        changes: QueueChanges,
    ) -> Result<Input> {
        let by = principal.name.to_string();
        let store = &self.shared.settings.store;
        let requeued = store.change_queued(principal.profile_id, place, changes, by).await?;
        if let Some(active) = requeued.active {
            self.own(active);
        }
        self.stop_superseded(requeued.superseded);
        if let Some(run_id) = requeued.steered {
            self.tell_of_steer(run_id);
        }
        Ok(requeued.input)
    }

    fn stop_superseded(&self, superseded: Option<RunId>) {
        if let Some(signals) = superseded.and_then(|run_id| self.signals(run_id)) {
            signals.cancel.cancel();
        }
    }

    fn tell_of_steer(&self, run_id: RunId) {
        if let Some(signals) = self.signals(run_id) {
            signals.has_steers.store(true, Ordering::Release);
        }
    }

    fn signals(&self, run_id: RunId) -> Option<Signals> {
        self.shared.owned.lock().get(&run_id).cloned()
    }

    /// Takes back a run that still waits for its turn.
    pub async fn cancel_waiting(&self, principal: &Principal, run_id: RunId) -> Result<Run> {
        let store = &self.shared.settings.store;
        let by = principal.name.to_string();
        Ok(store.cancel_waiting(principal.profile_id, run_id, by).await?)
    }

    /// Tells a run to stop. An ended run is given back as it is. Gives whether the run is still about to stop.
    pub async fn cancel(&self, principal: &Principal, run_id: RunId, cancel: Cancel) -> Result<Run> {
        let store = &self.shared.settings.store;
        let by = principal.name.to_string();
        let (profile_id, Cancel { mode, reason, grace }) = (principal.profile_id, cancel);
        let (run, next) = store.cancel_run(profile_id, run_id, by, mode, reason).await?;
        if let Some(next) = next {
            self.own(next);
        }
        if let Some(signals) = self.signals(run_id).filter(|_| !run.status.is_ended()) {
            signals.grace.set(if mode == CancelMode::Force {
                Duration::ZERO
            } else {
                grace
            });
            signals.cancel.cancel();
        }
        Ok(run)
    }

    /// Lets a run that has ended go on in another attempt, with something more to say if there is.
    pub async fn resume(&self, profile_id: ProfileId, run_id: RunId, more: Vec<Part>) -> Result<Run> {
        if self.is_draining() {
            return Err(Error::Draining);
        }
        let active = self.shared.settings.store.resume_run(profile_id, run_id, more).await?;
        let run = active.run.clone();
        self.own(active);
        Ok(run)
    }

    /// Answers what a run waits for; with the last answer the run goes on.
    pub async fn resolve(
        &self,
        profile_id: ProfileId,
        interaction_id: InteractionId,
        resolution: Resolution,
    ) -> Result<Resolved> {
        let store = &self.shared.settings.store;
        let mut resolved = store
            .resolve_interaction(profile_id, interaction_id, resolution)
            .await?;
        if let Some(active) = resolved.active.take() {
            self.own(active);
        }
        Ok(resolved)
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
    pub(crate) fn own(&self, active: Box<ActiveRun>) {
        let runs = self.clone();
        let signals = self.register(&active);
        let span = span(&active);
        self.shared.scope.spawn(
            async move {
                let turn = runs.turn(active, signals);
                runs.work(Box::new(turn)).await;
            }
            .instrument(span),
        );
    }

    fn own_cut(&self, cut: CutRun) {
        let runs = self.clone();
        let signals = self.register(&cut.active);
        let span = span(&cut.active);
        self.shared.scope.spawn(
            async move {
                let run_id = cut.active.run.id;
                let turn = Box::new(runs.turn(cut.active, signals));
                match recovery::recover(turn, &cut.started_calls).await {
                    Ok(Decision::GoOn(turn)) => runs.work(turn).await,
                    Ok(Decision::Ended(next)) => runs.after(run_id, next),
                    Err(error) => runs.give_up(run_id, &error),
                }
            }
            .instrument(span),
        );
    }

    fn turn(&self, active: Box<ActiveRun>, signals: Signals) -> Turn {
        Turn::new(&self.shared.settings, active, signals, self.shared.drain.clone())
    }

    fn register(&self, active: &ActiveRun) -> Signals {
        let signals = Signals::new();
        self.shared.owned.lock().insert(active.run.id, signals.clone());
        signals
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
            Ok(Left::Parked) => {
                self.shared.owned.lock().remove(&run_id);
                self.shared.timers.notify_one();
            }
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
