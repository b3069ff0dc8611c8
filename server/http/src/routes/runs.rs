//! Runs: start, list, read, stop.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use talaria_openapi::errors::{ErrorCode, Problem};
use talaria_openapi::events::Event;
use talaria_openapi::ids::{InputId, RunId, SessionId};
use talaria_openapi::inputs::{IfUndelivered, InputBody};
use talaria_openapi::messages::{Part, Role};
use talaria_openapi::page::Page;
use talaria_openapi::runs::{
    CreateRunRequest, OnBusy, OnDisconnect, ResumeRunRequest, Run, RunLimits, RunStatus, SteerRunRequest, TriggerKind,
};
use talaria_openapi::sessions::{CreateSessionRequest, Session, SessionSource};
use talaria_openapi::time::Timestamp;
use talaria_store::{NewRun, RunFilter, RunOptions, WhenBusy};
use tokio::time::Instant;
use ulid::Ulid;

use crate::attendance::{self, Bond};
use crate::auth::Caller;
use crate::body::{Body, OptionalBody};
use crate::error::{ApiError, ApiResult};
use crate::idempotency;
use crate::params::{Params, invalid};
use crate::routes::{id, sessions};
use crate::sse;
use crate::state::{AppState, sha256_hex};

const MAX_INSTRUCTIONS_BYTES: usize = 64 * 1024;
/// How far ahead a run can be asked for.
const MAX_AHEAD_MILLIS: i64 = 366 * 24 * 60 * 60 * 1000;
/// Longest wait that a request can ask for.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Says something to a session's agent. With `Accept: text/event-stream` the answer is the run's stream, with
/// `Prefer: wait=N` the run when it is settled, at the latest after that many seconds (60 at most).
#[utoipa::path(post, path = "/v1/sessions/{session_id}/runs", tag = "runs", params(("session_id" = String, Path,)),
    request_body = CreateRunRequest,
    responses((status = 202, body = Run), (status = 200, body = Event, content_type = "text/event-stream"), (status = 409, body = Problem), (status = 429, body = Problem)))]
pub(crate) async fn create_run_in_session(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    Body(request): Body<CreateRunRequest>,
) -> ApiResult<Response> {
    let mut params = Params::of(&uri)?;
    let strict = params.take_as("strict", "`true` or `false`")?.unwrap_or(false);
    params.finish()?;
    if request.session_id.is_some() || request.session.is_some() {
        let field = if request.session.is_some() {
            "/session"
        } else {
            "/session_id"
        };
        return Err(ApiError::invalid(
            field,
            "the path names the session already: leave it out",
        ));
    }
    let session = sessions::find(&state, &caller, &session_id).await?;
    if strict && session.id != session.tip_id {
        return Err(ApiError::new(ErrorCode::SessionEnded).extra("tip_session_id", session.tip_id.to_string()));
    }
    let named = idempotency::named(&headers, &caller, "runs", &session_id)?;
    start(&state, &caller, session, (request, named), &headers).await
}

/// Says something to an agent; begins a session for it where none is named.
#[utoipa::path(post, path = "/v1/runs", tag = "runs", request_body = CreateRunRequest,
    responses((status = 202, body = Run), (status = 200, body = Event, content_type = "text/event-stream"), (status = 409, body = Problem), (status = 429, body = Problem)))]
pub(crate) async fn create_run(
    State(state): State<AppState>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
    Body(mut request): Body<CreateRunRequest>,
) -> ApiResult<Response> {
    Params::of(&uri)?.finish()?;
    // Checked before a session is made for it.
    content(&request.input)?;
    let named = idempotency::named(&headers, &caller, "runs", "")?;
    let session = match (request.session_id.take(), request.session.take()) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid(
                "/session",
                "give `session` or `session_id`, not both",
            ));
        }
        (Some(session_id), None) => sessions::find(&state, &caller, &session_id.to_string()).await?,
        (None, new) => {
            let new = new.unwrap_or_default();
            // Made of the id that the client gave, so that a repeated request finds the session that the first one made.
            let given = request.id.map(RunId::ulid).or(request.input_id.map(InputId::ulid));
            let request = CreateSessionRequest {
                id: given.or(named).map(SessionId::from_ulid),
                title: new.title,
                metadata: new.metadata,
                workspace: new.workspace,
                ephemeral: new.ephemeral,
                ..CreateSessionRequest::default()
            };
            let made = sessions::create(&state, &caller, request).await;
            made.map_err(|error| {
                if named.is_some() {
                    idempotency::reused(error)
                } else {
                    error
                }
            })?
        }
    };
    start(&state, &caller, session, (request, named), &headers).await
}

