//! What the server measures.

use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::IntoResponse;
use talaria_domain::metrics as names;

use crate::auth::Caller;
use crate::error::ApiResult;
use crate::params::Params;
use crate::state::AppState;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is measured, as OpenMetrics. Needs the scope `admin`.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, body = String, content_type = "application/openmetrics-text")))]
pub(crate) async fn metrics(State(state): State<AppState>, _: Caller, uri: Uri) -> ApiResult<impl IntoResponse> {
    Params::of(&uri)?.finish()?;
    Ok(open_metrics(State(state)).await)
}

/// The same without a credential, for the operators' own listener on loopback.
pub(crate) async fn open_metrics(State(state): State<AppState>) -> impl IntoResponse {
    gauge(names::RUNS_ACTIVE, state.settings.runs.active());
    gauge(names::SSE_CONNECTIONS, state.open_streams());
    let text = (state.settings.render_metrics)();
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text)
}

#[expect(clippy::cast_precision_loss, reason = "counts of open things are far below 2^52")]
fn gauge(name: &'static str, value: usize) {
    metrics::gauge!(name).set(value as f64);
}
