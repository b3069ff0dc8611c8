//! `Idempotency-Key` (api.md 2.10): the same request again is answered like the first time, and does nothing.
//!
//! The key becomes the id of what the request makes. So the row that the request inserts is the record of its key, in the
//! same transaction, for as long as the thing lives; whoever comes second finds it, however close behind.

use axum::http::HeaderMap;
use sha2::{Digest as _, Sha256};
use talaria_openapi::errors::ErrorCode;
use ulid::Ulid;

use crate::auth::Caller;
use crate::error::{ApiError, ApiResult};

const HEADER: &str = "idempotency-key";
const MAX_CHARS: usize = 255;
/// Marks an answer that was given before.
pub(crate) const REPLAYED: &str = "idempotency-replayed";

/// The id that a request's key stands for; `None` without a key. Keys are a caller's own, for one route and what its path
/// names.
pub(crate) fn named(headers: &HeaderMap, caller: &Caller, route: &str, path_id: &str) -> ApiResult<Option<Ulid>> {
    let Some(value) = headers.get(HEADER) else {
        return Ok(None);
    };
    let key = value.to_str().ok().and_then(read).ok_or_else(|| {
        let detail = format!("1 to {MAX_CHARS} visible characters, bare or in quotes");
        ApiError::new(ErrorCode::IdempotencyKeyInvalid)
            .detail(format!("Idempotency-Key: {detail}"))
            .parameter("Idempotency-Key", "invalid", detail)
    })?;
    let mut hash = Sha256::new();
    let principal = caller.0.name.to_string();
    for part in [
        "talaria idempotency v1",
        &caller.profile_id().to_string(),
        &principal,
        route,
        path_id,
        key,
    ] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    Ok(digest.first_chunk().map(|bytes| Ulid::from_bytes(*bytes)))
}

/// A bare token, or a string of RFC 8941.
fn read(value: &str) -> Option<&str> {
    let value = value.trim();
    let key = match value.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').filter(|key| !key.contains(['"', '\\']))?,
        None => value,
    };
    let is_plain = key.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    (is_plain && (1..=MAX_CHARS).contains(&key.len())).then_some(key)
}

/// A conflict of an id that a key stands for is the key's.
pub(crate) fn reused(error: ApiError) -> ApiError {
    if error.code == ErrorCode::IdConflict {
        ApiError::new(ErrorCode::IdempotencyKeyReused).detail("the key was used for another request: choose a new one")
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_strings_or_tokens() {
        let long = "x".repeat(256);
        for (value, expected) in [
            ("abc", Some("abc")),
            (
                "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"",
                Some("8e03978e-40d5-43dd-bc93-6894a57f9324"),
            ),
            ("\"two words\"", Some("two words")),
            ("", None),
            ("\"\"", None),
            ("\"half", None),
            ("\"a\"b\"", None),
            (long.as_str(), None),
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
    }
}
