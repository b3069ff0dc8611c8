//! Profiles: the walls.

use sqlx::Row as _;
use talaria_openapi::ids::ProfileId;

use crate::rows::id;
use crate::writer::Durability;
use crate::{Result, Store};

/// A profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its id.
    pub id: ProfileId,
    /// Its name, unique on the server.
    pub name: String,
}

impl Store {
    /// The profile of a name; made when it doesn't exist yet.
    pub async fn ensure_profile(&self, name: &'static str) -> Result<Profile> {
        let fresh = ProfileId::new();
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(async move {
                    sqlx::query(
                        "INSERT INTO profiles (id, name, created_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING",
                    )
                    .bind(fresh.to_string())
                    .bind(name)
                    .bind(tx.now.as_millis())
                    .execute(&mut tx.connection)
                    .await?;
                    let row = sqlx::query("SELECT id FROM profiles WHERE name = $1")
                        .bind(name)
                        .fetch_one(&mut tx.connection)
                        .await?;
                    Ok(Profile {
                        id: id(row.get("id"))?,
                        name: name.to_owned(),
                    })
                })
            })
            .await
    }
}
