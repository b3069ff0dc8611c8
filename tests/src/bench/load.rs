//! Clients that cost little: plain sockets, answers searched for the few bytes that matter.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::process::Process;
use super::{Result, as_f64, median};

/// What `clients` at the same time got.
pub(super) struct Cell {
    pub(super) turns_per_s: f64,
    pub(super) first_ms: f64,
    pub(super) whole_ms: f64,
    pub(super) cpu_ms: f64,
}

pub(super) struct Load<'a> {
    server: &'a Process,
    turn: Arc<[u8]>,
}

struct Turn {
    first_ms: f64,
    whole_ms: f64,
}

impl<'a> Load<'a> {
    pub(super) fn of(server: &'a Process) -> Self {
        let turn = request(
            server,
            "POST /v1/runs",
            "text/event-stream",
            r#"{"input":"say 200 words"}"#,
        )
        .into();
        Self { server, turn }
    }

    /// Turns one after another, each in a session of its own, from this many clients.
    pub(super) async fn cell(&self, clients: usize, length: Duration) -> Result<Cell> {
        let (cpu, begun) = (self.server.cpu_ms()?, Instant::now());
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let (address, bytes) = (self.server.address, Arc::clone(&self.turn));
            tasks.spawn(async move {
                let mut client = Client::connect(address).await?;
                let mut turns = Vec::new();
                while begun.elapsed() < length {
                    turns.push(client.turn(&bytes).await?);
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(turns)
            });
        }
        let mut turns = Vec::new();
        while let Some(done) = tasks.join_next().await {
            turns.extend(done??);
        }
        let (elapsed, count) = (begun.elapsed().as_secs_f64(), as_f64(turns.len() as u64));
        Ok(Cell {
            turns_per_s: count / elapsed,
            first_ms: median(turns.iter().map(|turn| turn.first_ms).collect()),
            whole_ms: median(turns.iter().map(|turn| turn.whole_ms).collect()),
            cpu_ms: (self.server.cpu_ms()? - cpu) / count,
        })
    }

    /// One turn of each of this many clients, all at once. Gives the seconds to the end of the last.
    pub(super) async fn burst(&self, clients: usize) -> Result<f64> {
        let begun = Instant::now();
        self.cell(clients, Duration::from_millis(1)).await?;
        Ok(begun.elapsed().as_secs_f64())
    }

    pub(super) async fn make_sessions(&self, count: usize) -> Result<()> {
        let bytes = request(self.server, "POST /v1/sessions", "application/json", "{}");
        let mut client = Client::connect(self.server.address).await?;
        for _ in 0..count {
            client.stream.write_all(&bytes).await?;
            client.until(b"\r\n\r\n").await?;
            client.buffer.clear();
        }
        Ok(())
    }
}

fn request(server: &Process, line: &str, accept: &str, body: &str) -> Vec<u8> {
    let (address, token) = (server.address, &server.token);
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\naccept: {accept}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    async fn turn(&mut self, request: &[u8]) -> Result<Turn> {
        let begun = Instant::now();
        let passed = || begun.elapsed().as_secs_f64() * 1e3;
        self.stream.write_all(request).await?;
        self.until(b"event: text.delta").await?;
        let first_ms = passed();
        self.until(b"event: run.completed").await?;
        let whole_ms = passed();
        // The last chunk, so that the connection serves the next turn.
        self.until(b"\r\n0\r\n\r\n").await?;
        self.buffer.clear();
        Ok(Turn { first_ms, whole_ms })
    }

    /// Reads until these bytes have come; drops what stands before them.
    async fn until(&mut self, wanted: &[u8]) -> Result<()> {
        let mut searched = 0;
        loop {
            let from = searched.min(self.buffer.len());
            let tail = self.buffer.get(from..).unwrap_or_default();
            if let Some(at) = tail.windows(wanted.len()).position(|window| window == wanted) {
                self.buffer.drain(..from + at);
                return Ok(());
            }
            searched = self.buffer.len().saturating_sub(wanted.len());
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                let got = String::from_utf8_lossy(&self.buffer).into_owned();
                return Err(format!("an answer ended without `{}`: {got}", String::from_utf8_lossy(wanted)).into());
            }
        }
    }
}