async fn start(
    state: &AppState,
    caller: &Caller,
    session: Session,
    (request, named): (CreateRunRequest, Option<Ulid>),
    headers: &HeaderMap,
) -> ApiResult<Response> {
    let wants_stream = wants_stream(headers);
    let patience = preferred_wait(headers);
    let is_bound = request.on_disconnect == OnDisconnect::Cancel;
    if is_bound && !wants_stream && patience.is_none() {
        return Err(ApiError::invalid(
            "/on_disconnect",
            "only for requests that wait for the run: with `Accept: text/event-stream` or `Prefer: wait`",
        ));
    }
    let mut new = new_run(state, caller, &session, request)?;
    let by_key = named.filter(|_| new.id.is_none() && new.input_id.is_none());
    new.id = new.id.or(by_key.map(RunId::from_ulid));
    let started = state.settings.runs.start(new).await.map_err(ApiError::from);
    let (run, is_repeated) = started.map_err(|error| {
        if by_key.is_some() {
            idempotency::reused(error)
        } else {
            error
        }
    })?;
    // From here on, whatever ends this request early may end the run.
    let bond = is_bound.then(|| Bond::new(state, caller, run.id));
    let mut response = if wants_stream {
        let mut none = Params::of(&Uri::from_static("/"))?;
        // A stream that was cut is taken up by the same request again.
        let wanted = sse::wanted(headers, &mut none)?;
        let response = sse::stream(state, caller, &session, Some(run.id), wanted).await?;
        attendance::hold(response, (state.attendance.enter(run.id), bond))
    } else if let Some(patience) = patience {
        let input = run.input;
        let settled = settled(state, caller, run.id, patience).await?;
        let status = if settled.status.is_ended() || settled.status == RunStatus::RequiresAction {
            StatusCode::OK
        } else {
            StatusCode::ACCEPTED
        };
        bond.into_iter().for_each(Bond::dissolve);
        (status, Json(Run { input, ..settled })).into_response()
    } else {
        (StatusCode::ACCEPTED, Json(&run)).into_response()
    };
    for (name, place) in [
        (header::LOCATION, run.links.this.clone()),
        (header::CONTENT_LOCATION, format!("/v1/sessions/{}", run.session_id)),
    ] {
        if let Ok(value) = HeaderValue::from_str(&place) {
            response.headers_mut().insert(name, value);
        }
    }
    if is_repeated {
        let replayed = HeaderValue::from_static("true");
        response.headers_mut().insert(idempotency::REPLAYED, replayed);
    }
    Ok(response)
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| {
        accept
            .split(',')
            .any(|range| range.trim().starts_with("text/event-stream"))
    })
}

/// `Prefer: wait=N` (RFC 7240). What else is preferred is nobody's duty.
fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let mut preferences = headers
        .get_all("prefer")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ';']));
    let seconds = preferences.find_map(|preference| preference.trim().strip_prefix("wait=")?.parse().ok())?;
    Some(Duration::from_secs(seconds).min(MAX_WAIT))
}

fn new_run(state: &AppState, caller: &Caller, session: &Session, request: CreateRunRequest) -> ApiResult<NewRun> {
    let request_sha256 = sha256_hex(&serde_json::to_string(&request).unwrap_or_default());
    let when_busy = match request.on_busy {
        OnBusy::Reject => WhenBusy::Refuse,
        OnBusy::Queue => WhenBusy::Wait,
        OnBusy::Interrupt => WhenBusy::Interrupt(caller.0.name.to_string()),
        OnBusy::Steer => WhenBusy::Steer(IfUndelivered::Queue),
    };
    if request
        .instructions
        .as_ref()
        .is_some_and(|text| text.len() > MAX_INSTRUCTIONS_BYTES)
    {
        return Err(ApiError::invalid(
            "/instructions",
            format!("at most {MAX_INSTRUCTIONS_BYTES} bytes"),
        ));
    }
    let settings = &state.settings;
    if request
        .approval_policy
        .is_some_and(|policy| policy > settings.approval_policy)
    {
        return Err(ApiError::invalid(
            "/approval_policy",
            "a request may only be tighter than the configuration",
        ));
    }
    let max_rounds = request
        .limits
        .and_then(|limits| limits.max_rounds)
        .unwrap_or(settings.max_rounds);
    if !(1..=settings.max_rounds).contains(&max_rounds) {
        return Err(ApiError::invalid(
            "/limits/max_rounds",
            format!("must be from 1 to {}", settings.max_rounds),
        ));
    }
    let start_after = start_after(state, &request)?;
    let metadata = request.metadata.unwrap_or_default();
    sessions::check_metadata(&metadata)?;
    let trigger = match session.source {
        SessionSource::Api => TriggerKind::Api,
        SessionSource::Cli => TriggerKind::Cli,
    };
    Ok(NewRun {
        session_id: session.id,
        profile_id: caller.profile_id(),
        id: request.id,
        input_id: request.input_id,
        request_sha256,
        content: content(&request.input)?,
        start_after,
        when_busy,
        model: request.model,
        limits: RunLimits {
            max_rounds,
            max_active_seconds: None,
            max_cost_usd: None,
        },
        options: RunOptions {
            instructions: request.instructions,
            tools: request.tools,
            approval_policy: request.approval_policy,
        },
        trigger,
        metadata,
    })
}

