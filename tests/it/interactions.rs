//! The agent waits for a person: durable, answered once, by whom may.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use talaria_client::Client;
use talaria_openapi::auth::Scope;
use talaria_openapi::interactions::{Interaction, InteractionKind, InteractionStatus};
use talaria_openapi::runs::{Run, RunStatus};
use talaria_tests::model_script::{ModelScript, calls, text};
use talaria_tests::server::TestServer;

use crate::auth::new_key;
use crate::{ask, session, start, types, watch};

fn question(id: &str, what: &str, options: &[&str]) -> talaria_tests::model_script::Reply {
    let question = json!({"text": what, "options": options, "free_text": false});
    calls(&[(id, "clarify", json!({"questions": [question]}))])
}

async fn pending(server: &TestServer) -> Vec<Interaction> {
    let path = "/v1/interactions?status=pending";
    let page: Value = crate::get(&server.client, path).await;
    serde_json::from_value(page["data"].clone()).unwrap()
}

async fn resolve(client: &Client, interaction: &Interaction, answer: &Value) -> (StatusCode, Value) {
    let path = format!("/v1/interactions/{}/resolve", interaction.id);
    let response = client.request(Method::POST, &path).json(answer).send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

async fn parked(server: &TestServer, run: &Run) -> Interaction {
    let waiting = server.client.get_run(run.id, 20).await.unwrap();
    assert_eq!(waiting.status, RunStatus::RequiresAction, "{waiting:?}");
    let found = pending(server).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(waiting.pending_interactions, [found[0].id]);
    found[0].clone()
}

#[tokio::test]
async fn contract_46_49_a_question_waits_across_a_restart_and_the_model_sees_the_answer() {
    let (mut server, model) = start().await;
    model.reply(question("c1", "Which branch?", &["main", "dev"]));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "deploy it").await;
    let interaction = parked(&server, &run).await;
    assert_eq!(
        (interaction.kind, interaction.questions[0].text.as_str()),
        (InteractionKind::Question, "Which branch?")
    );
    assert!(interaction.expires_in_ms > 0);
    for (answer, code) in [
        (json!({"answers": {"q1": ["prod"]}}), "invalid_answer"),
        (json!({"answers": {"q1": ["main", "dev"]}}), "invalid_answer"),
        (json!({"answers": {}}), "invalid_answer"),
        (json!({"answers": {"q1": ["main"], "q9": ["x"]}}), "invalid_answer"),
        (json!({}), "invalid_answer"),
        (json!({"choice": "allow_once"}), "invalid_choice"),
    ] {
        let (status, problem) = resolve(&server.client, &interaction, &answer).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!(code)),
            "{answer}"
        );
    }
    server.kill();
    server.restart().await;
    assert_eq!(pending(&server).await[0].id, interaction.id);
    let snapshot: Value = crate::get(&server.client, &format!("/v1/sessions/{session_id}/snapshot")).await;
    assert_eq!(snapshot["interactions"][0]["id"], json!(interaction.id));

    model.reply(text("deployed dev"));
    let answer = json!({"answers": {"q1": ["dev"]}});
    let (status, resolved) = resolve(&server.client, &interaction, &answer).await;
    assert_eq!((status, &resolved["status"]), (StatusCode::OK, &json!("resolved")));
    let events = watch(&server.client, run.id).await;
    let kinds = types(&events);
    let at = |kind: &str| kinds.iter().position(|known| *known == kind).unwrap();
    assert!(at("interaction.requested") < at("run.requires_action"));
    assert!(at("run.requires_action") < at("interaction.resolved"));
    assert!(at("interaction.resolved") < at("run.resumed") && at("run.resumed") < at("run.completed"));
    let requests = model.requests();
    let last = requests.last().unwrap()["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["role"], &last["content"]),
        (&json!("tool"), &json!("Which branch?\ndev"))
    );

    // contract_43: the same again is answered alike, something else is refused.
    assert_eq!(resolve(&server.client, &interaction, &answer).await.0, StatusCode::OK);
    let (status, problem) = resolve(&server.client, &interaction, &json!({"answers": {"q1": ["main"]}})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("already_resolved"))
    );
    assert_eq!(problem["resolution"]["answers"], json!({"q1": ["dev"]}));
    assert_eq!(model.requests().len(), 2, "it was answered once");
}

#[tokio::test]
async fn contract_44_the_run_goes_on_when_everything_is_answered() {
    let (server, model) = start().await;
    let one = json!({"questions": [{"text": "one?"}]});
    let two = json!({"questions": [{"text": "two?"}]});
    model.reply(calls(&[("c1", "clarify", one), ("c2", "clarify", two)]));
    model.reply(text("thanks"));
    let run = ask(&server.client, session(&server.client).await, "go").await;
    let waiting = server.client.get_run(run.id, 20).await.unwrap();
    assert_eq!(
        (waiting.status, waiting.pending_interactions.len()),
        (RunStatus::RequiresAction, 2)
    );
    let found = pending(&server).await;
    let answer = json!({"answers": {"q1": ["yes"]}});
    resolve(&server.client, &found[0], &answer).await;
    let waiting = server.client.get_run(run.id, 0).await.unwrap();
    assert_eq!(waiting.pending_interactions, [found[1].id]);
    resolve(&server.client, &found[1], &json!({"choice": "skip"})).await;
    let ended = server.client.get_run(run.id, 20).await.unwrap();
    assert_eq!(ended.output.unwrap().text, "thanks");
    let asked = types(&watch(&server.client, run.id).await);
    assert_eq!(asked.iter().filter(|kind| **kind == "run.requires_action").count(), 2);
    model.requests();
}

