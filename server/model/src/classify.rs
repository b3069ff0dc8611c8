//! Why a request failed and what may be done about it: one table of what providers say, one function for the flags.

use talaria_domain::model::{FailureFlags, FailureReason};

use crate::error::Kind;

/// A phrase, in lower case, of the bodies with these statuses (none: any), and what it means. The first row that fits wins.
struct Row {
    statuses: &'static [u16],
    phrases: &'static [&'static str],
    reason: FailureReason,
    /// A body as providers send it; each row is tested with its own.
    #[cfg_attr(not(test), expect(dead_code, reason = "documents the row; the tests read it"))]
    example: &'static str,
}

const TABLE: &[Row] = &[
    Row {
        statuses: &[],
        phrases: &[
            "content_filter",
            "content policy",
            "usage policies",
            "flagged by",
            "safety system",
        ],
        reason: FailureReason::ContentPolicy,
        example: "Your request was flagged by our safety system",
    },
    // Before the rows whose words a parameter's name can hold.
    Row {
        statuses: &[400, 422, 0],
        phrases: &[
            "unsupported parameter",
            "unknown parameter",
            "unrecognized request argument",
            "unsupported value",
            "extra inputs are not permitted",
        ],
        reason: FailureReason::BadRequest,
        example: "Unsupported parameter: 'max_tokens' can't be used with this model's context window",
    },
    // A quota that fills up again by itself is a rate, whatever else the text says of plans and billing.
    Row {
        statuses: &[429],
        phrases: &[
            "per minute",
            "per second",
            "per hour",
            "per day",
            "perminute",
            "perday",
            "retry in",
            "try again in",
        ],
        reason: FailureReason::RateLimited,
        example: "You exceeded your current quota, please check your plan. Please retry in 23.4s",
    },
    Row {
        statuses: &[400, 402, 403, 429, 0],
        phrases: &[
            "insufficient_quota",
            "exceeded your current quota",
            "insufficient credits",
            "insufficient balance",
            "credit balance",
            "billing",
            "payment required",
            "out of funds",
            "key limit exceeded",
            "spending limit",
        ],
        reason: FailureReason::Billing,
        example: "You exceeded your current quota, please check your plan",
    },
    Row {
        statuses: &[429, 500, 502, 503, 529, 0],
        phrases: &["overloaded", "at capacity", "over capacity"],
        reason: FailureReason::Overloaded,
        example: "The model is currently overloaded",
    },
    Row {
        statuses: &[400, 413, 500, 502, 503, 0],
        phrases: &[
            "context length",
            "context_length_exceeded",
            "context size",
            "maximum context",
            "context window",
            "prompt is too long",
            "too many tokens",
            "reduce the length",
            "input is too long",
            "max_model_len",
            "max_new_tokens` must be",
            "maximum prompt length",
            "exceeds the maximum number of tokens",
            "range of input length should be",
            "上下文长度",
            "超过最大长度",
        ],
        reason: FailureReason::ContextOverflow,
        example: "This model's maximum context length is 8192 tokens",
    },
    Row {
        statuses: &[400, 404, 0],
        phrases: &[
            "model_not_found",
            "model not found",
            "not a valid model",
            "no such model",
            "unknown model",
            "does not exist",
        ],
        reason: FailureReason::ModelNotFound,
        example: "The model `gpt-9` does not exist",
    },
    Row {
        statuses: &[400, 0],
        phrases: &[
            "rate limit",
            "rate_limit",
            "too many requests",
            "requests per minute",
            "tokens per minute",
            "throttl",
        ],
        reason: FailureReason::RateLimited,
        example: "Rate limit reached: too many requests per minute",
    },
    Row {
        statuses: &[400, 403, 0],
        phrases: &[
            "invalid api key",
            "invalid_api_key",
            "incorrect api key",
            "unauthorized",
            "authentication",
        ],
        reason: FailureReason::Auth,
        example: "Incorrect API key provided",
    },
    Row {
        statuses: &[500, 502, 0],
        phrases: &[
            "invalid_request_error",
            "unknown parameter",
            "unsupported parameter",
            "validation error",
            "invalid request",
        ],
        reason: FailureReason::BadRequest,
        example: "invalid_request_error: unknown parameter `foo`",
    },
];

