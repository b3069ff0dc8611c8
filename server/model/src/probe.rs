//! Looks for a model server on this host, and asks it what its models can read.

use std::time::Duration;

use futures_util::future::join_all;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use talaria_domain::Secret;

use crate::http_client;

/// How long a server may take to take the call, and then to answer.
const PATIENCE: Duration = Duration::from_millis(300);
/// Longest list of models that is read.
const MAX_LIST_BYTES: usize = 1024 * 1024;
/// What servers call the number of tokens that a model reads: what it was loaded with before what it could be loaded with.
const LENGTHS: &[&str] = &[
    // llama.cpp.
    "/meta/n_ctx",
    // LM Studio.
    "/loaded_context_length",
    // vLLM, SGLang.
    "/max_model_len",
    // OpenRouter and what imitates it.
    "/context_length",
    // Groq.
    "/context_window",
    // LM Studio.
    "/max_context_length",
    // llama.cpp before it told what it was started with.
    "/meta/n_ctx_train",
];

/// A model server that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundServer {
    /// What it is.
    pub provider: &'static str,
    /// Where it is.
    pub base_url: String,
    /// The first model that it has.
    pub model: String,
    /// How many tokens it reads, where the server says so.
    pub context_length: Option<u64>,
}

/// The first of these ports, in their order, where a server lists a model that talks. Only loopback is asked.
pub async fn find_local_server(ports: &[(u16, &'static str)]) -> Option<FoundServer> {
    let asked = join_all(ports.iter().map(|(port, provider)| ask(*port, provider))).await;
    asked.into_iter().flatten().next()
}

async fn ask(port: u16, provider: &'static str) -> Option<FoundServer> {
    let base_url = format!("http://127.0.0.1:{port}/v1");
    let models = models(&base_url, None).await?;
    let (model, entry) = models
        .iter()
        .filter_map(|entry| Some((entry.get("id")?.as_str()?, entry)))
        .find(|(model, _)| !model.to_lowercase().contains("embed"))?;
    Some(FoundServer {
        provider,
        model: model.to_owned(),
        context_length: length_of(entry),
        base_url,
    })
}

/// How many tokens a model reads, where its server says so. Only a server on this host is asked: nobody waits for a network
/// to learn a number.
pub async fn context_length(base_url: &str, api_key: Option<&Secret>, model: &str) -> Option<u64> {
    if !http_client::is_loopback(base_url) {
        return None;
    }
    let models = models(base_url.trim_end_matches('/'), api_key).await?;
    let is_asked_for = |entry: &&Value| entry.get("id").is_some_and(|id| id == model);
    models.iter().find(is_asked_for).and_then(length_of)
}

fn length_of(entry: &Value) -> Option<u64> {
    LENGTHS
        .iter()
        .filter_map(|name| entry.pointer(name)?.as_u64())
        .find(|tokens| *tokens > 0)
}

/// What a server says of its models.
async fn models(base_url: &str, api_key: Option<&Secret>) -> Option<Vec<Value>> {
    // Before any HTTP client is built: mostly nothing listens, which is known at once.
    let url = reqwest::Url::parse(base_url).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    let connect = tokio::net::TcpStream::connect((host, url.port_or_known_default()?));
    drop(tokio::time::timeout(PATIENCE, connect).await.ok()?.ok()?);
    let body = tokio::time::timeout(PATIENCE, list(base_url, api_key)).await.ok()??;
    let mut list: Value = serde_json::from_slice(&body).ok()?;
    match list.get_mut("data").map(Value::take) {
        Some(Value::Array(models)) => Some(models),
        _ => None,
    }
}

/// Whatever listens may be no model server at all: it is read up to a limit.
async fn list(base_url: &str, api_key: Option<&Secret>) -> Option<Vec<u8>> {
    let mut request = http_client::client_for(base_url)
        .ok()?
        .get(format!("{base_url}/models"));
    if let Some(key) = api_key {
        request = request.bearer_auth(key.expose_secret().trim());
    }
    let mut response = request.send().await.ok()?.error_for_status().ok()?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_LIST_BYTES {
            return None;
        }
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Something that listens, says this to everybody, and then nothing more.
    async fn listener(says: String) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        #[expect(clippy::disallowed_methods, reason = "a test's own server")]
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut request = [0; 1024];
                if socket.read(&mut request).await.is_ok_and(|length| length > 0) {
                    drop(socket.write_all(says.as_bytes()).await);
                }
                kept.push(socket);
            }
        });
        port
    }

    fn answer(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn row_p1_the_first_port_with_a_model_is_found() {
        let silent = listener(String::new()).await;
        let endless = listener(answer("{").replace("length: 1", "length: 99999999") + &"x".repeat(2_000_000)).await;
        let empty = listener(answer(r#"{"data":[]}"#)).await;
        let good = listener(answer(
            r#"{"data":[{"id":"Some-Embedder"},{"id":"qwen","max_model_len":4096,"created":"long ago"},{"id":"other"}]}"#,
        ))
        .await;
        let ports = [(silent, "a"), (endless, "b"), (empty, "c"), (1, "d"), (good, "e")];
        let found = find_local_server(&ports).await.unwrap();
        let expected = FoundServer {
            provider: "e",
            base_url: format!("http://127.0.0.1:{good}/v1"),
            model: "qwen".to_owned(),
            context_length: Some(4096),
        };
        assert_eq!(found, expected);
        assert_eq!(find_local_server(&[(1, "d")]).await, None);
    }

    #[tokio::test]
    async fn a_configured_server_of_this_host_tells_what_it_reads() {
        let port = listener(answer(
            r#"{"data":[{"id":"a","max_model_len":1},{"id":"b/c","meta":{"n_ctx":8192}},{"id":"d"}]}"#,
        ))
        .await;
        let base_url = format!("http://localhost:{port}/v1/");
        let key = Secret::from("k");
        assert_eq!(context_length(&base_url, Some(&key), "b/c").await, Some(8192));
        assert_eq!(context_length(&base_url, None, "d").await, None);
        assert_eq!(context_length(&base_url, None, "unknown").await, None);
        assert_eq!(context_length("http://127.0.0.1:1/v1", None, "a").await, None);
        assert_eq!(context_length("http://model.example/v1", None, "a").await, None);
        let silent = listener(String::new()).await;
        let base_url = format!("http://127.0.0.1:{silent}/v1");
        let asked = context_length(&base_url, None, "a");
        assert_eq!(tokio::time::timeout(PATIENCE * 3, asked).await, Ok(None));
    }

    #[test]
    fn lengths_have_many_names() {
        for (entry, expected) in [
            (r#"{"context_length":8192}"#, Some(8192)),
            (r#"{"max_context_length":4}"#, Some(4)),
            (r#"{"max_context_length":4,"loaded_context_length":2}"#, Some(2)),
            (r#"{"meta":{"n_ctx":16,"n_ctx_train":32}}"#, Some(16)),
            (r#"{"meta":{"n_ctx_train":32}}"#, Some(32)),
            (r#"{"meta":null,"max_model_len":0,"context_window":"big"}"#, None),
        ] {
            let entry: Value = serde_json::from_str(entry).unwrap();
            assert_eq!(length_of(&entry), expected, "{entry}");
        }
    }
}
