//! The handlers, one file a noun. Each parses, makes one call, and maps.

pub(crate) mod auth;
pub(crate) mod cancel;
pub(crate) mod files;
pub(crate) mod forks;
pub(crate) mod health;
pub(crate) mod info;
pub(crate) mod inputs;
pub(crate) mod interactions;
pub(crate) mod keys;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod streams;
pub(crate) mod tools;

use std::str::FromStr;

use talaria_openapi::errors::ErrorCode;

use crate::error::ApiError;

/// An id from the path. What isn't an id of the kind is as good as missing.
pub(crate) fn id<T: FromStr>(text: &str, code: ErrorCode) -> Result<T, ApiError> {
    text.parse().map_err(|_| ApiError::new(code))
}
