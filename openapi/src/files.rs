//! Files: outputs and attachments of sessions.

use serde::{Deserialize, Serialize};

use crate::ObjectName;
use crate::ids::{FileId, SessionId};
use crate::time::Timestamp;

/// A file that a session made or was given. Its bytes are at `/v1/files/{id}/content`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct File {
    /// Its id.
    pub id: FileId,
    /// Always `file`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub object: ObjectName,
    /// The session that it belongs to.
    pub session_id: SessionId,
    /// A name to save it under.
    pub filename: String,
    /// What it holds, such as `text/plain; charset=utf-8`.
    pub media_type: String,
    /// Its length.
    pub size_bytes: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// When it was made.
    pub created_at: Timestamp,
}
