//! Requests over a real socket, to providers that are well or ill.

mod decoder;

use talaria_domain::model::{FailureReason, ModelEvent};
use talaria_openapi::messages::FinishReason;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

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

/// An answer without a stream.
fn plain(status: &str, headers: &str, body: &str) -> &'static str {
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}");
    Box::leak(answer.into_boxed_str())
}

async fn failure(answer: &'static str) -> ModelError {
    let (client, _) = provider(answer, |_| Box::pin(async {})).await;
    outcome(&client).await.unwrap_err()
}

#[tokio::test]
async fn row_r3_what_decides_may_stand_at_the_end() {
    let padding = "See the page of limits for more. ".repeat(20);
    let body = format!(
        r#"[{{"error":{{"code":429,"message":"You exceeded your current quota, check your plan and billing. {padding}Please retry in 58.8s.","status":"RESOURCE_EXHAUSTED"}}}}]"#
    );
    let error = failure(plain("429 Too Many", "", &body)).await;
    assert_eq!(
        (error.reason, error.retry_after),
        (FailureReason::RateLimited, Some(Duration::from_millis(58_800)))
    );
    assert!(
        error
            .message
            .starts_with("test (m) answered 429: RESOURCE_EXHAUSTED: You")
            && error.message.len() < 400,
        "{}",
        error.message
    );
}

#[tokio::test]
async fn messages_name_what_to_change_and_no_secret() {
    let page = failure(plain(
        "200 OK",
        "content-type: text/html; charset=utf-8\r\n",
        "<html>Hi</html>",
    ))
    .await;
    assert!(!page.flags.retryable && page.message.contains("`base_url`"), "{page:?}");
    let page = failure(plain("502 Bad", "", "<!DOCTYPE html><title>Bad gateway")).await;
    assert_eq!(page.message, "test (m) answered 502: (a web page)");
    let silent = failure(plain("500 Bad", "", "")).await;
    assert_eq!(silent.message, "test (m) answered 500: (nothing)");

    let client = |base_url: &str, key: &str| {
        OpenAiChat::new(ProviderConfig {
            name: "test".to_owned(),
            base_url: base_url.to_owned(),
            api_key: Some(Secret::from(key)),
            idle_timeout: Duration::from_secs(1),
        })
    };
    let error = outcome(&client("http://127.0.0.1:99999/v1", "k")).await.unwrap_err();
    assert!(
        !error.flags.retryable && error.message.contains("`base_url`"),
        "{error:?}"
    );
    let error = outcome(&client("http://127.0.0.1:9/v1", "two\nlines"))
        .await
        .unwrap_err();
    assert!(
        error.message.contains("`api_key`") && !error.message.contains("two"),
        "{error:?}"
    );
    let error = outcome(&client("http://me:hidden@127.0.0.1:9/v1", "hidden")).await;
    let error = error.unwrap_err();
    assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
}

#[tokio::test]
async fn a_key_is_sent_without_the_end_of_its_line() {
    let (client, served) = provider(
        plain("401 No", "", "who is sk-very-secret-key?"),
        |_| Box::pin(async {}),
    )
    .await;
    let mut config = (*client.config).clone();
    config.api_key = Some(Secret::from(" sk-very-secret-key\r\n"));
    let error = outcome(&OpenAiChat::new(config)).await.unwrap_err();
    assert!(
        error.message.contains("who is [redacted:own-secret]?"),
        "{}",
        error.message
    );
    let sent = served.await.unwrap();
    assert!(sent.contains("authorization: Bearer sk-very-secret-key\r\n"), "{sent}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let (elsewhere, stolen) = provider(HEAD, |_| Box::pin(async {})).await;
    let moved = format!(
        "HTTP/1.1 307 Moved\r\nlocation: {}/chat/completions?token=hidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        elsewhere.config.base_url
    );
    let (client, _) = provider(Box::leak(moved.into_boxed_str()), |_| Box::pin(async {})).await;
    let error = outcome(&client).await.unwrap_err();
    assert!(!error.flags.retryable && error.message.contains("307"), "{error:?}");
    let to = elsewhere.config.base_url.trim_end_matches("/v1");
    assert!(
        error.message.contains(to) && !error.message.contains("hidden"),
        "{error:?}"
    );
    assert!(!stolen.is_finished(), "nobody else was asked");
    stolen.abort();
}

const WHOLE: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"choices\":[{\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}";

#[tokio::test]
async fn a_provider_on_this_host_is_asked_directly() {
    let (client, _) = provider(WHOLE, |_| Box::pin(async {})).await;
    assert!(outcome(&client).await.is_ok());
}

/// Runs the test above where the environment names a proxy, which would answer nothing.
#[tokio::test]
async fn no_proxy_of_the_environment_is_asked_for_this_host() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let mut test = tokio::process::Command::new(std::env::current_exe().unwrap());
    test.args([
        "--exact",
        "openai_chat::tests::a_provider_on_this_host_is_asked_directly",
    ])
    .env_remove("NO_PROXY")
    .env_remove("no_proxy")
    .kill_on_drop(true);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        test.env(name, &address);
    }
    let output = tokio::select! {
        output = test.output() => output.unwrap(),
        asked = proxy.accept() => panic!("the proxy was asked: {asked:?}"),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
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
