//! What happens to every request: its id, the check of its host and origin, one log line, and the last touch on problems.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use talaria_domain::metrics as names;
use talaria_openapi::errors::{ErrorCode, Problem};

use crate::accept::accepts;
use crate::error::ApiError;
use crate::rate_limits::RateSlot;
use crate::state::{AppState, HostPolicy};

/// Longest id that a client may give a request.
const MAX_REQUEST_ID: usize = 128;

pub(crate) async fn around(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let request_id = request_id(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map(|route| route.as_str().to_owned());
    let accepted = (method == Method::GET).then(|| request.headers().clone());
    let rates = RateSlot::default();
    request.extensions_mut().insert(rates.clone());
    let mut response = match refuse_foreign(&state.settings.hosts, request.headers(), request.uri()) {
        Some(error) => error.into_response(),
        None => next.run(request).await,
    };
    rates.tell(&mut response);
    if let Some(error) = accepted.and_then(|headers| refuse_unaccepted(&headers, &response)) {
        response = error.into_response();
    }
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = complete(response, problem, &request_id, path);
    }
    let status = response.status().as_u16();
    let (route, duration_ms) = (route.unwrap_or_default(), begun.elapsed().as_millis());
    let labels = [("route", route.clone()), ("status", status.to_string())];
    metrics::histogram!(names::HTTP_REQUESTS_SECONDS, &labels).record(begun.elapsed());
    tracing::info!(http.status = status, duration_ms, request.id = %request_id, "{method} {route} {status}");
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert("x-request-id", value);
    }
    response
}

/// Pages that a browser has open must not reach a listener that asks for no credential.
pub(crate) async fn loopback_only(request: Request, next: Next) -> Response {
    let policy = HostPolicy {
        is_loopback: true,
        ..HostPolicy::default()
    };
    let has_origin = request.headers().contains_key(header::ORIGIN);
    match refuse_foreign(&policy, request.headers(), request.uri()) {
        Some(error) => error.into_response(),
        None if has_origin => ApiError::new(ErrorCode::OriginNotAllowed).into_response(),
        None => next.run(request).await,
    }
}

fn request_id(headers: &HeaderMap) -> String {
    let is_plain = |text: &&str| {
        let is_plain_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        !text.is_empty() && text.len() <= MAX_REQUEST_ID && text.bytes().all(is_plain_byte)
    };
    let given = headers
        .get("x-request-id")
        .and_then(|value| value.to_str().ok())
        .filter(is_plain);
    given.map_or_else(|| talaria_openapi::ids::RunId::new().ulid().to_string(), str::to_owned)
}

/// Adds the request to a problem document.
fn complete(response: Response, mut problem: Problem, request_id: &str, path: String) -> Response {
    problem.request_id = request_id.to_owned();
    problem.instance = Some(path);
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    match serde_json::to_vec(&problem) {
        Ok(json) => Response::from_parts(parts, json.into()),
        Err(_) => Response::from_parts(parts, body),
    }
}

/// An answer that the client can't take is not sent. Only for requests that change nothing: what was done must be told.
fn refuse_unaccepted(headers: &HeaderMap, response: &Response) -> Option<ApiError> {
    let media_type = response.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    if !response.status().is_success() || accepts(headers, media_type) {
        return None;
    }
    let detail = format!("the answer is `{media_type}`: accept it, or send no Accept header");
    Some(ApiError::new(ErrorCode::NotAcceptable).detail(detail))
}

fn refuse_foreign(policy: &HostPolicy, headers: &HeaderMap, uri: &Uri) -> Option<ApiError> {
    let host = headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok())
        .or_else(|| uri.authority().map(Authority::as_str));
    let host = host.map(without_port).unwrap_or_default();
    let is_known = |host: &str| policy.hosts.iter().any(|known| known.eq_ignore_ascii_case(host));
    if policy.is_loopback && !is_loopback_name(host) && !is_known(host) {
        let detail = "the server answers to loopback names only: add the name to `server.hosts` in config.yaml";
        return Some(ApiError::new(ErrorCode::OriginNotAllowed).detail(detail));
    }
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
    let is_own = origin
        .split_once("://")
        .is_some_and(|(_, authority)| without_port(authority) == host && is_loopback_name(host));
    if is_own || policy.origins.iter().any(|known| known == origin) {
        return None;
    }
    let detail = "browsers of this origin are refused: add it to `server.origins` in config.yaml";
    Some(ApiError::new(ErrorCode::OriginNotAllowed).detail(detail))
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => authority,
    }
}

fn is_loopback_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host == "[::1]"
        || host.parse().is_ok_and(|ip: std::net::Ipv4Addr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        let origins = vec!["https://chat.example.org".to_owned()];
        let policy = HostPolicy {
            is_loopback: true,
            hosts: vec!["box.lan".to_owned()],
            origins,
        };
        refuse_foreign(&policy, &headers, &Uri::from_static("/v1/info")).is_some()
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused_on_loopback() {
        for host in ["127.0.0.1:8640", "localhost", "[::1]:8640", "[::1]", "box.lan:8640"] {
            assert!(!is_refused(host, None), "{host}");
        }
        for host in ["evil.example:8640", "127.0.0.1.evil.example", "", "8.8.8.8"] {
            assert!(is_refused(host, None), "{host}");
        }
        assert!(!is_refused("localhost:8640", Some("http://localhost:8640")));
        assert!(!is_refused("localhost:8640", Some("https://chat.example.org")));
        for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
            assert!(is_refused("localhost:8640", Some(origin)), "{origin}");
        }
    }
}
