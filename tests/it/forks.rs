//! Copies of sessions, the way back in one, and sessions that are only for a while.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use talaria_openapi::ids::SessionId;
use talaria_openapi::runs::RunStatus;
use talaria_openapi::sessions::Session;
use talaria_tests::model_script::{ModelScript, calls, text};
use talaria_tests::server::TestServer;

use crate::{ask, get, post, session, start, types, watch};

async fn messages(server: &TestServer, session_id: &str, more: &str) -> Vec<Value> {
    let page: Value = get(&server.client, &format!("/v1/sessions/{session_id}/messages?{more}")).await;
    page["data"].as_array().unwrap().clone()
}

fn spoken(messages: &[Value]) -> Vec<&str> {
    let texts = messages.iter().filter(|message| message["role"] != "tool");
    texts
        .map(|message| message["parts"][0]["text"].as_str().unwrap_or("(call)"))
        .collect()
}

/// A session in which a file was read: user, call, result, answer.
async fn with_a_call() -> (TestServer, ModelScript, SessionId) {
    let (server, model) = start().await;
    std::fs::write(server.workspace().join("a.txt"), "alpha\n").unwrap();
    model.reply(calls(&[("c1", "read_file", json!({"path": "a.txt"}))]));
    model.reply(text("it says alpha"));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "read a.txt").await;
    watch(&server.client, run.id).await;
    (server, model, session_id)
}

#[tokio::test]
async fn a_fork_is_a_chain_of_its_own_that_remembers() {
    let (server, model, session_id) = with_a_call().await;
    let (status, fork) = post(
        &server,
        &format!("/v1/sessions/{session_id}/fork"),
        json!({"title": "copy"}),
    )
    .await;
    assert_eq!(status, StatusCode::CREATED, "{fork}");
    assert_eq!(
        (&fork["forked_from"], &fork["title"], &fork["root_id"]),
        (&json!(session_id), &json!("copy"), &fork["id"])
    );
    let fork_id = fork["id"].as_str().unwrap();
    let (original, copy) = (
        messages(&server, &session_id.to_string(), "").await,
        messages(&server, fork_id, "").await,
    );
    assert_eq!(spoken(&original), spoken(&copy));
    assert!(copy.iter().all(|message| message["run_id"].is_null()));
    assert!(original.iter().zip(&copy).all(|(one, other)| one["id"] != other["id"]));
    // It goes on with the same words before the model, and the original doesn't notice.
    model.reply(text("alpha again"));
    let run = ask(&server.client, fork_id.parse().unwrap(), "and again?").await;
    watch(&server.client, run.id).await;
    assert_eq!(
        messages(&server, &session_id.to_string(), "").await.len(),
        original.len()
    );
    let requests = model.requests();
    let (before, after) = (&requests[1]["messages"], &requests[2]["messages"]);
    let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
    assert_eq!(before[..], after[..before.len()], "the provider's cache still fits");
    // The original's end is not its end.
    server.client.delete_session(session_id, true).await.unwrap();
    assert_eq!(messages(&server, fork_id, "").await.len(), copy.len() + 2);
}

#[tokio::test]
async fn a_fork_is_made_at_a_place_once() {
    let (server, _model, session_id) = with_a_call().await;
    let path = format!("/v1/sessions/{session_id}/fork");
    let all = messages(&server, &session_id.to_string(), "").await;
    let (status, problem) = post(&server, &path, json!({"at_message_id": all[1]["id"]})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("invalid_fork_point"))
    );
    let (status, problem) = post(&server, &path, json!({"at_seq": all[1]["seq"]})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("invalid_fork_point"))
    );
    let (status, _) = post(
        &server,
        &path,
        json!({"at_message_id": "msg_01JDZK8Q0V8M0F3H6S9W2B4C5D"}),
    )
    .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let id = SessionId::new();
    let body = json!({"id": id, "at_message_id": all[0]["id"]});
    for _ in 0..2 {
        let (status, fork) = post(&server, &path, body.clone()).await;
        assert_eq!((status, &fork["id"]), (StatusCode::CREATED, &json!(id)), "{fork}");
    }
    assert_eq!(spoken(&messages(&server, &id.to_string(), "").await), ["read a.txt"]);
    let (status, problem) = post(&server, &path, json!({"id": id})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("id_conflict"))
    );
}

#[tokio::test]
async fn a_long_output_is_copied_with_its_fork() {
    let (server, model) = start().await;
    let long = format!("{}\n", "word ".repeat(100)).repeat(300);
    std::fs::write(server.workspace().join("long.txt"), &long).unwrap();
    model.reply(calls(&[("c1", "read_file", json!({"path": "long.txt", "limit": 300}))]));
    model.reply(text("long"));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "read it").await;
    watch(&server.client, run.id).await;
    let (_, fork) = post(&server, &format!("/v1/sessions/{session_id}/fork"), json!({})).await;
    server.client.delete_session(session_id, true).await.unwrap();
    let copy = messages(&server, fork["id"].as_str().unwrap(), "role=tool").await;
    let file_id = copy[0]["parts"][0]["full_output_file_id"].as_str().unwrap();
    let request = server
        .client
        .request(Method::GET, &format!("/v1/files/{file_id}/content"));
    let content = request.send().await.unwrap().text().await.unwrap();
    assert!(content.matches("word").count() == 30_000, "{}", content.len());
}

