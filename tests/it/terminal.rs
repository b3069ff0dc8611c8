//! Commands of the agent, on a real server.

use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use talaria_client::watch::{RunWatch, Watched};
use talaria_openapi::events::{EventBody, OutputStream, ToolStatus};
use talaria_openapi::ids::RunId;
use talaria_openapi::interactions::Interaction;
use talaria_openapi::runs::{CancelRunRequest, RunStatus};
use talaria_openapi::tools::Risk;
use talaria_tests::model_script::{ModelScript, calls, text};
use talaria_tests::server::TestServer;

use crate::{ask, session, start, watch};

const AUTO_ALL: &str = "agent:\n  approval_policy: auto_all\n";

async fn start_trusting() -> (TestServer, ModelScript) {
    let model = ModelScript::start().await;
    let server = TestServer::start_with(env!("CARGO_BIN_EXE_talaria-server"), &model, AUTO_ALL).await;
    (server, model)
}

fn command(command: &str) -> talaria_tests::model_script::Reply {
    calls(&[("c1", "terminal", json!({"command": command}))])
}

/// What the model was told last by a tool.
fn told(model: &ModelScript) -> String {
    let requests = model.requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap();
    let message = messages.iter().rev().find(|message| message["role"] == "tool").unwrap();
    message["content"].as_str().unwrap().to_owned()
}

/// How a tool's call ended.
fn outcome(events: &[Watched]) -> ToolStatus {
    let ended = events.iter().find_map(|watched| match &watched.event.body {
        EventBody::ToolCompleted { status, .. } => Some(*status),
        _ => None,
    });
    ended.unwrap()
}

/// Processes of this host that have `marker` as an argument of its own.
fn alive(marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| line.split(|byte| *byte == 0).any(|part| part == marker.as_bytes()))
        .count()
}

async fn until(what: &str, patience: Duration, is_so: impl Fn() -> bool) {
    let until = Instant::now() + patience;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the call of a run works.
async fn tool_started(server: &TestServer, run_id: RunId) {
    let mut watch = RunWatch::new(server.client.clone(), run_id, None);
    while let Some(watched) = watch.next().await.unwrap() {
        if matches!(watched.event.body, EventBody::ToolStarted { .. }) {
            return;
        }
    }
}

#[tokio::test]
async fn a_command_runs_where_the_configuration_trusts_the_agent() {
    let (server, model) = start_trusting().await;
    model.reply(command(
        "cd sub 2>/dev/null || mkdir sub && cd sub; echo made > file; cat ../sub/file",
    ));
    model.reply(command(
        "cat file; cat ../../home/token ../../home/master.key; env | grep -c -e TOKEN -e KEY -e TALARIA_[^S]",
    ));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "do it").await;
    let events = watch(&server.client, run.id).await;
    assert_eq!(outcome(&events), ToolStatus::Completed);
    let requests = model.requests();
    let first = requests[1]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(first["content"], "made\n[the working directory is now sub]");
    let second = told(&model);
    assert!(
        second.starts_with("made\n") && second.ends_with("\n0\n[exit code 1]"),
        "{second}"
    );
    assert_eq!(second.matches("Permission denied").count(), 2, "{second}");
    assert_eq!(
        std::fs::read_to_string(server.workspace().join("sub/file")).unwrap(),
        "made\n"
    );
}

