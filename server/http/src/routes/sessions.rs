//! Sessions: create, list, read, change, delete.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use talaria_agent::prompt::{PromptInputs, layers, whole};
use talaria_openapi::Metadata;
use talaria_openapi::errors::{ErrorCode, Problem};
use talaria_openapi::ids::{MessageId, SessionId};
use talaria_openapi::inputs::{InputContent, InputMessage};
use talaria_openapi::messages::{Message, MessageKind, MessageStatus, Part, Role};
use talaria_openapi::page::Page;
use talaria_openapi::sessions::{CreateSessionRequest, Prompt, Session, SessionSource, Snapshot, UpdateSessionRequest};
use talaria_openapi::time::Timestamp;
use talaria_store::{NewSession, SessionChanges, SessionFilter};

use crate::auth::Caller;
use crate::body::Body;
use crate::error::{ApiError, ApiResult};
use crate::idempotency;
use crate::params::Params;
use crate::routes::id;
use crate::state::{AppState, sha256_hex};

const MAX_TITLE_CHARS: usize = 200;
const MAX_SYSTEM_PROMPT_BYTES: usize = 256 * 1024;
const MAX_INITIAL_MESSAGES: usize = 200;
const MAX_METADATA_PAIRS: usize = 32;
const MAX_METADATA_KEY_CHARS: usize = 64;
const MAX_METADATA_VALUE_CHARS: usize = 512;

/// Begins a session.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = CreateSessionRequest,
    responses((status = 201, body = Session), (status = 409, body = Problem)))]
pub(crate) async fn create_session(
    State(state): State<AppState>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
    Body(mut request): Body<CreateSessionRequest>,
) -> ApiResult<Response> {
    Params::of(&uri)?.finish()?;
    let by_key = idempotency::named(&headers, &caller, "sessions", "")?.filter(|_| request.id.is_none());
    request.id = request.id.or(by_key.map(SessionId::from_ulid));
    let made = create(&state, &caller, request).await;
    let session = made.map_err(|error| {
        if by_key.is_some() {
            idempotency::reused(error)
        } else {
            error
        }
    })?;
    Ok(created(&session))
}

