//! Files of sessions: a row in the database, the bytes in the folder of blobs under the file's id.
//!
//! The bytes come first and are synced, the row second: a row never points at nothing. Bytes without a row, left by a crash
//! in between or by a deleted chain, are swept at the next start.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use sqlx::Row as _;
use talaria_openapi::files::File;
use talaria_openapi::ids::{FileId, ProfileId, SessionId};

use crate::rows::{from_json, to_json};
use crate::writer::Tx;
use crate::{Error, Result, Store};

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// How many bytes.
    pub size_bytes: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
}

impl Store {
    /// Writes the bytes of a file, synced. The file exists once its row does: see [`crate::Step::File`].
    pub async fn write_blob(&self, file_id: FileId, bytes: Vec<u8>) -> Result<Blob> {
        let path = self.blob_path(file_id);
        blocking(move || {
            write_synced(&path, &bytes)?;
            let sha256 = Sha256::digest(&bytes)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            Ok(Blob {
                size_bytes: bytes.len() as u64,
                sha256,
            })
        })
        .await
    }

    /// Gives a new file the bytes of one that exists, synced. Files never change, so both may be one on the disk.
    pub(crate) async fn copy_blob(&self, from: FileId, to: FileId) -> Result<()> {
        let (from, to) = (self.blob_path(from), self.blob_path(to));
        blocking(move || {
            if std::fs::hard_link(&from, &to).is_err() {
                std::fs::copy(&from, &to)?;
                std::fs::File::open(&to)?.sync_all()?;
            }
            std::fs::File::open(to.parent().unwrap_or(&to))?.sync_all()
        })
        .await
    }

    /// Where the bytes of a file are.
    #[must_use]
    pub fn blob_path(&self, file_id: FileId) -> PathBuf {
        self.blobs.join(file_id.to_string())
    }

    /// A file of a profile.
    pub async fn get_file(&self, profile_id: ProfileId, file_id: FileId) -> Result<File> {
        let doc: String = sqlx::query_scalar("SELECT doc FROM files WHERE id = $1 AND profile_id = $2")
            .bind(file_id.to_string())
            .bind(profile_id.to_string())
            .fetch_one(&self.readers)
            .await?;
        from_json(&doc, "file")
    }

    /// Removes bytes that no row speaks of. Only before anything is served: a file that is being made has no row yet.
    pub(crate) async fn sweep_blobs(&self) -> Result<()> {
        let rows = sqlx::query("SELECT id FROM files").fetch_all(&self.readers).await?;
        let known: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let folder = std::sync::Arc::clone(&self.blobs);
        blocking(move || {
            let entries = match std::fs::read_dir(&*folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                if !known.contains(&*entry.file_name().to_string_lossy()) {
                    std::fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Removes the bytes of files whose rows are gone. What can't be removed now is swept at the next start.
    pub(crate) async fn remove_blobs(&self, file_ids: Vec<FileId>) {
        let paths: Vec<PathBuf> = file_ids.into_iter().map(|id| self.blob_path(id)).collect();
        let removed = blocking(move || paths.iter().try_for_each(std::fs::remove_file)).await;
        if let Err(error) = removed {
            tracing::warn!(error = %error, "files of a deleted session could not be removed: {error}");
        }
    }
}

impl Tx {
    pub(crate) async fn put_file(&mut self, root_id: SessionId, profile_id: ProfileId, file: &File) -> Result<()> {
        sqlx::query("INSERT INTO files (id, root_id, profile_id, doc, created_at) VALUES ($1, $2, $3, $4, $5)")
            .bind(file.id.to_string())
            .bind(root_id.to_string())
            .bind(profile_id.to_string())
            .bind(to_json(file)?)
            .bind(file.created_at.as_millis())
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    /// The files of a chain.
    pub(crate) async fn files_of(&mut self, root_id: SessionId) -> Result<Vec<FileId>> {
        let rows = sqlx::query("SELECT id FROM files WHERE root_id = $1")
            .bind(root_id.to_string())
            .fetch_all(&mut self.connection)
            .await?;
        rows.iter().map(|row| crate::rows::id(row.get(0))).collect()
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::File::open(folder)?.sync_all()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| Error::Unavailable(error.to_string())),
        Err(_) => Err(Error::Unavailable("the work on a file broke".to_owned())),
    }
}