#[tokio::test]
async fn contract_47_what_nobody_answers_expires_and_the_run_goes_on() {
    let model = ModelScript::start().await;
    let mut server = TestServer::prepare(
        env!("CARGO_BIN_EXE_talaria-server"),
        &model,
        "agent:\n  approval_timeout: 1\n",
    );
    server.restart().await;
    model
        .reply(question("c1", "Anybody there?", &["yes"]))
        .reply(text("I guess not"));
    let run = ask(&server.client, session(&server.client).await, "go").await;
    let interaction = parked(&server, &run).await;
    let events = tokio::time::timeout(Duration::from_secs(20), watch(&server.client, run.id))
        .await
        .unwrap();
    assert!(types(&events).contains(&"interaction.resolved"));
    let path = format!("/v1/interactions/{}", interaction.id);
    let expired: Interaction = crate::get(&server.client, &path).await;
    assert_eq!((expired.status, expired.expires_in_ms), (InteractionStatus::Expired, 0));
    assert!(
        model.requests()[1]["messages"]
            .to_string()
            .contains("nobody answered in time")
    );
}

#[tokio::test]
async fn contract_39_a_run_that_waits_can_be_cancelled_and_the_next_one_starts() {
    let (server, model) = start().await;
    model
        .reply(question("c1", "Really?", &["yes"]))
        .reply(text("the next one"));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "go").await;
    let interaction = parked(&server, &run).await;
    let body = json!({"input": "and then", "on_busy": "queue"});
    let path = format!("/v1/sessions/{session_id}/runs");
    let queued: Run = server
        .client
        .request(Method::POST, &path)
        .json(&body)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(queued.status, RunStatus::Queued);
    let cancelled = server.client.cancel_run(run.id, &Default::default()).await.unwrap();
    assert_eq!(cancelled.status, RunStatus::Cancelled);
    let next = server.client.get_run(queued.id, 20).await.unwrap();
    assert_eq!(next.output.unwrap().text, "the next one");
    let (status, problem) = resolve(&server.client, &interaction, &json!({"answers": {"q1": ["yes"]}})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("already_resolved"))
    );
    // contract_40: the history with the call that was never answered is legal.
    model.requests();
}

#[tokio::test]
async fn contract_48_who_starts_runs_can_not_answer_for_people() {
    let (server, model) = start().await;
    model.reply(question("c1", "May I?", &["yes"]));
    let run = ask(&server.client, session(&server.client).await, "go").await;
    let interaction = parked(&server, &run).await;
    let (_, secret) = new_key(&server, &[Scope::RunsWrite, Scope::SessionsRead]).await;
    let bot = Client::new(&server.base_url, Some(secret), None).unwrap();
    let (status, problem) = resolve(&bot, &interaction, &json!({"choice": "skip"})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::FORBIDDEN, &json!("insufficient_scope"))
    );
    assert_eq!(problem["required"], "interactions:resolve");
}

/// The terminal client, without a terminal.
async fn talaria(server: &TestServer, arguments: &[&str]) -> (bool, String) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_talaria"));
    command.args(["--url", &server.base_url]).args(arguments);
    command
        .env("TALARIA_TOKEN", &server.token)
        .env("TALARIA_HOME", server.home().join("client"));
    let output = command.stdin(std::process::Stdio::null()).output().await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test]
async fn the_terminal_client_answers_what_waits() {
    let (server, model) = start().await;
    // Where nobody can be asked, the agent is told so at once.
    model
        .reply(question("c1", "Which one?", &["a", "b"]))
        .reply(text("I took the first"));
    let (is_good, said) = talaria(&server, &["run", "choose"]).await;
    assert!(
        is_good && said.contains("I took the first") && said.contains("nobody is there"),
        "{said}"
    );
    assert!(
        model.requests()[1]["messages"]
            .to_string()
            .contains("doesn't want to answer")
    );

    // From another terminal.
    assert!(talaria(&server, &["approvals"]).await.1.contains("nothing waits"));
    model
        .reply(question("c2", "Which two?", &["a", "b"]))
        .reply(text("fine"));
    let run = ask(&server.client, session(&server.client).await, "go").await;
    let interaction = parked(&server, &run).await;
    let (_, listed) = talaria(&server, &["approvals", "list"]).await;
    assert!(
        listed.contains(&interaction.id.to_string()) && listed.contains("Which two?"),
        "{listed}"
    );
    let (is_good, said) = talaria(&server, &["approvals", "deny", &interaction.id.to_string()]).await;
    assert!(is_good, "{said}");
    assert_eq!(
        server.client.get_run(run.id, 20).await.unwrap().status,
        RunStatus::Completed
    );
    let (is_good, said) = talaria(&server, &["approvals", "approve", &interaction.id.to_string()]).await;
    assert!(!is_good && said.contains("invalid_choice"), "{said}");
}
