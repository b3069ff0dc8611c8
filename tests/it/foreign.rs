//! Clients that know nothing of our code read a stream through a line that breaks again and again.
//!
//! `scripts/test --full` runs these: they need the packages of `tests/foreign`, in the folder that `TALARIA_FOREIGN` names.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use talaria_openapi::events::EventBody;
use talaria_openapi::ids::RunId;
use talaria_tests::model_script::text;
use talaria_tests::server::{TestServer, repository};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::{ask, session, start, watch};

/// What the server sends on one connection before the line breaks; the last number is for all further ones.
const BREAKS: [usize; 5] = [700, 1_801, 2_402, 4_003, usize::MAX];
const CONTROL: [&str; 3] = ["stream.open", "stream.reset", "stream.end"];
const PATIENCE: Duration = Duration::from_secs(60);

/// An event as a foreign client understood it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Understood {
    event_type: String,
    id: String,
    data: String,
}

/// A line to the server that breaks after so many bytes, wherever that is in a frame.
async fn breaking_line(server: &TestServer) -> String {
    let to = server.base_url.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    #[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
    tokio::spawn(async move {
        let mut breaks = BREAKS.into_iter().chain(std::iter::repeat(usize::MAX));
        while let Ok((client, _)) = listener.accept().await {
            let (limit, to) = (breaks.next().unwrap(), to.clone());
            tokio::spawn(async move { drop(relay(client, &to, limit).await) });
        }
    });
    format!("http://{address}")
}

async fn relay(mut client: TcpStream, to: &str, limit: usize) -> std::io::Result<()> {
    let mut server = TcpStream::connect(to).await?;
    let (mut up, mut down) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    let mut left = limit;
    while left > 0 {
        tokio::select! {
            read = client.read(&mut up) => match read? {
                0 => return Ok(()),
                length => server.write_all(&up[..length]).await?,
            },
            read = server.read(&mut down) => match read? {
                0 => return Ok(()),
                length => {
                    let length = length.min(left);
                    client.write_all(&down[..length]).await?;
                    left -= length;
                }
            },
        }
    }
    Ok(())
}

/// What the whole stream says when nothing breaks.
async fn expected(server: &TestServer, run_id: RunId) -> Vec<Understood> {
    let whole = server
        .client
        .request(Method::GET, &format!("/v1/runs/{run_id}/stream"))
        .send()
        .await
        .unwrap();
    let whole = whole.text().await.unwrap();
    let frames = whole.split("\n\n").filter_map(|frame| {
        let field = |name: &str| {
            frame
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::to_owned)
        };
        let event_type = field("event: ")?;
        (!CONTROL.contains(&event_type.as_str())).then(|| Understood {
            event_type,
            id: field("id: ").unwrap(),
            data: field("data: ").unwrap(),
        })
    });
    frames.collect()
}

async fn run_client(program: PathBuf, arguments: Vec<String>) -> Vec<Understood> {
    let run = Command::new(&program)
        .args(arguments)
        // Node looks for packages beside the script.
        .current_dir(foreign())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
    assert!(
        output.status.success(),
        "{program:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let said = String::from_utf8(output.stdout).unwrap();
    let events = said.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        Understood {
            event_type: text("type"),
            id: text("id"),
            data: text("data"),
        }
    });
    events.collect()
}

async fn run_node(server: &TestServer, line: &str, run_id: RunId) -> Vec<Understood> {
    let mut arguments = vec!["sse.mjs".to_owned(), stream_url(line, run_id), server.token.clone()];
    arguments.extend(EventBody::TYPES.iter().chain(&CONTROL).map(|name| (*name).to_owned()));
    run_client("node".into(), arguments).await
}

async fn run_python(server: &TestServer, line: &str, run_id: RunId) -> Vec<Understood> {
    let script = repository().join("tests/foreign/sse.py").display().to_string();
    let arguments = vec![script, stream_url(line, run_id), server.token.clone()];
    run_client(foreign().join("venv/bin/python"), arguments).await
}

fn stream_url(line: &str, run_id: RunId) -> String {
    format!("{line}/v1/runs/{run_id}/stream?heartbeat=5")
}

fn foreign() -> PathBuf {
    let folder = std::env::var_os("TALARIA_FOREIGN");
    assert!(
        folder.is_some(),
        "run `scripts/test --full`, which installs the clients"
    );
    repository().join(folder.unwrap())
}

