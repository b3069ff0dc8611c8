//! Inputs: what clients sent, and its fate (I7).

use sqlx::Row as _;
use talaria_openapi::events::EventBody;
use talaria_openapi::ids::{InputId, MessageId, ProfileId, RunId, SessionId};
use talaria_openapi::inputs::{Input, InputStatus};
use talaria_openapi::messages::{Message, MessageKind, MessageStatus, Role};
use talaria_openapi::runs::RunStatus;

use crate::rows::{from_json, name_of, to_json};
use crate::runs::RunRow;
use crate::writer::{Durability, Tx};
use crate::{Error, Result, Store};

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

    /// Puts what waits for a safe point of a run into its transcript, in the order of its arrival; gives the messages. For
    /// the run's owner: refused with [`Error::Fenced`] once the caller isn't, and while the run is being cancelled.
    pub async fn deliver_steers(&self, run_id: RunId, fence: i64) -> Result<Vec<Message>> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(tx_deliver_steers(tx, run_id, fence))
            })
            .await
    }
}

async fn tx_deliver_steers(tx: &mut Tx, run_id: RunId, fence: i64) -> Result<Vec<Message>> {
    let owned = tx.get_run(run_id).await?;
    if owned.fence != fence || owned.run.status != RunStatus::Running {
        return Err(Error::Fenced);
    }
    let rows = sqlx::query("SELECT doc FROM inputs WHERE steers = $1 ORDER BY accepted_seq")
        .bind(run_id.to_string())
        .fetch_all(&mut tx.connection)
        .await?;
    let mut told = Vec::with_capacity(rows.len());
    for row in rows {
        let input: Input = from_json(row.get(0), "input")?;
        told.push(tx.deliver(&owned, input, MessageKind::Steer).await?);
    }
    Ok(told)
}

impl Tx {
    /// An input enters the transcript, as a message of its person.
    pub(crate) async fn deliver(&mut self, row: &RunRow, mut input: Input, kind: MessageKind) -> Result<Message> {
        let place = row.place();
        let mut message = Message {
            id: MessageId::new(),
            object: "message".into(),
            session_id: place.session_id,
            run_id: place.run_id,
            seq: 0,
            role: Role::User,
            status: MessageStatus::Completed,
            parts: input.content.clone(),
            model: None,
            finish_reason: None,
            usage: None,
            kind,
            superseded: false,
            created_at: self.now,
            completed_at: Some(self.now),
        };
        let (input_id, message_id) = (input.id, message.id);
        message.seq = self.put_message(place, row.run.profile_id, message.clone()).await?;
        input.delivered_seq = Some(message.seq);
        input.status = InputStatus::Delivered;
        self.put_input(place.root_id, row.run.profile_id, &input).await?;
        sqlx::query("UPDATE inputs SET steers = NULL WHERE id = $1 AND steers IS NOT NULL")
            .bind(input_id.to_string())
            .execute(&mut self.connection)
            .await?;
        self.append(place, &EventBody::InputDelivered { input_id, message_id })
            .await?;
        Ok(message)
    }

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
