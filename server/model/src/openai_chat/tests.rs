use proptest::prelude::*;
use talaria_domain::model::{FailureReason, ModelEvent};
use talaria_openapi::messages::{FinishReason, Usage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

fn decode(pieces: &[&[u8]]) -> Vec<Result<ModelEvent, Kind>> {
    let mut decoder = Decoder::default();
    let mut events: Vec<_> = pieces.iter().flat_map(|piece| decoder.push(piece)).collect();
    events.extend(decoder.finish());
    events
}

/// Events in a form that doesn't depend on how text was cut or what id was made up.
fn told(events: Vec<Result<ModelEvent, Kind>>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for event in events {
        let (kind, text) = match event {
            Ok(ModelEvent::Text(text)) => ("text ", text),
            Ok(ModelEvent::Reasoning(text)) => ("reasoning ", text),
            Ok(ModelEvent::CallArguments { index, json }) => (["args0 ", "args1 ", "args2 "][index], json),
            Ok(ModelEvent::CallStarted { index, id, name }) => {
                let id = if id.starts_with("call_01") {
                    "made-up".to_owned()
                } else {
                    id
                };
                told.push(format!("call{index} {id} {name}"));
                continue;
            }
            other => {
                told.push(format!("{other:?}"));
                continue;
            }
        };
        match told.last_mut() {
            Some(last) if last.starts_with(kind) => last.push_str(&text),
            _ => told.push(format!("{kind}{text}")),
        }
    }
    told
}

fn chunk(delta: &str, finish: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
}

/// Streams as providers send them, and what they say.
#[expect(clippy::too_many_lines, reason = "a table")]
fn samples() -> Vec<(String, Vec<&'static str>)> {
    let hi = chunk(r#"{"content":"Grüß 🙂"}"#, "null");
    let stop = chunk("{}", r#""stop""#);
    let done = "data: [DONE]\n\n";
    let finished = "Ok(Finished(Stop))";
    let called = "Ok(Finished(ToolCalls))";
    vec![
        (format!("{hi}{stop}{done}"), vec!["text Grüß 🙂", finished]),
        (
            format!("{hi}{stop}").replace('\n', "\r\n"),
            vec!["text Grüß 🙂", finished],
        ),
        (
            format!(": OPENROUTER PROCESSING\n\n:\n\ndata:\n\n{hi}event: x\n{stop}{done}"),
            vec!["text Grüß 🙂", finished],
        ),
        (
            format!(
                "\u{feff}{hi}{stop}data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":2}}}}\n\n{done}"
            ),
            vec![
                "text Grüß 🙂",
                "Ok(Usage(Usage { input_tokens: 3, output_tokens: 2, cached_tokens: 0, cost_usd: 0.0 }))",
                finished,
            ],
        ),
        (
            format!(
                "{}{stop}{done}",
                chunk(r#"{"content":null,"reasoning_content":"hm"}"#, "null")
            ),
            vec!["reasoning hm", finished],
        ),
        // Three calls, all numbered 0, told apart by their ids (fault D6).
        (
            format!(
                "{}{}{stop}{done}",
                chunk(
                    r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}"#,
                    "null"
                ),
                chunk(
                    r#"{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]}"#,
                    "null"
                )
            ),
            vec!["call0 a f", "args0 {\"x\":1}", "call1 b g", "args1 {}", called],
        ),
        // Without ids: told apart by their names.
        (
            format!(
                "{}{stop}{done}",
                chunk(
                    r#"{"tool_calls":[{"function":{"name":"f","arguments":{"x":1}}},{"function":{"name":"g","arguments":null}}]}"#,
                    "null"
                )
            ),
            vec!["call0 made-up f", "args0 {\"x\":1}", "call1 made-up g", called],
        ),
        // The name in every piece, without ids: one call until its arguments are whole.
        (
            format!(
                "{}{}{}{stop}{done}",
                chunk(
                    r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"x\""}}]}"#,
                    "null"
                ),
                chunk(
                    r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":":1}"}}]}"#,
                    "null"
                ),
                chunk(
                    r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}"#,
                    "null"
                )
            ),
            vec![
                "call0 made-up f",
                "args0 {\"x\":1}",
                "call1 made-up f",
                "args1 {}",
                called,
            ],
        ),
        // One id for two indexes: two calls.
        (
            format!(
                "{}{stop}{done}",
                chunk(
                    r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}]}"#,
                    "null"
                )
            ),
            vec!["call0 a f", "args0 {}", "call1 a g", "args1 {}", called],
        ),
        // One at a time, id and name only in the first piece.
        (
            format!(
                "{}{}{}{done}",
                chunk(
                    r#"{"tool_calls":[{"index":1,"id":"z","type":"function","function":{"name":"f"}}]}"#,
                    "null"
                ),
                chunk(
                    r#"{"tool_calls":[{"index":1,"id":"","function":{"arguments":"{}"}}]}"#,
                    "null"
                ),
                chunk("{}", r#""tool_calls""#)
            ),
            vec!["call0 z f", "args0 {}", called],
        ),
        (
            format!(
                "{}{stop}{done}",
                chunk(r#"{"function_call":{"name":"f","arguments":"{}"}}"#, "null")
            ),
            vec!["call0 made-up f", "args0 {}", called],
        ),
        (
            format!("{}{stop}{done}", chunk(r#"{"content":"a\ud800b\ud83d\ude42"}"#, "null")),
            vec!["text a\u{fffd}b🙂", finished],
        ),
        (
            r#"{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}"#.to_owned(),
            vec!["text whole", finished],
        ),
        (
            format!("{hi}data: {{\"error\":{{\"message\":\"overloaded\",\"code\":529}}}}\n\n"),
            vec![
                "text Grüß 🙂",
                r#"Err(Answered { status: Some(529), body: "overloaded" })"#,
            ],
        ),
        (
            hi.clone(),
            vec!["text Grüß 🙂", r#"Err(Malformed("it ended without saying why"))"#],
        ),
        (
            format!("{hi}{done}"),
            vec!["text Grüß 🙂", r#"Err(Malformed("it ended without saying why"))"#],
        ),
        (
            format!("{hi}data: {{\"choi\n\n{stop}"),
            vec!["text Grüß 🙂", "Err(Malformed(\"a piece is no JSON: {\\\"choi\"))"],
        ),
        (
            format!(
                "{}{done}",
                chunk(r#"{"content":[{"type":"text","text":"x"}]}"#, r#""length""#)
            ),
            vec!["text x", "Ok(Finished(Length))"],
        ),
        // Thoughts in the text; only at its beginning.
        (
            format!(
                "{}{}{stop}{done}",
                chunk(r#"{"content":"<thi"}"#, "null"),
                chunk(r#"{"content":"nk>hm</think>\n\nSo <think>"}"#, "null")
            ),
            vec!["reasoning hm", "text So <think>", finished],
        ),
        // One event over several lines, with both line ends.
        (
            "data: {\"choices\":[{\"delta\":\r\ndata: {\"content\":\"a\"},\r\ndata: \"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\r\n\r\n".to_owned(),
            vec!["text a", finished],
        ),
        (format!("{hi}{stop}{done}").replace('\n', "\r"), vec!["text Grüß 🙂", finished]),
        // Errors by the name of their event, with and without a field for them, and as bare text.
        (
            format!("{hi}event: error\ndata: {{\"message\":\"out of memory\"}}\n\n"),
            vec!["text Grüß 🙂", r#"Err(Answered { status: None, body: "out of memory" })"#],
        ),
        (
            format!("{hi}event: error\ndata: upstream is gone\n\n"),
            vec!["text Grüß 🙂", r#"Err(Answered { status: None, body: "upstream is gone" })"#],
        ),
        (
            format!("{hi}data: {{\"error\":\"quota\"}}\n\n"),
            vec!["text Grüß 🙂", r#"Err(Answered { status: None, body: "quota" })"#],
        ),
        // A call of nothing is not dropped in silence.
        (
            format!(
                "{}{stop}{done}",
                chunk(r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}"#, "null")
            ),
            vec![r#"Err(Malformed("it calls a tool without naming it"))"#],
        ),
    ]
}

#[test]
fn fault_f1_to_f7_providers_take_liberties() {
    for (sample, expected) in samples() {
        assert_eq!(told(decode(&[sample.as_bytes()])), expected, "{sample}");
    }
}

#[test]
fn any_split_in_two_and_bytewise_gives_the_same() {
    for (sample, expected) in samples() {
        let bytes = sample.as_bytes();
        for at in 0..bytes.len() {
            assert_eq!(
                told(decode(&[&bytes[..at], &bytes[at..]])),
                expected,
                "{at} of {sample}"
            );
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(told(decode(&single)), expected, "{sample}");
    }
}

proptest! {
    #[test]
    fn garbage_is_an_error_at_worst(bytes: Vec<u8>, cut in 0_usize..64) {
        let cut = cut.min(bytes.len());
        let events = decode(&[&bytes[..cut], &bytes[cut..]]);
        prop_assert!(events.last().is_some_and(Result::is_err));
    }

    #[test]
    fn a_garbled_stream_ends_once(which in 0..samples().len(), at in 0_usize..400, byte: u8) {
        let (sample, _) = samples().swap_remove(which);
        let mut bytes = sample.into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let events = decode(&[&bytes]);
        let ends = events.iter().filter(|event| matches!(event, Err(_) | Ok(ModelEvent::Finished(_)))).count();
        prop_assert_eq!(ends, 1);
    }
}

/// A provider on loopback that answers one request with these bytes, then does as told.
async fn provider(
    answer: &'static str,
    then: fn(tokio::net::TcpStream) -> futures_util::future::BoxFuture<'static, ()>,
) -> (OpenAiChat, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test's own server")]
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 64 * 1024];
        let length = socket.read(&mut request).await.unwrap();
        request.truncate(length);
        socket.write_all(answer.as_bytes()).await.unwrap();
        then(socket).await;
        String::from_utf8(request).unwrap()
    });
    let client = OpenAiChat::new(ProviderConfig {
        name: "test".to_owned(),
        base_url: format!("http://{address}/v1"),
        api_key: Some(Secret::from("sk-very-secret-key")),
        idle_timeout: Duration::from_millis(200),
    });
    (client, served)
}

fn request() -> ModelRequest {
    let messages = vec![talaria_domain::model::ModelMessage::User { text: "hi".to_owned() }];
    ModelRequest {
        model: "m".to_owned(),
        system: "s".to_owned(),
        messages,
        tools: Vec::new(),
        max_output_tokens: None,
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

async fn outcome(client: &OpenAiChat) -> Result<Vec<ModelEvent>, ModelError> {
    let mut stream = client.stream(request()).await?;
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event?);
    }
    Ok(events)
}

#[tokio::test]
async fn a_dropped_stream_closes_the_socket() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let (client, served) = provider(ANSWER, |mut socket| {
        Box::pin(async move {
            let mut rest = [0; 16];
            assert_eq!(socket.read(&mut rest).await.unwrap(), 0, "the client hangs up");
        })
    })
    .await;
    let mut stream = client.stream(request()).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(ModelEvent::Text("a".to_owned()))));
    drop(stream);
    let sent = tokio::time::timeout(Duration::from_secs(1), served)
        .await
        .unwrap()
        .unwrap();
    assert!(
        sent.contains("authorization: Bearer sk-very-secret-key") && sent.contains(r#""stream":true"#),
        "{sent}"
    );
}

#[tokio::test]
async fn fault_f5_comments_are_no_speech() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let (client, served) = provider(ANSWER, |mut socket| {
        Box::pin(async move {
            while socket.write_all(b": ping\n\n").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    })
    .await;
    let error = outcome(&client).await.unwrap_err();
    assert_eq!(error.reason, FailureReason::Timeout);
    served.await.unwrap();
}

#[tokio::test]
async fn refusals_are_classified_and_hold_no_key() {
    const LIMITED: &str = "HTTP/1.1 429 Too Many\r\nretry-after: 7\r\ncontent-length: 24\r\nconnection: close\r\n\r\n{\"error\":\"slow down now\"}";
    let (client, _) = provider(LIMITED, |_| Box::pin(async {})).await;
    let error = outcome(&client).await.unwrap_err();
    assert_eq!(
        (error.reason, error.retry_after),
        (FailureReason::RateLimited, Some(Duration::from_secs(7)))
    );

    const MISSING: &str = "HTTP/1.1 404 No\r\ncontent-length: 21\r\nconnection: close\r\n\r\nno such thing as that";
    let (client, _) = provider(MISSING, |_| Box::pin(async {})).await;
    let error = outcome(&client).await.unwrap_err();
    assert_eq!(error.reason, FailureReason::ModelNotFound);
    for part in ["test (m)", "404", "no such thing", "the model `m`", "config.yaml"] {
        assert!(error.message.contains(part), "{part} is not in: {}", error.message);
    }

    const REFUSED: &str =
        "HTTP/1.1 401 No\r\ncontent-length: 34\r\nconnection: close\r\n\r\nIncorrect key: sk-very-secret-key!";
    let (client, _) = provider(REFUSED, |_| Box::pin(async {})).await;
    let error = outcome(&client).await.unwrap_err();
    assert_eq!((error.reason, error.provider_status), (FailureReason::Auth, Some(401)));
    assert!(
        error.message.contains("[redacted:own-secret]") && !error.message.contains("very-secret"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let (elsewhere, stolen) = provider(HEAD, |_| Box::pin(async {})).await;
    let moved = format!(
        "HTTP/1.1 307 Moved\r\nlocation: {}/chat/completions\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        elsewhere.config.base_url
    );
    let (client, _) = provider(Box::leak(moved.into_boxed_str()), |_| Box::pin(async {})).await;
    let error = outcome(&client).await.unwrap_err();
    assert!(!error.flags.retryable && error.message.contains("307"), "{error:?}");
    assert!(!stolen.is_finished(), "nobody else was asked");
    stolen.abort();
}

#[tokio::test]
async fn a_refusal_that_never_ends_is_read_for_a_moment_only() {
    const SLOW: &str = "HTTP/1.1 500 No\r\ncontent-length: 999999\r\n\r\nthe disk is full";
    let (client, served) = provider(SLOW, |mut socket| {
        Box::pin(async move {
            let mut rest = [0; 16];
            assert_eq!(socket.read(&mut rest).await.unwrap_or(0), 0, "the client hangs up");
        })
    })
    .await;
    let error = tokio::time::timeout(ERROR_BODY_TIMEOUT * 2, outcome(&client))
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        error.reason == FailureReason::ServerError && error.message.contains("the disk is full"),
        "{error:?}"
    );
    served.await.unwrap();
}

#[tokio::test]
async fn fault_f6_an_early_end_is_no_success() {
    let (client, _) = provider(HEAD, |_| Box::pin(async {})).await;
    assert_eq!(
        outcome(&client).await.unwrap_err().reason,
        FailureReason::MalformedStream
    );
    let closed = OpenAiChat::new(ProviderConfig {
        name: "gone".to_owned(),
        base_url: "http://127.0.0.1:9/v1".to_owned(),
        api_key: None,
        idle_timeout: Duration::from_secs(1),
    });
    let error = outcome(&closed).await.unwrap_err();
    assert!(
        error.flags.retryable && error.reason == FailureReason::Network,
        "{error:?}"
    );
}

#[test]
fn inv_i6_equal_requests_are_equal_bytes() {
    assert_eq!(request::body(&request()), request::body(&request()));
    assert!(!request::body(&request()).contains("tools"));
}

#[test]
fn usage_of_the_cache_is_read() {
    let chunk = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":8},\"cost\":0.5}}\n\n";
    let usage = Usage {
        input_tokens: 9,
        output_tokens: 1,
        cached_tokens: 8,
        cost_usd: 0.5,
    };
    let expected = vec![
        Ok(ModelEvent::Usage(usage)),
        Ok(ModelEvent::Finished(FinishReason::Stop)),
    ];
    assert_eq!(decode(&[chunk.as_bytes()]), expected);
}

#[tokio::test]
async fn an_answer_that_is_whole_stays_whole_however_the_connection_ends() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n4c\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}      \n\n\r\n";
    let expected = vec![
        ModelEvent::Text("a".to_owned()),
        ModelEvent::Finished(FinishReason::Stop),
    ];
    let (client, _) = provider(ANSWER, |_| Box::pin(async {})).await;
    assert_eq!(outcome(&client).await, Ok(expected.clone()));
    let (client, served) = provider(ANSWER, |mut socket| {
        Box::pin(async move {
            let mut rest = [0; 16];
            assert_eq!(socket.read(&mut rest).await.unwrap_or(0), 0, "the client hangs up");
        })
    })
    .await;
    assert_eq!(outcome(&client).await, Ok(expected));
    drop(client);
    served.abort();
}
