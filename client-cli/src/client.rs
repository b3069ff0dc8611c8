//! The API, one method a call.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use talaria_openapi::auth::Whoami;
use talaria_openapi::ids::{MessageId, RunId, SessionId};
use talaria_openapi::info::Info;
use talaria_openapi::messages::Message;
use talaria_openapi::page::Page;
use talaria_openapi::runs::{CancelRunRequest, CreateRunRequest, Run};
use talaria_openapi::search::SearchResults;
use talaria_openapi::sessions::{CreateSessionRequest, Session, Snapshot, UpdateSessionRequest};
use talaria_openapi::tools::Tool;
use talaria_text::cut::one_line;

use crate::error::{Error, Result};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than any wait that can be asked for, and than several heartbeats of a stream: silence beyond it is a dead peer.
const READ_TIMEOUT: Duration = Duration::from_secs(90);
/// Longest passage of an answer that isn't ours, in cells.
const MAX_SAID: usize = 200;

/// Speaks to one server as one credential in one profile. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base_url: Arc<str>,
    token: Option<Arc<str>>,
    profile: Option<Arc<str>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("base_url", &self.base_url)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at `base_url`, such as `http://127.0.0.1:8640`.
    pub fn new(base_url: &str, token: Option<String>, profile: Option<String>) -> Result<Self> {
        let address = address(base_url)?;
        // Fails when another part of the program was first, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = reqwest::Client::builder();
        if is_this_host(&address) {
            // A proxy of the environment must not get what is meant for this host.
            builder = builder.no_proxy();
        }
        let http = builder
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .user_agent(concat!("talaria-cli/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Local(format!("the HTTP client can't start: {error}")))?;
        let base_url = base_url.trim_end_matches('/').into();
        Ok(Self {
            http,
            base_url,
            token: token.map(Into::into),
            profile: profile.map(Into::into),
        })
    }

    /// Where the server is.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Whether others can read what is sent.
    pub(crate) fn sends_in_clear(&self) -> bool {
        address(&self.base_url).is_ok_and(|address| address.scheme() == "http" && !is_this_host(&address))
    }

    /// A request with credential and profile.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.base_url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(profile) = &self.profile {
            request = request.header("x-talaria-profile", &**profile);
        }
        request
    }

    /// Sends a request; any answer but success is an error (redirects are not followed: they would carry the credential).
    pub async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        match serde_json::from_slice(&body) {
            Ok(problem) => Err(Error::Problem(Box::new(problem))),
            // A proxy's answer for a server that is away.
            Err(_) if status.is_server_error() => Err(Error::Unreachable {
                url: self.base_url.to_string(),
                reason: format!("something in between answers {status}"),
            }),
            // A code of a later version, or a gate in front of the server.
            Err(_) => Err(Error::Refused {
                status: status.as_u16(),
                text: said(&body),
            }),
        }
    }

    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> Error {
        let mut reason = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            reason = error.to_string();
            cause = error.source();
        }
        Error::Unreachable {
            url: self.base_url.to_string(),
            reason,
        }
    }

    async fn call<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let body = self
            .send(request)
            .await?
            .bytes()
            .await
            .map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&body).map_err(|error| Error::Protocol(error.to_string()))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(self.request(Method::GET, path)).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        self.call(self.request(Method::POST, path).json(body)).await
    }

    /// Whether the server is alive.
    pub async fn is_alive(&self) -> bool {
        let request = self.request(Method::GET, "/healthz").timeout(Duration::from_secs(2));
        request
            .send()
            .await
            .is_ok_and(|response| response.status() == StatusCode::OK)
    }

    /// Version, model, limits.
    pub async fn info(&self) -> Result<Info> {
        self.get("/v1/info").await
    }

    /// What the agent can do.
    pub async fn list_tools(&self) -> Result<Vec<Tool>> {
        self.get("/v1/tools").await.map(|page: Page<Tool>| page.data)
    }

    /// Begins a session.
    pub async fn create_session(&self, request: &CreateSessionRequest) -> Result<Session> {
        self.post("/v1/sessions", request).await
    }

    /// Newest sessions first.
    pub async fn list_sessions(&self, limit: u32) -> Result<Page<Session>> {
        self.get(&format!("/v1/sessions?archived=false&limit={limit}")).await
    }

    /// One session.
    pub async fn get_session(&self, session_id: SessionId) -> Result<Session> {
        self.get(&format!("/v1/sessions/{session_id}")).await
    }

    /// A session with what is open in it.
    pub async fn get_snapshot(&self, session_id: SessionId) -> Result<Snapshot> {
        self.get(&format!("/v1/sessions/{session_id}/snapshot")).await
    }

    /// Changes a session.
    pub async fn update_session(&self, session_id: SessionId, request: &UpdateSessionRequest) -> Result<Session> {
        self.call(
            self.request(Method::PATCH, &format!("/v1/sessions/{session_id}"))
                .json(request),
        )
        .await
    }

    /// Deletes a session's chain; stops what is live in it when forced.
    pub async fn delete_session(&self, session_id: SessionId, force: bool) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("/v1/sessions/{session_id}?force={force}"));
        self.send(request).await.map(drop)
    }

    /// Every message of a session, oldest first.
    pub async fn list_messages(&self, session_id: SessionId) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        let mut path = format!("/v1/sessions/{session_id}/messages?limit=200");
        loop {
            let page: Page<Message> = self.get(&path).await?;
            messages.extend(page.data);
            match page.next_cursor {
                Some(cursor) => path = format!("/v1/sessions/{session_id}/messages?limit=200&cursor={cursor}"),
                None => return Ok(messages),
            }
        }
    }

    /// One message, whole whatever its size.
    pub async fn get_message(&self, session_id: SessionId, message_id: MessageId) -> Result<Message> {
        self.get(&format!("/v1/sessions/{session_id}/messages/{message_id}"))
            .await
    }

    /// A session as JSON lines or Markdown.
    pub async fn export_session(&self, session_id: SessionId, format: &str) -> Result<String> {
        let whole = self.open_export(session_id, format).await?.text().await;
        whole.map_err(|error| self.unreachable(&error))
    }

    /// A session as JSON lines or Markdown, piece by piece: it may be longer than memory.
    pub async fn open_export(&self, session_id: SessionId, format: &str) -> Result<Response> {
        let request = self.request(
            Method::GET,
            &format!("/v1/sessions/{session_id}/export?format={format}"),
        );
        self.send(request).await
    }

    /// Who the server takes this client for.
    pub async fn whoami(&self) -> Result<Whoami> {
        self.get("/v1/auth/whoami").await
    }

    /// Says something in a session.
    pub async fn create_run(&self, session_id: SessionId, request: &CreateRunRequest) -> Result<Run> {
        self.post(&format!("/v1/sessions/{session_id}/runs"), request).await
    }

    /// One run; waits up to `wait` seconds for its end.
    pub async fn get_run(&self, run_id: RunId, wait: u64) -> Result<Run> {
        self.get(&format!("/v1/runs/{run_id}?wait={wait}")).await
    }

    /// Tells a run to stop.
    pub async fn cancel_run(&self, run_id: RunId, request: &CancelRunRequest) -> Result<Run> {
        self.post(&format!("/v1/runs/{run_id}/cancel"), request).await
    }

    /// Searches everything that was said.
    pub async fn search(&self, query: &str, limit: u32) -> Result<SearchResults> {
        let request = self.request(Method::GET, "/v1/search");
        let url = reqwest::Url::parse_with_params(
            &format!("{}/v1/search", self.base_url),
            [("q", query), ("limit", &limit.to_string())],
        )
        .map_err(|error| Error::Local(error.to_string()))?;
        let (client, built) = request.build_split();
        let mut built = built.map_err(|error| self.unreachable(&error))?;
        *built.url_mut() = url;
        self.call(RequestBuilder::from_parts(client, built)).await
    }

    /// Opens the stream of a run after an event; `None` when nothing can follow.
    pub async fn open_run_stream(&self, run_id: RunId, last_event_id: Option<i64>) -> Result<Option<Response>> {
        let mut request = self
            .request(Method::GET, &format!("/v1/runs/{run_id}/stream"))
            .header("accept", "text/event-stream");
        if let Some(last) = last_event_id {
            request = request.header("last-event-id", last.to_string());
        }
        let response = self.send(request).await?;
        match response.status() {
            StatusCode::OK => Ok(Some(response)),
            StatusCode::NO_CONTENT => Ok(None),
            status => Err(Error::Protocol(format!("a stream is answered with {status}"))),
        }
    }
}

fn address(base_url: &str) -> Result<reqwest::Url> {
    let address = reqwest::Url::parse(base_url).ok();
    address
        .filter(|address| ["http", "https"].contains(&address.scheme()) && address.has_host())
        .ok_or_else(|| {
            Error::Local(format!(
                "`{base_url}` is no address of a server: write https://HOST or http://HOST:PORT"
            ))
        })
}

fn is_this_host(address: &reqwest::Url) -> bool {
    let host = address.host_str().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// What an answer without a problem document says, in a line.
fn said(body: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let texts = ["title", "detail"].map(|field| value.get(field).and_then(serde_json::Value::as_str));
    let text = texts.into_iter().flatten().collect::<Vec<_>>().join(": ");
    if !text.is_empty() {
        return text;
    }
    match one_line(&String::from_utf8_lossy(body), MAX_SAID) {
        text if text.is_empty() => "without a word".to_owned(),
        text => text,
    }
}
