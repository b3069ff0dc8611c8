//! What a credential may do, and how often.

use reqwest::{Method, Response};
use serde_json::{Value, json};
use talaria_client::Client;
use talaria_openapi::auth::Scope;
use talaria_tests::model_script::{ModelScript, text};
use talaria_tests::server::TestServer;

use crate::auth::new_key;
use crate::{session, start};

/// Every operation of the document: method, path, and the scopes that it says it needs; `None` for an open one.
fn operations() -> Vec<(Method, String, Option<Vec<String>>)> {
    let document: Value = serde_json::from_str(&talaria_server::openapi_json()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let security = operation["security"].as_array();
            let is_open = security.is_some_and(|all| all.iter().any(|one| one == &json!({})));
            let scopes = || {
                let key = security.unwrap()[0]["key"].as_array().unwrap();
                key.iter().map(|scope| scope.as_str().unwrap().to_owned()).collect()
            };
            found.push((method, path.clone(), (!is_open).then(scopes)));
        }
    }
    found
}

/// The path with something in the place of each name.
fn concrete(path: &str) -> String {
    let parts = path
        .split('/')
        .map(|part| if part.starts_with('{') { "x" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

async fn call(server: &TestServer, secret: &str, method: &Method, path: &str) -> Response {
    let client = Client::new(&server.base_url, Some(secret.to_owned()), None).unwrap();
    // A body that no route takes: whoever lacks a scope doesn't get as far.
    let request = client
        .request(method.clone(), &concrete(path))
        .json(&json!({"no such field": 1}));
    request.send().await.unwrap()
}

#[tokio::test]
async fn every_route_refuses_a_key_that_lacks_its_scope() {
    let (server, _) = start().await;
    let mut checked = 0;
    for (method, path, scopes) in operations() {
        let Some(scopes) = scopes else { continue };
        for lacking in &scopes {
            let others: Vec<Scope> = Scope::ALL
                .iter()
                .copied()
                .filter(|scope| scope.as_str() != lacking)
                .collect();
            let (_, secret) = new_key(&server, &others).await;
            let response = call(&server, &secret, &method, &path).await;
            assert_eq!(response.status(), 403, "{method} {path} without {lacking}");
            let challenge = response.headers()["www-authenticate"].to_str().unwrap().to_owned();
            assert!(challenge.contains(&format!("scope=\"{lacking}\"")), "{challenge}");
            let problem: Value = response.json().await.unwrap();
            assert_eq!(
                (&problem["code"], &problem["required"]),
                (&json!("insufficient_scope"), &json!(lacking))
            );
            checked += 1;
        }
        let mut needed: Vec<Scope> = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
        if needed.is_empty() {
            needed.push(Scope::ToolsRead);
        }
        let (_, secret) = new_key(&server, &needed).await;
        let response = call(&server, &secret, &method, &path).await;
        assert!(
            response.status() != 403 && response.status() != 401,
            "{method} {path} with {scopes:?}"
        );
        assert!(response.status().as_u16() < 500, "{method} {path}");
    }
    assert!(checked > 40, "{checked}");
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_told_when_to_come_back() {
    let model = ModelScript::start().await;
    let more = "  rate_limits: { runs: 3, requests: 20 }\n";
    let server = TestServer::start_with(env!("CARGO_BIN_EXE_talaria-server"), &model, more).await;
    let session_id = session(&server.client).await;
    let (_, secret) = new_key(&server, Scope::ALL).await;
    let client = Client::new(&server.base_url, Some(secret), None).unwrap();
    let create = |client: Client| async move {
        let body = json!({"input": "hi", "on_busy": "queue"});
        let path = format!("/v1/sessions/{session_id}/runs");
        client.request(Method::POST, &path).json(&body).send().await.unwrap()
    };
    for left in (0..3).rev() {
        model.reply(text("done"));
        let response = create(client.clone()).await;
        assert_eq!(response.status(), 202);
        assert_eq!(response.headers()["ratelimit-policy"], "\"runs\";q=3;w=60");
        let limit = response.headers()["ratelimit"].to_str().unwrap();
        assert!(limit.starts_with(&format!("\"runs\";r={left};t=")), "{limit}");
    }
    let refused = create(client.clone()).await;
    assert_eq!(refused.status(), 429);
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=20).contains(&wait), "{wait}");
    let problem: Value = refused.json().await.unwrap();
    assert_eq!(
        (&problem["code"], &problem["retryable"]),
        (&json!("rate_limited"), &json!(true))
    );
    // Other requests have a count of their own, and the owner of the home has none.
    let read = client.request(Method::GET, "/v1/sessions").send().await.unwrap();
    assert_eq!(
        (read.status().as_u16(), &read.headers()["ratelimit-policy"]),
        (200, &"\"requests\";q=20;w=60".parse().unwrap())
    );
    let owner = create(server.client.clone()).await;
    assert_eq!((owner.status().as_u16(), owner.headers().get("ratelimit")), (202, None));
}
