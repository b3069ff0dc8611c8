//! The server that is measured.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Result;

const PATIENCE: Duration = Duration::from_secs(20);
/// How often the kernel counts a tick of CPU time, on every Linux there is.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) token: String,
    /// From its spawn to its first healthy answer.
    pub(super) start_ms: f64,
}

impl Process {
    /// Starts `program` with its home in `folder`.
    pub(super) async fn start(program: &Path, folder: &Path, config: &str) -> Result<Self> {
        let (home, workspace) = (folder.join("home"), folder.join("workspace"));
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&workspace)?;
        std::fs::write(
            home.join("config.yaml"),
            format!("{config}server:\n  listen: 127.0.0.1:0\n"),
        )?;
        let begun = Instant::now();
        let child = Command::new(program)
            .args(["serve", "--log", "warn", "--home"])
            .arg(&home)
            .current_dir(workspace)
            .env_remove("TALARIA_TOKEN")
            .stdin(Stdio::null())
            .spawn()?;
        let address = first_healthy(&home.join("server.json"), child.id()).await?;
        let start_ms = begun.elapsed().as_secs_f64() * 1e3;
        let token = std::fs::read_to_string(home.join("token"))?.trim().to_owned();
        Ok(Self {
            child,
            address,
            token,
            start_ms,
        })
    }

    /// A line of `/proc/<pid>/status` that is in kB.
    pub(super) fn memory_mb(&self, field: &str) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find(|line| line.starts_with(field))
            .ok_or("no such field")?;
        let kb: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
        Ok(kb / 1024.0)
    }

    /// CPU time so far.
    pub(super) fn cpu_ms(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name before the last parenthesis may hold blanks.
        let (_, rest) = stat.rsplit_once(')').ok_or("no name")?;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Ok(ticks.sum::<std::result::Result<f64, _>>()? * 1e3 / TICKS_PER_SECOND)
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )?;
        tokio::task::spawn_blocking(move || self.child.wait()).await??;
        Ok(())
    }
}

async fn first_healthy(server_file: &Path, pid: u32) -> Result<SocketAddr> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let text = std::fs::read_to_string(server_file).unwrap_or_default();
        let file: Value = serde_json::from_str(&text).unwrap_or_default();
        if file["pid"] == pid {
            let address = file["address"].as_str().unwrap_or_default().parse()?;
            if is_healthy(address).await.unwrap_or(false) {
                return Ok(address);
            }
        }
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    Err("the server doesn't start; run it by hand to see why".into())
}

async fn is_healthy(address: SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}
