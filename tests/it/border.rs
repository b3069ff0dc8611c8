//! Headers: who may call from a browser, what is accepted, what is measured.

use std::time::Duration;

use reqwest::{Method, StatusCode, header};
use serde_json::Value;
use talaria_client::Client;
use talaria_openapi::auth::Scope;
use talaria_tests::model_script::{ModelScript, text};
use talaria_tests::server::TestServer;

use crate::auth::new_key;
use crate::{ask, session, start, watch};

#[tokio::test]
async fn browsers_of_configured_origins_may_call_and_others_may_not() {
    let model = ModelScript::start().await;
    let origins = "  origins: [\"https://chat.example.org\"]\n";
    let server = TestServer::start_with(env!("CARGO_BIN_EXE_talaria-server"), &model, origins).await;
    let preflight = |origin: &'static str| {
        server
            .client
            .request(Method::OPTIONS, "/v1/sessions")
            .header(header::ORIGIN, origin)
            .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
            .header(header::ACCESS_CONTROL_REQUEST_HEADERS, "authorization,content-type")
            .send()
    };
    let allowed = preflight("https://chat.example.org").await.unwrap();
    assert_eq!(allowed.status(), StatusCode::OK);
    let headers = allowed.headers();
    assert_eq!(headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://chat.example.org");
    assert!(
        headers[header::ACCESS_CONTROL_ALLOW_HEADERS]
            .to_str()
            .unwrap()
            .contains("authorization")
    );
    assert!(
        !headers.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS),
        "no cookies are asked for"
    );
    assert_eq!(
        preflight("https://evil.example").await.unwrap().status(),
        StatusCode::FORBIDDEN
    );

    model.reply(text("hello"));
    let run = ask(&server.client, session(&server.client).await, "hi").await;
    watch(&server.client, run.id).await;
    for path in [
        "/v1/sessions".to_owned(),
        format!("/v1/runs/{}/stream", run.id),
        "/v1/nothing".to_owned(),
    ] {
        let from = |origin: &'static str| {
            server
                .client
                .request(Method::GET, &path)
                .header(header::ORIGIN, origin)
                .send()
        };
        let answer = from("https://chat.example.org").await.unwrap();
        assert_eq!(
            answer.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN],
            "https://chat.example.org",
            "{path}"
        );
        assert!(
            answer.headers()[header::VARY].to_str().unwrap().contains("origin"),
            "{path}"
        );
        let refused = from("https://evil.example").await.unwrap();
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{path}");
        assert!(!refused.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    }
}

#[tokio::test]
async fn contract_4_what_nobody_accepts_is_not_sent() {
    let (server, model) = start().await;
    model.reply(text("hello"));
    let run = ask(&server.client, session(&server.client).await, "hi").await;
    watch(&server.client, run.id).await;
    let stream = format!("/v1/runs/{}/stream", run.id);
    for (path, accept, expected) in [
        ("/v1/sessions", "image/png", 406),
        ("/v1/sessions", "text/event-stream", 406),
        ("/v1/sessions", "application/json", 200),
        ("/v1/sessions", "*/*", 200),
        ("/v1/info", "text/html", 406),
        (&stream, "application/json", 406),
        (&stream, "text/event-stream", 200),
        ("/metrics", "application/openmetrics-text", 200),
    ] {
        let request = server.client.request(Method::GET, path).header(header::ACCEPT, accept);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), expected, "{path} {accept}");
        if expected == 406 {
            let problem: Value = answer.json().await.unwrap();
            assert_eq!(problem["code"], "not_acceptable", "{path} {accept}");
        }
    }
}

#[tokio::test]
async fn what_happens_is_measured() {
    let (server, model) = start().await;
    model.reply(text("hello"));
    let run = ask(&server.client, session(&server.client).await, "hi").await;
    watch(&server.client, run.id).await;
    let (_, secret) = new_key(&server, &[Scope::SessionsRead]).await;
    let reader = Client::new(&server.base_url, Some(secret), None).unwrap();
    let refused = reader.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let lines = [
        "talaria_runs_active 0",
        "talaria_sse_connections 0",
        "talaria_run_seconds_count 1",
        "talaria_first_token_seconds_count 1",
        "talaria_http_requests_seconds_count{route=\"/v1/sessions/{session_id}/runs\",status=\"202\"} 1",
        "# TYPE talaria_event_append_seconds histogram",
        "# EOF",
    ];
    // A run is seen to end a moment before it is counted.
    let all_there = async {
        loop {
            let request = server.client.request(Method::GET, "/metrics");
            let metrics = request.send().await.unwrap().text().await.unwrap();
            if lines.iter().all(|line| metrics.lines().any(|found| found == *line)) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), all_there).await.unwrap();
}

#[tokio::test]
async fn a_ready_server_says_what_it_checked() {
    let (server, _) = start().await;
    let ready = server.client.request(Method::GET, "/readyz").send().await.unwrap();
    assert_eq!(ready.status(), StatusCode::OK);
    let ready: Value = ready.json().await.unwrap();
    let checks = ready["checks"].as_object().unwrap();
    let names: Vec<&str> = checks.keys().map(String::as_str).collect();
    assert_eq!(names, ["db", "disk", "event_log_write", "migrations", "worker_lease"]);
    assert!(checks.values().all(|check| check == "ok"), "{ready}");
}

#[tokio::test]
async fn operators_have_a_listener_of_their_own() {
    let model = ModelScript::start().await;
    let admin = "  admin_listen: 127.0.0.1:0\n";
    let server = TestServer::start_with(env!("CARGO_BIN_EXE_talaria-server"), &model, admin).await;
    let told = server.log();
    let (_, rest) = told.split_once("without a key: ").unwrap();
    let address = rest.split_whitespace().next().unwrap();
    let operator = Client::new(address, None, None).unwrap();
    let get = |path: &'static str| operator.request(Method::GET, path);
    assert!(
        get("/metrics")
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
            .ends_with("# EOF\n")
    );
    assert_eq!(get("/readyz").send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(
        get("/v1/sessions").send().await.unwrap().status(),
        StatusCode::NOT_FOUND
    );
    for (name, value) in [("host", "evil.example"), ("origin", "http://localhost:3000")] {
        let refused = get("/metrics").header(name, value).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{name}");
    }
}
