//! A server on loopback that answers each connection with given bytes, and keeps what it was asked.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use talaria_client::watch::{RunWatch, Watched};
use talaria_client::{Client, Error};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// All runs but for their last four characters.
const RUN: &str = "run_01JDZK8Q0V8M0F3H6S9W2B";
const SESSION: &str = "ses_01JDZK8Q0V8M0F3H6S9W2B4C5D";
const TOKEN: &str = "secret-of-the-test";
/// Longest time that a test waits for its client.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that was received.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) last_event_id: Option<i64>,
}

/// What a client saw, and what it asked for it.
pub(crate) struct Outcome {
    pub(crate) watched: Result<Vec<Watched>, Error>,
    pub(crate) asked: Vec<Asked>,
}

/// Watches a run to its end at a server that answers the n-th connection with `answer(n, Last-Event-ID)` and closes it.
pub(crate) async fn watch(answer: impl Fn(usize, Option<i64>) -> Vec<u8>) -> Outcome {
    let mut outcomes = watch_many(1, |_, connection, last| answer(connection, last)).await;
    outcomes.remove(0)
}

/// Watches many runs at once; `answer` gets the run's index too.
pub(crate) async fn watch_many(runs: usize, answer: impl Fn(usize, usize, Option<i64>) -> Vec<u8>) -> Vec<Outcome> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::new(&url, Some(TOKEN.to_owned()), Some("work".to_owned())).unwrap();
    let mut asked: Vec<Vec<Asked>> = (0..runs).map(|_| Vec::new()).collect();
    let serve = async {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let (run, request) = receive(&mut socket).await;
            let bytes = answer(run, asked[run].len(), request.last_event_id);
            asked[run].push(request);
            // The client may be gone already.
            drop(socket.write_all(&bytes).await);
        }
    };
    let watches = join_all((0..runs).map(|run| all(client.clone(), run)));
    let watched = tokio::select! {
        watched = tokio::time::timeout(PATIENCE, watches) => watched.unwrap(),
        () = serve => unreachable!("it serves for ever"),
    };
    let outcomes = watched.into_iter().zip(asked);
    outcomes.map(|(watched, asked)| Outcome { watched, asked }).collect()
}

async fn all(client: Client, run: usize) -> Result<Vec<Watched>, Error> {
    let mut watch = RunWatch::new(client, run_id(run).parse().unwrap(), None);
    let mut all = Vec::new();
    while let Some(watched) = watch.next().await? {
        all.push(watched);
    }
    Ok(all)
}

fn run_id(run: usize) -> String {
    format!("{RUN}{run:04}")
}

/// Every request must be the right one; gives the run that it is for.
async fn receive(socket: &mut TcpStream) -> (usize, Asked) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "a whole request");
    }
    let text = String::from_utf8(bytes).unwrap();
    let first = text.lines().next().unwrap();
    let path = first.strip_prefix(&format!("GET /v1/runs/{RUN}")).unwrap();
    let run = path.strip_suffix("/stream HTTP/1.1").unwrap().parse().unwrap();
    let header = |name: &str| {
        text.lines()
            .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value)
    };
    assert_eq!(header("authorization"), Some(&*format!("Bearer {TOKEN}")));
    assert_eq!(header("accept"), Some("text/event-stream"));
    assert_eq!(header("x-talaria-profile"), Some("work"));
    let asked = Asked {
        at: Instant::now(),
        last_event_id: header("last-event-id").map(|value| value.parse().unwrap()),
    };
    (run, asked)
}

/// An answer that isn't a stream.
pub(crate) fn plain(status: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nlocation: /elsewhere\r\n\
         connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

pub(crate) fn problem(status: u16, code: &str, is_retryable: bool) -> Vec<u8> {
    let body = format!(
        r#"{{"type":"x","title":"Title of {code}","status":{status},"code":"{code}","detail":"what happened","request_id":"req-1","retryable":{is_retryable}}}"#
    );
    plain(&format!("{status} X"), "application/problem+json", &body)
}

/// A stream's answer; it ends with its connection.
pub(crate) fn stream(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}").into_bytes()
}

/// The first block of a stream.
pub(crate) fn open(retry_ms: u32) -> String {
    format!(
        "retry: {retry_ms}\nevent: stream.open\ndata: {{\"type\":\"stream.open\",\"session_id\":\"{SESSION}\",\"run_id\":\"{RUN}0000\",\
         \"head_seq\":9,\"oldest_seq\":1,\"resume_from\":0,\"status\":\"new\",\"server_time\":\"2026-12-01T03:40:00.123Z\",\
         \"heartbeat_ms\":15000}}\n\n"
    )
}

/// The `data:` of an event.
pub(crate) fn delta_data(seq: i64) -> String {
    format!(
        "{{\"type\":\"text.delta\",\"seq\":{seq},\"ts\":\"2026-12-01T03:40:00.123Z\",\"session_id\":\"{SESSION}\",\"run_id\":\"{RUN}0000\",\
         \"message_id\":\"msg_01JDZK8Q0V8M0F3H6S9W2B4C5D\",\"part\":0,\"offset\":0,\"text\":\"Grüß 🙂 {seq}\\nid: 5\"}}"
    )
}

pub(crate) fn delta(seq: i64) -> String {
    format!("id: {seq}\nevent: text.delta\ndata: {}\n\n", delta_data(seq))
}

/// The last block of a stream.
pub(crate) fn end(seq: i64, fields: &str) -> String {
    format!(
        "id: {seq}\nevent: stream.end\ndata: {{\"type\":\"stream.end\",\"reason\":\"run_ended\",\"seq\":{seq},{fields}}}\n\n"
    )
}

/// The end of the run.
pub(crate) fn over(seq: i64) -> String {
    end(seq, "\"reconnect\":false")
}

pub(crate) fn numbers(watched: &[Watched]) -> Vec<i64> {
    watched.iter().map(|watched| watched.event.seq).collect()
}
