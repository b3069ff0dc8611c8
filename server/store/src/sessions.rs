//! Sessions and their chains.

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use talaria_openapi::Metadata;
use talaria_openapi::events::EventBody;
use talaria_openapi::ids::{FileId, ProfileId, SessionId};
use talaria_openapi::messages::{Message, Usage};
use talaria_openapi::sessions::{PromptLayer, Session, SessionSource, SessionStatus, Snapshot};
use talaria_openapi::time::Timestamp;

use crate::events::Place;
use crate::rows::{from_json, id, name_of, to_json};
use crate::writer::{Durability, Tx};
use crate::{Error, Result, Store};

/// How long a deleted chain leaves a trace.
const TOMBSTONE_MILLIS: i64 = 24 * 60 * 60 * 1000;

// Everything of a session in one row; its chain's state comes with it.
macro_rules! select_session {
    ($rest:literal) => {
        concat!(
            "SELECT sessions.id, sessions.root_id, sessions.profile_id, sessions.parent_session_id, ",
            "sessions.forked_from, sessions.source, sessions.workspace, sessions.ended_at, sessions.end_reason, ",
            "sessions.created_at, chains.tip_id, chains.head_seq, chains.title, chains.metadata, chains.model, ",
            "chains.usage, chains.archived_at, chains.updated_at, chains.ephemeral, ",
            "(SELECT runs.id FROM runs WHERE runs.root_id = chains.root_id ",
            "AND runs.status IN ('running', 'requires_action', 'cancelling')) AS active_run_id, ",
            "(SELECT runs.status FROM runs WHERE runs.root_id = chains.root_id ",
            "AND runs.status IN ('running', 'requires_action', 'cancelling')) AS active_status, ",
            "(SELECT count(*) FROM runs WHERE runs.root_id = chains.root_id AND runs.status = 'queued') AS queue_depth ",
            "FROM sessions JOIN chains ON chains.root_id = sessions.root_id ",
            $rest
        )
    };
}

/// A session to create.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// Its profile.
    pub profile_id: ProfileId,
    /// Its title.
    pub title: Option<String>,
    /// Annotations.
    pub metadata: Metadata,
    /// `provider/model`.
    pub model: String,
    /// Where it comes from.
    pub source: SessionSource,
    /// The folder that its tools work in.
    pub workspace: String,
    /// Its frozen prompt.
    pub prompt: Vec<PromptLayer>,
    /// Messages that it begins with.
    pub messages: Vec<Message>,
    /// Whether it is unlisted, unsearched, and purged an hour after its last run.
    pub is_ephemeral: bool,
    /// SHA-256 of the request, to recognise a repeated one.
    pub request_sha256: String,
}

/// What to change of a chain.
#[derive(Debug, Clone, Default)]
pub struct SessionChanges {
    /// A new title, or none.
    pub title: Option<Option<String>>,
    /// Annotations to set or to remove.
    pub metadata: BTreeMap<String, Option<String>>,
    /// Hide or show.
    pub archived: Option<bool>,
    /// The model of later runs.
    pub model: Option<String>,
    /// Refuse unless the chain was last changed then.
    pub if_updated_at: Option<Timestamp>,
}

/// Which sessions, and from where.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Archived ones, or others; both when `None`.
    pub archived: Option<bool>,
    /// Of one source.
    pub source: Option<SessionSource>,
    /// Whose title begins with this.
    pub title_prefix: Option<String>,
    /// Beyond this place: time and id of the last one seen.
    pub beyond: Option<(Timestamp, SessionId)>,
    /// Oldest first.
    pub is_ascending: bool,
}

impl Store {
    /// Creates a session and its chain. A repeated request of the same content gives the session that exists.
    pub async fn create_session(&self, new: NewSession) -> Result<Session> {
        self.writer
            .write(Durability::Full, move |tx| Box::pin(tx_create(tx, new)))
            .await
    }

    /// One session.
    pub async fn get_session(&self, profile_id: ProfileId, session_id: SessionId) -> Result<Session> {
        let row = sqlx::query(select_session!("WHERE sessions.id = $1 AND sessions.profile_id = $2"))
            .bind(session_id.to_string())
            .bind(profile_id.to_string())
            .fetch_one(&self.readers)
            .await?;
        to_session(&row)
    }

