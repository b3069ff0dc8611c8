//! The log of a chain: as pages, and as streams.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::value::RawValue;
use talaria_openapi::errors::{ErrorCode, Problem};
use talaria_openapi::events::Event;
use talaria_openapi::page::Page;

use crate::attendance;
use crate::auth::Caller;
use crate::error::{ApiError, ApiResult};
use crate::params::Params;
use crate::routes::{id, runs, sessions};
use crate::sse;
use crate::state::AppState;

/// A page of the log, after a number.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/events", tag = "streams",
    params(("session_id" = String, Path,), ("after" = Option<i64>, Query,), ("limit" = Option<u32>, Query,)),
    responses((status = 200, body = Page<Event>), (status = 400, body = Problem), (status = 410, body = Problem)))]
pub(crate) async fn list_events(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
) -> ApiResult<Response> {
    let mut params = Params::of(&uri)?;
    params.refuse_later(&["types", "wait"])?;
    let limit = params.take_limit()?;
    let after: i64 = match params.take("after").map(|text| text.parse()) {
        None => 0,
        Some(Ok(after)) if after >= 0 => after,
        Some(_) => return Err(ApiError::new(ErrorCode::InvalidCursor).detail("`after` is the `seq` of an event")),
    };
    params.finish()?;
    let session = sessions::find(&state, &caller, &session_id).await?;
    let store = &state.settings.store;
    if after > session.head_seq || store.is_fenced_off(session.root_id, after).await? {
        return Err(ApiError::new(ErrorCode::CursorExpired)
            .detail("load the snapshot and go on from its `seq`")
            .extra("oldest_seq", session.oldest_seq)
            .extra("head_seq", session.head_seq)
            .extra("snapshot", format!("/v1/sessions/{}/snapshot", session.id)));
    }
    let page = store.events_after(session.root_id, None, after, limit).await?;
    let last = page.events.last().map_or(after, |event| event.seq);
    let has_more = last < page.head_seq && page.events.len() == limit as usize;
    // The stored bytes, not a copy of them: the same as every stream sends.
    let raw = page
        .events
        .into_iter()
        .filter_map(|event| RawValue::from_string(event.payload).ok());
    let next_cursor = has_more.then(|| last.to_string());
    Ok(Json(Page {
        data: raw.collect::<Vec<_>>(),
        next_cursor,
        has_more,
    })
    .into_response())
}

/// The events of a session's chain, as they are committed.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/stream", tag = "streams",
    params(("session_id" = String, Path,), ("after" = Option<i64>, Query,), ("from" = Option<String>, Query,),
        ("heartbeat" = Option<u64>, Query,), ("Last-Event-ID" = Option<String>, Header,)),
    responses((status = 200, body = Event, content_type = "text/event-stream"), (status = 400, body = Problem), (status = 429, body = Problem)))]
pub(crate) async fn stream_session(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut params = Params::of(&uri)?;
    let wanted = sse::wanted(&headers, &mut params)?;
    params.finish()?;
    let session = sessions::find(&state, &caller, &session_id).await?;
    sse::stream(&state, &caller, &session, None, wanted).await
}

/// The events of one run, as they are committed. 204 when nothing can follow the cursor.
#[utoipa::path(get, path = "/v1/runs/{run_id}/stream", tag = "streams",
    params(("run_id" = String, Path,), ("after" = Option<i64>, Query,), ("from" = Option<String>, Query,),
        ("heartbeat" = Option<u64>, Query,), ("Last-Event-ID" = Option<String>, Header,)),
    responses((status = 200, body = Event, content_type = "text/event-stream"), (status = 204), (status = 400, body = Problem), (status = 429, body = Problem)))]
pub(crate) async fn stream_run(
    State(state): State<AppState>,
    caller: Caller,
    Path(run_id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut params = Params::of(&uri)?;
    let wanted = sse::wanted(&headers, &mut params)?;
    params.finish()?;
    let run = runs::find(
        &state,
        &caller,
        &id::<talaria_openapi::ids::RunId>(&run_id, ErrorCode::RunNotFound)?,
    )
    .await?;
    let session = state
        .settings
        .store
        .get_session(caller.profile_id(), run.session_id)
        .await?;
    let response = sse::stream(&state, &caller, &session, Some(run.id), wanted).await?;
    Ok(attendance::hold(response, state.attendance.enter(run.id)))
}
