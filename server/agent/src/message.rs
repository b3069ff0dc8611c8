//! New messages of a run.

use talaria_openapi::ids::{MessageId, RunId, SessionId};
use talaria_openapi::messages::{Message, MessageKind, MessageStatus, Role};
use talaria_openapi::time::Timestamp;

/// A whole message without parts, said now. The store gives it its number.
pub(crate) fn new(session_id: SessionId, run_id: RunId, role: Role, now: Timestamp) -> Message {
    Message {
        id: MessageId::new(),
        object: "message".into(),
        session_id,
        run_id: Some(run_id),
        seq: 0,
        role,
        status: MessageStatus::Completed,
        parts: Vec::new(),
        model: None,
        finish_reason: None,
        usage: None,
        kind: MessageKind::Normal,
        superseded: false,
        created_at: now,
        completed_at: Some(now),
    }
}
