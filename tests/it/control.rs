//! A person stays in charge while a run is active: interrupt, steer, queue, cancel, and the same request twice.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use talaria_client::Client;
use talaria_client::watch::RunWatch;
use talaria_openapi::auth::Scope;
use talaria_openapi::events::EventBody;
use talaria_openapi::ids::{RunId, SessionId};
use talaria_openapi::inputs::{Delivery, InputStatus};
use talaria_openapi::runs::{Run, RunStatus, StopReason};
use talaria_tests::model_script::{calls, text};
use talaria_tests::server::TestServer;

use crate::{ask, post, session, start, types, watch};

async fn say(server: &TestServer, session_id: SessionId, on_busy: &str, what: &str) -> (StatusCode, Value) {
    let body = json!({"input": what, "on_busy": on_busy});
    post(server, &format!("/v1/sessions/{session_id}/runs"), body).await
}

async fn ended(server: &TestServer, run_id: &Value) -> Run {
    let run_id: RunId = run_id.as_str().unwrap().parse().unwrap();
    server.client.get_run(run_id, 30).await.unwrap()
}

async fn input(server: &TestServer, id: &Value) -> talaria_openapi::inputs::Input {
    let path = format!("/v1/inputs/{}", id.as_str().unwrap());
    crate::get(&server.client, &path).await
}

/// Waits until the model is heard: the request that it answers was made before.
async fn is_heard(server: &TestServer, run_id: RunId) {
    let mut watch = RunWatch::new(server.client.clone(), run_id, None);
    while let Some(watched) = watch.next().await.unwrap() {
        if matches!(watched.event.body, EventBody::MessageStarted { .. }) {
            return;
        }
    }
}

fn long_answer() -> talaria_tests::model_script::Reply {
    text(&"word ".repeat(2_000)).slowly(Duration::from_millis(10))
}

#[tokio::test]
async fn contract_33_an_interrupt_takes_the_place_of_the_active_run() {
    let (server, model) = start().await;
    model.reply(long_answer());
    let session_id = session(&server.client).await;
    let old = ask(&server.client, session_id, "talk for ever").await;
    let (_, queued) = say(&server, session_id, "queue", "later").await;
    model.reply(text("first of all"));
    let (status, run) = say(&server, session_id, "interrupt", "stop, do this").await;
    assert_eq!(
        (status, &run["input"]["delivery"]),
        (StatusCode::ACCEPTED, &json!("interrupt"))
    );
    let ended_run = ended(&server, &run["id"]).await;
    let old = server.client.get_run(old.id, 0).await.unwrap();
    assert_eq!(
        (old.status, old.stop.unwrap().reason),
        (RunStatus::Cancelled, StopReason::Superseded)
    );
    assert!(old.last_seq < ended_run.first_seq.map(|_| ended_run.last_seq).unwrap());
    // It came before what waited.
    let queued = ended(&server, &queued["id"]).await;
    assert!(ended_run.ended_at <= queued.started_at);
    model.requests();
}

#[tokio::test]
async fn contract_34_a_steer_is_told_after_the_tools_and_before_the_next_model_call() {
    let (server, model) = start().await;
    std::fs::write(server.workspace().join("a.txt"), "alpha\n").unwrap();
    // Slow enough that the steer comes while the call is being said.
    model.reply(calls(&[("c1", "read_file", json!({"path": "a.txt"}))]).slowly(Duration::from_millis(150)));
    model.reply(text("done, in French"));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "read it").await;
    is_heard(&server, run.id).await;
    let (status, told) = say(&server, session_id, "steer", "answer in French").await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(
        (&told["id"], &told["input"]["delivery"]),
        (&json!(run.id), &json!("steer"))
    );
    let events = watch(&server.client, run.id).await;
    let kinds = types(&events);
    let at = |kind: &str| kinds.iter().position(|known| *known == kind).unwrap();
    assert!(at("tool.completed") < kinds.iter().rposition(|kind| *kind == "input.delivered").unwrap());
    let delivered = input(&server, &told["input"]["id"]).await;
    assert_eq!(
        (delivered.status, delivered.delivery, delivered.run_id),
        (InputStatus::Delivered, Delivery::Steer, Some(run.id))
    );
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    let last = requests[1]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["role"], &last["content"]),
        (&json!("user"), &json!("answer in French"))
    );
    let page: Value = crate::get(&server.client, &format!("/v1/sessions/{session_id}/messages")).await;
    let steers = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["kind"] == "steer")
        .count();
    assert_eq!(steers, 1);
}

