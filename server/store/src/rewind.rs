//! Rewind: the transcript goes back to a message. What came after it stays in the log, marked as superseded.

use talaria_openapi::events::EventBody;
use talaria_openapi::ids::{MessageId, ProfileId, SessionId};
use talaria_openapi::messages::Message;
use talaria_openapi::sessions::Session;

use crate::events::Place;
use crate::forks::is_whole;
use crate::rows::{from_json, to_json};
use crate::writer::{Durability, Tx};
use crate::{Error, Result, Store};

impl Store {
    /// Takes everything after a message out of a session's transcript. Refused with [`Error::Busy`] while a run is live or
    /// waits, with [`Error::InvalidPoint`] for a message that isn't in the transcript of the chain's newest session, or
    /// between a call and its result.
    pub async fn rewind_session(
        &self,
        profile_id: ProfileId,
        session_id: SessionId,
        to_message_id: MessageId,
    ) -> Result<Session> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(tx_rewind(tx, profile_id, session_id, to_message_id))
            })
            .await
    }
}

async fn tx_rewind(
    tx: &mut Tx,
    profile_id: ProfileId,
    session_id: SessionId,
    to_message_id: MessageId,
) -> Result<Session> {
    let named = tx.get_session(profile_id, session_id).await?;
    let place = Place {
        root_id: named.root_id,
        session_id: named.tip_id,
        run_id: None,
    };
    tx.refuse_if_busy(place.root_id).await?;
    let transcript = transcript(tx, place.session_id).await?;
    let at = transcript.iter().position(|message| message.id == to_message_id);
    let at = at.ok_or(Error::InvalidPoint)?;
    let (kept, superseded) = transcript.split_at_checked(at + 1).ok_or(Error::InvalidPoint)?;
    if !is_whole(kept) {
        return Err(Error::InvalidPoint);
    }
    if superseded.is_empty() {
        return tx.get_session(profile_id, place.session_id).await;
    }
    for message in superseded {
        supersede(tx, place.root_id, message).await?;
    }
    let body = EventBody::SessionRewound {
        to_message_id,
        superseded_message_ids: superseded.iter().map(|message| message.id).collect(),
    };
    let seq = tx.append(place, &body).await?;
    sqlx::query("UPDATE chains SET rewound_seq = $2, updated_at = max(updated_at + 1, $3) WHERE root_id = $1")
        .bind(place.root_id.to_string())
        .bind(seq)
        .bind(tx.now.as_millis())
        .execute(&mut tx.connection)
        .await?;
    tx.get_session(profile_id, place.session_id).await
}

async fn transcript(tx: &mut Tx, session_id: SessionId) -> Result<Vec<Message>> {
    let docs: Vec<String> =
        sqlx::query_scalar("SELECT doc FROM messages WHERE session_id = $1 AND superseded = 0 ORDER BY seq")
            .bind(session_id.to_string())
            .fetch_all(&mut tx.connection)
            .await?;
    docs.iter().map(|doc| from_json(doc, "message")).collect()
}

async fn supersede(tx: &mut Tx, root_id: SessionId, message: &Message) -> Result<()> {
    let superseded = Message {
        superseded: true,
        ..message.clone()
    };
    sqlx::query("UPDATE messages SET superseded = 1, doc = $2 WHERE id = $1")
        .bind(message.id.to_string())
        .bind(to_json(&superseded)?)
        .execute(&mut tx.connection)
        .await?;
    tx.unindex_message(root_id, message.id).await
}
