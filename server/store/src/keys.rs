//! API keys: hashes only.

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use talaria_openapi::auth::ApiKey;
use talaria_openapi::ids::{KeyId, ProfileId};
use talaria_openapi::time::Timestamp;
use tokio::sync::watch;

use crate::rows::{from_json, to_json};
use crate::writer::{Durability, Tx};
use crate::{Error, Result, Store};

macro_rules! select_key {
    ($rest:literal) => {
        concat!(
            "SELECT doc, secret_sha256, previous_sha256, previous_until, last_used_at FROM api_keys ",
            $rest
        )
    };
}

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
    /// Stores a new key.
    pub async fn create_key(&self, profile_id: ProfileId, row: KeyRow) -> Result<()> {
        self.writer
            .write(Durability::Full, move |tx| Box::pin(tx_put(tx, profile_id, row)))
            .await
    }

    /// Changes a key of a profile in one transaction, so that of two changes none is lost. Gives it as it is then.
    pub async fn change_key(
        &self,
        profile_id: ProfileId,
        key_id: KeyId,
        change: impl FnOnce(&mut KeyRow, Timestamp) + Send + 'static,
    ) -> Result<KeyRow> {
        let changed = self
            .writer
            .write(Durability::Full, move |tx| {
                Box::pin(async move {
                    let row = sqlx::query(select_key!("WHERE id = $1"))
                        .bind(key_id.to_string())
                        .fetch_optional(&mut tx.connection)
                        .await?;
                    let mut row = to_row(&row.ok_or(Error::NotFound)?)?;
                    if !row.key.profiles.contains(&profile_id) {
                        return Err(Error::NotFound);
                    }
                    change(&mut row, tx.now);
                    tx_put(tx, profile_id, row.clone()).await?;
                    Ok(row)
                })
            })
            .await?;
        self.keys_changed.send_modify(|changes| *changes += 1);
        Ok(changed)
    }

    /// Notes that a key was used now. Cheap: lost with the machine's last second, which nobody minds.
    pub async fn touch_key(&self, key_id: KeyId) -> Result<()> {
        self.writer
            .write(Durability::Delta, move |tx| {
                Box::pin(async move {
                    sqlx::query("UPDATE api_keys SET last_used_at = $2 WHERE id = $1")
                        .bind(key_id.to_string())
                        .bind(tx.now.as_millis())
                        .execute(&mut tx.connection)
                        .await?;
                    Ok(())
                })
            })
            .await
    }

    /// Changes whenever a key was changed or revoked: who acts for a key for long looks at it again then.
    #[must_use]
    pub fn keys_changed(&self) -> watch::Receiver<u64> {
        self.keys_changed.subscribe()
    }

    /// The key of an id, revoked or not; `None` when there is none.
    pub async fn find_key(&self, key_id: KeyId) -> Result<Option<KeyRow>> {
        let row = sqlx::query(select_key!("WHERE id = $1"))
            .bind(key_id.to_string())
            .fetch_optional(&self.readers)
            .await?;
        row.as_ref().map(to_row).transpose()
    }

    /// The keys of a profile, newest first.
    pub async fn list_keys(&self, profile_id: ProfileId, limit: u32) -> Result<Vec<ApiKey>> {
        let rows = sqlx::query(select_key!(
            "WHERE profile_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2"
        ))
        .bind(profile_id.to_string())
        .bind(limit)
        .fetch_all(&self.readers)
        .await?;
        rows.iter().map(|row| to_row(row).map(|row| row.key)).collect()
    }
}

async fn tx_put(tx: &mut Tx, profile_id: ProfileId, row: KeyRow) -> Result<()> {
    let (previous, until) = row
        .previous
        .map_or((None, None), |(hash, until)| (Some(hash), Some(until)));
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
}

fn to_row(row: &SqliteRow) -> Result<KeyRow> {
    let previous = match (row.get::<Option<String>, _>(2), row.get::<Option<i64>, _>(3)) {
        (Some(hash), Some(until)) => Some((hash, Timestamp::from_millis(until))),
        (None, None) => None,
        _ => return Err(Error::Corrupt { what: "key" }),
    };
    let mut key: ApiKey = from_json(row.get(0), "key")?;
    key.last_used_at = row.get::<Option<i64>, _>(4).map(Timestamp::from_millis);
    Ok(KeyRow {
        key,
        secret_sha256: row.get(1),
        previous,
    })
}
