//! What a server checks before it serves, and how it refuses.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use talaria_client::Client;
use talaria_openapi::ids::SessionId;
use talaria_openapi::runs::CreateRunRequest;
use talaria_tests::model_script::{ModelScript, text};
use talaria_tests::server::{TestServer, repository};

use crate::{session, start, watch};

const PROGRAM: &str = env!("CARGO_BIN_EXE_talaria-server");

const GOOD: &str = "a-token-that-a-person-has-chosen-0123456789";

/// A server that is expected to refuse.
fn refused(home: &Path, arguments: &[&str], token: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .arg("--home")
        .arg(home)
        .current_dir("/")
        .env_remove("TALARIA_TOKEN");
    if let Some(token) = token {
        command.env("TALARIA_TOKEN", token);
    }
    let Output { status, stderr, .. } = command.stdin(Stdio::null()).output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[tokio::test]
async fn inv_i14_an_open_address_needs_a_credential_that_a_person_chose() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for address in ["0.0.0.0:0", "[::]:0"] {
        let (code, told) = refused(&home, &["serve", "--listen", address], None);
        assert_eq!(code, Some(1), "{told}");
        assert!(
            told.contains("not a loopback address") && told.contains("TALARIA_TOKEN"),
            "{told}"
        );
    }
    for weak in ["", "short", "thirty-one-characters-are-few.."] {
        let (code, told) = refused(&home, &["serve"], Some(weak));
        assert_eq!(code, Some(1), "{weak:?}: {told}");
        assert!(told.contains("less than 32 characters"), "{told}");
    }
    let (code, told) = refused(&home, &["serve", "--admin-listen", "0.0.0.0:0"], Some(GOOD));
    assert_eq!(code, Some(78), "{told}");
    assert!(told.contains("asks for no key"), "{told}");
    // With a good one it serves, and nothing else opens it.
    let model = ModelScript::start().await;
    let mut server = TestServer::prepare(PROGRAM, &model, "");
    let config = std::fs::read_to_string(server.home().join("config.yaml")).unwrap();
    let config = config.replace("127.0.0.1:0", "0.0.0.0:0");
    std::fs::write(server.home().join("config.yaml"), config).unwrap();
    server.start_with_token(GOOD).await;
    assert!(!server.home().join("token").exists(), "no second credential is made");
    assert!(server.client.list_sessions(1).await.is_ok());
    let stranger = Client::new(&server.base_url, None, None).unwrap();
    assert!(stranger.list_sessions(1).await.is_err());
    assert!(!server.log().contains(GOOD), "inv_i11: no credential in the log");
}

#[tokio::test]
async fn a_second_server_is_told_who_holds_the_home() {
    let (server, _) = start().await;
    let (code, told) = refused(&server.home(), &["serve"], None);
    assert_eq!(code, Some(75), "{told}");
    let file: Value = serde_json::from_slice(&std::fs::read(server.home().join("server.json")).unwrap()).unwrap();
    for known in [file["pid"].to_string(), file["address"].as_str().unwrap().to_owned()] {
        assert!(told.contains(&known), "{known} is not in: {told}");
    }
    assert!(server.client.is_alive().await);
}

#[tokio::test]
async fn nothing_in_a_home_is_for_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let (mut server, _) = start().await;
    session(&server.client).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&server.home()), 0o700);
    for entry in std::fs::read_dir(server.home()).unwrap().flatten() {
        let expected = if entry.path().is_dir() { 0o700 } else { 0o600 };
        // The test has written this one itself.
        if entry.file_name() != "config.yaml" {
            assert_eq!(mode(&entry.path()), expected, "{:?}", entry.file_name());
        }
    }
    server.stop().await;
    assert!(
        !server.database().with_file_name("talaria.db-wal").exists(),
        "a stopped server leaves one whole file"
    );
}

