//! Who reads the stream of which run. A run that was created with `on_disconnect: cancel` is bound to the connection that
//! created it: when that is lost, and nobody reads the run's stream ten seconds later, the run is cancelled (api.md 2.6).
//! Any other run doesn't notice its readers (I1).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use talaria_domain::principal::Principal;
use talaria_openapi::ids::RunId;

use crate::auth::Caller;
use crate::state::AppState;

/// How long a client has to come back.
const GRACE: Duration = Duration::from_secs(10);

/// The readers of each run that has any. Bounded by the number of open streams.
#[derive(Debug, Default)]
pub(crate) struct Attendance {
    readers: Mutex<HashMap<RunId, usize>>,
}

impl Attendance {
    /// Counts a reader, until the answer is dropped.
    pub(crate) fn enter(self: &Arc<Self>, run_id: RunId) -> Seat {
        *self.readers.lock().entry(run_id).or_default() += 1;
        Seat {
            attendance: Arc::clone(self),
            run_id,
        }
    }

    fn is_attended(&self, run_id: RunId) -> bool {
        self.readers.lock().contains_key(&run_id)
    }
}

/// A reader of a run's stream.
pub(crate) struct Seat {
    attendance: Arc<Attendance>,
    run_id: RunId,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut readers = self.attendance.readers.lock();
        if let Some(count) = readers.get_mut(&self.run_id) {
            *count -= 1;
            if *count == 0 {
                readers.remove(&self.run_id);
            }
        }
    }
}

/// Binds a run to a connection: dropped, it lets the run be cancelled after a while.
pub(crate) struct Bond {
    state: AppState,
    principal: Principal,
    run_id: RunId,
    is_dissolved: bool,
}

impl Bond {
    pub(crate) fn new(state: &AppState, caller: &Caller, run_id: RunId) -> Self {
        Self {
            state: state.clone(),
            principal: caller.0.clone(),
            run_id,
            is_dissolved: false,
        }
    }

    /// The client has got what it waited for.
    pub(crate) fn dissolve(mut self) {
        self.is_dissolved = true;
    }
}

impl Drop for Bond {
    fn drop(&mut self) {
        // A server that stops cuts its connections itself.
        if self.is_dissolved || self.state.settings.shutdown.is_cancelled() {
            return;
        }
        let (attendance, run_id) = (Arc::clone(&self.state.attendance), self.run_id);
        let is_wanted = move || attendance.is_attended(run_id);
        let runs = &self.state.settings.runs;
        runs.cancel_unless_wanted(self.principal.clone(), run_id, GRACE, is_wanted);
    }
}

/// Keeps something for as long as an answer is being sent.
pub(crate) fn hold<T: Send + 'static>(response: Response, held: T) -> Response {
    response.map(|body| {
        let chunks = body.into_data_stream();
        Body::from_stream(chunks.map(move |chunk| {
            let _held = &held;
            chunk
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_attended_until_its_last_reader_leaves() {
        let (attendance, run_id) = (Arc::new(Attendance::default()), RunId::new());
        let (first, second) = (attendance.enter(run_id), attendance.enter(run_id));
        drop(first);
        assert!(attendance.is_attended(run_id));
        drop(second);
        assert!(!attendance.is_attended(run_id) && attendance.readers.lock().is_empty());
    }
}