/// Whoever asks for later can't also ask for something to happen to what runs now.
fn start_after(state: &AppState, request: &CreateRunRequest) -> ApiResult<Option<Timestamp>> {
    let Some(at) = request.start_after else {
        return Ok(None);
    };
    if matches!(request.on_busy, OnBusy::Interrupt | OnBusy::Steer) {
        return Err(ApiError::invalid(
            "/on_busy",
            "a run for later waits in the queue: `interrupt` and `steer` are for now",
        ));
    }
    let now = state.settings.clock.now();
    if at.as_millis() - now.as_millis() > MAX_AHEAD_MILLIS {
        return Err(ApiError::invalid("/start_after", "at most a year ahead"));
    }
    Ok(Some(at).filter(|at| *at > now))
}

pub(crate) fn content(input: &InputBody) -> ApiResult<Vec<Part>> {
    let parts = match input {
        InputBody::Text(text) => vec![Part::Text {
            text: talaria_text::sanitize::storable(text).into_owned(),
        }],
        InputBody::Messages(messages) => {
            let mut parts = Vec::new();
            for (index, message) in messages.iter().enumerate() {
                let pointer = format!("/input/{index}");
                if message.role != Role::User {
                    return Err(ApiError::invalid(&format!("{pointer}/role"), "only `user`"));
                }
                parts.extend(sessions::text_parts(message.content.clone(), &pointer)?);
            }
            parts
        }
    };
    let is_empty = parts
        .iter()
        .all(|part| matches!(part, Part::Text { text } if text.trim().is_empty()));
    if is_empty {
        Err(ApiError::invalid("/input", "say something: the input is empty"))
    } else {
        Ok(parts)
    }
}

/// Runs of the profile, newest first.
#[utoipa::path(get, path = "/v1/runs", tag = "runs",
    params(("limit" = Option<u32>, Query,), ("cursor" = Option<String>, Query,), ("order" = Option<String>, Query,),
        ("session_id" = Option<String>, Query,), ("status" = Option<RunStatus>, Query,)),
    responses((status = 200, body = Page<Run>), (status = 400, body = Problem)))]
pub(crate) async fn list_runs(State(state): State<AppState>, caller: Caller, uri: Uri) -> ApiResult<Response> {
    let mut params = Params::of(&uri)?;
    let limit = params.take_limit()?;
    let cursor = params.take("cursor");
    let mut filter = RunFilter {
        session_id: params.take_as("session_id", "the id of a session")?,
        status: params.take_name("status")?,
        beyond: None,
        is_ascending: params.take_ascending(false)?,
    };
    params.finish()?;
    let list = format!("runs {filter:?}");
    if let Some(cursor) = cursor {
        let (at, last) = state.cursor_key.verify(caller.profile_id(), &list, &cursor)?;
        filter.beyond = Some((Timestamp::from_millis(at), id(&last, ErrorCode::InvalidCursor)?));
    }
    let found = state
        .settings
        .store
        .list_runs(caller.profile_id(), &filter, limit + 1)
        .await?;
    let place = |run: &Run| (run.created_at.as_millis(), run.id.to_string());
    Ok(sessions::page(&state, &caller, &uri, &list, found, (limit, place)))
}

/// The run of an id, in the caller's profile.
pub(crate) async fn find(state: &AppState, caller: &Caller, run_id: &RunId) -> ApiResult<Run> {
    let run = state.settings.store.get_run(caller.profile_id(), *run_id).await;
    run.map_err(|error| ApiError::from(error).not_found(ErrorCode::RunNotFound))
}