/// The answer to a request that made a session.
pub(crate) fn created(session: &Session) -> Response {
    let mut response = with_etag(session);
    *response.status_mut() = StatusCode::CREATED;
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/sessions/{}", session.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Checks a request and creates its session.
pub(crate) async fn create(state: &AppState, caller: &Caller, request: CreateSessionRequest) -> ApiResult<Session> {
    let settings = &state.settings;
    check_title(request.title.as_deref())?;
    let metadata = request.metadata.clone().unwrap_or_default();
    check_metadata(&metadata)?;
    if let Some(model) = request.model.as_ref().filter(|model| !settings.runs.knows_model(model)) {
        return Err(ApiError::invalid(
            "/model",
            format!("there is no model `{model}`; see `providers` in config.yaml"),
        ));
    }
    if request
        .system_prompt
        .as_ref()
        .is_some_and(|text| text.len() > MAX_SYSTEM_PROMPT_BYTES)
    {
        return Err(ApiError::invalid(
            "/system_prompt",
            format!("at most {MAX_SYSTEM_PROMPT_BYTES} bytes"),
        ));
    }
    let request_sha256 = sha256_hex(&serde_json::to_string(&request).unwrap_or_default());
    let workspace = workspace(state, caller, request.workspace.as_deref())?;
    let now = settings.clock.now();
    let session_id = request.id.unwrap_or_else(SessionId::new);
    let prompt = layers(&PromptInputs {
        system_prompt: request.system_prompt.as_deref(),
        workspace: &workspace,
        started_at: now,
        sha256: sha256_hex,
    });
    let messages = initial_messages(session_id, now, request.initial_messages.unwrap_or_default())?;
    let new = NewSession {
        id: session_id,
        profile_id: caller.profile_id(),
        title: request.title,
        metadata,
        model: request.model.unwrap_or_else(|| settings.model.name.clone()),
        source: request.source.unwrap_or(SessionSource::Api),
        workspace,
        prompt,
        messages,
        is_ephemeral: request.ephemeral.unwrap_or(false),
        request_sha256,
    };
    Ok(settings.store.create_session(new).await?)
}

fn workspace(state: &AppState, caller: &Caller, named: Option<&str>) -> ApiResult<String> {
    let Some(named) = named else {
        return Ok(state.settings.default_workspace.clone());
    };
    let checked = (state.settings.check_workspace)(named, caller.0.name).map_err(|reason| {
        ApiError::new(ErrorCode::WorkspaceNotAllowed)
            .detail(reason.clone())
            .field("/workspace", "workspace_not_allowed", reason)
    })?;
    let text = checked
        .to_str()
        .ok_or_else(|| ApiError::invalid("/workspace", "the path is not valid UTF-8"))?;
    Ok(text.to_owned())
}

fn initial_messages(session_id: SessionId, now: Timestamp, given: Vec<InputMessage>) -> ApiResult<Vec<Message>> {
    if given.len() > MAX_INITIAL_MESSAGES {
        return Err(ApiError::invalid(
            "/initial_messages",
            format!("at most {MAX_INITIAL_MESSAGES} messages"),
        ));
    }
    let to_message = |(index, given): (usize, InputMessage)| {
        let pointer = format!("/initial_messages/{index}");
        if given.role == Role::Tool {
            return Err(ApiError::invalid(
                &format!("{pointer}/role"),
                "only `user` and `assistant`",
            ));
        }
        Ok(Message {
            id: MessageId::new(),
            object: "message".into(),
            session_id,
            run_id: None,
            seq: 0,
            role: given.role,
            status: MessageStatus::Completed,
            parts: text_parts(given.content, &pointer)?,
            model: None,
            finish_reason: None,
            usage: None,
            kind: MessageKind::Normal,
            superseded: false,
            created_at: now,
            completed_at: Some(now),
        })
    };
    given.into_iter().enumerate().map(to_message).collect()
}

/// The text parts of a content; other parts are not taken yet.
pub(crate) fn text_parts(content: InputContent, pointer: &str) -> ApiResult<Vec<Part>> {
    let parts = match content {
        InputContent::Text(text) => vec![Part::Text { text }],
        InputContent::Parts(parts) => parts,
    };
    let clean = |(index, part): (usize, Part)| match part {
        Part::Text { text } => Ok(Part::Text {
            text: talaria_text::sanitize::storable(&text).into_owned(),
        }),
        _ => Err(ApiError::invalid(
            &format!("{pointer}/content/{index}/type"),
            "only `text` parts are taken for now",
        )),
    };
    parts.into_iter().enumerate().map(clean).collect()
}

pub(crate) fn check_title(title: Option<&str>) -> ApiResult<()> {
    if title.is_some_and(|title| title.chars().count() > MAX_TITLE_CHARS) {
        return Err(ApiError::invalid(
            "/title",
            format!("at most {MAX_TITLE_CHARS} characters"),
        ));
    }
    Ok(())
}

pub(crate) fn check_metadata(metadata: &Metadata) -> ApiResult<()> {
    if metadata.len() > MAX_METADATA_PAIRS {
        return Err(ApiError::invalid(
            "/metadata",
            format!("at most {MAX_METADATA_PAIRS} pairs"),
        ));
    }
    for (key, value) in metadata {
        if key.chars().count() > MAX_METADATA_KEY_CHARS || value.chars().count() > MAX_METADATA_VALUE_CHARS {
            let limits = format!(
                "keys of at most {MAX_METADATA_KEY_CHARS}, values of at most {MAX_METADATA_VALUE_CHARS} characters"
            );
            return Err(ApiError::invalid("/metadata", limits));
        }
    }
    Ok(())
}

/// Sessions of the profile, newest first.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions",
    params(("limit" = Option<u32>, Query,), ("cursor" = Option<String>, Query,), ("order" = Option<String>, Query,),
        ("archived" = Option<bool>, Query,), ("source" = Option<SessionSource>, Query,), ("q" = Option<String>, Query,)),
    responses((status = 200, body = Page<Session>), (status = 400, body = Problem)))]
