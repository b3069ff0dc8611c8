//! Which paths the agent may touch: inside the session's workspace, and never the server's home or a folder of credentials.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Folders and files of credentials, under a person's home. The sandbox of child processes obeys the same table.
pub const CREDENTIALS: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".gnupg",
    ".kube",
    ".docker/config.json",
    ".netrc",
    ".git-credentials",
    ".config/gh",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    "Library/Keychains",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
];

/// The kernel's own files: `/proc/self/environ` alone shows every key of the server.
const KERNEL: &[&str] = &["/proc", "/sys", "/dev"];

/// What no tool may touch.
#[derive(Debug, Clone)]
pub struct DeniedPaths {
    server_home: PathBuf,
    credentials: Vec<PathBuf>,
}

impl DeniedPaths {
    /// The server's home (canonical), and the credentials of the person who runs it.
    #[must_use]
    pub fn new(server_home: &Path, user_home: Option<&Path>) -> Self {
        let user_home = user_home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
        let credentials = user_home
            .iter()
            .flat_map(|home| CREDENTIALS.iter().map(|name| home.join(name)));
        let credentials = credentials.map(|path| path.canonicalize().unwrap_or(path)).collect();
        Self {
            server_home: server_home.to_owned(),
            credentials,
        }
    }

    /// Whether a canonical path is out of bounds for a session that works in `workspace`.
    #[must_use]
    pub fn is_denied(&self, path: &Path, workspace: &Path) -> bool {
        let is_in_home = path.starts_with(&self.server_home);
        // A workspace inside the home is the session's own; the rest of the home is not.
        let is_own =
            workspace.starts_with(&self.server_home) && workspace != self.server_home && path.starts_with(workspace);
        (is_in_home && !is_own) || self.is_credential(path) || is_kernels(path)
    }

    /// The server's home.
    #[must_use]
    pub fn server_home(&self) -> &Path {
        &self.server_home
    }

    /// All folders and files of it, canonical; those that don't exist too.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        let credentials = self.credentials.iter().map(PathBuf::as_path);
        std::iter::once(self.server_home.as_path()).chain(credentials)
    }

    fn is_credential(&self, path: &Path) -> bool {
        self.credentials.iter().any(|denied| path.starts_with(denied))
    }
}

fn is_kernels(path: &Path) -> bool {
    KERNEL.iter().any(|denied| path.starts_with(denied))
}

/// Whether a canonical folder may be a workspace: a folder under one of the roots, not the server's home itself, and no
/// folder of credentials. The reason is for people.
pub fn workspace_allowed(path: &Path, roots: &[PathBuf], denied: &DeniedPaths) -> Result<(), String> {
    let shown = path.display();
    if !path.is_dir() {
        return Err(format!("{shown} is not a folder"));
    }
    if path == denied.server_home {
        return Err(format!(
            "{shown} is the server's home, which holds its keys: name a folder inside it, or another one"
        ));
    }
    if denied.is_credential(path) {
        return Err(format!("{shown} holds credentials"));
    }
    if is_kernels(path) || path.parent().is_none() {
        return Err(format!("{shown} is the system's: name a folder of your own"));
    }
    if !roots.iter().any(|root| path.starts_with(root)) {
        let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        return Err(format!(
            "{shown} is in none of the workspace roots ({}): see `agent.workspace_roots`",
            roots.join(", ")
        ));
    }
    Ok(())
}

/// Why a path is refused; for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No path at all.
    #[error("the path is empty: name a file, such as `src/main.rs`")]
    Empty,
    /// A person's home, in a shell's words.
    #[error(
        "`{0}`: `~` is not understood here: name a path inside the workspace, relative to it (a name that begins with ~ \
         is written `./{0}`)"
    )]
    Home(String),
    /// Outside the workspace.
    #[error("`{0}` is outside the workspace: name a path inside it, relative to it")]
    Outside(String),
    /// Out of bounds.
    #[error("`{0}` is out of bounds: it holds keys or credentials")]
    Denied(String),
    /// The host says no.
    #[error("`{path}` can't be used: {reason}")]
    Host {
        /// The path.
        path: String,
        /// Why.
        reason: String,
    },
}

/// The canonical path of what a model names. Symbolic links are followed first; what doesn't exist yet is judged by the
/// folder that it would be in.
pub fn resolve(named: &str, workspace: &Path, denied: &DeniedPaths) -> Result<PathBuf, PathError> {
    if named.trim().is_empty() {
        return Err(PathError::Empty);
    }
    if named.contains('\0') {
        return Err(PathError::Host {
            path: named.replace('\0', "\u{fffd}"),
            reason: "it holds a NUL".to_owned(),
        });
    }
    // Models mean somebody's home by it: a folder named `~` in the workspace is never what was asked for.
    if named.trim_start().starts_with('~') {
        return Err(PathError::Home(named.to_owned()));
    }
    let path = canonical(&workspace.join(named), named)?;
    if denied.is_denied(&path, workspace) {
        return Err(PathError::Denied(named.to_owned()));
    }
    if !path.starts_with(workspace) {
        return Err(PathError::Outside(named.to_owned()));
    }
    Ok(path)
}

/// Canonical as far as it exists; the rest must be plain names.
fn canonical(path: &Path, named: &str) -> Result<PathBuf, PathError> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = path.to_owned();
    loop {
        // `symlink_metadata` also sees a link that points nowhere, which must not count as a plain name.
        if existing.symlink_metadata().is_ok() {
            break;
        }
        match existing.components().next_back() {
            Some(Component::Normal(name)) => missing.push(name.to_owned()),
            Some(Component::CurDir) => {}
            _ => return Err(PathError::Outside(named.to_owned())),
        }
        existing.pop();
    }
    let host = |error: std::io::Error| PathError::Host {
        path: named.to_owned(),
        reason: error.to_string(),
    };
    let mut whole = existing.canonicalize().map_err(host)?;
    whole.extend(missing.iter().rev());
    Ok(whole)
}

/// A path as people and models read it: relative to the workspace.
#[must_use]
pub fn shown(path: &Path, workspace: &Path) -> String {
    let relative = path.strip_prefix(workspace).unwrap_or(path);
    if relative.as_os_str().is_empty() {
        ".".to_owned()
    } else {
        relative.display().to_string()
    }
}