/// The one interaction that a run waits for.
async fn asked(server: &TestServer, run_id: RunId) -> Interaction {
    let waiting = server.client.get_run(run_id, 20).await.unwrap();
    assert_eq!(waiting.status, RunStatus::RequiresAction, "{waiting:?}");
    let mut found = server.client.pending_interactions().await.unwrap().data;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

async fn answer(server: &TestServer, interaction: &Interaction, answer: &Value) -> Result<Interaction, String> {
    let request = serde_json::from_value(answer.clone()).unwrap();
    let answered = server.client.resolve_interaction(interaction.id, &request).await;
    answered.map_err(|error| error.to_string())
}

#[tokio::test]
async fn contract_41_42_43_a_command_runs_when_a_person_allows_it() {
    let (server, model) = start().await;
    let session_id = session(&server.client).await;
    let made = server.workspace().join("made");
    let run = async |session_id| {
        model.reply(command("echo x >> made")).reply(text("done"));
        ask(&server.client, session_id, "do it").await.id
    };
    let lines = || std::fs::read_to_string(&made).unwrap_or_default().lines().count();
    let run_id = run(session_id).await;
    let interaction = asked(&server, run_id).await;
    let tool = interaction.tool.clone().unwrap();
    assert_eq!(
        (tool.risk, tool.arguments["command"].as_str()),
        (Risk::High, Some("echo x >> made"))
    );
    assert_eq!(lines(), 0, "nothing has run yet");
    for _ in 0..2 {
        answer(&server, &interaction, &json!({"choice": "allow_once"}))
            .await
            .unwrap();
    }
    let refused = answer(&server, &interaction, &json!({"choice": "deny"}))
        .await
        .unwrap_err();
    assert!(refused.contains("already_resolved"), "{refused}");
    assert_eq!(
        server.client.get_run(run_id, 20).await.unwrap().status,
        RunStatus::Completed
    );
    assert_eq!(lines(), 1, "it has run once");

    // Once is once; the session is the session.
    let run_id = run(session_id).await;
    let interaction = asked(&server, run_id).await;
    answer(&server, &interaction, &json!({"choice": "allow_session"}))
        .await
        .unwrap();
    server.client.get_run(run_id, 20).await.unwrap();
    let run_id = run(session_id).await;
    assert_eq!(
        server.client.get_run(run_id, 20).await.unwrap().status,
        RunStatus::Completed
    );
    assert_eq!(lines(), 3);
    let elsewhere = run(session(&server.client).await).await;
    let interaction = asked(&server, elsewhere).await;
    answer(&server, &interaction, &json!({"choice": "deny", "message": "not here"}))
        .await
        .unwrap();
    server.client.get_run(elsewhere, 20).await.unwrap();
    assert_eq!(
        (lines(), told(&model).contains("the user said no: not here")),
        (3, true),
        "{}",
        told(&model)
    );
    // A rule that is taken back asks again.
    let rules: Value = crate::get(&server.client, "/v1/approval-rules").await;
    let path = format!("/v1/approval-rules/{}", rules["data"][0]["id"].as_str().unwrap());
    server
        .client
        .request(reqwest::Method::DELETE, &path)
        .send()
        .await
        .unwrap();
    asked(&server, run(session_id).await).await;
}

#[tokio::test]
async fn contract_45_a_person_can_change_the_command() {
    let (server, model) = start().await;
    model.reply(command("echo wrong > made")).reply(text("done"));
    let session_id = session(&server.client).await;
    let run_id = ask(&server.client, session_id, "do it").await.id;
    let interaction = asked(&server, run_id).await;
    for wrong in [
        json!({"timeout": 3}),
        json!({"command": 7}),
        json!({"command": "x", "colour": "red"}),
    ] {
        let edited = json!({"choice": "allow_once", "edited_arguments": wrong});
        let refused = answer(&server, &interaction, &edited).await.unwrap_err();
        assert!(refused.contains("invalid_answer"), "{refused}");
    }
    let edited = json!({"choice": "allow_once", "edited_arguments": {"command": "echo right > made"}});
    answer(&server, &interaction, &edited).await.unwrap();
    server.client.get_run(run_id, 20).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(server.workspace().join("made")).unwrap(),
        "right\n"
    );
    let page: Value = crate::get(&server.client, &format!("/v1/sessions/{session_id}/messages")).await;
    let part = |message: usize| &page["data"][message]["parts"][0];
    assert_eq!(
        part(1)["arguments"]["command"],
        "echo wrong > made",
        "what the model said stays as it said it"
    );
    assert_eq!(part(2)["effective_arguments"]["command"], "echo right > made");
    assert!(
        told(&model).starts_with("[the user changed the arguments"),
        "{}",
        told(&model)
    );
}

#[tokio::test]
async fn a_request_may_be_tighter_than_the_configuration() {
    let (server, model) = start_trusting().await;
    model.reply(command("touch made"));
    let session_id = session(&server.client).await;
    let body = json!({"input": "do it", "approval_policy": "deny"});
    let path = format!("/v1/sessions/{session_id}/runs");
    let run = server
        .client
        .request(reqwest::Method::POST, &path)
        .json(&body)
        .send()
        .await
        .unwrap();
    let run: Value = run.json().await.unwrap();
    let run_id: RunId = serde_json::from_value(run["id"].clone()).unwrap();
    watch(&server.client, run_id).await;
    assert!(
        told(&model).contains("refused by the server's rules"),
        "{}",
        told(&model)
    );
    assert!(!server.workspace().join("made").exists());
}