#[tokio::test]
async fn contract_35_a_steer_that_comes_too_late_becomes_a_run_or_is_dropped() {
    let (server, model) = start().await;
    model.reply(text("one two three four five six").slowly(Duration::from_millis(60)));
    model.reply(text("here you are"));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "count").await;
    is_heard(&server, run.id).await;
    let path = format!("/v1/runs/{}/steer", run.id);
    let (status, kept) = post(&server, &path, json!({"input": "and this?"})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{kept}");
    let (_, dropped) = post(&server, &path, json!({"input": "only now", "if_undelivered": "drop"})).await;
    assert_eq!(
        server.client.get_run(run.id, 20).await.unwrap().status,
        RunStatus::Completed
    );
    let promoted = input(&server, &kept["input"]["id"]).await;
    let new_run = promoted.run_id.unwrap();
    assert_ne!(new_run, run.id);
    let answered = server.client.get_run(new_run, 20).await.unwrap();
    assert_eq!(answered.output.unwrap().text, "here you are");
    assert_eq!(
        input(&server, &dropped["input"]["id"]).await.status,
        InputStatus::Cancelled
    );
    // Nothing can be told to a run that has ended.
    let (status, refused) = post(&server, &path, json!({"input": "hello?"})).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("run_not_steerable"))
    );
    let log: Value = crate::get(&server.client, &format!("/v1/sessions/{session_id}/events?limit=200")).await;
    let has = |kind: &str| {
        log["data"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["type"] == kind)
    };
    assert!(has("input.promoted") && has("input.cancelled"));
    model.requests();
}

#[tokio::test]
async fn contract_36_what_waits_can_be_taken_back_until_it_is_delivered() {
    let (server, model) = start().await;
    model.reply(long_answer());
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "talk").await;
    let (_, first) = say(&server, session_id, "queue", "first").await;
    let (_, second) = say(&server, session_id, "queue", "second").await;
    let take_back = async |id: &Value| {
        let path = format!("/v1/sessions/{session_id}/queue/{}", id.as_str().unwrap());
        server
            .client
            .request(Method::DELETE, &path)
            .send()
            .await
            .unwrap()
            .status()
    };
    assert_eq!(take_back(&first["input"]["id"]).await, StatusCode::NO_CONTENT);
    assert_eq!(take_back(&first["input"]["id"]).await, StatusCode::CONFLICT);
    assert_eq!(
        input(&server, &first["input"]["id"]).await.status,
        InputStatus::Cancelled
    );
    assert_eq!(ended(&server, &first["id"]).await.status, RunStatus::Cancelled);

    // The session is cancelled with everything that waits.
    let path = format!("/v1/sessions/{session_id}/cancel");
    let (status, cancelled) = post(&server, &path, json!({"queue": "clear"})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(cancelled["cleared"], json!([second["input"]["id"]]));
    assert_eq!(
        server.client.get_run(run.id, 20).await.unwrap().status,
        RunStatus::Cancelled
    );
    let (status, nothing) = post(&server, &path, json!({})).await;
    assert_eq!((status, &nothing["run"]), (StatusCode::OK, &Value::Null));

    // With the queue kept, the next one starts.
    model.reply(long_answer()).reply(text("my turn"));
    ask(&server.client, session_id, "talk").await;
    let (_, waiting) = say(&server, session_id, "queue", "next").await;
    post(&server, &path, json!({})).await;
    assert_eq!(ended(&server, &waiting["id"]).await.output.unwrap().text, "my turn");
}

