//! Messages: the transcript.

use sqlx::Row as _;
use talaria_openapi::events::{Event, EventBody};
use talaria_openapi::ids::{MessageId, ProfileId, RunId, SessionId};
use talaria_openapi::messages::{Message, MessageStatus, Part, Role};

use crate::events::Place;
use crate::rows::{from_json, name_of, to_json};
use crate::writer::Tx;
use crate::{Result, Store};

/// Which messages of a session.
#[derive(Debug, Clone, Default)]
pub struct MessageFilter {
    /// Of one role.
    pub role: Option<Role>,
    /// Of one run.
    pub run_id: Option<RunId>,
    /// After this number.
    pub after_seq: i64,
    /// Before this number; for pages in falling order.
    pub before_seq: Option<i64>,
    /// Also those that a rewind took out of the transcript.
    pub with_superseded: bool,
    /// Newest first.
    pub is_descending: bool,
}

impl Store {
    /// The messages of a session.
    pub async fn list_messages(
        &self,
        profile_id: ProfileId,
        session_id: SessionId,
        filter: &MessageFilter,
        limit: u32,
    ) -> Result<Vec<Message>> {
        const ASCENDING: &str = "SELECT doc FROM messages WHERE session_id = $1 AND profile_id = $2 AND seq > $3 \
             AND ($4 IS NULL OR seq < $4) AND ($5 IS NULL OR role = $5) AND ($6 IS NULL OR run_id = $6) AND ($8 OR superseded = 0) \
             ORDER BY seq LIMIT $7";
        const DESCENDING: &str = "SELECT doc FROM messages WHERE session_id = $1 AND profile_id = $2 AND seq > $3 \
             AND ($4 IS NULL OR seq < $4) AND ($5 IS NULL OR role = $5) AND ($6 IS NULL OR run_id = $6) AND ($8 OR superseded = 0) \
             ORDER BY seq DESC LIMIT $7";
        let rows = sqlx::query(if filter.is_descending { DESCENDING } else { ASCENDING })
            .bind(session_id.to_string())
            .bind(profile_id.to_string())
            .bind(filter.after_seq)
            .bind(filter.before_seq)
            .bind(filter.role.as_ref().map(name_of).transpose()?)
            .bind(filter.run_id.map(|id| id.to_string()))
            .bind(limit)
            .bind(filter.with_superseded)
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(|row| from_json(row.get(0), "message")).collect()
    }

    /// The transcript of a session, oldest first: what the model's history is made from.
    pub async fn history(&self, session_id: SessionId) -> Result<Vec<Message>> {
        let rows = sqlx::query("SELECT doc FROM messages WHERE session_id = $1 AND superseded = 0 ORDER BY seq")
            .bind(session_id.to_string())
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(|row| from_json(row.get(0), "message")).collect()
    }

    /// One message, whole.
    pub async fn get_message(
        &self,
        profile_id: ProfileId,
        session_id: SessionId,
        message_id: MessageId,
    ) -> Result<Message> {
        let doc: String =
            sqlx::query_scalar("SELECT doc FROM messages WHERE id = $1 AND session_id = $2 AND profile_id = $3")
                .bind(message_id.to_string())
                .bind(session_id.to_string())
                .bind(profile_id.to_string())
                .fetch_one(&self.readers)
                .await?;
        from_json(&doc, "message")
    }

    /// The messages of a chain that are still being said, put together from their deltas up to `until_seq`.
    pub async fn open_messages(&self, root_id: SessionId, until_seq: i64) -> Result<Vec<Message>> {
        let rows = sqlx::query("SELECT doc FROM messages WHERE root_id = $1 AND status = 'in_progress' AND seq <= $2")
            .bind(root_id.to_string())
            .bind(until_seq)
            .fetch_all(&self.readers)
            .await?;
        let mut messages = Vec::with_capacity(rows.len());
        for row in rows {
            let mut message: Message = from_json(row.get(0), "message")?;
            self.add_deltas(root_id, until_seq, &mut message).await?;
            messages.push(message);
        }
        Ok(messages)
    }

    async fn add_deltas(&self, root_id: SessionId, until_seq: i64, message: &mut Message) -> Result<()> {
        let rows = sqlx::query(
            "SELECT payload FROM events WHERE root_id = $1 AND seq > $2 AND seq <= $3 \
             AND type IN ('text.delta', 'reasoning.delta') ORDER BY seq",
        )
        .bind(root_id.to_string())
        .bind(message.seq)
        .bind(until_seq)
        .fetch_all(&self.readers)
        .await?;
        for row in rows {
            let event: Event = from_json(row.get(0), "event")?;
            match event.body {
                EventBody::TextDelta {
                    message_id, part, text, ..
                } if message_id == message.id => {
                    let fresh = || Part::Text { text: String::new() };
                    extend(message, part, &text, fresh);
                }
                EventBody::ReasoningDelta {
                    message_id, part, text, ..
                } if message_id == message.id => {
                    let fresh = || Part::Reasoning { text: String::new() };
                    extend(message, part, &text, fresh);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn extend(message: &mut Message, part: u32, more: &str, fresh: impl Fn() -> Part) {
    let index = part as usize;
    while message.parts.len() <= index {
        message.parts.push(fresh());
    }
    if let Some(Part::Text { text } | Part::Reasoning { text }) = message.parts.get_mut(index) {
        text.push_str(more);
    }
}

impl Tx {
    /// Stores a message under the number of its event, appends the event, and makes a whole one searchable.
    pub(crate) async fn put_message(
        &mut self,
        place: Place,
        profile_id: ProfileId,
        mut message: Message,
    ) -> Result<i64> {
        let seq = self.next_seq(place.root_id).await?;
        message.seq = seq;
        sqlx::query(
            "INSERT INTO messages (id, root_id, session_id, profile_id, run_id, seq, role, status, doc, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
             ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, status = excluded.status, doc = excluded.doc",
        )
        .bind(message.id.to_string())
        .bind(place.root_id.to_string())
        .bind(place.session_id.to_string())
        .bind(profile_id.to_string())
        .bind(place.run_id.map(|id| id.to_string()))
        .bind(seq)
        .bind(name_of(&message.role)?)
        .bind(name_of(&message.status)?)
        .bind(to_json(&message)?)
        .bind(message.created_at.as_millis())
        .execute(&mut self.connection)
        .await?;
        if message.status == MessageStatus::InProgress {
            self.insert_event(
                place,
                seq,
                &EventBody::MessageStarted {
                    message: Box::new(message),
                },
            )
            .await?;
        } else {
            self.index_message(place.root_id, profile_id, &message).await?;
            self.insert_event(
                place,
                seq,
                &EventBody::MessageCompleted {
                    message: Box::new(message),
                },
            )
            .await?;
        }
        Ok(seq)
    }
}
