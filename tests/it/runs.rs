//! Runs, from their input to their terminal event.

use std::time::Duration;

use serde_json::{Value, json};
use talaria_client::Error;
use talaria_openapi::errors::ErrorCode;
use talaria_openapi::events::EventBody;
use talaria_openapi::messages::{MessageStatus, Role};
use talaria_openapi::runs::{CancelRunRequest, CreateRunRequest, OnBusy, RequestLimits, RunStatus, StopReason};
use talaria_tests::model_script::{calls, text};

use crate::{ask, session, start, types, watch};

#[tokio::test]
async fn contract_15_16_an_answer_streams_in_order() {
    let (server, model) = start().await;
    model.reply(text("Grüß dich, liebe Welt"));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "hi").await;
    let events = watch(&server.client, run.id).await;
    let mut kinds = types(&events);
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "run.started",
            "message.completed",
            "input.delivered",
            "message.started",
            "text.delta",
            "message.completed",
            "run.usage",
            "run.completed"
        ]
    );
    let mut said = String::new();
    for watched in &events {
        match &watched.event.body {
            EventBody::TextDelta { offset, text, .. } => {
                assert_eq!(usize::try_from(*offset).unwrap(), said.len());
                said.push_str(text);
            }
            EventBody::RunCompleted { run } => {
                assert_eq!(run.output.as_ref().unwrap().text, said);
                assert_eq!(run.stop.as_ref().unwrap().reason, StopReason::EndTurn);
                assert_eq!(run.usage.output_tokens, 5);
            }
            _ => {}
        }
    }
    assert_eq!(said, "Grüß dich, liebe Welt");
}

#[tokio::test]
async fn row_l1_tools_work_and_the_history_is_legal() {
    let (server, model) = start().await;
    std::fs::write(server.workspace().join("a.txt"), "alpha\n").unwrap();
    model.reply(calls(&[
        ("c1", "read_file", json!({"path": "a.txt"})),
        ("c2", "write_file", json!({"path": "b.txt", "content": "beta\n"})),
        ("c3", "no_such_tool", json!({})),
    ]));
    model.reply(text("All done."));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "work").await;
    let events = watch(&server.client, run.id).await;
    assert_eq!(
        types(&events).iter().filter(|kind| **kind == "tool.completed").count(),
        2
    );
    assert_eq!(
        std::fs::read_to_string(server.workspace().join("b.txt")).unwrap(),
        "beta\n"
    );
    let requests = model.requests();
    let results: Vec<&Value> = requests[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .collect();
    assert_eq!(results.len(), 3);
    assert_eq!(results[0]["content"], "1|alpha\n");
    assert!(
        results[2]["content"]
            .as_str()
            .unwrap()
            .contains("there is no tool `no_such_tool`")
    );
    // A next run sends the same beginning (I6).
    model.reply(text("Again."));
    watch(&server.client, ask(&server.client, session_id, "more").await.id).await;
    let requests = model.requests();
    let (second, third) = (
        requests[1]["messages"].as_array().unwrap(),
        requests[2]["messages"].as_array().unwrap(),
    );
    assert_eq!(
        third[..second.len()],
        second[..],
        "inv_i6: the earlier request is a prefix of the later one"
    );
}

#[tokio::test]
async fn contract_31_two_at_once_one_wins() {
    let (server, model) = start().await;
    for _ in 0..100 {
        model.reply(text("a b c d").slowly(Duration::from_millis(100)));
        let session_id = session(&server.client).await;
        let request = CreateRunRequest::text("go");
        let (one, other) = tokio::join!(
            server.client.create_run(session_id, &request),
            server.client.create_run(session_id, &request)
        );
        let (run, refused) = match (one, other) {
            (Ok(run), Err(error)) | (Err(error), Ok(run)) => (run, error),
            both => panic!("one must win: {both:?}"),
        };
        let Error::Problem(problem) = refused else {
            panic!("{refused}")
        };
        assert_eq!(problem.code, ErrorCode::SessionBusy);
        assert_eq!(problem.extra["active_run_id"], run.id.to_string());
    }
    model.requests();
}

