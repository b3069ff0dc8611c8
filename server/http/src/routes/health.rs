//! Is the server alive, and can it work?

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use talaria_openapi::info::Health;

use crate::state::AppState;

const PATIENCE: Duration = Duration::from_secs(2);

/// Alive: depends on nothing.
#[utoipa::path(get, path = "/healthz", tag = "operations", security(()), responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> Json<Health> {
    Json(Health {
        status: "ok".to_owned(),
        checks: BTreeMap::new(),
    })
}

/// Able to work: the database can be read and written, the disk has room, and the server isn't about to stop.
#[utoipa::path(get, path = "/readyz", tag = "operations", security(()),
    responses((status = 200, body = Health), (status = 503, body = Health)))]
pub(crate) async fn readyz(State(state): State<AppState>) -> (StatusCode, Json<Health>) {
    let store = &state.settings.store;
    let (is_readable, is_writable, is_migrated) =
        tokio::join!(store.is_readable(), store.is_writable(PATIENCE), store.is_migrated());
    let is_serving = !state.settings.shutdown.is_cancelled() && !state.settings.runs.is_draining();
    let checks = [
        ("db", is_readable),
        ("disk", store.has_space()),
        ("event_log_write", is_writable),
        ("migrations", is_migrated),
        // One server holds an embedded home: it has the lease as long as it serves.
        ("worker_lease", is_serving),
    ];
    let is_ready = checks.iter().all(|(_, is_ok)| *is_ok);
    let text = |is_ok: bool| if is_ok { "ok" } else { "failed" }.to_owned();
    let checks = checks
        .into_iter()
        .map(|(name, is_ok)| (name.to_owned(), text(is_ok)))
        .collect();
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (
        status,
        Json(Health {
            status: text(is_ready),
            checks,
        }),
    )
}
