//! `kill -9` and restart.

use std::time::Duration;

use serde_json::json;
use talaria_client::watch::RunWatch;
use talaria_openapi::events::{EventBody, ToolStatus};
use talaria_openapi::ids::RunId;
use talaria_openapi::runs::{Run, RunStatus};
use talaria_tests::model_script::{calls, text};
use talaria_tests::server::TestServer;

use crate::{ask, session, start, watch};

#[tokio::test]
async fn contract_56_a_killed_server_comes_back_and_the_run_goes_on() {
    let (mut server, model) = start().await;
    model.reply(text(&"word ".repeat(300)).slowly(Duration::from_millis(10)));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "talk").await;
    let mut seen = Vec::new();
    let mut before = RunWatch::new(server.client.clone(), run.id, None);
    while seen.len() < 8 {
        seen.push(before.next().await.unwrap().unwrap());
    }
    drop(before);
    server.kill();
    model.reply(text("second try"));
    server.restart().await;
    let events = watch(&server.client, run.id).await;
    assert_eq!(events[..seen.len()], seen[..], "what was seen is there, byte for byte");
    let ended = server.client.get_run(run.id, 0).await.unwrap();
    assert_eq!((ended.status, ended.attempt), (RunStatus::Completed, 2));
    assert_eq!(ended.output.unwrap().text, "second try");
    assert!(
        events
            .iter()
            .any(|event| matches!(event.event.body, EventBody::RunResumed { attempt: 2, .. }))
    );
    // The half-said message is closed and not part of the model's history.
    assert!(
        !model.requests().last().unwrap()["messages"]
            .to_string()
            .contains("word")
    );
}

/// Fifty random moments over the length of a run and a little more; other ones each time.
fn moments() -> Vec<Duration> {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new();
    (0..50_u64)
        .map(|index| Duration::from_micros(random.hash_one(index) % 120_000))
        .collect()
}

#[tokio::test]
async fn killed_at_any_moment_nothing_seen_is_lost_and_the_next_message_works() {
    let (mut server, model) = start().await;
    let session_id = session(&server.client).await;
    let moments = moments();
    for (round, moment) in moments.into_iter().enumerate() {
        let context = format!("round {round}, killed after {moment:?}");
        let id = |call: &str| format!("{call}{round}");
        model.reply(calls(&[
            (&id("r"), "search_files", json!({"pattern": "x"})),
            (
                &id("w"),
                "write_file",
                json!({"path": format!("f{round}.txt"), "content": "x".repeat(2000)}),
            ),
        ]));
        model.reply(text("one two three four five").slowly(Duration::from_millis(4)));
        let run = ask(&server.client, session_id, &format!("round {round}")).await;
        let mut seen = Vec::new();
        let mut before = RunWatch::new(server.client.clone(), run.id, None);
        let until_kill = async {
            while let Some(event) = before.next().await.unwrap() {
                seen.push(event);
            }
        };
        drop(tokio::time::timeout(moment, until_kill).await);
        server.kill();
        server.restart().await;
        let events = watch(&server.client, run.id).await;
        assert_eq!(events[..seen.len()], seen[..], "{context}");
        let numbers: Vec<i64> = events.iter().map(|event| event.event.seq).collect();
        assert!(numbers.is_sorted_by(|one, other| one < other), "{context}: {numbers:?}");
        let terminal = events.iter().filter(|event| event.event.body.is_terminal()).count();
        assert_eq!(terminal, 1, "inv_i4: {context}");
        // A call that changes something and has no outcome interrupts the run; everything else goes on.
        let is_unknown = events.iter().any(|event| {
            matches!(
                &event.event.body,
                EventBody::ToolCompleted {
                    status: ToolStatus::UnknownOutcome,
                    ..
                }
            )
        });
        let expected = if is_unknown {
            RunStatus::Interrupted
        } else {
            RunStatus::Completed
        };
        let status = server.client.get_run(run.id, 0).await.unwrap().status;
        assert_eq!(status, expected, "{context}");
    }
    let run = ask(&server.client, session_id, "still there?").await;
    assert_eq!(
        server.client.get_run(run.id, 20).await.unwrap().status,
        RunStatus::Completed
    );
    model.requests();
}

#[tokio::test]
async fn an_interrupted_run_goes_on_when_a_person_says_so() {
    let (mut server, model) = start().await;
    let session_id = session(&server.client).await;
    let resume = async |server: &TestServer, run_id: RunId| {
        let path = format!("/v1/runs/{run_id}/resume");
        let request = server.client.request(reqwest::Method::POST, &path);
        request.json(&json!({"input": "look first"})).send().await.unwrap()
    };
    // A write that is cut off at a moment when nobody knows whether it took effect.
    let run = loop {
        model.reply(calls(&[(
            "w",
            "write_file",
            json!({"path": "big.txt", "content": "x".repeat(3_000_000)}),
        )]));
        let run = ask(&server.client, session_id, "write it").await;
        let mut events = RunWatch::new(server.client.clone(), run.id, None);
        while !matches!(
            events.next().await.unwrap().unwrap().event.body,
            EventBody::ToolStarted { .. }
        ) {}
        server.kill();
        server.restart().await;
        let ended = server.client.get_run(run.id, 20).await.unwrap();
        if ended.status == RunStatus::Interrupted {
            break ended;
        }
        assert_eq!(
            resume(&server, run.id).await.status(),
            409,
            "a run that has ended for good"
        );
    };
    model.reply(text("it is half written"));
    let resumed: Run = resume(&server, run.id).await.json().await.unwrap();
    assert_eq!(
        (resumed.id, resumed.status, resumed.attempt),
        (run.id, RunStatus::Running, run.attempt + 1)
    );
    let ended = server.client.get_run(run.id, 20).await.unwrap();
    assert_eq!(
        (ended.status, ended.output.unwrap().text.as_str()),
        (RunStatus::Completed, "it is half written")
    );
    let last = model.requests().pop().unwrap();
    let said = last["messages"].to_string();
    assert!(
        said.contains("nobody knows whether it took effect") && said.contains("look first"),
        "{said}"
    );
    // Once more has been said in the session, an older run doesn't come back.
    assert_eq!(resume(&server, run.id).await.status(), 409);
}

#[tokio::test]
async fn hard_h5_a_stop_ends_streams_and_the_queue_survives() {
    let (mut server, model) = start().await;
    model.reply(text("a b c d").slowly(Duration::from_millis(20)));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "go").await;
    let stream = server
        .client
        .request(reqwest::Method::GET, &format!("/v1/sessions/{session_id}/stream"))
        .send()
        .await
        .unwrap();
    assert_eq!(server.stop().await, Some(0));
    let body = stream.text().await.unwrap();
    assert!(
        body.contains(r#""reason":"shutdown""#) && body.contains(r#""reconnect":true"#),
        "{body}"
    );
    server.restart().await;
    assert_eq!(
        server.client.get_run(run.id, 20).await.unwrap().status,
        RunStatus::Completed
    );
}
