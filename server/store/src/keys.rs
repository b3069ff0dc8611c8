//! API keys: hashes only.

use sqlx::Row as _;
use talaria_openapi::auth::ApiKey;
use talaria_openapi::ids::{KeyId, ProfileId};
use talaria_openapi::time::Timestamp;

use crate::rows::{from_json, to_json};
use crate::writer::Durability;
use crate::{Error, Result, Store};

/// A key with what proves it.
#[derive(Debug, Clone)]
pub struct KeyRow {
    /// The key, without its secret.
    pub key: ApiKey,
    /// SHA-256 of the secret, in hexadecimal.
    pub secret_sha256: String,
    /// The one before a rotation, and until when it works.
    pub previous: Option<(String, Timestamp)>,
}

impl Store {
    /// Stores a key, new or changed.
    pub async fn put_key(&self, profile_id: ProfileId, row: KeyRow) -> Result<()> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(async move {
                    let (previous, until) = row.previous.map_or((None, None), |(hash, until)| (Some(hash), Some(until)));
                    sqlx::query(
                        "INSERT INTO api_keys (id, profile_id, secret_sha256, previous_sha256, previous_until, revoked_at, doc, created_at) \
                         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO UPDATE SET \
                         secret_sha256 = excluded.secret_sha256, previous_sha256 = excluded.previous_sha256, \
                         previous_until = excluded.previous_until, revoked_at = excluded.revoked_at, doc = excluded.doc",
                    )
                    .bind(row.key.id.to_string())
                    .bind(profile_id.to_string())
                    .bind(row.secret_sha256)
                    .bind(previous)
                    .bind(until.map(Timestamp::as_millis))
                    .bind(row.key.revoked_at.map(Timestamp::as_millis))
                    .bind(to_json(&row.key)?)
                    .bind(row.key.created_at.as_millis())
                    .execute(&mut tx.connection)
                    .await?;
                    Ok(())
                })
            })
            .await
    }

    /// The key of an id, revoked or not; `None` when there is none.
    pub async fn find_key(&self, key_id: KeyId) -> Result<Option<KeyRow>> {
        let row = sqlx::query("SELECT doc, secret_sha256, previous_sha256, previous_until FROM api_keys WHERE id = $1")
            .bind(key_id.to_string())
            .fetch_optional(&self.readers)
            .await?;
        row.as_ref().map(to_row).transpose()
    }

    /// The keys of a profile, newest first.
    pub async fn list_keys(&self, profile_id: ProfileId, limit: u32) -> Result<Vec<ApiKey>> {
        let rows =
            sqlx::query("SELECT doc FROM api_keys WHERE profile_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2")
                .bind(profile_id.to_string())
                .bind(limit)
                .fetch_all(&self.readers)
                .await?;
        rows.iter().map(|row| from_json(row.get(0), "key")).collect()
    }
}

fn to_row(row: &sqlx::sqlite::SqliteRow) -> Result<KeyRow> {
    let previous = match (row.get::<Option<String>, _>(2), row.get::<Option<i64>, _>(3)) {
        (Some(hash), Some(until)) => Some((hash, Timestamp::from_millis(until))),
        (None, None) => None,
        _ => return Err(Error::Corrupt { what: "key" }),
    };
    Ok(KeyRow {
        key: from_json(row.get(0), "key")?,
        secret_sha256: row.get(1),
        previous,
    })
}
