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
        error.message.contains("[redacted]") && !error.message.contains("very-secret"),
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
