//! A server as its own process, in a home of its own, so that it can be killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use talaria_client::Client;

use crate::model_script::ModelScript;

const START_PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub struct TestServer {
    folder: tempfile::TempDir,
    log_path: PathBuf,
    has_own_disk: bool,
    program: PathBuf,
    child: Option<Child>,
    /// Speaks to it as the person who owns the home.
    pub client: Client,
    /// Where it listens, without a slash at the end.
    pub base_url: String,
    /// The local credential.
    pub token: String,
}

impl TestServer {
    /// Starts `program` (the path that cargo gives to tests) with a scripted model.
    pub async fn start(program: &str, model: &ModelScript) -> Self {
        Self::start_with(program, model, "").await
    }

    /// As [`TestServer::start`], with more lines at the end of the configuration, which is its section `server`.
    pub async fn start_with(program: &str, model: &ModelScript, more: &str) -> Self {
        let mut server = Self::prepare(program, model, more);
        server.restart().await;
        server
    }

    /// A home and a workspace, and nothing that runs yet: [`TestServer::restart`] starts it.
    pub fn prepare(program: &str, model: &ModelScript, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("home")).unwrap();
        std::fs::create_dir_all(folder.path().join("ws")).unwrap();
        let config = format!(
            "model: script/test\nproviders:\n  script:\n    kind: openai_chat\n    base_url: {}\nserver:\n  listen: 127.0.0.1:0\n{more}",
            model.base_url
        );
        std::fs::write(folder.path().join("home/config.yaml"), config).unwrap();
        let client = Client::new("http://127.0.0.1:1", None, None).unwrap();
        let (base_url, token) = (String::new(), String::new());
        Self {
            log_path: folder.path().join("log"),
            folder,
            has_own_disk: false,
            program: program.into(),
            child: None,
            client,
            base_url,
            token,
        }
    }

    /// The folder that tools work in.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("ws").canonicalize().unwrap()
    }

    /// Its home.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Ends the process at once, as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Tells the process to stop and waits; gives its exit code. The scripted model goes on meanwhile.
    pub async fn stop(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let waited = tokio::task::spawn_blocking(move || child.wait()).await;
        waited.unwrap().unwrap().code()
    }

    /// Starts the process again in the same home.
    pub async fn restart(&mut self) {
        let program = Command::new(&self.program);
        self.spawn(program, None).await;
    }

    /// Starts the process with its home on a disk of its own of this size, which nobody else sees. What was in the home
    /// is copied onto it. Needs Linux and `unshare`.
    pub async fn start_on_small_disk(&mut self, size: &str) {
        self.has_own_disk = true;
        let script = r#"cp -r "$1" "$1.kept" && mount -t tmpfs -o size="$2" tmpfs "$1" && cp -r "$1.kept/." "$1/" &&
            program="$3" && shift 3 && exec "$program" "$@""#;
        let mut program = Command::new("unshare");
        program
            .args(["-rm", "sh", "-c", script, "sh"])
            .arg(self.home())
            .arg(size)
            .arg(&self.program);
        self.spawn(program, None).await;
    }

    /// Its home as its process sees it.
    pub fn home_inside(&self) -> PathBuf {
        let home = self.home();
        if !self.has_own_disk {
            return home;
        }
        let pid = self.child.as_ref().map(Child::id).unwrap();
        PathBuf::from(format!("/proc/{pid}/root")).join(home.strip_prefix("/").unwrap())
    }

    /// Starts the process with a credential that a person chose.
    pub async fn start_with_token(&mut self, token: &str) {
        let program = Command::new(&self.program);
        self.spawn(program, Some(token)).await;
    }

    async fn spawn(&mut self, mut command: Command, token: Option<&str>) {
        self.kill();
        drop(std::fs::remove_file(self.home().join("server.json")));
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log_path)
            .unwrap();
        command
            .env_remove("TALARIA_TOKEN")
            .envs(token.map(|token| ("TALARIA_TOKEN", token)));
        let child = command
            .args(["serve", "--home"])
            .arg(self.home())
            .current_dir(self.workspace())
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        let address = self.address().await.replace("0.0.0.0", "127.0.0.1");
        self.base_url = format!("http://{address}");
        self.token = match token {
            Some(token) => token.to_owned(),
            None => std::fs::read_to_string(self.home_inside().join("token"))
                .unwrap()
                .trim()
                .to_owned(),
        };
        self.client = Client::new(&self.base_url, Some(self.token.clone()), None).unwrap();
        assert!(self.client.is_alive().await, "{}", self.log());
    }

    async fn address(&self) -> String {
        let until = Instant::now() + START_PATIENCE;
        loop {
            let text = std::fs::read_to_string(self.home_inside().join("server.json")).unwrap_or_default();
            if let Ok(file) = serde_json::from_str::<Value>(&text) {
                return file["address"].as_str().unwrap().to_owned();
            }
            assert!(Instant::now() < until, "the server doesn't start:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Makes the server log to another file from its next start on.
    pub fn log_to(&mut self, path: &Path) {
        path.clone_into(&mut self.log_path);
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        if self.log_path.is_file() {
            std::fs::read_to_string(&self.log_path).unwrap_or_default()
        } else {
            String::new()
        }
    }

    /// The path of its database.
    pub fn database(&self) -> PathBuf {
        self.home().join("talaria.db")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The root of the repository.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or_else(|| panic!("a parent"))
}