#[tokio::test]
async fn inv_i8_a_run_that_is_sent_again_runs_once() {
    let (server, model) = start().await;
    model.reply(text("once"));
    let body = json!({"id": "run_01JDZK8Q0V8M0F3H6S9W2B4C5D", "input": "do it"});
    let all = futures_util::future::join_all((0..20).map(|_| post(&server, "/v1/runs", body.clone()))).await;
    for (status, run) in &all {
        assert_eq!((*status, &run["id"]), (StatusCode::ACCEPTED, &body["id"]), "{run}");
        assert_eq!(run["session_id"], all[0].1["session_id"]);
    }
    assert_eq!(
        server.client.list_sessions(10).await.unwrap().data.len(),
        1,
        "no session is left over"
    );
    assert_eq!(ended(&server, &body["id"]).await.output.unwrap().text, "once");
    assert_eq!(model.requests().len(), 1);
    let other = json!({"id": body["id"], "input": "something else"});
    let (status, refused) = post(&server, "/v1/runs", other).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("id_conflict"))
    );

    // A steer with an id of its own is told once.
    model.reply(long_answer());
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "talk").await;
    let steer = json!({"input_id": "in_01JDZK8Q0V8M0F3H6S9W2B4C5E", "input": "hm", "on_busy": "steer"});
    let path = format!("/v1/sessions/{session_id}/runs");
    for _ in 0..3 {
        let (status, told) = post(&server, &path, steer.clone()).await;
        assert_eq!((status, &told["id"]), (StatusCode::ACCEPTED, &json!(run.id)));
    }
    let log: Value = crate::get(&server.client, &format!("/v1/sessions/{session_id}/events?limit=200")).await;
    let accepted = log["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "input.accepted")
        .count();
    assert_eq!(accepted, 2);
}

/// A run with a key, as JSON or as a stream after an event.
async fn keyed(server: &TestServer, body: &Value, after: Option<&str>) -> reqwest::Response {
    let request = server
        .client
        .request(Method::POST, "/v1/runs")
        .header("idempotency-key", "\"one key\"")
        .json(body);
    let request = match after {
        Some(seq) => request
            .header("accept", "text/event-stream")
            .header("last-event-id", seq),
        None => request,
    };
    request.send().await.unwrap()
}

