//! What waits: changed, moved, told at once, asked for later.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use talaria_openapi::ids::{RunId, SessionId};
use talaria_openapi::runs::{Run, RunStatus, StopReason};
use talaria_openapi::time::Timestamp;
use talaria_tests::model_script::{ModelScript, text};
use talaria_tests::server::TestServer;

use crate::{ask, get, post, session, start};

/// A session whose agent talks, with inputs that wait behind it.
async fn with_a_queue(names: &[&str]) -> (TestServer, ModelScript, SessionId, Run, Vec<Value>) {
    let (server, model) = start().await;
    model.reply(text(&"word ".repeat(3_000)).slowly(Duration::from_millis(10)));
    let session_id = session(&server.client).await;
    let active = ask(&server.client, session_id, "talk").await;
    let mut waiting = Vec::new();
    for name in names {
        let body = json!({"input": name, "on_busy": "queue"});
        let (_, run) = post(&server, &format!("/v1/sessions/{session_id}/runs"), body).await;
        waiting.push(run);
    }
    (server, model, session_id, active, waiting)
}

async fn change(server: &TestServer, session_id: SessionId, run: &Value, body: Value) -> (StatusCode, Value) {
    let input_id = run["input"]["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{session_id}/queue/{input_id}");
    let response = server
        .client
        .request(Method::PATCH, &path)
        .json(&body)
        .send()
        .await
        .unwrap();
    (response.status(), response.json().await.unwrap())
}

async fn order(server: &TestServer, session_id: SessionId) -> Vec<String> {
    let page: Value = get(&server.client, &format!("/v1/sessions/{session_id}/queue")).await;
    let inputs = page["data"].as_array().unwrap().iter();
    inputs
        .map(|input| input["content"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn what_waits_is_moved_and_reworded_until_it_is_delivered() {
    let (server, model, session_id, active, waiting) = with_a_queue(&["a", "b", "c"]).await;
    let (status, _) = change(&server, session_id, &waiting[2], json!({"position": 1})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(order(&server, session_id).await, ["c", "a", "b"]);
    let (_, input) = change(&server, session_id, &waiting[0], json!({"position": 99, "input": "A"})).await;
    assert_eq!(input["content"], json!([{"type": "text", "text": "A"}]));
    assert_eq!(order(&server, session_id).await, ["c", "b", "A"]);
    let first: Run = get(
        &server.client,
        &format!("/v1/runs/{}", waiting[2]["id"].as_str().unwrap()),
    )
    .await;
    assert_eq!((first.status, first.queue_position), (RunStatus::Queued, Some(1)));
    for (body, pointer) in [(json!({"position": 0}), "/position"), (json!({"input": " "}), "/input")] {
        let (status, problem) = change(&server, session_id, &waiting[0], body).await;
        assert_eq!(
            (status, &problem["errors"][0]["pointer"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!(pointer))
        );
    }
    post(&server, &format!("/v1/runs/{}/cancel", active.id), json!({})).await;
    for run in &waiting {
        let id: RunId = run["id"].as_str().unwrap().parse().unwrap();
        assert_eq!(
            server.client.get_run(id, 30).await.unwrap().status,
            RunStatus::Completed
        );
    }
    let asked: Vec<String> = model.requests()[1..]
        .iter()
        .map(|request| {
            request["messages"].as_array().unwrap().last().unwrap()["content"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(asked, ["c", "b", "A"]);
    let (status, problem) = change(&server, session_id, &waiting[0], json!({"position": 1})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("input_already_delivered"))
    );
}

#[tokio::test]
async fn what_waits_can_interrupt_after_all() {
    let (server, _model, session_id, active, waiting) = with_a_queue(&["a", "b"]).await;
    let (status, input) = change(&server, session_id, &waiting[1], json!({"delivery": "interrupt"})).await;
    assert_eq!((status, &input["delivery"]), (StatusCode::OK, &json!("interrupt")));
    let stopped = server.client.get_run(active.id, 30).await.unwrap();
    assert_eq!(stopped.stop.unwrap().reason, StopReason::Superseded);
    let mut started = Vec::new();
    for run in &waiting {
        let id: RunId = run["id"].as_str().unwrap().parse().unwrap();
        started.push(server.client.get_run(id, 30).await.unwrap().started_at);
    }
    assert!(started[1] <= started[0], "it came first");
}

#[tokio::test]
async fn what_waits_can_be_told_to_the_active_run_after_all() {
    let (server, model, session_id, active, waiting) = with_a_queue(&["a", "in French"]).await;
    let (status, input) = change(&server, session_id, &waiting[1], json!({"delivery": "steer"})).await;
    assert_eq!(
        (status, &input["delivery"], &input["run_id"]),
        (StatusCode::OK, &json!("steer"), &json!(active.id)),
        "{input}"
    );
    let its_own: Run = get(
        &server.client,
        &format!("/v1/runs/{}", waiting[1]["id"].as_str().unwrap()),
    )
    .await;
    assert_eq!(
        (its_own.status, its_own.stop.unwrap().reason),
        (RunStatus::Cancelled, StopReason::Superseded)
    );
    assert_eq!(order(&server, session_id).await, ["a"]);
    // The run ends before it could be told: the words are not lost.
    post(
        &server,
        &format!("/v1/runs/{}/cancel", active.id),
        json!({"wait": true}),
    )
    .await;
    let path = format!("/v1/inputs/{}", input["id"].as_str().unwrap());
    let promoted: Value = get(&server.client, &path).await;
    assert_eq!(promoted["status"], "promoted");
    let run_id: RunId = promoted["run_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        server.client.get_run(run_id, 30).await.unwrap().status,
        RunStatus::Completed
    );
    assert!(
        model
            .requests()
            .iter()
            .any(|request| request["messages"].to_string().contains("in French"))
    );
}

#[tokio::test]
async fn a_run_for_later_starts_later_also_after_a_restart() {
    let (mut server, model) = start().await;
    model.reply(text("now")).reply(text("later"));
    let session_id = session(&server.client).await;
    let path = format!("/v1/sessions/{session_id}/runs");
    let began = server.client.get_session(session_id).await.unwrap().created_at;
    let at = Timestamp::from_millis(began.as_millis() + 4_000);
    let (status, later) = post(&server, &path, json!({"input": "later", "start_after": at})).await;
    assert_eq!(
        (status, &later["status"]),
        (StatusCode::ACCEPTED, &json!("queued")),
        "{later}"
    );
    let now = ask(&server.client, session_id, "now").await;
    assert_eq!(
        server.client.get_run(now.id, 30).await.unwrap().status,
        RunStatus::Completed
    );
    server.kill();
    server.restart().await;
    let later: RunId = later["id"].as_str().unwrap().parse().unwrap();
    let ended = server.client.get_run(later, 30).await.unwrap();
    assert_eq!(
        (ended.status, ended.output.unwrap().text.as_str()),
        (RunStatus::Completed, "later")
    );
    assert!(ended.started_at.unwrap() >= at);
    for body in [
        json!({"input": "x", "start_after": at, "on_busy": "steer"}),
        json!({"input": "x", "start_after": "2099-01-01T00:00:00Z"}),
        json!({"input": "x", "start_after": "tomorrow"}),
    ] {
        let (status, problem) = post(&server, &path, body.clone()).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body} {problem}");
    }
}
