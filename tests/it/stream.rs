//! Streams: exact bytes, exact resume.

use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::json;
use talaria_openapi::ids::RunId;
use talaria_tests::model_script::{ModelScript, calls, text};
use talaria_tests::server::TestServer;

use crate::{ask, session, start, watch};

/// The whole body of a run's stream after a cursor, and its status.
async fn read(server: &TestServer, run_id: RunId, cursor: Option<String>) -> (u16, String) {
    let mut request = server.client.request(Method::GET, &format!("/v1/runs/{run_id}/stream"));
    if let Some(cursor) = cursor {
        request = request.header("last-event-id", cursor);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// The frames of logged events, byte for byte.
fn logged(body: &str) -> Vec<(i64, &str)> {
    let frames = body
        .split_inclusive("\n\n")
        .filter(|frame| !frame.contains("event: stream."));
    frames
        .filter_map(|frame| {
            Some((
                frame
                    .trim_start_matches(": hb\n")
                    .strip_prefix("id: ")?
                    .split('\n')
                    .next()?
                    .parse()
                    .ok()?,
                frame,
            ))
        })
        .collect()
}

/// Rounds of eight calls that run at the same time, and an answer: more than 200 events, however commits fall together.
fn script_long_run(model: &ModelScript) {
    for round in 0..8 {
        let ids: Vec<String> = (0..8).map(|call| format!("c{round}_{call}")).collect();
        let arguments = || json!({"todos": [{"id": "1", "content": "ü🙂\n: x\ndata: y", "status": "pending"}]});
        let all: Vec<_> = ids
            .iter()
            .enumerate()
            .map(|(call, id)| match call {
                0 => (id.as_str(), "todo", arguments()),
                _ => (id.as_str(), "read_file", json!({"path": format!("{call}.txt")})),
            })
            .collect();
        model.reply(calls(&all));
    }
    model.reply(text("That was all, 桂林山水."));
}

/// Reads one event after a cursor and hangs up. `None` when nothing follows or the server is gone.
async fn read_one(server: &TestServer, run_id: RunId, cursor: Option<i64>) -> Option<(i64, String)> {
    let mut request = server.client.request(Method::GET, &format!("/v1/runs/{run_id}/stream"));
    if let Some(cursor) = cursor {
        request = request.header("last-event-id", cursor.to_string());
    }
    let response = request.send().await.ok()?;
    let (mut chunks, mut bytes) = (response.bytes_stream(), Vec::new());
    loop {
        // Cut anywhere: what is read may end inside a character or a frame.
        bytes.extend(chunks.next().await?.ok()?);
        let text = String::from_utf8_lossy(&bytes);
        if let Some((seq, frame)) = logged(&text).first().filter(|(_, frame)| frame.ends_with("\n\n")) {
            return Some((*seq, (*frame).to_owned()));
        }
    }
}

#[tokio::test]
async fn contract_17_18_a_stream_cut_after_any_event_goes_on_exactly() {
    let (server, model) = start().await;
    script_long_run(&model);
    let run = ask(&server.client, session(&server.client).await, "go").await;
    // While the run goes on: a reader that hangs up after every event.
    let mut live: Vec<(i64, String)> = Vec::new();
    while let Some(event) = read_one(&server, run.id, live.last().map(|(seq, _)| *seq)).await {
        live.push(event);
    }
    let (_, whole) = read(&server, run.id, None).await;
    let all = logged(&whole);
    assert!(all.len() >= 200, "only {} events", all.len());
    let live: Vec<(i64, &str)> = live.iter().map(|(seq, frame)| (*seq, frame.as_str())).collect();
    assert_eq!(live, all);
    // When it is over: resumed after each event.
    for (index, (seq, _)) in all.iter().enumerate() {
        let (status, rest) = read(&server, run.id, Some(seq.to_string())).await;
        if index + 1 == all.len() {
            assert_eq!((status, rest.as_str()), (204, ""));
        } else {
            assert_eq!(
                (status, logged(&rest).as_slice()),
                (200, &all[index + 1..]),
                "after {seq}"
            );
        }
    }
}

#[tokio::test]
async fn inv_i2_a_reader_goes_on_exactly_across_kills_of_the_server() {
    let (mut server, model) = start().await;
    script_long_run(&model);
    let run = ask(&server.client, session(&server.client).await, "go").await;
    let mut seen: Vec<(i64, String)> = Vec::new();
    // Tools that read run again after a crash, so the run always goes on to its end.
    let kills = [15, 40, 90, 91, 140];
    loop {
        match read_one(&server, run.id, seen.last().map(|(seq, _)| *seq)).await {
            Some(event) => seen.push(event),
            None => break,
        }
        if kills.contains(&seen.len()) {
            server.kill();
            server.restart().await;
        }
    }
    let (_, whole) = read(&server, run.id, None).await;
    let seen: Vec<(i64, &str)> = seen.iter().map(|(seq, frame)| (*seq, frame.as_str())).collect();
    assert_eq!(seen, logged(&whole));
    let run = server.client.get_run(run.id, 0).await.unwrap();
    assert!(run.status.is_ended() && run.attempt > 1, "{run:?}");
    model.requests();
}

#[tokio::test]
async fn contract_12_13_14_the_first_bytes() {
    let (server, model) = start().await;
    model.reply(text("a b c"));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "go").await;
    let request = server
        .client
        .request(Method::GET, &format!("/v1/runs/{}/stream", run.id))
        .header("accept-encoding", "gzip, br");
    let response = request.send().await.unwrap();
    let header = |name: &str| {
        response
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(header("content-type").unwrap(), "text/event-stream");
    assert_eq!(header("x-accel-buffering").unwrap(), "no");
    assert_eq!(header("cache-control").unwrap(), "no-cache, no-transform");
    assert_eq!((header("content-encoding"), header("content-length")), (None, None));
    let body = response.text().await.unwrap();
    let first = body.split("\n\n").next().unwrap();
    assert!(first.starts_with("retry: 2000\nevent: stream.open\ndata: {"), "{first}");
    assert!(!first.contains("id:"), "{first}");
    let mut last = 0;
    for (seq, frame) in logged(&body) {
        assert!(seq > last && frame.contains(&format!("\"seq\":{seq},")), "{frame}");
        last = seq;
    }
    assert!(body.ends_with(&format!("id: {last}\nevent: stream.end\ndata: {{\"type\":\"stream.end\",\"reason\":\"run_ended\",\"seq\":{last},\"reconnect\":false}}\n\n")));
    assert!(
        body.split("\n\n")
            .filter(|block| !block.is_empty())
            .all(|block| block.contains("data: ")),
        "no block without data"
    );
}

#[tokio::test]
async fn contract_20_cursors() {
    let (server, _) = start().await;
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "go").await;
    let seq = watch(&server.client, run.id).await[2].event.seq;
    for bad in ["abc", "-1", "1.5", "99999999999999999999"] {
        let (status, body) = read(&server, run.id, Some(bad.to_owned())).await;
        assert_eq!(status, 400, "{bad}");
        assert!(body.contains("invalid_cursor"));
    }
    // A cursor above the log is reset; the session's stream stays open, so only its beginning is read.
    let request = server
        .client
        .request(Method::GET, &format!("/v1/sessions/{session_id}/stream"))
        .header("last-event-id", "999999999");
    let mut chunks = request.send().await.unwrap().bytes_stream();
    let head = String::from_utf8(chunks.next().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(
        head.contains(r#""status":"reset""#) && head.contains(r#""reason":"cursor_ahead""#),
        "{head}"
    );
    // The header wins over the query.
    let both = server
        .client
        .request(Method::GET, &format!("/v1/runs/{}/stream?after=0", run.id));
    let body = both
        .header("last-event-id", seq.to_string())
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(logged(&body).first().unwrap().0 > seq);
    let later = server
        .client
        .request(Method::GET, &format!("/v1/runs/{}/stream?types=run.*", run.id))
        .send()
        .await
        .unwrap();
    assert!(later.text().await.unwrap().contains("unsupported_parameter"));
}

#[tokio::test]
async fn contract_29_text_that_looks_like_frames_stays_text() {
    let (server, model) = start().await;
    let nasty = "a\r\nb\n\ndata: x\nid: 5\n\u{2028}end";
    model.reply(text(nasty));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "go").await;
    watch(&server.client, run.id).await;
    let run = server.client.get_run(run.id, 0).await.unwrap();
    assert_eq!(run.output.unwrap().text, nasty);
}

#[tokio::test]
async fn inv_i1_a_reader_that_leaves_stops_nothing() {
    let (server, model) = start().await;
    model.reply(text("one two three four five").slowly(std::time::Duration::from_millis(50)));
    let session_id = session(&server.client).await;
    let post = server
        .client
        .request(Method::POST, &format!("/v1/sessions/{session_id}/runs"));
    let post = post.header("accept", "text/event-stream").json(&json!({"input": "go"}));
    let response = post.send().await.unwrap();
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let mut chunks = response.bytes_stream();
    chunks.next().await.unwrap().unwrap();
    drop(chunks);
    let run_id: RunId = location.trim_start_matches("/v1/runs/").parse().unwrap();
    let run = server.client.get_run(run_id, 20).await.unwrap();
    assert_eq!(run.output.unwrap().text, "one two three four five");
}
