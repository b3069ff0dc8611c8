//! What becomes due while the server works: interactions that nobody answers, runs that were asked for later, chains that were
//! only for a while, and runs that nobody waits for any more.

use std::time::Duration;

use talaria_domain::principal::Principal;
use talaria_openapi::ids::RunId;
use talaria_store::ActiveRun;

use crate::run::{Cancel, Runs};

/// How often it is looked at least.
const POLL: Duration = Duration::from_secs(30);
/// How often at most: what could not be done stays due.
const PAUSE: Duration = Duration::from_millis(20);

impl Runs {
    /// Does what becomes due, until the server stops.
    pub fn watch_timers(&self) {
        let runs = self.clone();
        self.shared.scope.spawn(async move {
            loop {
                runs.do_what_is_due().await;
                let wait = runs.until_next_due().await;
                tokio::select! {
                    () = runs.shared.drain.cancelled() => return,
                    () = runs.shared.timers.notified() => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
        });
    }

    /// Cancels a run after a while, unless `is_wanted` says then that somebody waits for it again.
    pub fn cancel_unless_wanted(
        &self,
        principal: Principal,
        run_id: RunId,
        after: Duration,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) {
        let runs = self.clone();
        self.shared.scope.spawn(async move {
            tokio::select! {
                // The next server lets the run go on: whoever waits can't be told from one that was cut off by the stop.
                () = runs.shared.drain.cancelled() => return,
                () = tokio::time::sleep(after) => {}
            }
            if is_wanted() {
                return;
            }
            let reason = "the client that waited for it has gone".to_owned();
            if let Err(error) = runs.cancel(&principal, run_id, Cancel::gracefully(Some(reason))).await {
                tracing::warn!(run.id = %run_id, error = %error, "a run that nobody waits for goes on: {error}");
            }
        });
    }

    async fn do_what_is_due(&self) {
        let store = &self.shared.settings.store;
        self.go_on(store.expire_interactions().await);
        self.go_on(store.claim_due().await);
        match store.purge_ephemeral().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "purged ephemeral sessions"),
            Err(error) => tracing::error!(error = %error, "ephemeral sessions could not be purged: {error}"),
        }
    }

    fn go_on(&self, claimed: talaria_store::Result<Vec<ActiveRun>>) {
        match claimed {
            Ok(claimed) => claimed.into_iter().for_each(|active| self.own(Box::new(active))),
            Err(error) => tracing::error!(error = %error, "what is due could not be done: {error}"),
        }
    }

    async fn until_next_due(&self) -> Duration {
        let settings = &self.shared.settings;
        let now = settings.clock.now();
        let Ok(Some(at)) = settings.store.next_due(now).await else {
            return POLL;
        };
        let left = at.as_millis() - now.as_millis();
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).clamp(PAUSE, POLL)
    }
}
