//! Looks for a model server on this host.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;

use crate::http_client;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_millis(300);

/// A model server that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundServer {
    /// What it is.
    pub provider: &'static str,
    /// Where it is.
    pub base_url: String,
    /// The first model that it has.
    pub model: String,
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<ModelEntry>,
}

#[derive(Deserialize)]
struct ModelEntry {
    id: String,
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
    let request = http_client::client()
        .ok()?
        .get(format!("{base_url}/models"))
        .timeout(PATIENCE);
    let list: ModelList = request.send().await.ok()?.error_for_status().ok()?.json().await.ok()?;
    let model = list.data.into_iter().next()?.id;
    Some(FoundServer {
        provider,
        base_url,
        model,
    })
}