    /// The tips of a profile's chains, by the time they began.
    pub async fn list_sessions(
        &self,
        profile_id: ProfileId,
        filter: &SessionFilter,
        limit: u32,
    ) -> Result<Vec<Session>> {
        const NEWEST: &str = select_session!(
            "WHERE chains.profile_id = $1 AND sessions.id = chains.tip_id AND chains.ephemeral = 0 \
             AND ($2 IS NULL OR (chains.archived_at IS NOT NULL) = $2) AND ($3 IS NULL OR sessions.source = $3) \
             AND ($4 IS NULL OR substr(chains.title, 1, length($4)) = $4) \
             AND ($5 IS NULL OR (chains.created_at, chains.root_id) < ($5, $6)) \
             ORDER BY chains.created_at DESC, chains.root_id DESC LIMIT $7"
        );
        const OLDEST: &str = select_session!(
            "WHERE chains.profile_id = $1 AND sessions.id = chains.tip_id AND chains.ephemeral = 0 \
             AND ($2 IS NULL OR (chains.archived_at IS NOT NULL) = $2) AND ($3 IS NULL OR sessions.source = $3) \
             AND ($4 IS NULL OR substr(chains.title, 1, length($4)) = $4) \
             AND ($5 IS NULL OR (chains.created_at, chains.root_id) > ($5, $6)) \
             ORDER BY chains.created_at, chains.root_id LIMIT $7"
        );
        let rows = sqlx::query(if filter.is_ascending { OLDEST } else { NEWEST })
            .bind(profile_id.to_string())
            .bind(filter.archived)
            .bind(filter.source.as_ref().map(name_of).transpose()?)
            .bind(filter.title_prefix.as_deref())
            .bind(filter.beyond.map(|(at, _)| at.as_millis()))
            .bind(filter.beyond.map(|(_, id)| id.to_string()))
            .bind(limit)
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(to_session).collect()
    }

    /// Changes a chain.
    pub async fn update_session(
        &self,
        profile_id: ProfileId,
        session_id: SessionId,
        changes: SessionChanges,
    ) -> Result<Session> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(tx_update(tx, profile_id, session_id, changes))
            })
            .await
    }

    /// Deletes a session's whole chain. Refused with [`Error::Busy`] while a run of it is live.
    pub async fn delete_session(&self, profile_id: ProfileId, session_id: SessionId, by: String) -> Result<()> {
        let files = self
            .writer
            .write(Durability::Full, move |tx| {
                Box::pin(tx_delete(tx, profile_id, session_id, by))
            })
            .await?;
        self.remove_blobs(files).await;
        Ok(())
    }

    /// The layers of a session's frozen prompt.
    pub async fn get_prompt(&self, profile_id: ProfileId, session_id: SessionId) -> Result<Vec<PromptLayer>> {
        let text: String = sqlx::query_scalar("SELECT prompt FROM sessions WHERE id = $1 AND profile_id = $2")
            .bind(session_id.to_string())
            .bind(profile_id.to_string())
            .fetch_one(&self.readers)
            .await?;
        from_json(&text, "prompt")
    }

    /// A session with everything that is open in its chain.
    pub async fn get_snapshot(&self, profile_id: ProfileId, session_id: SessionId) -> Result<Snapshot> {
        let session = self.get_session(profile_id, session_id).await?;
        // What is read after the session may be newer; it is cut at the session's number, and a reader that goes on from
        // there gets the rest as events.
        let seq = session.head_seq;
        let open_messages = self.open_messages(session.root_id, seq).await?;
        let queue = self.list_queue(profile_id, session.root_id).await?;
        let session_root = session.root_id;
        Ok(Snapshot {
            session,
            seq,
            open_messages,
            queue,
            interactions: self.pending_interactions(session_root).await?,
        })
    }
}

impl Tx {
    /// One session, inside the transaction.
    pub(crate) async fn get_session(&mut self, profile_id: ProfileId, session_id: SessionId) -> Result<Session> {
        let row = sqlx::query(select_session!("WHERE sessions.id = $1 AND sessions.profile_id = $2"))
            .bind(session_id.to_string())
            .bind(profile_id.to_string())
            .fetch_one(&mut self.connection)
            .await?;
        to_session(&row)
    }
}

