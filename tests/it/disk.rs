//! A disk that is full: nothing is lost that was acknowledged, reading goes on, and work goes on when there is room again.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::json;
use talaria_openapi::runs::RunStatus;
use talaria_tests::model_script::{ModelScript, text};
use talaria_tests::server::TestServer;

use crate::{ask, session};

/// Whether this host lets a test mount a small disk for itself.
fn can_mount() -> bool {
    // The server's files are looked at through its process, which only root may.
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    let probe = Command::new("unshare")
        .args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
        .output();
    probe.is_ok_and(|output| output.status.success())
}

/// Writes until the small disk takes no more.
fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("ballast");
    let mut file = std::fs::File::create(&path).unwrap();
    let mut written = 0;
    for piece in [64 * 1024, 4096, 1] {
        while file.write_all(&vec![0; piece]).is_ok() {
            written += piece;
            assert!(written < 32 * 1024 * 1024, "this is not the small disk");
        }
    }
    path
}

#[tokio::test]
async fn hard_h26_a_full_disk_refuses_writes_and_recovers() {
    if !can_mount() {
        eprintln!("left out: this host lets nobody mount a small disk (needs root, `unshare -rm` and tmpfs)");
        return;
    }
    let model = ModelScript::start().await;
    let mut server = TestServer::prepare(env!("CARGO_BIN_EXE_talaria-server"), &model, "");
    server.start_on_small_disk("8m").await;
    let session_id = session(&server.client).await;
    model.reply(text("before"));
    let before = ask(&server.client, session_id, "one").await;
    assert_eq!(
        server.client.get_run(before.id, 20).await.unwrap().status,
        RunStatus::Completed
    );

    // A run is at work when the disk fills up.
    model.reply(text(&"word ".repeat(100)).slowly(Duration::from_millis(20)));
    let caught = ask(&server.client, session_id, "two").await;
    let ballast = fill(&server.home_inside());
    let create = || {
        let body = json!({"title": "x".repeat(100)});
        server.client.request(Method::POST, "/v1/sessions").json(&body).send()
    };
    let until = Instant::now() + Duration::from_secs(20);
    let refused = loop {
        let answer = create().await.unwrap();
        if answer.status() != StatusCode::CREATED {
            break answer;
        }
        assert!(Instant::now() < until, "the disk never fills up");
    };
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    let problem: serde_json::Value = refused.json().await.unwrap();
    assert_eq!(
        (&problem["code"], &problem["retryable"]),
        (&json!("storage_unavailable"), &json!(true))
    );
    // It is alive, not ready, and reads what it has.
    let status = async |path: &str| server.client.request(Method::GET, path).send().await.unwrap().status();
    assert_eq!(status("/healthz").await, StatusCode::OK);
    assert_eq!(status("/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
    let read = server.client.get_run(before.id, 0).await.unwrap();
    assert_eq!(read.output.unwrap().text, "before");

    // There is room again: the run that was caught goes on, and new ones work.
    std::fs::remove_file(ballast).unwrap();
    let caught = server.client.get_run(caught.id, 30).await.unwrap();
    assert_eq!(caught.status, RunStatus::Completed, "{caught:?}");
    assert_eq!(create().await.unwrap().status(), StatusCode::CREATED);
    model.reply(text("after"));
    let after = ask(&server.client, session_id, "three").await;
    let after = server.client.get_run(after.id, 20).await.unwrap();
    assert_eq!(after.output.unwrap().text, "after");
    model.requests();
}

#[tokio::test]
async fn hard_h26_a_log_that_can_not_be_written_stops_nothing() {
    let model = ModelScript::start().await;
    let mut server = TestServer::prepare(env!("CARGO_BIN_EXE_talaria-server"), &model, "");
    server.log_to(Path::new("/dev/full"));
    server.restart().await;
    model.reply(text("hello"));
    let run = ask(&server.client, session(&server.client).await, "hi").await;
    let run = server.client.get_run(run.id, 20).await.unwrap();
    assert_eq!(run.status, RunStatus::Completed, "{run:?}");
}