/// One run. With `wait` the answer comes when the run has ended or waits for a person, at the latest after that many seconds.
#[utoipa::path(get, path = "/v1/runs/{run_id}", tag = "runs", params(("run_id" = String, Path,), ("wait" = Option<u64>, Query,)),
    responses((status = 200, body = Run)))]
pub(crate) async fn get_run(
    State(state): State<AppState>,
    caller: Caller,
    Path(run_id): Path<String>,
    uri: Uri,
) -> ApiResult<Json<Run>> {
    let mut params = Params::of(&uri)?;
    let wait: u64 = params.take_as("wait", "a number from 0 to 60")?.unwrap_or(0);
    params.finish()?;
    if wait > 60 {
        return Err(invalid("wait", "must be from 0 to 60"));
    }
    let run_id = id(&run_id, ErrorCode::RunNotFound)?;
    settled(&state, &caller, run_id, Duration::from_secs(wait))
        .await
        .map(Json)
}

/// The run, once it has ended or waits for a person, or as it is after `patience`.
pub(crate) async fn settled(state: &AppState, caller: &Caller, run_id: RunId, patience: Duration) -> ApiResult<Run> {
    let until = Instant::now() + patience;
    let mut run = find(state, caller, &run_id).await?;
    let mut wakeups = state.settings.store.wakeups().subscribe(run.root_id);
    loop {
        wakeups.mark_unchanged();
        run = find(state, caller, &run.id).await?;
        let is_settled = run.status.is_ended() || run.status == RunStatus::RequiresAction;
        if is_settled || Instant::now() >= until {
            return Ok(run);
        }
        tokio::select! {
            _ = wakeups.changed() => {}
            () = tokio::time::sleep_until(until) => {}
            () = state.settings.shutdown.cancelled() => return Ok(run),
        }
    }
}

/// Tells a run something at its next safe point: after its tools, before its next model call. What comes too late becomes a
/// run of its own, or is dropped.
#[utoipa::path(post, path = "/v1/runs/{run_id}/steer", tag = "runs", params(("run_id" = String, Path,)), request_body = SteerRunRequest,
    responses((status = 202, body = Run), (status = 409, body = Problem)))]
pub(crate) async fn steer_run(
    State(state): State<AppState>,
    caller: Caller,
    Path(run_id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    Body(request): Body<SteerRunRequest>,
) -> ApiResult<(StatusCode, Json<Run>)> {
    Params::of(&uri)?.finish()?;
    let named = idempotency::named(&headers, &caller, "steer", &run_id)?;
    let run = find(&state, &caller, &id(&run_id, ErrorCode::RunNotFound)?).await?;
    let new = NewRun {
        session_id: run.session_id,
        profile_id: run.profile_id,
        id: None,
        input_id: request.id.or(named.map(InputId::from_ulid)),
        request_sha256: sha256_hex(&serde_json::to_string(&(run.id, &request)).unwrap_or_default()),
        content: content(&request.input)?,
        start_after: None,
        when_busy: WhenBusy::SteerOnly(run.id, request.if_undelivered),
        model: None,
        limits: run.limits,
        options: RunOptions::default(),
        trigger: run.trigger.kind,
        metadata: run.metadata,
    };
    let (run, _) = state.settings.runs.start(new).await?;
    Ok((StatusCode::ACCEPTED, Json(run)))
}

/// Lets a run that was interrupted, or failed in a way that may pass, go on in another attempt.
#[utoipa::path(post, path = "/v1/runs/{run_id}/resume", tag = "runs", params(("run_id" = String, Path,)), request_body = ResumeRunRequest,
    responses((status = 202, body = Run), (status = 409, body = Problem)))]
pub(crate) async fn resume_run(
    State(state): State<AppState>,
    caller: Caller,
    Path(run_id): Path<String>,
    uri: Uri,
    OptionalBody(request): OptionalBody<ResumeRunRequest>,
) -> ApiResult<(StatusCode, Json<Run>)> {
    Params::of(&uri)?.finish()?;
    let more = request.input.as_ref().map(content).transpose()?.unwrap_or_default();
    let run_id = id(&run_id, ErrorCode::RunNotFound)?;
    let run = state.settings.runs.resume(caller.profile_id(), run_id, more).await;
    let run = run.map_err(|error| ApiError::from(error).not_found(ErrorCode::RunNotFound))?;
    Ok((StatusCode::ACCEPTED, Json(run)))
}
