//! Keys that sign tokens, sealed: the store never sees what is inside.

use sqlx::Row as _;

use crate::writer::Durability;
use crate::{Result, Store};

/// A signing key, encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedKey {
    /// Names its public half.
    pub kid: String,
    /// The private half, encrypted with the master key.
    pub sealed: Vec<u8>,
}

impl Store {
    /// The key that signs now: the newest one.
    pub async fn signing_key(&self) -> Result<Option<SealedKey>> {
        let row = sqlx::query("SELECT kid, sealed FROM signing_keys ORDER BY created_at DESC, kid LIMIT 1")
            .fetch_optional(&self.readers)
            .await?;
        Ok(row.map(|row| SealedKey {
            kid: row.get("kid"),
            sealed: row.get("sealed"),
        }))
    }

    /// Stores a new key; it signs from now on.
    pub async fn put_signing_key(&self, key: SealedKey) -> Result<()> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(async move {
                    sqlx::query("INSERT INTO signing_keys (kid, sealed, created_at) VALUES ($1, $2, $3)")
                        .bind(key.kid)
                        .bind(key.sealed)
                        .bind(tx.now.as_millis())
                        .execute(&mut tx.connection)
                        .await?;
                    Ok(())
                })
            })
            .await
    }
}