pub(crate) async fn list_sessions(State(state): State<AppState>, caller: Caller, uri: Uri) -> ApiResult<Response> {
    let mut params = Params::of(&uri)?;
    let limit = params.take_limit()?;
    let cursor = params.take("cursor");
    let mut filter = SessionFilter {
        is_ascending: params.take_ascending(false)?,
        archived: params.take_as("archived", "`true` or `false`")?,
        source: params.take_name("source")?,
        title_prefix: params.take("q"),
        beyond: None,
    };
    params.finish()?;
    let list = format!("sessions {filter:?}");
    let profile_id = caller.profile_id();
    if let Some(cursor) = cursor {
        let (at, last) = state.cursor_key.verify(profile_id, &list, &cursor)?;
        filter.beyond = Some((Timestamp::from_millis(at), id(&last, ErrorCode::InvalidCursor)?));
    }
    let found = state
        .settings
        .store
        .list_sessions(profile_id, &filter, limit + 1)
        .await?;
    let place = |session: &Session| (session.created_at.as_millis(), session.root_id.to_string());
    Ok(page(&state, &caller, &uri, &list, found, (limit, place)))
}

/// A page of what was found (one more than the limit tells that there is more), with its `Link` header.
pub(crate) fn page<T: serde::Serialize>(
    state: &AppState,
    caller: &Caller,
    uri: &Uri,
    list: &str,
    mut found: Vec<T>,
    (limit, place): (u32, impl Fn(&T) -> (i64, String)),
) -> Response {
    let has_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.last().filter(|_| has_more).map(|last| {
        let (at, last_id) = place(last);
        state.cursor_key.sign(caller.profile_id(), list, at, &last_id)
    });
    let link = next_cursor.as_ref().map(|cursor| next_link(uri, cursor));
    let mut response = Json(Page {
        data: found,
        next_cursor,
        has_more,
    })
    .into_response();
    if let Some(link) = link.and_then(|link| HeaderValue::from_str(&link).ok()) {
        response.headers_mut().insert(header::LINK, link);
    }
    response
}

fn next_link(uri: &Uri, cursor: &str) -> String {
    let kept = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("cursor="));
    let pairs: Vec<String> = kept.map(str::to_owned).chain([format!("cursor={cursor}")]).collect();
    format!("<{}?{}>; rel=\"next\"", uri.path(), pairs.join("&"))
}

/// The session of a path, in the caller's profile.
pub(crate) async fn find(state: &AppState, caller: &Caller, session_id: &str) -> ApiResult<Session> {
    let session_id = id(session_id, ErrorCode::SessionNotFound)?;
    let session = state.settings.store.get_session(caller.profile_id(), session_id).await;
    session.map_err(|error| ApiError::from(error).not_found(ErrorCode::SessionNotFound))
}

/// One session.
#[utoipa::path(get, path = "/v1/sessions/{session_id}", tag = "sessions", params(("session_id" = String, Path,)),
    responses((status = 200, body = Session)))]
pub(crate) async fn get_session(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
) -> ApiResult<Response> {
    Params::of(&uri)?.finish()?;
    Ok(with_etag(&find(&state, &caller, &session_id).await?))
}

fn etag(session: &Session) -> String {
    format!("\"u{}\"", session.updated_at.as_millis())
}

pub(crate) fn with_etag(session: &Session) -> Response {
    let mut response = Json(session).into_response();
    if let Ok(value) = HeaderValue::from_str(&etag(session)) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

/// Changes a session's chain.
#[utoipa::path(patch, path = "/v1/sessions/{session_id}", tag = "sessions", params(("session_id" = String, Path,)),
    request_body = UpdateSessionRequest,
    responses((status = 200, body = Session), (status = 412, body = Problem)))]
