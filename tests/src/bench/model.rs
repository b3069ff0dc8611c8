//! A model endpoint that costs little: the same answer each time, at once or slowly.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::post;
use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{Result, median};

const TAIL: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":200}}\n\ndata: [DONE]\n\n";

pub(super) struct Model {
    address: SocketAddr,
}

/// Serves `/at-once` (200 tokens without delay) and `/slow` (100 tokens, one every 20 ms).
pub(super) async fn start() -> Result<Model> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = Router::new().route("/{pace}/chat/completions", post(answer));
    #[expect(clippy::disallowed_methods, reason = "ends with the program")]
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(Model { address })
}

async fn answer(Path(pace): Path<String>, _request: String) -> Response {
    let body = if pace == "slow" {
        let tokens = futures_util::stream::iter(0..100).then(|index| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            token(index)
        });
        let tail = futures_util::stream::iter([TAIL.to_owned()]);
        Body::from_stream(tokens.chain(tail).map(Ok::<_, Infallible>))
    } else {
        Body::from((0..200).map(token).collect::<String>() + TAIL)
    };
    let mut response = Response::new(body);
    let media_type = axum::http::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert("content-type", media_type);
    response
}

fn token(index: u32) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"word{index} \"}},\"finish_reason\":null}}]}}\n\n"
    )
}

impl Model {
    /// The part of a configuration that makes it the model.
    pub(super) fn config(&self, pace: &str) -> String {
        let base_url = format!("http://{}/{pace}", self.address);
        format!("model: script/test\nproviders:\n  script:\n    kind: openai_chat\n    base_url: {base_url}\n")
    }

    /// How long it takes itself to its first byte, asked directly.
    pub(super) async fn first_byte_ms(&self) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..100 {
            let begun = Instant::now();
            let mut stream = TcpStream::connect(self.address).await?;
            let head = format!(
                "POST /at-once/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-length: 2\r\n\r\n{{}}",
                self.address
            );
            stream.write_all(head.as_bytes()).await?;
            stream.read_u8().await?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        Ok(median(times))
    }
}
