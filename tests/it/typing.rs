//! What a person types while the agent works.

use std::time::Duration;

use serde_json::json;
use talaria_openapi::runs::{RunStatus, StopReason};
use talaria_tests::model_script::{calls, text};
use talaria_tests::pty::Pty;
use talaria_tests::server::TestServer;

use crate::client::visitor;
use crate::start;

fn chat(server: &TestServer, arguments: &[&str]) -> Pty {
    let home = server.workspace().join("visitor");
    Pty::start(visitor(server, &home, arguments), 100)
}

/// Works with a terminal beside the runtime.
async fn at<T: Send + 'static>(mut pty: Pty, work: impl FnOnce(&mut Pty) -> T + Send + 'static) -> (Pty, T) {
    tokio::task::spawn_blocking(move || {
        let made = work(&mut pty);
        (pty, made)
    })
    .await
    .unwrap()
}

async fn leave(pty: Pty) -> String {
    tokio::task::spawn_blocking(move || {
        let mut pty = pty;
        pty.enter("/quit");
        pty.finish()
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn row_l2_a_new_message_interrupts_what_runs() {
    let (server, model) = start().await;
    model.reply(text(&format!("begun {}", "word ".repeat(3_000))).slowly(Duration::from_millis(10)));
    model.reply(text("a newer answer"));
    let (pty, ()) = at(chat(&server, &["chat"]), |pty| {
        pty.wait_for("/help lists");
        pty.enter("talk for ever");
        pty.wait_for("begun");
        pty.enter("something else");
        pty.wait_for("interrupting: something else");
        pty.wait_for("a newer answer");
    })
    .await;
    leave(pty).await;
    let session = server.client.list_sessions(1).await.unwrap().data.remove(0);
    let runs = server.client.list_runs(Some(session.id), 10).await.unwrap().data;
    let ends: Vec<_> = runs
        .iter()
        .map(|run| (run.status, run.stop.as_ref().unwrap().reason))
        .collect();
    assert_eq!(
        ends,
        [
            (RunStatus::Completed, StopReason::EndTurn),
            (RunStatus::Cancelled, StopReason::Superseded)
        ]
    );
}

#[tokio::test]
async fn a_message_can_also_be_told_or_wait() {
    let (server, model) = start().await;
    std::fs::write(server.workspace().join("a.txt"), "alpha\n").unwrap();
    model.reply(calls(&[("c1", "read_file", json!({"path": "a.txt"}))]).slowly(Duration::from_millis(1_500)));
    model.reply(text("told answer"));
    model.reply(text("queued answer"));
    let (pty, ()) = at(chat(&server, &["chat", "--busy", "steer"]), |pty| {
        pty.wait_for("/help lists");
        pty.enter("/busy");
        pty.wait_for("is told to the agent");
        pty.enter("read it");
        pty.enter("in French");
        pty.wait_for("telling the agent: in French");
        pty.enter("/queue then that");
        pty.wait_for("queued: then that");
        pty.enter("/sessions");
        pty.wait_for("/interrupt, /steer or /queue");
        pty.wait_for("told answer");
        pty.wait_for("queued answer");
    })
    .await;
    leave(pty).await;
    let requests = model.requests();
    let last_words = |at: usize| requests[at]["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!((last_words(1), last_words(2)), (json!("in French"), json!("then that")));
}

#[tokio::test]
async fn runs_are_listed_shown_watched_and_stopped() {
    let (server, model) = start().await;
    model.reply(text("an answer"));
    model.reply(text(&"word ".repeat(3_000)).slowly(Duration::from_millis(10)));
    let home = server.workspace().join("visitor");
    let said = async |arguments: &[&str]| {
        let output = crate::client::output(visitor(&server, &home, arguments)).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let session_id = crate::session(&server.client).await;
    let done = crate::ask(&server.client, session_id, "say").await;
    let (code, watched, _) = said(&["runs", "watch", &done.id.to_string()]).await;
    assert_eq!((code, watched.as_str()), (Some(0), "an answer\n"));
    let active = crate::ask(&server.client, session_id, "talk").await;
    let (_, list, _) = said(&["runs", "list", "--session", &session_id.to_string()]).await;
    assert!(
        list.lines().count() == 2 && list.contains("running") && list.contains("completed"),
        "{list}"
    );
    let (code, _, notice) = said(&["runs", "cancel", &active.id.to_string(), "enough"]).await;
    assert_eq!((code, notice.contains("stopped")), (Some(0), true), "{notice}");
    let (_, shown, _) = said(&["runs", "show", &active.id.to_string()]).await;
    assert!(
        shown.contains("cancelled") && shown.contains("enough") && shown.contains("talk"),
        "{shown}"
    );
    let (code, _, _) = said(&["runs", "watch", &active.id.to_string()]).await;
    assert_eq!(code, Some(130));
}
