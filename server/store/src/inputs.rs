//! Inputs: what clients sent, and its fate (I7).

use sqlx::Row as _;
use talaria_openapi::ids::{InputId, ProfileId, SessionId};
use talaria_openapi::inputs::Input;

use crate::rows::{from_json, name_of, to_json};
use crate::writer::Tx;
use crate::{Result, Store};

impl Store {
    /// One input.
    pub async fn get_input(&self, profile_id: ProfileId, input_id: InputId) -> Result<Input> {
        let doc: String = sqlx::query_scalar("SELECT doc FROM inputs WHERE id = $1 AND profile_id = $2")
            .bind(input_id.to_string())
            .bind(profile_id.to_string())
            .fetch_one(&self.readers)
            .await?;
        from_json(&doc, "input")
    }

    /// The inputs that wait in a chain, first one first.
    pub async fn list_queue(&self, profile_id: ProfileId, root_id: SessionId) -> Result<Vec<Input>> {
        let rows = sqlx::query(
            "SELECT inputs.doc FROM runs JOIN inputs ON inputs.id = runs.input_id \
             WHERE runs.root_id = $1 AND runs.profile_id = $2 AND runs.status = 'queued' ORDER BY runs.queued_seq",
        )
        .bind(root_id.to_string())
        .bind(profile_id.to_string())
        .fetch_all(&self.readers)
        .await?;
        rows.iter().map(|row| from_json(row.get(0), "input")).collect()
    }
}

impl Tx {
    /// Stores an input, new or changed.
    pub(crate) async fn put_input(&mut self, root_id: SessionId, profile_id: ProfileId, input: &Input) -> Result<()> {
        sqlx::query(
            "INSERT INTO inputs (id, root_id, profile_id, status, doc) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (id) DO UPDATE SET status = excluded.status, doc = excluded.doc",
        )
        .bind(input.id.to_string())
        .bind(root_id.to_string())
        .bind(profile_id.to_string())
        .bind(name_of(&input.status)?)
        .bind(to_json(input)?)
        .execute(&mut self.connection)
        .await?;
        Ok(())
    }

    /// One input, inside the transaction.
    pub(crate) async fn get_input(&mut self, input_id: InputId) -> Result<Input> {
        let doc: String = sqlx::query_scalar("SELECT doc FROM inputs WHERE id = $1")
            .bind(input_id.to_string())
            .fetch_one(&mut self.connection)
            .await?;
        from_json(&doc, "input")
    }
}
