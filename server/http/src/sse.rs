//! Streams: the log of a chain, from a cursor on, as server-sent events (api.md 2.4).
//!
//! A reader pulls pages from the log at its own speed: it subscribes to wake-ups first and reads second, so that nothing is
//! lost or doubled where the past meets the present. Frames are written by hand: a comment with a blank line behind it makes
//! some clients see an empty event.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use talaria_domain::metrics as names;
use talaria_domain::principal::Principal;
use talaria_openapi::errors::ErrorCode;
use talaria_openapi::events::{ControlEvent, EndReason, ResetReason, StreamStatus};
use talaria_openapi::ids::{RunId, SessionId};
use talaria_openapi::sessions::Session;
use talaria_openapi::time::Timestamp;
use talaria_store::{SESSION_DELETED, StoredEvent};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::auth::{self, Caller};
use crate::error::{ApiError, ApiResult};
use crate::params::{Params, invalid};
use crate::state::{AppState, StreamPlace};

/// Events of one page; a reader's memory is bounded by it.
const PAGE: u32 = 64;
/// How long one connection lives.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// How long a stream outlives its token.
const TOKEN_GRACE: Duration = Duration::from_secs(60);
/// Looked at even without a wake-up, as a safety net.
const SLOW_POLL: Duration = Duration::from_secs(30);
const DEFAULT_HEARTBEAT: u64 = 15;

/// What a reader asked for.
pub(crate) struct Wanted {
    cursor: Option<i64>,
    from: Option<From>,
    heartbeat: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Start,
    Now,
    Run,
}

/// Reads cursor and heartbeat; the header wins over the query.
pub(crate) fn wanted(headers: &HeaderMap, params: &mut Params) -> ApiResult<Wanted> {
    params.refuse_later(&["types", "deltas", "snapshot", "coalesce"])?;
    let after = params.take("after");
    let from = match params.take("from").as_deref() {
        None => None,
        Some("start") => Some(From::Start),
        Some("now") => Some(From::Now),
        Some("run") => Some(From::Run),
        Some(_) => return Err(invalid("from", "must be `start`, `now` or `run`")),
    };
    let heartbeat = params
        .take_as("heartbeat", "a number from 5 to 60")?
        .unwrap_or(DEFAULT_HEARTBEAT);
    if !(5..=60).contains(&heartbeat) {
        return Err(invalid("heartbeat", "must be from 5 to 60"));
    }
    let header = headers
        .get("last-event-id")
        .map(|value| value.to_str().unwrap_or("?").to_owned());
    let cursor = header
        .filter(|text| !text.is_empty())
        .or(after)
        .map(|text| parse_cursor(&text))
        .transpose()?;
    Ok(Wanted {
        cursor,
        from,
        heartbeat: Duration::from_secs(heartbeat),
    })
}

fn parse_cursor(text: &str) -> ApiResult<i64> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let cursor = is_decimal.then(|| text.parse().ok()).flatten();
    cursor.ok_or_else(|| ApiError::new(ErrorCode::InvalidCursor).detail("a cursor is the decimal `id` of an event"))
}

