//! Why a request failed and what may be done about it: one table of what providers say, one function for the flags.

mod table;

use talaria_domain::model::{FailureFlags, FailureReason};

use crate::error::Kind;
use table::{Row, TABLE};

/// Why it failed.
pub(crate) fn reason(kind: &Kind) -> FailureReason {
    match kind {
        Kind::Answered { status, body } => answered(*status, body),
        Kind::Address(_) => FailureReason::BadRequest,
        Kind::Key(_) => FailureReason::Auth,
        Kind::Network(_) => FailureReason::Network,
        Kind::Certificate(_) => FailureReason::Certificate,
        Kind::Idle(_) => FailureReason::Timeout,
        Kind::Malformed(_) => FailureReason::MalformedStream,
    }
}

fn answered(status: Option<u16>, body: &str) -> FailureReason {
    let status = status.unwrap_or(0);
    let body = body.to_lowercase();
    // Clear by their status; the phrases of other rows can stand in any of them by chance.
    match status {
        401 => return FailureReason::Auth,
        402 => return FailureReason::Billing,
        _ => {}
    }
    let fits = |row: &&Row| {
        (row.statuses.is_empty() || row.statuses.contains(&status))
            && row.phrases.iter().any(|phrase| body.contains(phrase))
    };
    if let Some(row) = TABLE.iter().find(fits) {
        return row.reason;
    }
    match status {
        403 => FailureReason::Auth,
        404 => FailureReason::ModelNotFound,
        408 | 504 => FailureReason::Timeout,
        413 => FailureReason::PayloadTooLarge,
        429 => FailureReason::RateLimited,
        503 | 529 => FailureReason::Overloaded,
        500..=599 => FailureReason::ServerError,
        400..=499 => FailureReason::BadRequest,
        _ => FailureReason::Unknown,
    }
}

/// What may be done about it.
pub(crate) fn flags(reason: FailureReason) -> FailureFlags {
    let none = FailureFlags::default();
    match reason {
        FailureReason::Auth | FailureReason::Billing => FailureFlags {
            should_rotate_credential: true,
            should_fallback: true,
            ..none
        },
        FailureReason::RateLimited => FailureFlags {
            retryable: true,
            should_rotate_credential: true,
            should_fallback: true,
            ..none
        },
        FailureReason::Overloaded
        | FailureReason::ServerError
        | FailureReason::Network
        | FailureReason::Timeout
        | FailureReason::MalformedStream
        | FailureReason::Unknown => FailureFlags {
            retryable: true,
            ..none
        },
        // Retryable only once it is shorter: the same request fails again.
        FailureReason::ContextOverflow | FailureReason::PayloadTooLarge => FailureFlags {
            should_compress: true,
            ..none
        },
        FailureReason::ModelNotFound | FailureReason::ContentPolicy | FailureReason::BadRequest => FailureFlags {
            should_fallback: true,
            ..none
        },
        FailureReason::Certificate => none,
    }
}

/// What a person can do, as the end of a message about this model.
pub(crate) fn advice(reason: FailureReason, model: &str) -> String {
    let fixed = match reason {
        FailureReason::Auth => ". Check `api_key` of this provider in config.yaml",
        FailureReason::Billing => ". Add credit there, or use another provider",
        FailureReason::ContextOverflow | FailureReason::PayloadTooLarge => {
            ". The conversation is too long for this model: begin a new session"
        }
        FailureReason::ModelNotFound => {
            return format!(
                ". Check that it has the model `{model}` (a server of your own must load it first), and `model` and `base_url` in \
                 config.yaml"
            );
        }
        FailureReason::Certificate => ". Check the provider's address and the host's clock and certificates",
        FailureReason::Network => ". Check `base_url` of this provider and the network",
        FailureReason::RateLimited
        | FailureReason::Overloaded
        | FailureReason::ServerError
        | FailureReason::Timeout
        | FailureReason::MalformedStream
        | FailureReason::ContentPolicy
        | FailureReason::BadRequest
        | FailureReason::Unknown => "",
    };
    fixed.to_owned()
}

#[cfg(test)]
mod tests;
