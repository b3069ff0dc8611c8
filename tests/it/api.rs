//! Requests that are wrong, lists, and who may ask.

use reqwest::Method;
use serde_json::{Value, json};
use talaria_openapi::auth::Scope;
use talaria_openapi::sessions::CreateSessionRequest;
use talaria_server::openapi_json;
use talaria_tests::model_script::text;
use talaria_tests::server::TestServer;

use crate::{ask, session, start, watch};

async fn call(server: &TestServer, method: Method, path: &str, body: Option<(&str, &str)>) -> (u16, Value) {
    let mut request = server.client.request(method, path);
    if let Some((media_type, body)) = body {
        request = request.header("content-type", media_type).body(body.to_owned());
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (
        status,
        serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null),
    )
}

const JSON: &str = "application/json";

#[tokio::test]
async fn contract_1_to_6_sessions_and_errors() {
    let (server, _) = start().await;
    let created = server
        .client
        .request(Method::POST, "/v1/sessions")
        .json(&json!({}))
        .send()
        .await
        .unwrap();
    assert_eq!(created.status(), 201);
    let location = created.headers()["location"].to_str().unwrap().to_owned();
    let etag = created.headers()["etag"].to_str().unwrap().to_owned();
    let body: Value = created.json().await.unwrap();
    assert_eq!(location, format!("/v1/sessions/{}", body["id"].as_str().unwrap()));
    assert!(body["head_seq"].as_i64().unwrap() >= 1);

    let (status, problem) = call(&server, Method::POST, "/v1/sessions", Some((JSON, r#"{"titel":"x"}"#))).await;
    assert_eq!(
        (
            status,
            problem["code"].as_str(),
            problem["errors"][0]["pointer"].as_str()
        ),
        (422, Some("unknown_field"), Some("/titel"))
    );
    for (media_type, body, expected, code) in [
        (JSON, "{", 400, "invalid_json"),
        (JSON, r#"{"title":"a","title":"b"}"#, 400, "invalid_json"),
        ("text/plain", "{}", 415, "unsupported_media_type"),
        (JSON, r#"{"workspace":"relative"}"#, 422, "workspace_not_allowed"),
        (JSON, r#"{"workspace":"/does/not/exist"}"#, 422, "workspace_not_allowed"),
    ] {
        let (status, problem) = call(&server, Method::POST, "/v1/sessions", Some((media_type, body))).await;
        assert_eq!((status, problem["code"].as_str()), (expected, Some(code)), "{body}");
        assert!(
            ["type", "title", "status", "request_id", "retryable"]
                .iter()
                .all(|name| !problem[name].is_null()),
            "{problem}"
        );
    }
    assert_eq!(call(&server, Method::PUT, "/v1/sessions", None).await.0, 405);
    assert_eq!(call(&server, Method::GET, "/v1/nothing", None).await.0, 404);
    for query in ["limit=0", "limit=201", "limit=x", "colour=red"] {
        assert_eq!(
            call(&server, Method::GET, &format!("/v1/sessions?{query}"), None)
                .await
                .0,
            422,
            "{query}"
        );
    }

    let patch = |etag: String, title: &'static str| {
        server
            .client
            .request(Method::PATCH, &location)
            .header("if-match", etag)
            .json(&json!({"title": title}))
            .send()
    };
    let changed = patch(etag.clone(), "one").await.unwrap();
    assert_eq!(changed.status(), 200);
    assert_ne!(changed.headers()["etag"].to_str().unwrap(), etag);
    assert_eq!(patch(etag, "two").await.unwrap().status(), 412);

    let echoed = server
        .client
        .request(Method::GET, "/v1/sessions/ses_x")
        .header("x-request-id", "abc-123")
        .send()
        .await
        .unwrap();
    assert_eq!(echoed.headers()["x-request-id"], "abc-123");
    let problem: Value = echoed.json().await.unwrap();
    assert_eq!(
        (problem["request_id"].as_str(), problem["code"].as_str()),
        (Some("abc-123"), Some("session_not_found"))
    );
}

#[tokio::test]
async fn contract_7_8_pages_are_stable_under_inserts() {
    let (server, _) = start().await;
    let mut made = Vec::new();
    for _ in 0..30 {
        made.push(session(&server.client).await.to_string());
    }
    let (mut found, mut path) = (Vec::new(), "/v1/sessions?limit=7".to_owned());
    loop {
        let (status, page) = call(&server, Method::GET, &path, None).await;
        assert_eq!(status, 200);
        found.extend(
            page["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|session| session["id"].as_str().unwrap().to_owned()),
        );
        session(&server.client).await;
        let Some(cursor) = page["next_cursor"].as_str() else {
            assert_eq!(page["has_more"], false);
            break;
        };
        assert_eq!(
            call(
                &server,
                Method::GET,
                &format!("/v1/sessions?archived=true&cursor={cursor}"),
                None
            )
            .await
            .1["code"],
            "cursor_mismatch"
        );
        path = format!("/v1/sessions?limit=7&cursor={cursor}");
    }
    made.reverse();
    assert_eq!(found, made);
    assert_eq!(
        call(&server, Method::GET, "/v1/sessions?cursor=AAAA", None).await.1["code"],
        "invalid_cursor"
    );
}

#[tokio::test]
async fn every_route_asks_for_a_credential() {
    let (server, _) = start().await;
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let http = reqwest::Client::builder().build().unwrap();
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let request = http.request(
                method.clone(),
                format!("{}{}", server.base_url, path.replace(['{', '}'], "x")),
            );
            let status = request.json(&json!({})).send().await.unwrap().status().as_u16();
            let is_open = talaria_server::OPEN_ROUTES.contains(&path.as_str());
            assert_eq!(status, if is_open { 200 } else { 401 }, "{method} {path}");
            asked += 1;
        }
    }
    assert!(asked > 25, "only {asked} routes");
    let info: Value = http
        .get(format!("{}/v1/info", server.base_url))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert!(info["model"].is_null() && info["limits"].is_null(), "{info}");
    for path in ["/openapi.json", "/docs/"] {
        assert_eq!(
            http.get(format!("{}{path}", server.base_url))
                .send()
                .await
                .unwrap()
                .status(),
            200,
            "{path}"
        );
    }
}

#[tokio::test]
async fn keys_do_what_they_may_until_they_are_revoked() {
    let (server, _) = start().await;
    let body = json!({"name": "reader", "scopes": [Scope::SessionsRead]}).to_string();
    let (status, key) = call(&server, Method::POST, "/v1/keys", Some((JSON, &body))).await;
    assert_eq!(status, 201, "{key}");
    let secret = key["secret"].as_str().unwrap();
    assert!(secret.starts_with("tlr_"));
    let reader = talaria_client::Client::new(&server.base_url, Some(secret.to_owned()), None).unwrap();
    assert_eq!(reader.list_sessions(10).await.unwrap().data.len(), 0);
    let refused = reader
        .create_session(&CreateSessionRequest::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("insufficient_scope"), "{refused}");
    let body = json!({"name": "writer", "scopes": [Scope::SessionsWrite]}).to_string();
    let (_, writer) = call(&server, Method::POST, "/v1/keys", Some((JSON, &body))).await;
    let writer = writer["secret"].as_str().unwrap().to_owned();
    let writer = talaria_client::Client::new(&server.base_url, Some(writer), None).unwrap();
    let workspace = |path: &std::path::Path| CreateSessionRequest {
        workspace: Some(path.display().to_string()),
        ..CreateSessionRequest::default()
    };
    let (inside, outside) = (server.workspace(), server.workspace().parent().unwrap().to_owned());
    writer.create_session(&workspace(&inside)).await.unwrap();
    let refused = writer
        .create_session(&workspace(&outside))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("workspace_not_allowed"),
        "a key stays under the roots: {refused}"
    );
    server.client.create_session(&workspace(&outside)).await.unwrap();
    let home = server.database().parent().unwrap().to_owned();
    let refused = server
        .client
        .create_session(&workspace(&home))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("workspace_not_allowed"),
        "nobody works in the home: {refused}"
    );

    let key_id = key["id"].as_str().unwrap();
    assert_eq!(
        call(&server, Method::DELETE, &format!("/v1/keys/{key_id}"), None)
            .await
            .0,
        204
    );
    assert!(
        reader
            .list_sessions(10)
            .await
            .unwrap_err()
            .to_string()
            .contains("unauthenticated")
    );
    let (_, keys) = call(&server, Method::GET, "/v1/keys", None).await;
    assert!(
        !keys.to_string().contains(secret) && !server.log().contains(secret),
        "a secret is shown once"
    );
    assert!(
        !server.log().contains(&server.token),
        "inv_i11: no credential in the log"
    );
}

#[tokio::test]
async fn what_was_said_is_found_until_it_is_deleted() {
    let (server, model) = start().await;
    model.reply(text("Das Zauberwort ist Schnabeltier, 桂林山水."));
    let session_id = session(&server.client).await;
    watch(&server.client, ask(&server.client, session_id, "tell me").await.id).await;
    for query in ["schnabeltier", "\"ist Schnabeltier\"", "schnabel*", "桂林"] {
        let found = server.client.search(query, 10).await.unwrap();
        assert_eq!(found.data.len(), 1, "{query}");
        assert!(found.data[0].snippet.iter().any(|piece| piece.hit), "{query}");
    }
    for query in ["\"unbalanced", "AND OR *", "🙂", "-only", "(((", "\"\""] {
        server.client.search(query, 10).await.unwrap();
    }
    let markdown = server.client.export_session(session_id, "markdown").await.unwrap();
    assert!(
        markdown.contains("## Assistant") && markdown.contains("Schnabeltier"),
        "{markdown}"
    );
    server.client.delete_session(session_id, false).await.unwrap();
    assert_eq!(server.client.search("schnabeltier", 10).await.unwrap().data.len(), 0);
    assert!(
        server
            .client
            .get_session(session_id)
            .await
            .unwrap_err()
            .to_string()
            .contains("session_not_found")
    );
}

#[tokio::test]
async fn hard_h21_a_deleted_session_ends_its_streams() {
    let (server, model) = start().await;
    model.reply(text(&"word ".repeat(500)).slowly(std::time::Duration::from_millis(10)));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "talk").await;
    let mut streams = Vec::new();
    for path in [
        format!("/v1/sessions/{session_id}/stream?from=start"),
        format!("/v1/runs/{}/stream", run.id),
    ] {
        let opened = server.client.request(Method::GET, &path).send().await.unwrap();
        // What follows is read after everything is gone: nothing of it may be missing.
        streams.push(opened);
    }
    assert!(
        server
            .client
            .delete_session(session_id, false)
            .await
            .unwrap_err()
            .to_string()
            .contains("session_busy")
    );
    server.client.delete_session(session_id, true).await.unwrap();
    for stream in streams {
        let body = stream.text().await.unwrap();
        let at = |what: &str| body.find(what).unwrap_or_else(|| panic!("no {what} in {body}"));
        // The run's own stream may be over with the run, before the session is deleted.
        if body.contains(r#""reason":"run_ended""#) {
            assert!(at("event: run.cancelled") < at("event: stream.end"));
            continue;
        }
        assert!(at("event: run.cancelled") < at("event: session.deleted"));
        assert!(at("event: session.deleted") < at(r#""reason":"session_deleted""#));
    }
}
