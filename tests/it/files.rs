//! Outputs that are too long for the model are kept whole.

use reqwest::{Method, Response};
use serde_json::{Value, json};
use talaria_openapi::events::EventBody;
use talaria_openapi::files::File;
use talaria_openapi::messages::{Part, ResultContent};
use talaria_tests::model_script::{calls, text};
use talaria_tests::server::TestServer;

use crate::{ask, session, start, watch};

async fn get(server: &TestServer, path: &str, range: Option<&str>) -> Response {
    let request = server.client.request(Method::GET, path);
    let request = match range {
        Some(range) => request.header("range", range),
        None => request,
    };
    request.send().await.unwrap()
}

#[tokio::test]
async fn hard_h11_a_long_output_is_cut_for_the_model_and_kept_whole() {
    let (mut server, model) = start().await;
    let line = format!("{}\n", "wörter ".repeat(100));
    std::fs::write(server.workspace().join("long.txt"), line.repeat(300)).unwrap();
    model.reply(calls(&[("c1", "read_file", json!({"path": "long.txt", "limit": 300}))]));
    model.reply(text("Long."));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "read").await;
    let events = watch(&server.client, run.id).await;
    let files: Vec<&File> = events
        .iter()
        .filter_map(|watched| match &watched.event.body {
            EventBody::FileCreated { file } => Some(file),
            _ => None,
        })
        .collect();
    let [file] = files[..] else {
        panic!("one file: {files:?}")
    };
    let sent = &model.requests()[1]["messages"];
    let sent = sent.as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    assert!((99_900..=100_000).contains(&sent.chars().count()) && sent.contains("characters left out here"));
    let page: Value = get(&server, &format!("/v1/sessions/{session_id}/messages"), None)
        .await
        .json()
        .await
        .unwrap();
    let part: Part = serde_json::from_value(page["data"][2]["parts"][0].clone()).unwrap();
    let Part::ToolResult {
        content,
        truncated,
        full_output_file_id,
        ..
    } = part
    else {
        panic!("a result: {part:?}")
    };
    assert_eq!((truncated, full_output_file_id), (true, Some(file.id)));
    let [ResultContent::Text { text: shown }] = &content[..] else {
        panic!("one text")
    };
    assert_eq!(shown, sent);

    // It is still there for the next process, whole and in parts.
    server.stop().await;
    server.restart().await;
    let path = format!("/v1/files/{}", file.id);
    let told: File = get(&server, &path, None).await.json().await.unwrap();
    assert_eq!(&told, file);
    let content = format!("{path}/content");
    let whole = get(&server, &content, None).await;
    for (name, value) in [
        ("content-type", "text/plain; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        (
            "content-disposition",
            "attachment; filename=\"read_file-output.txt\"; filename*=UTF-8''read_file-output.txt",
        ),
    ] {
        assert_eq!(whole.headers()[name], value);
    }
    let whole = whole.bytes().await.unwrap();
    assert_eq!(whole.len() as u64, file.size_bytes);
    assert_eq!(String::from_utf8_lossy(&whole).matches("wörter").count(), 30_000);
    for (range, expected) in [("bytes=5-9", &whole[5..10]), ("bytes=-7", &whole[whole.len() - 7..])] {
        let part = get(&server, &content, Some(range)).await;
        assert_eq!(part.status(), 206, "{range}");
        assert_eq!(part.bytes().await.unwrap(), expected, "{range}");
    }
    assert_eq!(get(&server, &content, Some("bytes=99999999-")).await.status(), 416);
    for missing in [
        "/v1/files/fil_01JDZK8Q0V8M0F3H6S9W2B4C5D",
        "/v1/files/..%2Ftoken/content",
        "/v1/files/x/content",
    ] {
        let problem: Value = get(&server, missing, None).await.json().await.unwrap();
        assert_eq!(problem["code"], "file_not_found", "{missing}");
    }

    // It goes with its session, and what a crash left without a row goes with the next start.
    let folder = server.database().with_file_name("files");
    std::fs::write(folder.join("fil_left"), "left").unwrap();
    server.client.delete_session(session_id, false).await.unwrap();
    assert_eq!(get(&server, &content, None).await.status(), 404);
    assert!(!folder.join(file.id.to_string()).exists());
    server.stop().await;
    server.restart().await;
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
}
