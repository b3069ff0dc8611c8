//! Errors on the wire: problem documents (RFC 9457) with a closed set of codes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:tt, $status:literal, $title:literal, $retryable:literal;)+) => {
        /// What went wrong, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        pub enum ErrorCode {$(
            #[doc = $title]
            #[serde(rename = $text)]
            $name,
        )+}

        impl ErrorCode {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Its name on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {$(Self::$name => $text,)+}
            }

            /// The HTTP status that it comes with.
            #[must_use]
            pub fn status(self) -> u16 {
                match self {$(Self::$name => $status,)+}
            }

            /// What it means, in one line; the same for every occurrence.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self {$(Self::$name => $title,)+}
            }

            /// Whether the same request may succeed later.
            #[must_use]
            pub fn is_retryable(self) -> bool {
                match self {$(Self::$name => $retryable,)+}
            }
        }
    };
}

codes! {
    InvalidJson = "invalid_json", 400, "The body is not valid JSON", false;
    InvalidCursor = "invalid_cursor", 400, "The cursor is not one of ours", false;
    CursorMismatch = "cursor_mismatch", 400, "The cursor belongs to another list or other filters", false;
    IdempotencyKeyInvalid = "idempotency_key_invalid", 400, "The Idempotency-Key header is not a key", false;
    UnsupportedParameter = "unsupported_parameter", 400, "The server can't do this yet", false;
    Unauthenticated = "unauthenticated", 401, "A valid credential is needed", false;
    TokenExpired = "token_expired", 401, "The token has expired", false;
    InsufficientScope = "insufficient_scope", 403, "The credential may not do this", false;
    OriginNotAllowed = "origin_not_allowed", 403, "Requests of this origin or host are refused", false;
    SessionNotFound = "session_not_found", 404, "There is no such session", false;
    RunNotFound = "run_not_found", 404, "There is no such run", false;
    ProfileNotFound = "profile_not_found", 404, "There is no such profile", false;
    MessageNotFound = "message_not_found", 404, "There is no such message", false;
    InteractionNotFound = "interaction_not_found", 404, "There is no such interaction", false;
    InputNotFound = "input_not_found", 404, "There is no such input", false;
    FileNotFound = "file_not_found", 404, "There is no such file", false;
    ToolNotFound = "tool_not_found", 404, "There is no such tool", false;
    KeyNotFound = "key_not_found", 404, "There is no such key", false;
    NotFound = "not_found", 404, "There is nothing here", false;
    MethodNotAllowed = "method_not_allowed", 405, "The method is not allowed here", false;
    NotAcceptable = "not_acceptable", 406, "The answer can't be given in the accepted types", false;
    SessionBusy = "session_busy", 409, "The session already has an active run", true;
    AlreadyResolved = "already_resolved", 409, "The interaction was answered differently, or doesn't wait any more", false;
    RunNotSteerable = "run_not_steerable", 409, "The run can't be told anything any more", false;
    RunNotResumable = "run_not_resumable", 409, "The run can't go on", false;
    InputAlreadyDelivered = "input_already_delivered", 409, "The input doesn't wait any more", false;
    QueueFull = "queue_full", 409, "The session's queue is full", true;
    SessionEnded = "session_ended", 409, "The session has ended", false;
    IdConflict = "id_conflict", 409, "The id is taken by something else", false;
    CursorExpired = "cursor_expired", 410, "The cursor points outside the log", false;
    PreconditionFailed = "precondition_failed", 412, "The object has changed since it was read", false;
    BodyTooLarge = "body_too_large", 413, "The body is too large", false;
    UnsupportedMediaType = "unsupported_media_type", 415, "The body's type is not supported", false;
    ValidationFailed = "validation_failed", 422, "The request is not valid", false;
    IdempotencyKeyReused = "idempotency_key_reused", 422, "The key was used for another request", false;
    InvalidChoice = "invalid_choice", 422, "The choice is none of the interaction's", false;
    InvalidAnswer = "invalid_answer", 422, "The answer doesn't fit the interaction", false;
    InvalidForkPoint = "invalid_fork_point", 422, "The session can't be copied up to there", false;
    InvalidRewindPoint = "invalid_rewind_point", 422, "The session can't go back to there", false;
    UnknownField = "unknown_field", 422, "The request has a field that doesn't exist", false;
    WorkspaceNotAllowed = "workspace_not_allowed", 422, "The folder can't be a workspace", false;
    RateLimited = "rate_limited", 429, "Too many requests", true;
    TooManyRuns = "too_many_runs", 429, "Too many runs are active", true;
    TooManyStreams = "too_many_streams", 429, "Too many streams are open", true;
    Internal = "internal", 500, "The server failed", true;
    Draining = "draining", 503, "The server is shutting down", true;
    StorageUnavailable = "storage_unavailable", 503, "The database can't be written now", true;
}

/// A problem document: the body of every answer from 400 up, but for the OAuth endpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// A URI that names the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the code means.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The code.
    pub code: ErrorCode,
    /// What happened this time, and what to do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// The path that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance: Option<String>,
    /// The request's id: name it when you report the problem.
    pub request_id: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Each mistake of the request.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub errors: Vec<FieldError>,
    /// What else the code comes with, such as `active_run_id`.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = Object, additional_properties))]
    pub extra: Map<String, Value>,
}

/// One mistake of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// Where in the body (RFC 6901).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pointer: Option<String>,
    /// Which parameter of the path, the query or the headers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parameter: Option<String>,
    /// What is wrong, for programs.
    pub code: String,
    /// What is wrong, for people.
    pub detail: String,
}