pub(crate) async fn update_session(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    Body(request): Body<UpdateSessionRequest>,
) -> ApiResult<Response> {
    Params::of(&uri)?.finish()?;
    let session = find(&state, &caller, &session_id).await?;
    check_title(request.title.as_ref().and_then(|title| title.as_deref()))?;
    if let Some(model) = request
        .model
        .as_ref()
        .filter(|model| !state.settings.runs.knows_model(model))
    {
        return Err(ApiError::invalid("/model", format!("there is no model `{model}`")));
    }
    let changed = request.metadata.unwrap_or_default();
    let mut metadata = session.metadata.clone();
    metadata.retain(|key, _| !matches!(changed.get(key), Some(None)));
    metadata.extend(
        changed
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), value.clone()?))),
    );
    check_metadata(&metadata)?;
    let changes = SessionChanges {
        title: request.title,
        metadata: changed,
        archived: request.archived,
        model: request.model,
        if_updated_at: if_match(&headers, &session)?,
    };
    let updated = state
        .settings
        .store
        .update_session(caller.profile_id(), session.tip_id, changes)
        .await?;
    Ok(with_etag(&updated))
}

/// The state that a change is bound to; `*` and nothing bind it to none.
fn if_match(headers: &HeaderMap, session: &Session) -> ApiResult<Option<Timestamp>> {
    let Some(given) = headers
        .get(header::IF_MATCH)
        .map(|value| value.to_str().unwrap_or_default())
    else {
        return Ok(None);
    };
    let mut tags = given.split(',').map(str::trim);
    if given.trim() == "*" {
        return Ok(None);
    }
    if tags.any(|tag| tag == etag(session)) {
        Ok(Some(session.updated_at))
    } else {
        Err(talaria_store::Error::PreconditionFailed.into())
    }
}

/// Deletes a session's whole chain. With `force=true` its live run is stopped first.
#[utoipa::path(delete, path = "/v1/sessions/{session_id}", tag = "sessions",
    params(("session_id" = String, Path,), ("force" = Option<bool>, Query,)),
    responses((status = 204), (status = 409, body = Problem)))]
pub(crate) async fn delete_session(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
) -> ApiResult<StatusCode> {
    let mut params = Params::of(&uri)?;
    let force = params.take_as("force", "`true` or `false`")?.unwrap_or(false);
    params.finish()?;
    let session = find(&state, &caller, &session_id).await?;
    if force {
        super::cancel::stop_chain(&state, &caller, &session).await?;
    }
    state
        .settings
        .store
        .delete_session(caller.profile_id(), session.id, caller.0.name.to_string())
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The session's frozen system prompt, layer by layer.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/prompt", tag = "sessions", params(("session_id" = String, Path,)),
    responses((status = 200, body = Prompt)))]
pub(crate) async fn get_prompt(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
) -> ApiResult<Json<Prompt>> {
    Params::of(&uri)?.finish()?;
    let session = find(&state, &caller, &session_id).await?;
    let layers = state.settings.store.get_prompt(caller.profile_id(), session.id).await?;
    let text = whole(&layers);
    Ok(Json(Prompt {
        session_id: session.id,
        sha256: sha256_hex(&text),
        size_bytes: text.len() as u64,
        layers,
    }))
}

/// Everything that a client needs to show a session and go on with its stream.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/snapshot", tag = "sessions", params(("session_id" = String, Path,)),
    responses((status = 200, body = Snapshot)))]
pub(crate) async fn get_snapshot(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
) -> ApiResult<Json<Snapshot>> {
    Params::of(&uri)?.finish()?;
    let session = find(&state, &caller, &session_id).await?;
    Ok(Json(
        state
            .settings
            .store
            .get_snapshot(caller.profile_id(), session.id)
            .await?,
    ))
}
