//! Task scopes: the one place that spawns (I16).

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Spawns tasks that keep the caller's span, are told to stop by a token, and can be waited for.
#[derive(Debug, Clone, Default)]
pub struct TaskScope {
    tracker: TaskTracker,
    token: CancellationToken,
}

impl TaskScope {
    /// A scope without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The token that tells the scope's tasks to stop.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Runs `task` in the background, in the caller's span. A panic in it ends that task alone.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
        tokio::spawn(self.tracker.track_future(task.in_current_span()))
    }

    /// How many tasks are alive.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Whether no task is alive.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Waits until no task is alive; takes no part in telling them to stop.
    pub async fn drained(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