#[test]
fn a_mistake_in_the_configuration_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.yaml"), "agent:\n  max_round: 3\n").unwrap();
    for command in [&["serve"][..], &["config", "check"][..]] {
        let (code, told) = refused(folder.path(), command, None);
        assert_eq!(code, Some(78), "{told}");
        for part in ["config.yaml", "line 2", "max_round", "Did you mean `max_rounds`?"] {
            assert!(told.contains(part), "{part} is not in: {told}");
        }
    }
    std::fs::write(
        folder.path().join("config.yaml"),
        "providers:\n  x:\n    kind: openai_chat\n    base_url: http://127.0.0.1:1\n    api_key: ${NOT_SET_ANYWHERE}\n",
    )
    .unwrap();
    let (code, told) = refused(folder.path(), &["config", "check"], None);
    assert!(code == Some(78) && told.contains("NOT_SET_ANYWHERE"), "{told}");
}

#[tokio::test]
async fn inv_i17_a_home_of_the_first_schema_opens() {
    let model = ModelScript::start().await;
    let mut server = TestServer::prepare(PROGRAM, &model, "");
    let kept = repository().join("tests/fixtures/home-schema-1/talaria.db");
    std::fs::copy(kept, server.database()).unwrap();
    server.restart().await;
    let copies: Vec<_> = std::fs::read_dir(server.home().join("backups"))
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(copies.len(), 1, "copied before it was migrated");

    let session_id: SessionId = "ses_01M8RQE1V17JYZE6JMJBNYJ2BV".parse().unwrap();
    // The key that was made then still works, and reads what was said then.
    let key = "tlr_01M8RQE1TQEPE5XG214RNCG7WR_ZRSkvzbTGlDSch6o8r3NRoj3VzmogIr8Fw5rPzVbd0I";
    let client = Client::new(&server.base_url, Some(key.to_owned()), None).unwrap();
    assert_eq!(
        client.get_session(session_id).await.unwrap().title.as_deref(),
        Some("from the first release")
    );
    assert_eq!(client.list_messages(session_id).await.unwrap().len(), 4);
    assert!(!client.search("note.txt", 10).await.unwrap().data.is_empty());
    model.reply(text("Welcome back."));
    let request = CreateRunRequest {
        model: Some("script/test".to_owned()),
        ..CreateRunRequest::text("are you still there?")
    };
    let run = client.create_run(session_id, &request).await.unwrap();
    watch(&client, run.id).await;
    let run = client.get_run(run.id, 0).await.unwrap();
    assert_eq!(run.output.unwrap().text, "Welcome back.");
    assert!(
        model.requests()[0]["messages"].to_string().contains("note.txt"),
        "the old history is sent"
    );
}

#[tokio::test]
async fn inv_i8_what_was_acknowledged_is_there_after_a_kill() {
    let (mut server, _) = start().await;
    for round in 0..5 {
        let created = futures_util::future::join_all((0..20).map(|_| session(&server.client))).await;
        server.kill();
        server.restart().await;
        for session_id in created {
            let found = server.client.get_session(session_id).await;
            assert!(found.is_ok(), "round {round}: {session_id} was acknowledged");
        }
    }
}

#[tokio::test]
async fn inv_i8_a_repeated_request_is_recognised_by_its_id() {
    let (server, _) = start().await;
    let create = |title: &'static str| {
        let body = json!({"id": "ses_01JDZK8Q0V8M0F3H6S9W2B4C5D", "title": title});
        server
            .client
            .request(reqwest::Method::POST, "/v1/sessions")
            .json(&body)
            .send()
    };
    let all = futures_util::future::join_all((0..10).map(|_| create("one"))).await;
    for answer in all {
        assert_eq!(answer.unwrap().status(), 201);
    }
    assert_eq!(create("other").await.unwrap().status(), 409);
    let [kept] = &server.client.list_sessions(50).await.unwrap().data[..] else {
        panic!("one session")
    };
    // The id of a deleted session isn't given to another one while readers may still have its cursors.
    server.client.delete_session(kept.id, false).await.unwrap();
    assert_eq!(create("one").await.unwrap().status(), 409);
}
