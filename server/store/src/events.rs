//! The log: numbering, the exact bytes that streams send, reading.

use serde_json::{Map, Value, json};
use sqlx::Row as _;
use talaria_openapi::events::{EventBody, MAX_EVENT_STRING_BYTES};
use talaria_openapi::ids::{ProfileId, RunId, SessionId};
use talaria_openapi::time::Timestamp;

use crate::rows::{id, to_json};
use crate::tail::Logged;
use crate::wake::News;
use crate::writer::{Durability, Tx};
use crate::{Error, Result, Store};

/// Longest payload of an event, so that no frame exceeds 64 KiB.
const MAX_PAYLOAD_BYTES: usize = 60 * 1024;
/// Events of one page.
const MAX_PAGE: u32 = 200;

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number.
    pub seq: i64,
    /// Its type.
    pub event_type: String,
    /// The JSON, byte for byte as every reader gets it.
    pub payload: String,
}

/// A page of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// The events, oldest first.
    pub events: Vec<StoredEvent>,
    /// The chain's newest number at that time.
    pub head_seq: i64,
}

/// Where an event happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) root_id: SessionId,
    pub(crate) session_id: SessionId,
    pub(crate) run_id: Option<RunId>,
}

impl Store {
    /// The first door: appends deltas of a run for its owner. Refused with [`Error::Fenced`] once the caller isn't.
    pub async fn append(&self, session_id: SessionId, run_id: RunId, fence: i64, events: Vec<EventBody>) -> Result<()> {
        self.writer
            .write(Durability::Delta, move |tx| {
                Box::pin(async move {
                    let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
                    let row = sqlx::query(
                        "UPDATE chains SET head_seq = head_seq + $1 FROM runs \
                         WHERE runs.id = $2 AND runs.fence = $3 AND runs.status IN ('running', 'cancelling') \
                         AND chains.root_id = runs.root_id RETURNING chains.root_id, head_seq",
                    )
                    .bind(count)
                    .bind(run_id.to_string())
                    .bind(fence)
                    .fetch_optional(&mut tx.connection)
                    .await?
                    .ok_or(Error::Fenced)?;
                    let root_id = id(row.get(0))?;
                    let head: i64 = row.get(1);
                    let place = Place {
                        root_id,
                        session_id,
                        run_id: Some(run_id),
                    };
                    for (seq, body) in (head - count + 1..).zip(&events) {
                        tx.insert_event(place, seq, body).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Events after `after`, oldest first; of one run where `run_id` is given.
    pub async fn events_after(
        &self,
        root_id: SessionId,
        run_id: Option<RunId>,
        after: i64,
        limit: u32,
    ) -> Result<EventPage> {
        if let Some(page) = self.wakeups.events_after(root_id, run_id, after, limit.min(MAX_PAGE)) {
            return Ok(page);
        }
        let mut connection = self.readers.acquire().await?;
        // The head first: an event that is committed in between is read now or on the next page, never lost.
        let head_seq: i64 = sqlx::query_scalar("SELECT head_seq FROM chains WHERE root_id = $1")
            .bind(root_id.to_string())
            .fetch_one(&mut *connection)
            .await?;
        let rows = sqlx::query(
            "SELECT seq, type, payload FROM events WHERE root_id = $1 AND seq > $2 AND ($3 IS NULL OR run_id = $3) \
             ORDER BY seq LIMIT $4",
        )
        .bind(root_id.to_string())
        .bind(after)
        .bind(run_id.map(|id| id.to_string()))
        .bind(limit.min(MAX_PAGE))
        .fetch_all(&mut *connection)
        .await?;
        let events = rows
            .into_iter()
            .map(|row| StoredEvent {
                seq: row.get(0),
                event_type: row.get(1),
                payload: row.get(2),
            })
            .collect();
        Ok(EventPage { events, head_seq })
    }

    /// Whether a cursor lies in a range of the log that was lost.
    pub async fn is_fenced_off(&self, root_id: SessionId, cursor: i64) -> Result<bool> {
        let count: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM log_fences WHERE root_id = $1 AND after_seq < $2 AND until_seq >= $2",
        )
        .bind(root_id.to_string())
        .bind(cursor)
        .fetch_one(&self.readers)
        .await?;
        Ok(count > 0)
    }

    /// The last event of a chain that was deleted within a day: its number and payload.
    pub async fn tombstone(&self, profile_id: ProfileId, root_id: SessionId) -> Result<Option<StoredEvent>> {
        let row = sqlx::query(
            "SELECT head_seq, deleted_by, deleted_at FROM tombstones WHERE root_id = $1 AND profile_id = $2",
        )
        .bind(root_id.to_string())
        .bind(profile_id.to_string())
        .fetch_optional(&self.readers)
        .await?;
        row.map(|row| deletion(root_id, row.get(0), Timestamp::from_millis(row.get(2)), row.get(1)))
            .transpose()
    }
}

impl Tx {
    /// Takes the chain's next number.
    pub(crate) async fn next_seq(&mut self, root_id: SessionId) -> Result<i64> {
        let seq = sqlx::query_scalar("UPDATE chains SET head_seq = head_seq + 1 WHERE root_id = $1 RETURNING head_seq")
            .bind(root_id.to_string())
            .fetch_one(&mut self.connection)
            .await?;
        Ok(seq)
    }

    /// Appends one event under the chain's next number.
    pub(crate) async fn append(&mut self, place: Place, body: &EventBody) -> Result<i64> {
        let seq = self.next_seq(place.root_id).await?;
        self.insert_event(place, seq, body).await?;
        Ok(seq)
    }

    /// Tells who watches a chain that it was deleted, after what they haven't read yet (api.md 3, H21).
    pub(crate) fn tell_deleted(&mut self, root_id: SessionId, seq: i64, by: &str) -> Result<()> {
        let event = deletion(root_id, seq, self.now, by)?;
        let run_id = None;
        self.tell(News {
            root_id,
            logged: Logged { run_id, event },
        });
        Ok(())
    }

    /// Stores an event under a number that was taken for it.
    pub(crate) async fn insert_event(&mut self, place: Place, seq: i64, body: &EventBody) -> Result<()> {
        let payload = payload(place, seq, self.now, body)?;
        sqlx::query("INSERT INTO events (root_id, seq, run_id, type, payload) VALUES ($1, $2, $3, $4, $5)")
            .bind(place.root_id.to_string())
            .bind(seq)
            .bind(place.run_id.map(|id| id.to_string()))
            .bind(body.event_type())
            .bind(payload.as_str())
            .execute(&mut self.connection)
            .await?;
        let event = StoredEvent {
            seq,
            event_type: body.event_type().to_owned(),
            payload,
        };
        let run_id = place.run_id;
        let logged = Logged { run_id, event };
        self.tell(News {
            root_id: place.root_id,
            logged,
        });
        Ok(())
    }
}

/// The last event of a chain: that it was deleted.
fn deletion(root_id: SessionId, seq: i64, at: Timestamp, by: &str) -> Result<StoredEvent> {
    let body = EventBody::SessionDeleted { by: by.to_owned() };
    let place = Place {
        root_id,
        session_id: root_id,
        run_id: None,
    };
    Ok(StoredEvent {
        seq,
        event_type: body.event_type().to_owned(),
        payload: payload(place, seq, at, &body)?,
    })
}

/// The bytes that are stored and sent: envelope first, then the body's own fields.
fn payload(place: Place, seq: i64, at: Timestamp, body: &EventBody) -> Result<String> {
    let event_type = body.event_type();
    let text = to_json(body)?;
    let fields = if text.len() > MAX_EVENT_STRING_BYTES {
        shortened(&text, &whole_is_at(place, body))?
    } else {
        let fields = text.strip_prefix(&format!(r#"{{"type":"{event_type}""#));
        fields.ok_or(Error::Corrupt { what: "event" })?.to_owned()
    };
    let session_id = place.session_id;
    let run_id = place
        .run_id
        .map_or_else(|| "null".to_owned(), |id| format!(r#""{id}""#));
    Ok(format!(
        r#"{{"type":"{event_type}","seq":{seq},"ts":"{at}","session_id":"{session_id}","run_id":{run_id}{fields}"#
    ))
}

/// Where a reader finds what an event leaves out.
fn whole_is_at(place: Place, body: &EventBody) -> String {
    let session_id = place.session_id;
    match body {
        EventBody::MessageStarted { message } | EventBody::MessageCompleted { message } => {
            format!("/v1/sessions/{session_id}/messages/{}", message.id)
        }
        EventBody::InputAccepted { input } => format!("/v1/inputs/{}", input.id),
        EventBody::ToolStarted { .. } => format!("/v1/sessions/{session_id}/messages"),
        _ => place.run_id.map_or_else(
            || format!("/v1/sessions/{session_id}"),
            |run_id| format!("/v1/runs/{run_id}"),
        ),
    }
}

/// The body's own fields with long strings replaced by references, with a lower limit each time until they fit.
fn shortened(text: &str, url: &str) -> Result<String> {
    let mut fields: Map<String, Value> = serde_json::from_str(text).map_err(|_| Error::Corrupt { what: "event" })?;
    fields.remove("type");
    for limit in [MAX_EVENT_STRING_BYTES, 1024, 128] {
        fields
            .values_mut()
            .for_each(|field| refer_long_strings(field, limit, url));
        let text = to_json(&fields)?;
        if text.len() <= MAX_PAYLOAD_BYTES {
            return Ok(text.replacen('{', ",", 1));
        }
    }
    // Very many short strings: refer whole fields.
    for field in fields.values_mut() {
        let bytes = to_json(field)?.len();
        if bytes > 1024 {
            *field = json!({ "truncated": true, "bytes": bytes, "url": url });
        }
    }
    Ok(to_json(&fields)?.replacen('{', ",", 1))
}

fn refer_long_strings(value: &mut Value, limit: usize, url: &str) {
    match value {
        Value::String(text) if text.len() > limit => {
            *value = json!({ "truncated": true, "bytes": text.len(), "url": url });
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer_long_strings(item, limit, url)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| refer_long_strings(field, limit, url)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use talaria_openapi::events::Event;

    use super::*;

    fn place() -> Place {
        let root_id = SessionId::new();
        Place {
            root_id,
            session_id: root_id,
            run_id: Some(RunId::new()),
        }
    }

    fn body(text: String) -> EventBody {
        EventBody::ToolStarted {
            tool_call_id: "c1".to_owned(),
            name: "write_file".to_owned(),
            arguments: Map::from_iter([("content".to_owned(), Value::String(text))]),
            preview: String::new(),
            parallel_group: None,
        }
    }

    #[test]
    fn a_payload_reads_back_as_its_event() {
        let payload = payload(place(), 7, Timestamp::from_millis(0), &body("x".to_owned())).unwrap();
        assert!(payload.starts_with(r#"{"type":"tool.started","seq":7,"ts":"1970-01-01T00:00:00.000Z","session_id":"#));
        let event = Event::parse(&payload).unwrap();
        assert_eq!((event.seq, event.body), (7, body("x".to_owned())));
    }

    #[test]
    fn hard_h11_no_frame_exceeds_64_kib() {
        for text in ["x".repeat(1_000_000), "\n".repeat(15_000), "🙂".repeat(10_000)] {
            let payload = payload(place(), 1, Timestamp::from_millis(0), &body(text)).unwrap();
            assert!(payload.len() < 64 * 1024);
            Event::parse(&payload).unwrap();
        }
    }
}
