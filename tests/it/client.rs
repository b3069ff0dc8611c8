//! The terminal client as a process.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use talaria_tests::model_script::{ModelScript, text};
use talaria_tests::pty::Pty;
use talaria_tests::server::TestServer;

use crate::start;

/// What would clear a screen, colour it, turn the reading order, and delete a letter.
const HOSTILE: &str = "**bold** a\u{1b}[2Jb \u{9b}31m\u{202e}c\u{7f}\r\n";

fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talaria"));
    command
        .args(arguments)
        .current_dir(home.parent().unwrap())
        .env("TALARIA_HOME", home);
    command.env_remove("TALARIA_TOKEN").env_remove("TALARIA_URL");
    command.env_remove("NO_COLOR").env("TERM", "xterm-256color");
    // No key of the host may make a real provider answer.
    command.env_remove("OPENAI_API_KEY").env_remove("OPENROUTER_API_KEY");
    command.stdin(Stdio::null());
    command
}

fn talaria(home: &Path, arguments: &[&str]) -> Output {
    command(home, arguments).output().unwrap()
}

/// A client of a server that runs, in a home of its own.
pub(crate) fn visitor(server: &TestServer, home: &Path, arguments: &[&str]) -> Command {
    std::fs::create_dir_all(home).unwrap();
    let mut command = command(home, arguments);
    command
        .env("TALARIA_URL", &server.base_url)
        .env("TALARIA_TOKEN", &server.token);
    command
}

/// Runs a command beside the test, whose runtime has a model to play meanwhile.
pub(crate) async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

/// What a command writes to a terminal of 40 columns.
async fn on_terminal(command: Command) -> String {
    tokio::task::spawn_blocking(move || Pty::start(command, 40).finish())
        .await
        .unwrap()
}

/// Answers every request with a status; gives where, and what was asked.
fn listen(status: &'static str) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut request = vec![0; 4096];
            let length = socket.read(&mut request).unwrap_or(0);
            request.truncate(length);
            drop(heard.send(String::from_utf8_lossy(&request).into_owned()));
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
            drop(socket.write_all(answer.as_bytes()));
        }
    });
    (address, requests)
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
    let (address, requests) = listen("200 OK");
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

#[tokio::test]
async fn an_answer_is_unchanged_in_a_pipe_and_harmless_on_a_terminal() {
    let (server, model) = start().await;
    let home = server.workspace().join("visitor");
    for _ in 0..4 {
        model.reply(text(HOSTILE));
    }
    let piped = output(visitor(&server, &home, &["run", "go"])).await;
    assert_eq!(said(&piped), HOSTILE);

    let lively = on_terminal(visitor(&server, &home, &["run", "go"])).await;
    assert!(lively.contains("\u{1b}[1mbold\u{1b}[0m a[2Jb 31mc"), "{lively:?}");
    for harmful in ["\u{1b}[2J", "\u{9b}", "\u{202e}", "\u{7f}"] {
        assert!(!lively.contains(harmful), "{harmful:?} in {lively:?}");
    }
    assert!(
        lively.ends_with("\u{1b}[?2004l"),
        "the terminal is given back: {lively:?}"
    );

    let mut command = visitor(&server, &home, &["run", "go"]);
    command.env("NO_COLOR", "1");
    let plain = on_terminal(command).await;
    assert!(plain.contains("**bold** a[2Jb 31mc"), "{plain:?}");
    assert!(
        !plain.contains(|letter: char| letter.is_control() && !"\r\n".contains(letter)),
        "{plain:?}"
    );

    let json = on_terminal(visitor(&server, &home, &["run", "--json", "go"])).await;
    assert!(
        json.contains("\\u009b") && json.contains("\\u202e") && json.contains("\\u007f"),
        "{json:?}"
    );
    assert!(
        !json.contains(|letter: char| letter.is_control() && !"\r\n".contains(letter)),
        "{json:?}"
    );
}

#[test]
fn a_run_that_failed_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir_all(&home).unwrap();
    let (provider, _requests) = listen("401 Unauthorized");
    let config = format!(
        "model: gone/m\nproviders:\n  gone:\n    kind: openai_chat\n    base_url: http://{provider}\nserver:\n  listen: 127.0.0.1:0\n"
    );
    std::fs::write(home.join("config.yaml"), config).unwrap();
    let failed = talaria(&home, &["run", "go"]);
    assert_eq!(said(&talaria(&home, &["server", "stop"])), "stopped\n");
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(
        String::from_utf8_lossy(&failed.stderr).contains("the run failed: "),
        "{failed:?}"
    );
}

