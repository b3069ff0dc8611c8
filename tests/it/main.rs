//! The black-box tests: the real server as a process, a scripted model, the real client.
#![expect(clippy::unwrap_used, reason = "a test binary: its helpers fail like its tests")]

mod api;
mod auth;
mod border;
mod client;
mod contract;
mod control;
mod crash;
mod disconnect;
mod disk;
mod files;
mod foreign;
mod forks;
mod interactions;
mod queue;
mod runs;
mod scopes;
mod secrets;
mod starting;
mod stream;
#[cfg(target_os = "linux")]
mod terminal;
mod tidy;
mod typing;

use std::time::Duration;

use talaria_client::Client;
use talaria_client::watch::{RunWatch, Watched};
use talaria_openapi::ids::{RunId, SessionId};
use talaria_openapi::runs::{CreateRunRequest, Run};
use talaria_openapi::sessions::CreateSessionRequest;
use talaria_tests::model_script::ModelScript;
use talaria_tests::server::TestServer;

/// A server with its scripted model.
async fn start() -> (TestServer, ModelScript) {
    let model = ModelScript::start().await;
    let server = TestServer::start(env!("CARGO_BIN_EXE_talaria-server"), &model).await;
    (server, model)
}

async fn session(client: &Client) -> SessionId {
    client
        .create_session(&CreateSessionRequest::default())
        .await
        .unwrap()
        .id
}

async fn ask(client: &Client, session_id: SessionId, text: &str) -> Run {
    client
        .create_run(session_id, &CreateRunRequest::text(text))
        .await
        .unwrap()
}

/// What a route that acts answers.
async fn post(server: &TestServer, path: &str, body: serde_json::Value) -> (reqwest::StatusCode, serde_json::Value) {
    let request = server.client.request(reqwest::Method::POST, path).json(&body);
    let response = request.send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

/// What a route answers, as JSON of the expected type.
async fn get<T: serde::de::DeserializeOwned>(client: &Client, path: &str) -> T {
    let response = client.request(reqwest::Method::GET, path).send().await.unwrap();
    response.json().await.unwrap()
}

/// All events of a run, to its end.
async fn watch(client: &Client, run_id: RunId) -> Vec<Watched> {
    let mut watch = RunWatch::new(client.clone(), run_id, None);
    let mut events = Vec::new();
    let all = async {
        while let Some(event) = watch.next().await.unwrap() {
            events.push(event);
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all).await.unwrap();
    events
}

fn types(events: &[Watched]) -> Vec<&'static str> {
    events.iter().map(|watched| watched.event.body.event_type()).collect()
}
