//! Looks for a model server on this host.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;

use crate::http_client;

/// How long a server may take to take the call, and then to answer.
const PATIENCE: Duration = Duration::from_millis(300);
/// Longest list of models that is read.
const MAX_LIST_BYTES: usize = 1024 * 1024;

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

#[derive(Deserialize)]
struct ModelList {
    data: Vec<ModelEntry>,
}

#[derive(Deserialize)]
struct ModelEntry {
    id: String,
    /// OpenRouter.
    context_length: Option<u64>,
    /// vLLM.
    max_model_len: Option<u64>,
    /// LM Studio.
    max_context_length: Option<u64>,
    /// llama.cpp.
    meta: Option<ModelMeta>,
}

#[derive(Deserialize)]
struct ModelMeta {
    n_ctx: Option<u64>,
}

impl ModelEntry {
    fn context_length(&self) -> Option<u64> {
        let of_meta = self.meta.as_ref().and_then(|meta| meta.n_ctx);
        self.context_length
            .or(self.max_model_len)
            .or(self.max_context_length)
            .or(of_meta)
    }
}

/// The first of these ports, in their order, where a server lists a model. Only loopback is asked.
pub async fn find_local_server(ports: &[(u16, &'static str)]) -> Option<FoundServer> {
    let asked = join_all(ports.iter().map(|(port, provider)| ask(*port, provider))).await;
    asked.into_iter().flatten().next()
}

async fn ask(port: u16, provider: &'static str) -> Option<FoundServer> {
    // Before any HTTP client is built: on most hosts nothing listens, which is known at once.
    let connected = tokio::time::timeout(PATIENCE, tokio::net::TcpStream::connect(("127.0.0.1", port))).await;
    drop(connected.ok()?.ok()?);
    let base_url = format!("http://127.0.0.1:{port}/v1");
    let body = tokio::time::timeout(PATIENCE, list(&base_url)).await.ok()??;
    let list: ModelList = serde_json::from_slice(&body).ok()?;
    let entry = list.data.into_iter().next()?;
    Some(FoundServer {
        provider,
        base_url,
        context_length: entry.context_length(),
        model: entry.id,
    })
}

/// What a server says of its models. Whatever listens on such a port may be no model server at all: it is read up to a limit.
async fn list(base_url: &str) -> Option<Vec<u8>> {
    let request = http_client::client_for(base_url)
        .ok()?
        .get(format!("{base_url}/models"));
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
            r#"{"data":[{"id":"qwen","max_model_len":4096},{"id":"other"}]}"#,
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

    #[test]
    fn lengths_have_many_names() {
        for (entry, expected) in [
            (r#"{"id":"a","context_length":8192}"#, Some(8192)),
            (r#"{"id":"a","max_context_length":4}"#, Some(4)),
            (r#"{"id":"a","meta":{"n_ctx":16,"n_ctx_train":32}}"#, Some(16)),
            (r#"{"id":"a","meta":null}"#, None),
        ] {
            let entry: ModelEntry = serde_json::from_str(entry).unwrap();
            assert_eq!(entry.context_length(), expected);
        }
    }
}
