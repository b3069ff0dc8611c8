//! The API, one method a call.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use talaria_openapi::auth::Whoami;
use talaria_openapi::ids::{InputId, InteractionId, MessageId, RunId, SessionId};
use talaria_openapi::info::Info;
use talaria_openapi::inputs::Input;
use talaria_openapi::interactions::{Interaction, ResolveInteractionRequest};
use talaria_openapi::messages::Message;
use talaria_openapi::page::Page;
use talaria_openapi::runs::{CancelRunRequest, CreateRunRequest, Run};
use talaria_openapi::search::SearchResults;
use talaria_openapi::sessions::{CreateSessionRequest, Session, Snapshot, UpdateSessionRequest};
use talaria_openapi::tools::Tool;

use super::Client;
use crate::error::{Error, Result};

impl Client {
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

    /// What became of an input.
    pub async fn get_input(&self, input_id: InputId) -> Result<Input> {
        self.get(&format!("/v1/inputs/{input_id}")).await
    }

    /// The newest runs, of one session where it is named.
    pub async fn list_runs(&self, session_id: Option<SessionId>, limit: u32) -> Result<Page<Run>> {
        let of_session = session_id.map_or_else(String::new, |id| format!("&session_id={id}"));
        self.get(&format!("/v1/runs?limit={limit}{of_session}")).await
    }

    /// Tells a run to stop.
    pub async fn cancel_run(&self, run_id: RunId, request: &CancelRunRequest) -> Result<Run> {
        self.post(&format!("/v1/runs/{run_id}/cancel"), request).await
    }

    /// What waits for a person.
    pub async fn pending_interactions(&self) -> Result<Page<Interaction>> {
        self.get("/v1/interactions?status=pending&limit=200").await
    }

    /// Answers what a run waits for.
    pub async fn resolve_interaction(
        &self,
        interaction_id: InteractionId,
        request: &ResolveInteractionRequest,
    ) -> Result<Interaction> {
        self.post(&format!("/v1/interactions/{interaction_id}/resolve"), request)
            .await
    }

    /// Searches everything that was said.
    pub async fn search(&self, query: &str, limit: u32) -> Result<SearchResults> {
        let request = self.request(Method::GET, "/v1/search");
        let url = reqwest::Url::parse_with_params(
            &format!("{}/v1/search", self.base_url()),
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
