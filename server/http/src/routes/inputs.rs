//! What became of what a client sent.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use talaria_openapi::errors::{ErrorCode, Problem};
use talaria_openapi::inputs::{Delivery, Input, QueuedDelivery, UpdateQueuedRequest};
use talaria_openapi::page::Page;
use talaria_store::QueueChanges;

use crate::auth::Caller;
use crate::body::Body;
use crate::error::{ApiError, ApiResult};
use crate::params::Params;
use crate::routes::id;
use crate::state::AppState;

/// One input.
#[utoipa::path(get, path = "/v1/inputs/{input_id}", tag = "runs", params(("input_id" = String, Path,)),
    responses((status = 200, body = Input)))]
pub(crate) async fn get_input(
    State(state): State<AppState>,
    caller: Caller,
    Path(input_id): Path<String>,
    uri: Uri,
) -> ApiResult<Json<Input>> {
    Params::of(&uri)?.finish()?;
    let input_id = id(&input_id, ErrorCode::InputNotFound)?;
    let input = state.settings.store.get_input(caller.profile_id(), input_id).await;
    input
        .map(Json)
        .map_err(|error| ApiError::from(error).not_found(ErrorCode::InputNotFound))
}

/// The inputs that wait in a session's chain, first one first.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/queue", tag = "sessions", params(("session_id" = String, Path,)),
    responses((status = 200, body = Page<Input>)))]
pub(crate) async fn list_queue(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
) -> ApiResult<Json<Page<Input>>> {
    Params::of(&uri)?.finish()?;
    let session = super::sessions::find(&state, &caller, &session_id).await?;
    let data = state
        .settings
        .store
        .list_queue(caller.profile_id(), session.root_id)
        .await?;
    Ok(Json(Page {
        data,
        next_cursor: None,
        has_more: false,
    }))
}

/// Changes an input that waits: its words, its place, or how it is delivered.
#[utoipa::path(patch, path = "/v1/sessions/{session_id}/queue/{input_id}", tag = "sessions",
    params(("session_id" = String, Path,), ("input_id" = String, Path,)), request_body = UpdateQueuedRequest,
    responses((status = 200, body = Input), (status = 409, body = Problem)))]
pub(crate) async fn update_queued(
    State(state): State<AppState>,
    caller: Caller,
    Path((session_id, input_id)): Path<(String, String)>,
    uri: Uri,
    Body(request): Body<UpdateQueuedRequest>,
) -> ApiResult<Json<Input>> {
    Params::of(&uri)?.finish()?;
    if request.position == Some(0) {
        return Err(ApiError::invalid("/position", "places are counted from 1"));
    }
    let changes = QueueChanges {
        content: request.input.as_ref().map(super::runs::content).transpose()?,
        position: request.position,
        delivery: request.delivery.map(|delivery| match delivery {
            QueuedDelivery::Queue => Delivery::Queue,
            QueuedDelivery::Interrupt => Delivery::Interrupt,
            QueuedDelivery::Steer => Delivery::Steer,
        }),
    };
    let session = super::sessions::find(&state, &caller, &session_id).await?;
    let place = (session.root_id, id(&input_id, ErrorCode::InputNotFound)?);
    let changed = state.settings.runs.change_queued(&caller.0, place, changes).await;
    changed
        .map(Json)
        .map_err(|error| ApiError::from(error).not_found(ErrorCode::InputNotFound))
}

/// Takes back an input that waits. Once it is delivered, that is refused.
#[utoipa::path(delete, path = "/v1/sessions/{session_id}/queue/{input_id}", tag = "sessions",
    params(("session_id" = String, Path,), ("input_id" = String, Path,)),
    responses((status = 204), (status = 409, body = Problem)))]
pub(crate) async fn delete_queued(
    State(state): State<AppState>,
    caller: Caller,
    Path((session_id, input_id)): Path<(String, String)>,
    uri: Uri,
) -> ApiResult<StatusCode> {
    Params::of(&uri)?.finish()?;
    let session = super::sessions::find(&state, &caller, &session_id).await?;
    let missing = || ApiError::new(ErrorCode::InputNotFound);
    let input_id = id(&input_id, ErrorCode::InputNotFound)?;
    let input = state.settings.store.get_input(caller.profile_id(), input_id).await;
    let input = input.map_err(|error| ApiError::from(error).not_found(ErrorCode::InputNotFound))?;
    let run_id = input.run_id.ok_or_else(missing)?;
    let run = super::runs::find(&state, &caller, &run_id).await?;
    if run.root_id != session.root_id {
        return Err(missing());
    }
    state.settings.runs.cancel_waiting(&caller.0, run_id).await?;
    Ok(StatusCode::NO_CONTENT)
}