async fn tx_create(tx: &mut Tx, new: NewSession) -> Result<Session> {
    if let Some(known) = find_repeated(tx, new.id, new.profile_id, &new.request_sha256).await? {
        return Ok(known);
    }
    insert_session(tx, &new, None).await?;
    let root_id = new.id;
    let place = Place {
        root_id,
        session_id: root_id,
        run_id: None,
    };
    let seq = tx.next_seq(root_id).await?;
    let session = Box::new(tx.get_session(new.profile_id, root_id).await?);
    tx.insert_event(place, seq, &EventBody::SessionCreated { session })
        .await?;
    for message in new.messages {
        tx.put_message(place, new.profile_id, message).await?;
    }
    tx.get_session(new.profile_id, root_id).await
}

/// The session that a repeated request of the same content has made. The same id for anything else is refused, and the id
/// of a deleted chain.
pub(crate) async fn find_repeated(
    tx: &mut Tx,
    session_id: SessionId,
    profile_id: ProfileId,
    request_sha256: &str,
) -> Result<Option<Session>> {
    let known: Option<SqliteRow> = sqlx::query("SELECT request_sha256, profile_id FROM sessions WHERE id = $1")
        .bind(session_id.to_string())
        .fetch_optional(&mut tx.connection)
        .await?;
    if let Some(row) = known {
        let is_same = row.get::<&str, _>(0) == request_sha256 && row.get::<&str, _>(1) == profile_id.to_string();
        return if is_same {
            tx.get_session(profile_id, session_id).await.map(Some)
        } else {
            Err(Error::IdConflict)
        };
    }
    // The numbers of a new chain would be taken for those of the deleted one by readers that still have its cursors.
    let deleted: i64 = sqlx::query_scalar("SELECT count(*) FROM tombstones WHERE root_id = $1")
        .bind(session_id.to_string())
        .fetch_one(&mut tx.connection)
        .await?;
    if deleted > 0 {
        return Err(Error::IdConflict);
    }
    Ok(None)
}

