//! Stops what runs: one run, or everything of a session.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use talaria_agent::Cancel;
use talaria_domain::tool::DEFAULT_GRACE;
use talaria_openapi::errors::ErrorCode;
use talaria_openapi::runs::{
    CancelRunRequest, CancelSessionRequest, CancelledSession, QueueAfterCancel, Run, RunStatus,
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
/// The longest time that tools can be given to stop by themselves.
const MAX_GRACE: Duration = Duration::from_secs(30);
/// How long an answer that waits for the end waits beyond that.
const WAIT_BEYOND_GRACE: Duration = Duration::from_secs(10);
/// How long a forced deletion waits for a run to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

fn how(request: CancelRunRequest) -> ApiResult<Cancel> {
    if request
        .reason
        .as_ref()
        .is_some_and(|reason| reason.chars().count() > MAX_REASON_CHARS)
    {
        return Err(ApiError::invalid(
            "/reason",
            format!("at most {MAX_REASON_CHARS} characters"),
        ));
    }
    let grace = request.grace_ms.map_or(DEFAULT_GRACE, Duration::from_millis);
    if grace > MAX_GRACE {
        return Err(ApiError::invalid(
            "/grace_ms",
            format!("at most {}", MAX_GRACE.as_millis()),
        ));
    }
    Ok(Cancel {
        mode: request.mode,
        reason: request.reason,
        grace,
    })
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
    Params::of(&uri)?.finish()?;
    let wait = request.wait;
    let cancel = how(request)?;
    let patience = cancel.grace + WAIT_BEYOND_GRACE;
    let run_id = id(&run_id, ErrorCode::RunNotFound)?;
    let run = state.settings.runs.cancel(&caller.0, run_id, cancel).await;
    let mut run = run.map_err(|error| ApiError::from(error).not_found(ErrorCode::RunNotFound))?;
    if wait {
        run = settled(&state, &caller, run.id, patience).await?;
    }
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
            let cancel = Cancel::now("the session is being deleted");
            let run = state.settings.runs.cancel(&caller.0, run.id, cancel).await?;
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
    Params::of(&uri)?.finish()?;
    let (queue, wait) = (request.queue, request.wait);
    let cancel = how(CancelRunRequest {
        mode: request.mode,
        reason: request.reason,
        grace_ms: request.grace_ms,
        wait,
    })?;
    let patience = cancel.grace + WAIT_BEYOND_GRACE;
    let session = sessions::find(&state, &caller, &session_id).await?;
    // The queue first: nothing of it may start in between.
    let cleared = match queue {
        QueueAfterCancel::Keep => Vec::new(),
        QueueAfterCancel::Clear => clear_queue(&state, &caller, &session).await?,
    };
    let run = match active_run(&state, &caller, &session).await? {
        Some(run) => {
            let run = state.settings.runs.cancel(&caller.0, run.id, cancel).await?;
            Some(if wait {
                settled(&state, &caller, run.id, patience).await?
            } else {
                run
            })
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