/// Why it failed.
pub(crate) fn reason(kind: &Kind) -> FailureReason {
    match kind {
        Kind::Answered { status, body } => answered(*status, body),
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
        // A redirect isn't followed: the address in the configuration is wrong.
        300..=499 => FailureReason::BadRequest,
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
            return format!(". Check that it has the model `{model}`, and `model` in config.yaml");
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
mod tests {
    use super::*;

    fn classify(status: u16, body: &str) -> FailureReason {
        reason(&Kind::Answered {
            status: Some(status),
            body: body.to_owned(),
        })
    }

    #[test]
    fn row_r3_every_row_fits_its_example() {
        for row in TABLE {
            let status = row
                .statuses
                .iter()
                .copied()
                .find(|status| ![0, 402].contains(status))
                .unwrap_or(400);
            assert_eq!(classify(status, row.example), row.reason, "{}", row.example);
        }
    }

    /// What providers were seen to say; the words that decide stand among others that could mislead.
    #[test]
    fn row_r3_bodies_of_providers() {
        use FailureReason::{Auth, BadRequest, Billing, ContextOverflow, ModelNotFound, Overloaded, RateLimited};
        for (status, body, expected) in [
            (
                400,
                "Your credit balance is too low to access the API. Go to Plans & Billing",
                Billing,
            ),
            (
                429,
                "insufficient_quota: You exceeded your current quota, please check your plan and billing",
                Billing,
            ),
            (
                429,
                "Quota exceeded for metric: GenerateRequestsPerMinutePerProject",
                RateLimited,
            ),
            (
                429,
                "Rate limit reached for tokens per min. Please try again in 6ms",
                RateLimited,
            ),
            (
                400,
                "Unsupported parameter: 'context window' is not supported with this model",
                BadRequest,
            ),
            (
                400,
                "the request exceeds the available context size (8192 tokens), try increasing it",
                ContextOverflow,
            ),
            (
                400,
                "This endpoint's maximum context length is 131072 tokens. However, you requested 140000",
                ContextOverflow,
            ),
            (
                400,
                "Trying to keep the first 9000 tokens when the model is loaded with context length of only 4096",
                ContextOverflow,
            ),
            (
                400,
                "Please reduce the length of the messages or completion",
                ContextOverflow,
            ),
            (
                400,
                "The input token count (1200000) exceeds the maximum number of tokens allowed",
                ContextOverflow,
            ),
            (500, "input is too long for requested model", ContextOverflow),
            (404, "model \"qwen9\" not found, try pulling it first", ModelNotFound),
            (400, "nosuch/model is not a valid model ID", ModelNotFound),
            (403, "API key is invalid or unauthorized", Auth),
            (
                503,
                "The engine is currently overloaded, please try again later",
                Overloaded,
            ),
        ] {
            assert_eq!(classify(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn row_r3_statuses_without_a_phrase() {
        for (status, expected) in [
            (400, FailureReason::BadRequest),
            (401, FailureReason::Auth),
            (402, FailureReason::Billing),
            (403, FailureReason::Auth),
            (404, FailureReason::ModelNotFound),
            (408, FailureReason::Timeout),
            (413, FailureReason::PayloadTooLarge),
            (429, FailureReason::RateLimited),
            (500, FailureReason::ServerError),
            (529, FailureReason::Overloaded),
        ] {
            assert_eq!(classify(status, "?"), expected, "{status}");
        }
        assert!(
            !flags(FailureReason::Billing).retryable,
            "fault_f12: no credit is not retried"
        );
        assert!(flags(FailureReason::RateLimited).retryable);
    }
}