/// The rows of a new chain and its first session; without events.
pub(crate) async fn insert_session(tx: &mut Tx, new: &NewSession, forked_from: Option<SessionId>) -> Result<()> {
    let (root_id, now) = (new.id, tx.now.as_millis());
    sqlx::query(
        "INSERT INTO chains (root_id, profile_id, tip_id, head_seq, title, metadata, model, usage, ephemeral, created_at, \
         updated_at) VALUES ($1, $2, $1, 0, $3, $4, $5, $6, $7, $8, $8)",
    )
    .bind(root_id.to_string())
    .bind(new.profile_id.to_string())
    .bind(new.title.as_deref())
    .bind(to_json(&new.metadata)?)
    .bind(&new.model)
    .bind(to_json(&Usage::default())?)
    .bind(new.is_ephemeral)
    .bind(now)
    .execute(&mut tx.connection)
    .await?;
    sqlx::query(
        "INSERT INTO sessions (id, root_id, profile_id, forked_from, source, workspace, prompt, request_sha256, created_at) \
         VALUES ($1, $1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(root_id.to_string())
    .bind(new.profile_id.to_string())
    .bind(forked_from.map(|id| id.to_string()))
    .bind(name_of(&new.source)?)
    .bind(&new.workspace)
    .bind(to_json(&new.prompt)?)
    .bind(&new.request_sha256)
    .bind(now)
    .execute(&mut tx.connection)
    .await?;
    Ok(())
}

async fn tx_update(
    tx: &mut Tx,
    profile_id: ProfileId,
    session_id: SessionId,
    changes: SessionChanges,
) -> Result<Session> {
    let session = tx.get_session(profile_id, session_id).await?;
    if changes.if_updated_at.is_some_and(|at| at != session.updated_at) {
        return Err(Error::PreconditionFailed);
    }
    let mut metadata = session.metadata;
    for (key, value) in changes.metadata {
        match value {
            Some(value) => drop(metadata.insert(key, value)),
            None => drop(metadata.remove(&key)),
        }
    }
    let archived_at = match changes.archived {
        None => session.archived_at,
        Some(true) => Some(session.archived_at.unwrap_or(tx.now)),
        Some(false) => None,
    };
    // An ETag is made of this time: two changes in one millisecond must differ.
    let updated_at = tx.now.as_millis().max(session.updated_at.as_millis() + 1);
    sqlx::query(
        "UPDATE chains SET title = $2, metadata = $3, archived_at = $4, model = $5, updated_at = $6 WHERE root_id = $1",
    )
    .bind(session.root_id.to_string())
    .bind(changes.title.unwrap_or(session.title))
    .bind(to_json(&metadata)?)
    .bind(archived_at.map(Timestamp::as_millis))
    .bind(changes.model.unwrap_or(session.model))
    .bind(updated_at)
    .execute(&mut tx.connection)
    .await?;
    let seq = tx.next_seq(session.root_id).await?;
    let updated = tx.get_session(profile_id, session_id).await?;
    let place = Place {
        root_id: session.root_id,
        session_id,
        run_id: None,
    };
    tx.insert_event(
        place,
        seq,
        &EventBody::SessionUpdated {
            session: Box::new(updated.clone()),
        },
    )
    .await?;
    Ok(updated)
}

async fn tx_delete(
    tx: &mut Tx,
    profile_id: ProfileId,
    session_id: SessionId,
    deleted_by: String,
) -> Result<Vec<FileId>> {
    let session = tx.get_session(profile_id, session_id).await?;
    tx.refuse_if_busy(session.root_id).await?;
    tx_remove_chain(tx, profile_id, session.root_id, &deleted_by).await
}

/// Removes an idle chain, and leaves a tombstone; gives the files whose bytes are to be removed.
pub(crate) async fn tx_remove_chain(
    tx: &mut Tx,
    profile_id: ProfileId,
    chain: SessionId,
    deleted_by: &str,
) -> Result<Vec<FileId>> {
    let files = tx.files_of(chain).await?;
    let root_id = chain.to_string();
    let seq = tx.next_seq(chain).await?;
    sqlx::query(
        "INSERT INTO tombstones (root_id, profile_id, head_seq, deleted_by, deleted_at) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(&root_id)
    .bind(profile_id.to_string())
    .bind(seq)
    .bind(deleted_by)
    .bind(tx.now.as_millis())
    .execute(&mut tx.connection)
    .await?;
    tx.unindex_chain(chain).await?;
    sqlx::query("DELETE FROM chains WHERE root_id = $1")
        .bind(&root_id)
        .execute(&mut tx.connection)
        .await?;
    sqlx::query("DELETE FROM tombstones WHERE deleted_at < $1")
        .bind(tx.now.as_millis() - TOMBSTONE_MILLIS)
        .execute(&mut tx.connection)
        .await?;
    tx.tell_deleted(chain, seq, deleted_by)?;
    Ok(files)
}

fn to_session(row: &SqliteRow) -> Result<Session> {
    let session_id: SessionId = id(row.get("id"))?;
    let tip_id: SessionId = id(row.get("tip_id"))?;
    let active_status: Option<&str> = row.get("active_status");
    let queue_depth: u32 = row.get("queue_depth");
    let ended_at: Option<i64> = row.get("ended_at");
    let status = match (ended_at, active_status) {
        (Some(_), _) => SessionStatus::Ended,
        (None, Some("requires_action")) => SessionStatus::RequiresAction,
        (None, Some(_)) => SessionStatus::Running,
        (None, None) if queue_depth > 0 => SessionStatus::Queued,
        (None, None) => SessionStatus::Idle,
    };
    Ok(Session {
        id: session_id,
        object: "session".into(),
        title: row.get("title"),
        profile_id: id(row.get("profile_id"))?,
        root_id: id(row.get("root_id"))?,
        tip_id,
        status,
        ended_at: ended_at.map(Timestamp::from_millis),
        end_reason: row.get("end_reason"),
        active_run_id: row.get::<Option<&str>, _>("active_run_id").map(id).transpose()?,
        queue_depth,
        head_seq: row.get("head_seq"),
        oldest_seq: 1,
        parent_session_id: row.get::<Option<&str>, _>("parent_session_id").map(id).transpose()?,
        forked_from: row.get::<Option<&str>, _>("forked_from").map(id).transpose()?,
        workspace: row.get("workspace"),
        model: row.get("model"),
        source: from_json(&format!("\"{}\"", row.get::<&str, _>("source")), "session source")?,
        ephemeral: row.get("ephemeral"),
        archived_at: row.get::<Option<i64>, _>("archived_at").map(Timestamp::from_millis),
        metadata: from_json(row.get("metadata"), "metadata")?,
        usage: from_json(row.get("usage"), "usage")?,
        created_at: Timestamp::from_millis(row.get("created_at")),
        updated_at: Timestamp::from_millis(row.get("updated_at")),
    })
}
