//! A model endpoint on loopback that answers as scripted, and checks that each request is legal (I5).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What the model answers to one request.
#[derive(Debug, Clone)]
pub struct Reply {
    chunks: Vec<Value>,
    delay: Duration,
    /// A status and a body, instead of an answer.
    refusal: Option<(u16, String)>,
}

/// Refuses, with this status and body.
pub fn refusal(status: u16, body: &str) -> Reply {
    Reply {
        chunks: Vec::new(),
        delay: Duration::ZERO,
        refusal: Some((status, body.to_owned())),
    }
}

/// Thinks and then speaks, each in exactly these pieces.
pub fn pieces(thoughts: &[&str], words: &[&str]) -> Reply {
    let thoughts = thoughts
        .iter()
        .map(|piece| json!({"delta": {"reasoning_content": piece}}));
    let words = words.iter().map(|piece| json!({"delta": {"content": piece}}));
    let end = json!({"delta": {}, "finish_reason": "stop"});
    Reply {
        chunks: thoughts.chain(words).chain([end]).collect(),
        delay: Duration::ZERO,
        refusal: None,
    }
}

/// Answers with text, word by word.
pub fn text(text: &str) -> Reply {
    let words = text
        .split_inclusive(' ')
        .map(|word| json!({"delta": {"content": word}}));
    let chunks = words.chain([json!({"delta": {}, "finish_reason": "stop"})]).collect();
    Reply {
        chunks,
        delay: Duration::ZERO,
        refusal: None,
    }
}

/// Answers with calls of tools: id, name, arguments.
pub fn calls(calls: &[(&str, &str, Value)]) -> Reply {
    let call = |(index, (id, name, arguments)): (usize, &(&str, &str, Value))| json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
    let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
    let chunks = vec![
        json!({"delta": {"tool_calls": calls}}),
        json!({"delta": {}, "finish_reason": "tool_calls"}),
    ];
    Reply {
        chunks,
        delay: Duration::ZERO,
        refusal: None,
    }
}

impl Reply {
    /// Waits before each piece.
    #[must_use]
    pub fn slowly(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

#[derive(Default)]
struct Shared {
    replies: VecDeque<Reply>,
    requests: Vec<Value>,
    illegal: Vec<String>,
}

/// The endpoint. Requests beyond the script are answered with "done".
#[derive(Clone)]
pub struct ModelScript {
    shared: Arc<Mutex<Shared>>,
    /// Where it is, as a `base_url`.
    pub base_url: String,
}

impl ModelScript {
    /// Starts an endpoint.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let shared: Arc<Mutex<Shared>> = Arc::default();
        let app = Router::new()
            .route("/v1/chat/completions", post(answer))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        #[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { shared, base_url }
    }

    /// Adds a reply.
    pub fn reply(&self, reply: Reply) -> &Self {
        self.shared.lock().unwrap().replies.push_back(reply);
        self
    }

    /// The requests so far. Fails the test when one was not legal.
    pub fn requests(&self) -> Vec<Value> {
        let shared = self.shared.lock().unwrap();
        assert!(shared.illegal.is_empty(), "illegal requests: {:#?}", shared.illegal);
        shared.requests.clone()
    }
}

async fn answer(State(shared): State<Arc<Mutex<Shared>>>, body: String) -> Response {
    let request: Value = serde_json::from_str(&body).unwrap();
    let reply = {
        let mut shared = shared.lock().unwrap();
        if let Err(reason) = check(&request) {
            shared.illegal.push(reason);
        }
        shared.requests.push(request);
        shared.replies.pop_front().unwrap_or_else(|| text("done"))
    };
    if let Some((status, body)) = reply.refusal {
        return Response::builder().status(status).body(Body::from(body)).unwrap();
    }
    let delay = reply.delay;
    let chunks = reply
        .chunks
        .into_iter()
        .map(|choice| format!("data: {}\n\n", json!({"choices": [choice]})));
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}});
    let tail = [format!("data: {usage}\n\n"), "data: [DONE]\n\n".to_owned()];
    let stream = futures_util::stream::iter(chunks.chain(tail).collect::<Vec<_>>());
    let stream = futures_util::StreamExt::then(stream, move |piece| async move {
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        Ok::<_, std::convert::Infallible>(piece)
    });
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(stream))
        .unwrap()
}

/// Every call has exactly one result, right after it; people and model take turns; nothing is empty.
fn check(request: &Value) -> Result<(), String> {
    let messages = request["messages"].as_array().ok_or("no messages")?;
    let mut open: Vec<&str> = Vec::new();
    let mut previous = "";
    for message in messages {
        let role = message["role"].as_str().ok_or("no role")?;
        if role == "tool" {
            let id = message["tool_call_id"].as_str().ok_or("a result without a call")?;
            let at = open
                .iter()
                .position(|open| *open == id)
                .ok_or_else(|| format!("a result of no open call: {id}"))?;
            open.remove(at);
        } else if !open.is_empty() {
            return Err(format!("calls without results: {open:?}"));
        }
        if role == previous && role != "tool" {
            return Err(format!("two messages of {role} in a row"));
        }
        if role == "assistant" {
            let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
            if calls.is_empty() && message["content"].as_str().is_none_or(str::is_empty) {
                return Err("an empty answer".to_owned());
            }
            for call in calls {
                let arguments = call["function"]["arguments"].as_str().ok_or("no arguments")?;
                let is_object = serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object());
                if !is_object {
                    return Err(format!("arguments that are no object: {arguments}"));
                }
                open.push(call["id"].as_str().ok_or("a call without id")?);
            }
        }
        previous = role;
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("calls without results at the end: {open:?}"))
    }
}
