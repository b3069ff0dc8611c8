//! The terminal client as a process.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

fn talaria(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talaria"));
    command
        .args(arguments)
        .current_dir(home.parent().unwrap())
        .env("TALARIA_HOME", home);
    command.env_remove("TALARIA_TOKEN").env_remove("TALARIA_URL");
    // No key of the host may make a real provider answer.
    command.env_remove("OPENAI_API_KEY").env_remove("OPENROUTER_API_KEY");
    command.stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_stale_server_file_is_trusted_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir_all(&home).unwrap();
    // A stranger listens where the killed server did, and its process id belongs to somebody else.
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap();
    let (heard, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for mut socket in stranger.incoming().flatten() {
            let mut request = vec![0; 4096];
            let length = socket.read(&mut request).unwrap_or(0);
            request.truncate(length);
            drop(heard.send(String::from_utf8_lossy(&request).into_owned()));
            drop(socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"));
        }
    });
    let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
    let file = format!(
        r#"{{"address":"{address}","pid":{},"started_at":"2026-12-01T00:00:00.000Z"}}"#,
        bystander.id()
    );
    std::fs::write(home.join("server.json"), file).unwrap();
    std::fs::write(home.join("server.lock"), "").unwrap();
    std::fs::write(home.join("token"), "very-secret-token-of-the-home-000000").unwrap();

    assert_eq!(said(&talaria(&home, &["server", "stop"])), "no server runs\n");
    assert!(!talaria(&home, &["server", "status"]).status.success());
    let named = talaria(&home, &["--url", &format!("http://{address}"), "tools"]);
    assert!(!named.status.success());
    assert!(bystander.try_wait().unwrap().is_none(), "the bystander lives");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert!(
        requests.try_iter().all(|request| !request.contains("very-secret")),
        "no stranger gets the credential"
    );
}

#[test]
fn asking_starts_the_server_and_prints_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir_all(&home).unwrap();
    let config = "model: demo/demo\nserver:\n  listen: 127.0.0.1:0\n";
    std::fs::write(home.join("config.yaml"), config).unwrap();
    let written = talaria(&home, &["run", "write notes.txt: good morning"]);
    assert!(written.status.success(), "{written:?}");
    assert_eq!(
        std::fs::read_to_string(folder.path().join("notes.txt")).unwrap(),
        "good morning\n"
    );
    assert!(said(&written).contains("wrote 13 bytes to notes.txt"), "{written:?}");
    let events = said(&talaria(&home, &["run", "--json", "read notes.txt"]));
    assert!(
        events
            .lines()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
        "{events}"
    );
    assert!(
        events.contains("run.completed") && events.contains("good morning"),
        "{events}"
    );
    assert!(said(&talaria(&home, &["sessions", "search", "morning"])).contains("ses_"));
    assert!(said(&talaria(&home, &["server", "status"])).contains("demo/demo"));
    assert_eq!(said(&talaria(&home, &["server", "stop"])), "stopped\n");
}
