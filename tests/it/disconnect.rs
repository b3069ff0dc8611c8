//! Runs that are bound to the connection that created them.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use talaria_openapi::ids::RunId;
use talaria_openapi::runs::{RunStatus, StopReason};
use talaria_tests::model_script::text;
use talaria_tests::server::TestServer;

use crate::{post, session, start};

/// Creates a run and reads its stream up to its first event; then the connection is lost.
async fn ask_and_leave(server: &TestServer, on_disconnect: &str) -> RunId {
    let session_id = session(&server.client).await;
    let request = server
        .client
        .request(Method::POST, &format!("/v1/sessions/{session_id}/runs"));
    let request = request.header("accept", "text/event-stream");
    let response = request
        .json(&json!({"input": "talk", "on_disconnect": on_disconnect}))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let run_id = response.headers()["location"]
        .to_str()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let mut body = response.bytes_stream();
    body.next().await.unwrap().unwrap();
    run_id
}

fn endless() -> talaria_tests::model_script::Reply {
    text(&"word ".repeat(4_000)).slowly(Duration::from_millis(10))
}

#[tokio::test]
async fn contract_30_a_run_outlives_its_client_unless_it_was_asked_not_to() {
    let (server, model) = start().await;
    model.reply(endless()).reply(endless()).reply(endless());
    let left = Instant::now();
    let bound = ask_and_leave(&server, "cancel").await;
    let free = ask_and_leave(&server, "continue").await;
    let found_again = ask_and_leave(&server, "cancel").await;
    // Somebody reads its stream again within the ten seconds.
    let request = server
        .client
        .request(Method::GET, &format!("/v1/runs/{found_again}/stream"));
    let reader = request.send().await.unwrap();
    let bound = server.client.get_run(bound, 30).await.unwrap();
    assert!(left.elapsed() >= Duration::from_secs(10), "not before ten seconds");
    let stop = bound.stop.unwrap();
    assert_eq!(
        (bound.status, stop.reason),
        (RunStatus::Cancelled, StopReason::Cancelled)
    );
    assert_eq!(stop.detail.as_deref(), Some("the client that waited for it has gone"));
    // The other two were left at the same moment.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for run_id in [free, found_again] {
        assert_eq!(
            server.client.get_run(run_id, 0).await.unwrap().status,
            RunStatus::Running
        );
    }
    drop(reader);
}

#[tokio::test]
async fn only_a_connection_that_waits_can_bind_a_run() {
    let (server, model) = start().await;
    model.reply(text("done"));
    let session_id = session(&server.client).await;
    let path = format!("/v1/sessions/{session_id}/runs");
    let body = json!({"input": "hi", "on_disconnect": "cancel"});
    let (status, problem) = post(&server, &path, body.clone()).await;
    assert_eq!(
        (status, &problem["errors"][0]["pointer"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("/on_disconnect"))
    );
    let request = server
        .client
        .request(Method::POST, &path)
        .header("prefer", "wait=20")
        .json(&body);
    let run: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(run["status"], "completed");
}