/// Every event once, in order, as it was sent; nothing that was never sent; and an end.
fn assert_understood(client: &str, mut understood: Vec<Understood>, expected: &[Understood], connections: usize) {
    let end = understood.pop().unwrap();
    assert_eq!(
        (end.event_type.as_str(), end.data.as_str()),
        ("closed", "204"),
        "{client}"
    );
    let opened = understood
        .iter()
        .filter(|event| event.event_type == "stream.open")
        .count();
    assert!(opened >= connections, "{client}: the line broke {opened} times only");
    let logged: Vec<_> = understood
        .into_iter()
        .filter(|event| !CONTROL.contains(&event.event_type.as_str()))
        .collect();
    assert_eq!(logged, expected, "{client}");
}

#[tokio::test]
#[ignore = "needs the packages of tests/foreign: scripts/test --full"]
async fn contract_19_foreign_clients_miss_nothing_and_see_no_phantom() {
    let (server, model) = start().await;
    let words: Vec<String> = (0..120).map(|index| format!("w{index}ü🙂\n")).collect();
    model.reply(text(&words.join(" ")).slowly(Duration::from_millis(15)));
    let run = ask(&server.client, session(&server.client).await, "go").await;
    let (node, python) = (breaking_line(&server).await, breaking_line(&server).await);
    // Both begin while the run goes on.
    let (by_node, by_python) = tokio::join!(run_node(&server, &node, run.id), run_python(&server, &python, run.id));
    watch(&server.client, run.id).await;
    let expected = expected(&server, run.id).await;
    assert!(expected.len() > 20, "{expected:?}");
    assert_understood("eventsource", by_node, &expected, BREAKS.len());
    assert_understood("httpx-sse", by_python, &expected, BREAKS.len());
}

#[tokio::test]
#[ignore = "needs the packages of tests/foreign: scripts/test --full"]
async fn contract_24_heartbeats_are_no_events_to_foreign_clients() {
    let (server, model) = start().await;
    // A model that thinks for longer than a heartbeat, before each of its two pieces.
    model.reply(text("slow").slowly(Duration::from_secs(6)));
    let run = ask(&server.client, session(&server.client).await, "go").await;
    let path = format!("/v1/runs/{}/stream?heartbeat=5", run.id);
    let raw = async {
        let response = server.client.request(Method::GET, &path).send().await.unwrap();
        response.text().await.unwrap()
    };
    let (by_node, by_python, raw) = tokio::join!(
        run_node(&server, &server.base_url, run.id),
        run_python(&server, &server.base_url, run.id),
        raw
    );
    assert!(raw.matches("\n\n: hb\n").count() >= 2, "no heartbeat was sent: {raw}");
    let expected = expected(&server, run.id).await;
    assert_understood("eventsource", by_node, &expected, 1);
    assert_understood("httpx-sse", by_python, &expected, 1);
}

#[tokio::test]
#[ignore = "needs curl: scripts/test --full"]
async fn contract_19_curl_goes_on_after_a_broken_line() {
    let (server, model) = start().await;
    model.reply(text(&"word ".repeat(60)).slowly(Duration::from_millis(10)));
    let run = ask(&server.client, session(&server.client).await, "go").await;
    let line = breaking_line(&server).await;
    let (mut last, mut seen) = (None::<String>, Vec::new());
    loop {
        let mut curl = Command::new("curl");
        curl.args(["-sN", "-w", "%{stderr}%{http_code}", "-H"])
            .arg(format!("authorization: Bearer {}", server.token));
        if let Some(id) = &last {
            curl.arg("-H").arg(format!("last-event-id: {id}"));
        }
        let url = format!("{line}/v1/runs/{}/stream", run.id);
        let output = tokio::time::timeout(PATIENCE, curl.arg(url).output())
            .await
            .unwrap()
            .unwrap();
        if output.stderr == b"204" {
            break;
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for frame in text.split_inclusive("\n\n").filter(|frame| frame.ends_with("\n\n")) {
            let id = frame.lines().find_map(|line| line.strip_prefix("id: "));
            last = id.map(str::to_owned).or(last);
            if !frame.contains("event: stream.") {
                seen.push(frame.trim_end().trim_start_matches(": hb\n").to_owned());
            }
        }
    }
    let expected: Vec<String> = expected(&server, run.id)
        .await
        .into_iter()
        .map(|event| format!("id: {}\nevent: {}\ndata: {}", event.id, event.event_type, event.data))
        .collect();
    assert_eq!(seen, expected);
}