#[tokio::test]
async fn output_is_seen_while_the_command_works() {
    let (server, model) = start_trusting().await;
    let go = server.workspace().join("go");
    model.reply(command(
        "printf 'on\\0e\\n'; while [ ! -e go ]; do sleep 0.01; done; echo two; seq 1000000 | tail -n 100000",
    ));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "wait").await;
    let mut watch = RunWatch::new(server.client.clone(), run.id, None);
    let mut seen: Vec<(u64, String)> = Vec::new();
    let mut is_done = false;
    while let Some(watched) = watch.next().await.unwrap() {
        match &watched.event.body {
            EventBody::ToolOutputDelta {
                tool_call_id,
                stream,
                offset,
                text,
            } => {
                assert_eq!(
                    (tool_call_id.as_str(), *stream, is_done),
                    ("c1", OutputStream::Stdout, false)
                );
                assert!(text.len() <= 8 * 1024);
                seen.push((*offset, text.clone()));
                std::fs::write(&go, "").unwrap();
            }
            EventBody::ToolCompleted { .. } => is_done = true,
            _ => {}
        }
    }
    assert!(is_done);
    assert_eq!(seen[0], (0, "on\u{fffd}e\n".to_owned()), "before the command went on");
    for pair in seen.windows(2) {
        assert!(
            pair[1].0 >= pair[0].0 + pair[0].1.len() as u64,
            "in order, and nothing twice"
        );
    }
    let bytes: usize = seen.iter().map(|(_, text)| text.len()).sum();
    assert!(bytes < 300 * 1024, "a flood of 700 KB is not logged whole: {bytes}");
    let result = told(&model);
    assert!(
        result.starts_with("on\u{fffd}e\ntwo\n900001\n") && result.ends_with("\n1000000"),
        "{}",
        result.len()
    );
}

#[tokio::test]
async fn contract_37_a_cancel_ends_a_command_and_all_that_it_started() {
    let (server, model) = start_trusting().await;
    let marker = format!("61{}1", std::process::id());
    model.reply(command(&format!(
        "echo begun; setsid -f sleep {marker}; trap '' TERM; sleep {marker}"
    )));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "wait").await;
    tool_started(&server, run.id).await;
    until("both sleep", Duration::from_secs(20), || alive(&marker) == 2).await;
    let begun = Instant::now();
    server
        .client
        .cancel_run(run.id, &CancelRunRequest::default())
        .await
        .unwrap();
    let events = watch(&server.client, run.id).await;
    assert!(begun.elapsed() < Duration::from_secs(6));
    assert_eq!(alive(&marker), 0);
    assert_eq!(outcome(&events), ToolStatus::Cancelled);
    let ended = server.client.get_run(run.id, 0).await.unwrap();
    assert_eq!(ended.status, RunStatus::Cancelled);
    let results: Vec<String> = events
        .iter()
        .filter_map(|watched| match &watched.event.body {
            EventBody::MessageCompleted { message } => Some(serde_json::to_string(message).unwrap()),
            _ => None,
        })
        .collect();
    assert!(
        results.last().unwrap().contains("begun"),
        "what it said by then is kept: {results:?}"
    );
}

#[tokio::test]
async fn inv_i16_a_killed_server_leaves_no_process() {
    let (mut server, model) = start_trusting().await;
    let marker = format!("62{}2", std::process::id());
    model.reply(command(&format!(
        "(setsid -f bash -c 'trap \"\" TERM HUP; setsid -f sleep {marker}; sleep {marker}'); sleep {marker}"
    )));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "wait").await;
    until("three sleep", Duration::from_secs(20), || alive(&marker) == 3).await;
    server.kill();
    until("all are gone", Duration::from_secs(10), || alive(&marker) == 0).await;
    server.restart().await;
    let events = watch(&server.client, run.id).await;
    assert_eq!(outcome(&events), ToolStatus::UnknownOutcome);
    model.reply(text("still here"));
    let run = ask(&server.client, session_id, "go on").await;
    watch(&server.client, run.id).await;
    let ended = server.client.get_run(run.id, 0).await.unwrap();
    assert_eq!(ended.status, RunStatus::Completed);
}

#[tokio::test]
async fn a_start_ends_what_a_former_server_left_running() {
    let (mut server, _model) = start_trusting().await;
    server.kill();
    let home = server.home().canonicalize().unwrap();
    let mut left = std::process::Command::new("sleep")
        .arg("600")
        .env("TALARIA_SANDBOX", home)
        .spawn()
        .unwrap();
    server.restart().await;
    assert_eq!(left.wait().unwrap().signal(), Some(9));
}