#[tokio::test]
async fn contract_32_a_queue_keeps_its_order() {
    let (server, model) = start().await;
    model.reply(text("one two three four").slowly(Duration::from_millis(500)));
    let session_id = session(&server.client).await;
    ask(&server.client, session_id, "first").await;
    let request = |text: &str| CreateRunRequest {
        on_busy: OnBusy::Queue,
        ..CreateRunRequest::text(text)
    };
    let mut last = None;
    for position in 1..=16 {
        let run = server
            .client
            .create_run(session_id, &request(&format!("q{position}")))
            .await
            .unwrap();
        assert_eq!((run.status, run.queue_position), (RunStatus::Queued, Some(position)));
        last = Some(run);
    }
    let Err(Error::Problem(problem)) = server.client.create_run(session_id, &request("too many")).await else {
        panic!("full")
    };
    assert_eq!(problem.code, ErrorCode::QueueFull);
    watch(&server.client, last.unwrap().id).await;
    let messages = server.client.list_messages(session_id).await.unwrap();
    let asked: Vec<String> = messages
        .iter()
        .filter(|message| message.role == Role::User)
        .map(talaria_openapi::messages::Message::text)
        .collect();
    let expected: Vec<String> = ["first".to_owned()]
        .into_iter()
        .chain((1..=16).map(|position| format!("q{position}")))
        .collect();
    assert_eq!(asked, expected);
    model.requests();
}

#[tokio::test]
async fn contract_38_cancel_is_idempotent_and_keeps_what_was_said() {
    let (server, model) = start().await;
    model.reply(text(&"word ".repeat(500)).slowly(Duration::from_millis(10)));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "talk").await;
    let mut watched = talaria_client::watch::RunWatch::new(server.client.clone(), run.id, None);
    while let Some(event) = watched.next().await.unwrap() {
        if matches!(event.event.body, EventBody::TextDelta { .. }) {
            break;
        }
    }
    for _ in 0..3 {
        server
            .client
            .cancel_run(run.id, &CancelRunRequest::default())
            .await
            .unwrap();
    }
    let events = watch(&server.client, run.id).await;
    assert_eq!(types(&events).last(), Some(&"run.cancelled"));
    assert_eq!(events.iter().filter(|event| event.event.body.is_terminal()).count(), 1);
    let ended = server
        .client
        .cancel_run(run.id, &CancelRunRequest::default())
        .await
        .unwrap();
    assert_eq!(ended.status, RunStatus::Cancelled);
    let messages = server.client.list_messages(session_id).await.unwrap();
    let said = messages.last().unwrap();
    assert_eq!(said.status, MessageStatus::Cancelled);
    assert!(said.text().starts_with("word "));
    // The next message works, and the model sees what it had said.
    model.reply(text("fine"));
    watch(&server.client, ask(&server.client, session_id, "go on").await.id).await;
    let history = model.requests().last().unwrap()["messages"].to_string();
    assert!(history.contains(r#""content":"word "#), "{history}");
}

#[tokio::test]
async fn row_l2_a_used_up_budget_ends_with_a_closing_answer() {
    let (server, model) = start().await;
    for index in 0..2 {
        model.reply(calls(&[(&format!("c{index}"), "todo", json!({}))]));
    }
    model.reply(text("This is what I found."));
    let session_id = session(&server.client).await;
    let limits = Some(RequestLimits { max_rounds: Some(2) });
    let request = CreateRunRequest {
        limits,
        ..CreateRunRequest::text("go")
    };
    let run = server.client.create_run(session_id, &request).await.unwrap();
    let run = server.client.get_run(run.id, 20).await.unwrap();
    assert_eq!(
        (run.status, run.stop.unwrap().reason),
        (RunStatus::Completed, StopReason::MaxRounds)
    );
    assert_eq!(run.output.unwrap().text, "This is what I found.");
    let closing = &model.requests()[2];
    assert!(
        closing.get("tools").is_none()
            && closing["messages"][0]["content"]
                .as_str()
                .unwrap()
                .contains("used up your budget")
    );
}

#[tokio::test]
async fn broken_arguments_are_told_to_the_model() {
    let (server, model) = start().await;
    model.reply(calls(&[("c1", "read_file", json!("not an object"))]));
    model.reply(text("Sorry."));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "go").await;
    assert_eq!(
        server.client.get_run(run.id, 20).await.unwrap().status,
        RunStatus::Completed
    );
    let messages = &model.requests()[1]["messages"];
    assert!(
        messages.to_string().contains("its arguments can't be read"),
        "{messages}"
    );
}
