//! Copies of sessions, and the way back in one.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use talaria_openapi::errors::{ErrorCode, Problem};
use talaria_openapi::ids::SessionId;
use talaria_openapi::sessions::{ForkSessionRequest, RewindSessionRequest, Session};
use talaria_store::{ForkPoint, NewFork};

use crate::auth::Caller;
use crate::body::{Body, OptionalBody};
use crate::error::{ApiError, ApiResult};
use crate::idempotency;
use crate::params::Params;
use crate::routes::sessions::{check_title, created, find, with_etag};
use crate::state::{AppState, sha256_hex};

/// Copies a session: a new chain that begins with what was said so far. The original doesn't change.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/fork", tag = "sessions", params(("session_id" = String, Path,)),
    request_body = ForkSessionRequest,
    responses((status = 201, body = Session), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn fork_session(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    OptionalBody(request): OptionalBody<ForkSessionRequest>,
) -> ApiResult<Response> {
    Params::of(&uri)?.finish()?;
    check_title(request.title.as_deref())?;
    let named = idempotency::named(&headers, &caller, "fork", &session_id)?.filter(|_| request.id.is_none());
    let original = find(&state, &caller, &session_id).await?;
    let fork = NewFork {
        id: request
            .id
            .or(named.map(SessionId::from_ulid))
            .unwrap_or_else(SessionId::new),
        profile_id: caller.profile_id(),
        from: original.id,
        at: fork_point(&request)?,
        request_sha256: sha256_hex(&serde_json::to_string(&(original.id, &request)).unwrap_or_default()),
        title: request.title,
    };
    let forked = state.settings.store.fork_session(fork).await;
    let session = forked.map_err(|error| {
        let error = ApiError::from(error).not_found(ErrorCode::MessageNotFound);
        if named.is_some() {
            idempotency::reused(error)
        } else {
            error
        }
    })?;
    Ok(created(&session))
}

fn fork_point(request: &ForkSessionRequest) -> ApiResult<ForkPoint> {
    match (request.at_seq, request.at_message_id) {
        (None, None) => Ok(ForkPoint::Latest),
        (Some(seq), None) => Ok(ForkPoint::Seq(seq)),
        (None, Some(message_id)) => Ok(ForkPoint::Message(message_id)),
        (Some(_), Some(_)) => Err(ApiError::invalid(
            "/at_seq",
            "give `at_seq` or `at_message_id`, not both",
        )),
    }
}

/// Goes back: everything after a message is taken out of the transcript. The log keeps it, and
/// `messages?include=superseded` shows it.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/rewind", tag = "sessions", params(("session_id" = String, Path,)),
    request_body = RewindSessionRequest,
    responses((status = 200, body = Session), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn rewind_session(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
    Body(request): Body<RewindSessionRequest>,
) -> ApiResult<Response> {
    Params::of(&uri)?.finish()?;
    let session = find(&state, &caller, &session_id).await?;
    let store = &state.settings.store;
    let rewound = store.rewind_session(caller.profile_id(), session.id, request.to_message_id);
    let rewound = rewound.await.map_err(|error| match error {
        talaria_store::Error::InvalidPoint => ApiError::new(ErrorCode::InvalidRewindPoint)
            .detail("name a message of the session's own transcript that doesn't stand between a call and its result"),
        other => other.into(),
    })?;
    Ok(with_etag(&rewound))
}