#[tokio::test]
async fn a_rewind_takes_messages_out_and_keeps_the_log() {
    let (server, model, session_id) = with_a_call().await;
    let path = format!("/v1/sessions/{session_id}/rewind");
    let all = messages(&server, &session_id.to_string(), "").await;
    let (status, problem) = post(&server, &path, json!({"to_message_id": all[1]["id"]})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("invalid_rewind_point"))
    );
    let (status, rewound) = post(&server, &path, json!({"to_message_id": all[0]["id"]})).await;
    assert_eq!(status, StatusCode::OK, "{rewound}");
    assert_eq!(
        spoken(&messages(&server, &session_id.to_string(), "").await),
        ["read a.txt"]
    );
    let kept = messages(&server, &session_id.to_string(), "include=superseded").await;
    assert_eq!(kept.len(), 4);
    assert!(kept[1..].iter().all(|message| message["superseded"] == true) && kept[0].get("superseded").is_none());
    let log: Value = get(&server.client, &format!("/v1/sessions/{session_id}/events?limit=200")).await;
    let last = log["data"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (
            &last["type"],
            &last["to_message_id"],
            last["superseded_message_ids"].as_array().map(Vec::len)
        ),
        (&json!("session.rewound"), &all[0]["id"], Some(3))
    );
    let found: Value = get(&server.client, "/v1/search?q=alpha").await;
    assert_eq!(found["data"], json!([]), "what was taken back is not found");
    // A second time nothing is left to take out.
    let (status, again) = post(&server, &path, json!({"to_message_id": all[0]["id"]})).await;
    assert_eq!((status, &again["head_seq"]), (StatusCode::OK, &rewound["head_seq"]));
    model.reply(text("anew"));
    let run = ask(&server.client, session_id, "try again").await;
    watch(&server.client, run.id).await;
    let requests = model.requests();
    assert!(
        !requests[2]["messages"].to_string().contains("alpha"),
        "the model never hears of it again"
    );
}

#[tokio::test]
async fn a_busy_session_is_not_rewound() {
    let (server, model, session_id) = with_a_call().await;
    let all = messages(&server, &session_id.to_string(), "").await;
    model.reply(text(&"word ".repeat(500)).slowly(Duration::from_millis(20)));
    let run = ask(&server.client, session_id, "talk").await;
    let body = json!({"to_message_id": all[0]["id"]});
    let (status, problem) = post(&server, &format!("/v1/sessions/{session_id}/rewind"), body).await;
    assert_eq!(
        (status, &problem["code"], &problem["active_run_id"]),
        (StatusCode::CONFLICT, &json!("session_busy"), &json!(run.id))
    );
    // A fork doesn't mind: it gets what is whole.
    let (status, fork) = post(&server, &format!("/v1/sessions/{session_id}/fork"), json!({})).await;
    assert_eq!(status, StatusCode::CREATED);
    let copy = messages(&server, fork["id"].as_str().unwrap(), "").await;
    assert_eq!(spoken(&copy).last(), Some(&"talk"));
    let body = json!({"mode": "force", "wait": true});
    let (status, cancelled) = post(&server, &format!("/v1/runs/{}/cancel", run.id), body).await;
    assert_eq!((status, &cancelled["status"]), (StatusCode::OK, &json!("cancelled")));
}

#[tokio::test]
async fn an_ephemeral_session_works_and_is_not_listed_or_found() {
    let (server, model) = start().await;
    model.reply(text("a whisper"));
    let body = json!({"input": "quietly", "session": {"ephemeral": true}});
    let (status, run) = post(&server, "/v1/runs", body).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let events = watch(&server.client, run["id"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!(types(&events).last(), Some(&"run.completed"));
    let path = format!("/v1/sessions/{}", run["session_id"].as_str().unwrap());
    let found: Session = get(&server.client, &path).await;
    assert!(found.ephemeral);
    for (list, empty) in [
        ("/v1/sessions", true),
        ("/v1/runs", true),
        ("/v1/search?q=whisper", true),
    ] {
        let page: Value = get(&server.client, list).await;
        assert_eq!(page["data"].as_array().unwrap().is_empty(), empty, "{list}: {page}");
    }
    let its_own: Value = get(&server.client, &format!("/v1/runs?session_id={}", found.id)).await;
    assert_eq!(its_own["data"][0]["status"], json!(RunStatus::Completed));
}
