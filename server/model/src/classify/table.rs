//! What providers say when they fail, in the words that they use.

use talaria_domain::model::FailureReason;

/// A phrase, in lower case, of the bodies with these statuses (none: any), and what it means. The first row that fits wins.
pub(super) struct Row {
    pub(super) statuses: &'static [u16],
    pub(super) phrases: &'static [&'static str],
    pub(super) reason: FailureReason,
    /// A body as providers send it; each row is tested with its own.
    #[cfg_attr(not(test), expect(dead_code, reason = "documents the row; the tests read it"))]
    pub(super) example: &'static str,
}

/// The rows, the more certain ones first.
pub(super) const TABLE: &[Row] = &[
    Row {
        statuses: &[],
        phrases: &[
            "content_filter",
            "content policy",
            "usage policies",
            "flagged by",
            "input was flagged",
            "safety system",
            "content management policy",
            "content exists risk",
            "data_inspection_failed",
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
    // Before the rates, since these ask to come again too: the key isn't at fault.
    Row {
        statuses: &[429, 500, 502, 503, 529, 0],
        phrases: &["overloaded", "at capacity", "over capacity"],
        reason: FailureReason::Overloaded,
        example: "The model is currently overloaded, try again in 20s",
    },
    // More tokens at once than a minute allows: waiting doesn't help, a shorter request does.
    Row {
        statuses: &[413, 429],
        phrases: &["request too large for", "must be reduced in order to run"],
        reason: FailureReason::PayloadTooLarge,
        example: "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41000. The input or output \
                  tokens must be reduced in order to run successfully.",
    },
    // A quota that fills up again by itself is a rate, whatever else the text says of plans and billing.
    Row {
        statuses: &[429, 0],
        phrases: &[
            "per minute",
            "per min ",
            "per second",
            "per hour",
            "per day",
            "perminute",
            "perday",
            "per-day",
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
        statuses: &[400, 413, 422, 500, 502, 503, 0],
        phrases: &[
            "context length",
            "context_length_exceeded",
            "context size",
            "maximum context",
            "context window",
            "context limit",
            "maximum model length",
            "model token limit",
            "prompt token count",
            "prompt is too long",
            "prompt too long",
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
        statuses: &[400, 403, 404, 0],
        phrases: &[
            "model_not_found",
            "model not found",
            "model not exist",
            "does not have access to model",
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