/// The stream of a session's chain; of one run where it is given.
pub(crate) async fn stream(
    state: &AppState,
    caller: &Caller,
    session: &Session,
    run_id: Option<RunId>,
    wanted: Wanted,
) -> ApiResult<Response> {
    let place = state
        .open_stream()
        .ok_or_else(|| ApiError::new(ErrorCode::TooManyStreams))?;
    // Subscribe first, read second.
    let wakeups = state.settings.store.wakeups().subscribe(session.root_id);
    let start = start(state, session, run_id, &wanted).await?;
    if start.is_over {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let reader = Reader {
        state: state.clone(),
        place,
        wakeups,
        root_id: session.root_id,
        run_id,
        cursor: start.resume_from,
        heartbeat: wanted.heartbeat,
        until: Instant::now() + MAX_AGE,
        principal: caller.0.clone(),
        token_until: caller.0.expires_at.map(|at| token_until(state, at)),
        keys_changed: state.settings.store.keys_changed(),
        is_done: false,
    };
    let head = reader.head(session, &start, &wanted);
    let body = futures_util::stream::unfold((Some(head), reader), |(head, mut reader)| async move {
        let chunk = match head {
            Some(head) => head,
            None => reader.next().await?,
        };
        Some((Ok::<_, std::convert::Infallible>(chunk), (None, reader)))
    });
    Ok(response(Body::from_stream(body)))
}

/// When a stream ends with its credential.
fn token_until(state: &AppState, expires_at: Timestamp) -> Instant {
    let left = expires_at.as_millis() - state.settings.clock.now().as_millis();
    Instant::now() + Duration::from_millis(u64::try_from(left).unwrap_or(0)) + TOKEN_GRACE
}

struct Start {
    resume_from: i64,
    status: StreamStatus,
    reset: Option<ResetReason>,
    /// Nothing can follow the cursor.
    is_over: bool,
}

async fn start(state: &AppState, session: &Session, run_id: Option<RunId>, wanted: &Wanted) -> ApiResult<Start> {
    let store = &state.settings.store;
    let head_seq = store.get_session(session.profile_id, session.id).await?.head_seq;
    let run = match run_id {
        Some(run_id) => Some(store.get_run(session.profile_id, run_id).await?),
        None => None,
    };
    if let Some(cursor) = wanted.cursor {
        let reset = if cursor > head_seq {
            Some(ResetReason::CursorAhead)
        } else if store.is_fenced_off(session.root_id, cursor).await? {
            Some(ResetReason::LogRestored)
        } else {
            None
        };
        if let Some(reason) = reset {
            metrics::counter!(names::SSE_RESETS, "reason" => reason.as_str()).increment(1);
            return Ok(Start {
                resume_from: head_seq,
                status: StreamStatus::Reset,
                reset: Some(reason),
                is_over: false,
            });
        }
        let is_over = run.is_some_and(|run| run.status.is_ended() && run.last_seq.is_some_and(|last| cursor >= last));
        return Ok(Start {
            resume_from: cursor,
            status: StreamStatus::Resumed,
            reset: None,
            is_over,
        });
    }
    let first_of_run = run.and_then(|run| run.first_seq).map(|first| first - 1);
    let resume_from = match (wanted.from, first_of_run) {
        (Some(From::Start), _) => 0,
        (Some(From::Now), _) => head_seq,
        (Some(From::Run) | None, Some(before_run)) => before_run,
        (Some(From::Run) | None, None) => head_seq,
    };
    Ok(Start {
        resume_from,
        status: StreamStatus::New,
        reset: None,
        is_over: false,
    })
}

struct Reader {
    state: AppState,
    #[expect(dead_code, reason = "held for its drop, which frees the place")]
    place: StreamPlace,
    wakeups: watch::Receiver<i64>,
    root_id: SessionId,
    run_id: Option<RunId>,
    cursor: i64,
    heartbeat: Duration,
    until: Instant,
    principal: Principal,
    token_until: Option<Instant>,
    keys_changed: watch::Receiver<u64>,
    is_done: bool,
}

impl Reader {
    /// The first bytes: `stream.open`, and `stream.reset` where the cursor was outside the log.
    fn head(&self, session: &Session, start: &Start, wanted: &Wanted) -> Vec<u8> {
        let head_seq = session.head_seq.max(start.resume_from);
        let open = ControlEvent::StreamOpen {
            session_id: session.id,
            run_id: self.run_id,
            head_seq,
            oldest_seq: session.oldest_seq,
            resume_from: start.resume_from,
            status: start.status,
            server_time: self.state.settings.clock.now(),
            heartbeat_ms: u64::try_from(wanted.heartbeat.as_millis()).unwrap_or(u64::MAX),
        };
        let mut bytes = b"retry: 2000\n".to_vec();
        push_control(&mut bytes, None, &open);
        if let Some(reason) = start.reset {
            let snapshot_url = format!("/v1/sessions/{}/snapshot", session.id);
            let (oldest_seq, head_seq) = (session.oldest_seq, start.resume_from);
            let reset = ControlEvent::StreamReset {
                reason,
                oldest_seq,
                head_seq,
                snapshot_url,
            };
            push_control(&mut bytes, Some(head_seq), &reset);
        }
        bytes
    }

    /// The next bytes; `None` when the stream is over.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if self.is_done {
            return None;
        }
        let mut quiet_until = Instant::now() + self.heartbeat;
        loop {
            if self.has_lost_its_credential().await {
                return Some(self.end(EndReason::TokenExpired, true));
            }
            // Seen before the read: a commit after it wakes the wait below.
            self.wakeups.mark_unchanged();
            if let Some(bytes) = self.read().await {
                return Some(bytes);
            }
            let shutdown = self.state.settings.shutdown.clone();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Some(self.end(EndReason::Shutdown, true)),
                () = tokio::time::sleep_until(self.until) => return Some(self.end(EndReason::MaxAge, true)),
                changed = self.wakeups.changed() => {
                    if changed.is_err() {
                        self.wakeups = self.state.settings.store.wakeups().subscribe(self.root_id);
                    }
                }
                _ = self.keys_changed.changed() => self.keys_changed.mark_changed(),
                () = tokio::time::sleep_until(self.token_until.unwrap_or(self.until)) => {}
                () = tokio::time::sleep_until(quiet_until) => return Some(b": hb\n".to_vec()),
                () = tokio::time::sleep(SLOW_POLL) => {}
            }
            quiet_until = quiet_until.max(Instant::now());
        }
    }

    /// A stream outlives its token by a minute, and a revoked key by nothing.
    async fn has_lost_its_credential(&mut self) -> bool {
        if self.token_until.is_some_and(|at| Instant::now() >= at) {
            return true;
        }
        let may_be_revoked = self.keys_changed.has_changed().unwrap_or(false);
        self.keys_changed.mark_unchanged();
        may_be_revoked && !auth::still_works(&self.state, &self.principal).await
    }

    /// Reads a page of the log. `None` when nothing is new.
    async fn read(&mut self) -> Option<Vec<u8>> {
        let store = &self.state.settings.store;
        let page = match store.events_after(self.root_id, self.run_id, self.cursor, PAGE).await {
            Ok(page) => page,
            Err(talaria_store::Error::NotFound) => return Some(self.deleted().await),
            Err(error) => {
                tracing::error!(error = %error, "a stream ends, since the log can't be read: {error}");
                return Some(self.end(EndReason::Shutdown, true));
            }
        };
        let last = page.events.last()?.seq;
        record_lag(page.head_seq - self.cursor);
        let mut bytes = Vec::with_capacity(page.events.iter().map(|event| event.payload.len() + 64).sum());
        page.events.iter().for_each(|event| push_event(&mut bytes, event));
        self.cursor = last;
        if page.events.iter().any(|event| event.event_type == SESSION_DELETED) {
            bytes.extend(self.end(EndReason::SessionDeleted, false));
            return Some(bytes);
        }
        let may_end = page.events.iter().any(|event| is_terminal(&event.event_type));
        if may_end && self.is_run_over().await {
            bytes.extend(self.end(EndReason::RunEnded, false));
        }
        Some(bytes)
    }

    /// A run that was resumed has an earlier end in its log: only its last one counts.
    async fn is_run_over(&self) -> bool {
        let Some(run_id) = self.run_id else { return false };
        let run = self
            .state
            .settings
            .store
            .get_run(self.principal.profile_id, run_id)
            .await;
        run.is_ok_and(|run| run.status.is_ended() && run.last_seq.is_some_and(|last| self.cursor >= last))
    }

    async fn deleted(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Ok(Some(event)) = self
            .state
            .settings
            .store
            .tombstone(self.principal.profile_id, self.root_id)
            .await
        {
            self.cursor = self.cursor.max(event.seq);
            push_event(&mut bytes, &event);
        }
        bytes.extend(self.end(EndReason::SessionDeleted, false));
        bytes
    }

    fn end(&mut self, reason: EndReason, reconnect: bool) -> Vec<u8> {
        self.is_done = true;
        // Spread over three seconds, so that readers of a restarted server don't come back all at once.
        let jitter = u64::from(RunId::new().ulid().random().to_le_bytes()[0]) * 3_000 / 256;
        let retry_ms = reconnect.then_some(2_000 + jitter);
        let mut bytes = Vec::new();
        push_control(
            &mut bytes,
            Some(self.cursor),
            &ControlEvent::StreamEnd {
                reason,
                seq: self.cursor,
                reconnect,
                retry_ms,
            },
        );
        bytes
    }
}

#[expect(clippy::cast_precision_loss, reason = "a lag is far below 2^52")]
fn record_lag(events: i64) {
    metrics::histogram!(names::SSE_LAG_EVENTS).record(events as f64);
}

fn is_terminal(event_type: &str) -> bool {
    matches!(
        event_type,
        "run.completed" | "run.failed" | "run.cancelled" | "run.interrupted"
    )
}

fn push_event(bytes: &mut Vec<u8>, event: &StoredEvent) {
    let StoredEvent {
        seq,
        event_type,
        payload,
    } = event;
    bytes.extend_from_slice(format!("id: {seq}\nevent: {event_type}\ndata: ").as_bytes());
    bytes.extend_from_slice(payload.as_bytes());
    bytes.extend_from_slice(b"\n\n");
}

fn push_control(bytes: &mut Vec<u8>, id: Option<i64>, event: &ControlEvent) {
    if let Some(id) = id {
        bytes.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    let data = serde_json::to_string(event).unwrap_or_default();
    bytes.extend_from_slice(format!("event: {}\ndata: {data}\n\n", event.event_type()).as_bytes());
}

fn response(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
