//! Stops what runs: one run, or everything of a session.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use talaria_openapi::auth::Scope;
use talaria_openapi::errors::ErrorCode;
use talaria_openapi::runs::{
    CancelMode, CancelRunRequest, CancelSessionRequest, CancelledSession, QueueAfterCancel, Run, RunStatus,
};
use talaria_openapi::sessions::Session;
use talaria_store::RunFilter;
use tokio::time::Instant;

use crate::auth::Caller;
use crate::body::OptionalBody;
use crate::error::{ApiError, ApiResult};
use crate::params::Params;
use crate::routes::runs::settled;
use crate::routes::{id, sessions};
use crate::state::AppState;

const MAX_REASON_CHARS: usize = 500;
/// How long a forced deletion waits for a run to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

fn check_reason(reason: Option<&String>) -> ApiResult<()> {
    match reason.filter(|reason| reason.chars().count() > MAX_REASON_CHARS) {
        Some(_) => Err(ApiError::invalid(
            "/reason",
            format!("at most {MAX_REASON_CHARS} characters"),
        )),
        None => Ok(()),
    }
}

/// Tells a run to stop. A run that has ended is answered as it is.
#[utoipa::path(post, path = "/v1/runs/{run_id}/cancel", tag = "runs", params(("run_id" = String, Path,)), request_body = CancelRunRequest,
    responses((status = 202, body = Run), (status = 200, body = Run)))]
pub(crate) async fn cancel_run(
    State(state): State<AppState>,
    caller: Caller,
    Path(run_id): Path<String>,
    uri: Uri,
    OptionalBody(request): OptionalBody<CancelRunRequest>,
) -> ApiResult<Response> {
    caller.allow(Scope::RunsWrite)?;
    Params::of(&uri)?.finish()?;
    check_reason(request.reason.as_ref())?;
    let run_id = id(&run_id, ErrorCode::RunNotFound)?;
    let run = state
        .settings
        .runs
        .cancel(&caller.0, run_id, request.mode, request.reason)
        .await;
    let run = run.map_err(|error| ApiError::from(error).not_found(ErrorCode::RunNotFound))?;
    let status = if run.status.is_ended() {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    Ok((status, Json(run)).into_response())
}

/// Stops everything that is live in a chain, for its deletion.
pub(crate) async fn stop_chain(state: &AppState, caller: &Caller, session: &Session) -> ApiResult<()> {
    let until = Instant::now() + STOP_PATIENCE;
    for status in [
        RunStatus::Queued,
        RunStatus::RequiresAction,
        RunStatus::Running,
        RunStatus::Cancelling,
    ] {
        let filter = RunFilter {
            session_id: Some(session.tip_id),
            status: Some(status),
            ..RunFilter::default()
        };
        for run in state
            .settings
            .store
            .list_runs(caller.profile_id(), &filter, 200)
            .await?
        {
            let reason = Some("the session is being deleted".to_owned());
            let run = state
                .settings
                .runs
                .cancel(&caller.0, run.id, CancelMode::Force, reason)
                .await?;
            settled(state, caller, run.id, until.saturating_duration_since(Instant::now())).await?;
        }
    }
    Ok(())
}

/// Stops the active run of a session's chain. What waits behind it starts then, or is cancelled with it.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/cancel", tag = "sessions", params(("session_id" = String, Path,)),
    request_body = CancelSessionRequest,
    responses((status = 202, body = CancelledSession), (status = 200, body = CancelledSession)))]
pub(crate) async fn cancel_session(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
    OptionalBody(request): OptionalBody<CancelSessionRequest>,
) -> ApiResult<Response> {
    caller.allow(Scope::RunsWrite)?;
    Params::of(&uri)?.finish()?;
    check_reason(request.reason.as_ref())?;
    let session = sessions::find(&state, &caller, &session_id).await?;
    // The queue first: nothing of it may start in between.
    let cleared = match request.queue {
        QueueAfterCancel::Keep => Vec::new(),
        QueueAfterCancel::Clear => clear_queue(&state, &caller, &session).await?,
    };
    let run = match active_run(&state, &caller, &session).await? {
        Some(run) => {
            let cancelled = state
                .settings
                .runs
                .cancel(&caller.0, run.id, request.mode, request.reason);
            Some(cancelled.await?)
        }
        None => None,
    };
    let status = match &run {
        Some(run) if !run.status.is_ended() => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    Ok((status, Json(CancelledSession { run, cleared })).into_response())
}

async fn active_run(state: &AppState, caller: &Caller, session: &Session) -> ApiResult<Option<Run>> {
    let session = state
        .settings
        .store
        .get_session(caller.profile_id(), session.id)
        .await?;
    match session.active_run_id {
        Some(run_id) => super::runs::find(state, caller, &run_id).await.map(Some),
        None => Ok(None),
    }
}

async fn clear_queue(
    state: &AppState,
    caller: &Caller,
    session: &Session,
) -> ApiResult<Vec<talaria_openapi::ids::InputId>> {
    let mut cleared = Vec::new();
    for input in state
        .settings
        .store
        .list_queue(caller.profile_id(), session.root_id)
        .await?
    {
        let Some(run_id) = input.run_id else { continue };
        match state.settings.runs.cancel_waiting(&caller.0, run_id).await {
            Ok(_) => cleared.push(input.id),
            // It has begun in between: it is the active run now, or has ended.
            Err(talaria_agent::Error::Store(talaria_store::Error::NotWaiting)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(cleared)
}
