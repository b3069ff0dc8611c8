//! The server and the key that the person logged in with: `<home>/client.json`, which nobody else can read.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::keyboard::read_hidden_line;
use crate::render;

/// Longest key that is read, in bytes.
const MAX_KEY: u64 = 8 * 1024;

/// What a login leaves behind.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Account {
    /// The server; the one on this host when left out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) url: Option<String>,
    /// Its key.
    pub(crate) key: String,
}

impl Account {
    /// The account of a home; `None` when nobody logged in.
    pub(crate) fn load(home: &Path) -> Result<Option<Self>> {
        let path = path(home);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::Local(format!("{} can't be read: {error}", path.display()))),
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|_| Error::Local(format!("{} is broken: log in again", path.display())))
    }

    /// Keeps it, in the place of the one before.
    pub(crate) fn save(&self, home: &Path) -> Result<()> {
        self.write(home)
            .map_err(|error| Error::Local(format!("{} can't be written: {error}", path(home).display())))
    }

    fn write(&self, home: &Path) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(home)?;
        // Written beside and moved: a full disk leaves the old one whole.
        let fresh = home.join("client.json.new");
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)?;
        // One that was left behind may be open to others.
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(fresh, path(home))
    }

    /// Forgets it; whether there was one.
    pub(crate) fn forget(home: &Path) -> Result<bool> {
        match std::fs::remove_file(path(home)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::Local(format!(
                "{} can't be removed: {error}",
                path(home).display()
            ))),
        }
    }
}

fn path(home: &Path) -> PathBuf {
    home.join("client.json")
}

/// The key that was given, or the one that is typed (unseen) or piped in where `-` was.
pub(crate) fn read_key(given: &str) -> Result<String> {
    let key = if given != "-" {
        render::notice("a key in a command line can be seen by others of this host; `--key -` reads it instead");
        given.to_owned()
    } else if std::io::stdin().is_terminal() {
        read_hidden_line("key: ")?
    } else {
        let mut text = String::new();
        let read = std::io::stdin().take(MAX_KEY).read_to_string(&mut text);
        read.map_err(|error| Error::Local(format!("standard input can't be read: {error}")))?;
        text
    };
    let key = key.trim();
    // Whatever else it holds, it must fit into a header.
    if key.is_empty() || !key.chars().all(|letter| letter.is_ascii_graphic()) {
        return Err(Error::Local(
            "this is no key: a key is one word of letters, digits and marks".to_owned(),
        ));
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_private_and_can_be_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        assert!(Account::load(&home).unwrap().is_none());
        let account = Account {
            url: Some("https://agent.example".to_owned()),
            key: "secret".to_owned(),
        };
        account.save(&home).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path(&home)), mode(&home)), (0o600, 0o700));
        let loaded = Account::load(&home).unwrap().unwrap();
        assert_eq!((loaded.url, loaded.key), (account.url, account.key));
        assert!(Account::forget(&home).unwrap());
        assert!(!Account::forget(&home).unwrap());
    }

    #[test]
    fn a_broken_file_is_no_account() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(path(folder.path()), "{").unwrap();
        assert!(Account::load(folder.path()).is_err_and(|error| error.to_string().contains("log in again")));
    }
}