#[tokio::test]
async fn exit_codes_tell_how_a_run_ended() {
    let (server, model) = start().await;
    let home = server.workspace().join("visitor");
    model.reply(text("fine"));
    assert_eq!(
        output(visitor(&server, &home, &["run", "go"])).await.status.code(),
        Some(0)
    );

    let unknown = output(visitor(&server, &home, &["run", "--model", "nobody/none", "go"])).await;
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");

    model.reply(text(&"slow ".repeat(400)).slowly(Duration::from_millis(50)));
    let mut child = visitor(&server, &home, &["run", "go"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut answer = child.stdout.take().unwrap();
    let stopping = tokio::task::spawn_blocking(move || {
        answer.read_exact(&mut [0; 5]).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        child.wait().unwrap().code()
    });
    assert_eq!(stopping.await.unwrap(), Some(130));
    let runs = server.client.list_sessions(1).await.unwrap().data;
    assert_eq!(runs[0].active_run_id, None, "the run was stopped, not left");
}

#[tokio::test]
async fn a_login_is_kept_once_the_server_has_taken_the_key() {
    let (server, _model) = start().await;
    let home = server.workspace().join("visitor");
    let file = home.join("client.json");
    let login = async |key: &str| {
        let (key, mut command) = (key.to_owned(), command(&home, &["login", &server.base_url, "--key"]));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            writeln!(child.stdin.take().unwrap(), "{key}").unwrap();
            child.wait_with_output().unwrap()
        })
        .await
        .unwrap()
    };
    let refused = login("wrong-key").await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(!file.exists(), "a key that is refused is not kept");

    let taken = login(&server.token).await;
    assert!(taken.status.success(), "{taken:?}");
    assert!(!format!("{taken:?}").contains(&server.token), "nobody prints a key");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    assert!(
        output(command(&home, &["tools"])).await.status.success(),
        "the login is used"
    );
    let other = output(command(&home, &["--url", "http://127.0.0.1:1", "tools"])).await;
    assert_eq!(other.status.code(), Some(2), "{other:?}");
    assert!(output(command(&home, &["logout"])).await.status.success());
    assert!(!file.exists());
}

#[tokio::test]
async fn a_conversation_goes_on_where_it_was() {
    let (server, model) = start().await;
    let home = server.workspace().join("visitor");
    let talk = async |arguments: &[&str], lines: &'static str| {
        let mut command = visitor(&server, &home, arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        })
        .await
        .unwrap()
    };
    model.reply(text("one")).reply(text("two"));
    let first = talk(&["chat"], "first \\\nline\n").await;
    assert_eq!(said(&first), "one\n", "{first:?}");
    let second = talk(&["chat", "-c"], "second\n/sesions\n").await;
    assert!(said(&second).ends_with("two\n"), "{second:?}");
    assert!(
        said(&second).starts_with("› first"),
        "what was said last is shown: {second:?}"
    );
    assert!(
        String::from_utf8_lossy(&second.stderr).contains("did you mean /sessions?"),
        "{second:?}"
    );
    let sessions = server.client.list_sessions(10).await.unwrap().data;
    assert_eq!(sessions.len(), 1, "both are one session");

    let id = sessions[0].id.to_string();
    let export = said(
        &output(visitor(
            &server,
            &home,
            &["sessions", "export", &id, "--format", "jsonl"],
        ))
        .await,
    );
    assert_eq!(export.lines().count(), 5, "{export}");
    assert!(export.contains("first \\nline"), "{export}");
}

#[tokio::test]
async fn a_run_is_seen_to_its_end_through_a_crash_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir_all(&home).unwrap();
    let model = ModelScript::start().await;
    let provider = format!("script:\n    kind: openai_chat\n    base_url: {}", model.base_url);
    // A restarted server is at another address.
    let config = format!("model: script/test\nproviders:\n  {provider}\nserver:\n  listen: 127.0.0.1:0\n");
    std::fs::write(home.join("config.yaml"), config).unwrap();
    model.reply(text(&"half ".repeat(200)).slowly(Duration::from_millis(50)));
    model.reply(text("whole"));
    let mut child = command(&home, &["run", "go"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let killing = tokio::task::spawn_blocking(move || {
        let mut begun = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
        let file: serde_json::Value =
            serde_json::from_slice(&std::fs::read(home.join("server.json")).unwrap()).unwrap();
        let pid = i32::try_from(file["pid"].as_i64().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        // The dead server's lock is free once the kernel is done with it.
        while !talaria(&home, &["server", "start"]).status.success() {}
        let seen = child.wait_with_output().unwrap();
        (seen, talaria(&home, &["server", "stop"]))
    });
    let (seen, stopped) = killing.await.unwrap();
    assert_eq!(said(&stopped), "stopped\n");
    assert_eq!(seen.status.code(), Some(0), "{seen:?}");
    assert!(said(&seen).ends_with("\nwhole\n"), "{seen:?}");
}