#[tokio::test]
async fn contract_50_51_52_a_request_with_a_key_runs_once() {
    let (server, model) = start().await;
    model.reply(text("one two three four").slowly(Duration::from_millis(50)));
    let body = json!({"input": "do it"});
    let answers = futures_util::future::join_all((0..20).map(|_| keyed(&server, &body, None))).await;
    let (mut ids, mut replays) = (Vec::new(), 0);
    for answer in answers {
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        replays += usize::from(answer.headers().contains_key("idempotency-replayed"));
        ids.push(answer.json::<Run>().await.unwrap().id);
    }
    ids.dedup();
    assert_eq!((ids.len(), replays), (1, 19), "one has run, the others were told");
    assert_eq!(server.client.list_sessions(10).await.unwrap().data.len(), 1);
    // As a stream it is attached to the same run, from the event on that was seen last.
    let whole = keyed(&server, &body, Some("0")).await.text().await.unwrap();
    let seqs: Vec<&str> = whole.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let rest = keyed(&server, &body, Some(seqs[2])).await.text().await.unwrap();
    assert!(rest.contains("event: run.completed") && !rest.contains(&format!("id: {}\n", seqs[2])));
    let (_, events) = rest.split_once("\nid: ").unwrap();
    assert!(whole.contains(events));
    assert_eq!(model.requests().len(), 1);
    let other = keyed(&server, &json!({"input": "something else"}), None).await;
    assert_eq!(other.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(other.json::<Value>().await.unwrap()["code"], "idempotency_key_reused");
    // The key of one caller is nothing to another.
    let (_, secret) = crate::auth::new_key(&server, &[Scope::RunsWrite, Scope::SessionsRead]).await;
    let stranger = Client::new(&server.base_url, Some(secret), None).unwrap();
    let request = stranger
        .request(Method::POST, "/v1/runs")
        .header("idempotency-key", "\"one key\"");
    let theirs: Run = request.json(&body).send().await.unwrap().json().await.unwrap();
    assert_ne!(theirs.id, ids[0]);
}

#[tokio::test]
async fn contract_53_a_refusal_is_not_kept_with_its_key() {
    let (server, model) = start().await;
    model
        .reply(text("busy").slowly(Duration::from_millis(300)))
        .reply(text("now"));
    let session_id = session(&server.client).await;
    let first = ask(&server.client, session_id, "go").await;
    let path = format!("/v1/sessions/{session_id}/runs");
    let again = || {
        let request = server
            .client
            .request(Method::POST, &path)
            .header("idempotency-key", "later");
        request.json(&json!({"input": "and now"})).send()
    };
    assert_eq!(again().await.unwrap().status(), StatusCode::CONFLICT);
    server.client.get_run(first.id, 20).await.unwrap();
    let accepted = again().await.unwrap();
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    assert!(!accepted.headers().contains_key("idempotency-replayed"));
}

#[tokio::test]
async fn who_prefers_to_wait_gets_the_settled_run() {
    let (server, model) = start().await;
    model.reply(text("quick"));
    let session_id = session(&server.client).await;
    let path = format!("/v1/sessions/{session_id}/runs");
    let prefer = |seconds: &'static str| {
        let request = server.client.request(Method::POST, &path).header("prefer", seconds);
        request.json(&json!({"input": "go", "on_busy": "queue"})).send()
    };
    let settled = prefer("respond-async, wait=20").await.unwrap();
    assert_eq!(settled.status(), StatusCode::OK);
    let run: Run = settled.json().await.unwrap();
    assert_eq!(
        (run.status, run.output.unwrap().text.as_str()),
        (RunStatus::Completed, "quick")
    );
    model.reply(long_answer());
    let unsettled = prefer("wait=0").await.unwrap();
    assert_eq!(unsettled.status(), StatusCode::ACCEPTED);
}

#[tokio::test]
async fn inv_i7_every_input_has_a_fate_whatever_happens_to_its_run() {
    use std::hash::{BuildHasher as _, RandomState};
    let (mut server, model) = start().await;
    let random = RandomState::new();
    for round in 0..20_u64 {
        let session_id = session(&server.client).await;
        model.reply(calls(&[(
            &format!("c{round}"),
            "search_files",
            json!({"pattern": "x"}),
        )]));
        model.reply(text("one two three").slowly(Duration::from_millis(10)));
        let mut inputs = Vec::new();
        let run = ask(&server.client, session_id, "go").await;
        for step in 0..3_u64 {
            let pick = random.hash_one((round, step));
            tokio::time::sleep(Duration::from_micros(pick % 20_000)).await;
            let on_busy = ["steer", "queue", "interrupt"][usize::try_from(pick / 20_000 % 3).unwrap()];
            let (status, told) = say(&server, session_id, on_busy, "more").await;
            // A run that is being stopped can't be told anything: that is an answer, too.
            if status == StatusCode::ACCEPTED {
                inputs.push(told["input"]["id"].clone());
            } else {
                assert_eq!(told["code"], "run_not_steerable", "{told}");
            }
        }
        if round % 4 == 3 {
            server.kill();
            server.restart().await;
        }
        server.client.get_run(run.id, 20).await.unwrap();
        for id in inputs {
            let fate = input(&server, &id).await;
            let run = server.client.get_run(fate.run_id.unwrap(), 20).await.unwrap();
            assert!(run.status.is_ended(), "round {round}: {run:?}");
            let fate = input(&server, &id).await;
            assert!(
                matches!(fate.status, InputStatus::Delivered | InputStatus::Cancelled),
                "round {round}: {fate:?}"
            );
        }
    }
    model.requests();
}
