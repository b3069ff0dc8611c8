//! The table, against what providers really say.

use super::*;
use FailureReason::{
    Auth, BadRequest, Billing, ContentPolicy, ContextOverflow, ModelNotFound, Overloaded, PayloadTooLarge, RateLimited,
    ServerError, Timeout,
};

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
const BODIES: &[(u16, &str, FailureReason)] = &[
    // Credit.
    (
        400,
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade",
        Billing,
    ),
    (
        402,
        "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 13333",
        Billing,
    ),
    (402, "Insufficient Balance", Billing),
    (403, "Key limit exceeded (total limit)", Billing),
    (
        429,
        "insufficient_quota: You exceeded your current quota, please check your plan and billing details",
        Billing,
    ),
    // Quotas that fill up again.
    (
        429,
        "RESOURCE_EXHAUSTED: You exceeded your current quota, please check your plan and billing details. * Quota exceeded \
         for metric: generate_content_free_tier_requests, limit: 20 Please retry in 58.821668433s.",
        RateLimited,
    ),
    (
        429,
        "You exceeded your current quota. quotaId: GenerateRequestsPerDayPerProjectPerModel-FreeTier",
        RateLimited,
    ),
    (
        429,
        "Rate limit reached for gpt-4 on requests per min (RPM): Limit 3. Please try again in 20s. You can increase your \
         rate limit by adding a payment method to your account at https://platform.openai.com/account/billing",
        RateLimited,
    ),
    (
        429,
        "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day",
        RateLimited,
    ),
    (429, "Overloaded, please try again in 5 s", Overloaded),
    (
        503,
        "The engine is currently overloaded, please try again later",
        Overloaded,
    ),
    // Parameters.
    (
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model's context window",
        BadRequest,
    ),
    (
        400,
        "invalid_request_error: Unknown parameter: 'context_length'.",
        BadRequest,
    ),
    // Too long, by OpenAI, OpenRouter, Ollama, llama.cpp, vLLM, DeepSeek, Groq, LM Studio, Anthropic, Gemini, others.
    (
        400,
        "invalid_request_error: context_length_exceeded: This model's maximum context length is 8192 tokens. However, your \
         messages resulted in 10021 tokens. Please reduce the length of the messages.",
        ContextOverflow,
    ),
    (
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ContextOverflow,
    ),
    (
        400,
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens. Please reduce \
         the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.",
        ContextOverflow,
    ),
    (400, "the input length exceeds the context length", ContextOverflow),
    (
        400,
        "prompt too long; exceeded max context length by 4 tokens",
        ContextOverflow,
    ),
    (
        400,
        "request (58940 tokens) exceeds the available context size (32768 tokens), try increasing it",
        ContextOverflow,
    ),
    (
        500,
        "the request exceeds the available context size. try increasing the context size",
        ContextOverflow,
    ),
    (
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 8192 tokens and \
         your request has 1210 input tokens (8192 > 8192 - 1210).",
        ContextOverflow,
    ),
    (
        400,
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        ContextOverflow,
    ),
    (
        400,
        "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens",
        ContextOverflow,
    ),
    (
        400,
        "Please reduce the length of the messages or completion.",
        ContextOverflow,
    ),
    (
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        ContextOverflow,
    ),
    (
        400,
        "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length \
         of only 4096 tokens",
        ContextOverflow,
    ),
    (
        400,
        "prompt is too long: 250000 tokens > 200000 maximum",
        ContextOverflow,
    ),
    (
        400,
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        ContextOverflow,
    ),
    (
        400,
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ContextOverflow,
    ),
    (
        400,
        "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
        ContextOverflow,
    ),
    (
        400,
        "Your request exceeded model token limit: 262144 (requested: 300000)",
        ContextOverflow,
    ),
    (
        400,
        "prompt token count of 130000 exceeds the limit of 128000",
        ContextOverflow,
    ),
    (
        422,
        "`inputs` tokens + `max_new_tokens` must be <= 8193",
        ContextOverflow,
    ),
    (500, "input is too long for requested model", ContextOverflow),
    // Too much at once for the rate, which waiting doesn't change.
    (
        413,
        "Request too large for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit 6000, Requested 8012, please \
         reduce your message size and try again.",
        PayloadTooLarge,
    ),
    (
        429,
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41000.",
        PayloadTooLarge,
    ),
    // Models.
    (404, "model \"qwen9\" not found, try pulling it first", ModelNotFound),
    (
        404,
        "The model `gpt-9` does not exist or you do not have access to it.",
        ModelNotFound,
    ),
    (400, "nosuch/model is not a valid model ID", ModelNotFound),
    (400, "Model Not Exist", ModelNotFound),
    (
        403,
        "model_not_found: Project `p` does not have access to model `gpt-9`",
        ModelNotFound,
    ),
    // Keys and contents.
    (403, "API key is invalid or unauthorized", Auth),
    (
        403,
        "openai/gpt-4 requires moderation. Your input was flagged for \"violence\"",
        ContentPolicy,
    ),
    (400, "Content Exists Risk", ContentPolicy),
];

#[test]
fn row_r3_bodies_of_providers() {
    for (status, body, expected) in BODIES {
        assert_eq!(classify(*status, body), *expected, "{status} {body}");
    }
}

#[test]
fn row_r3_statuses_without_a_phrase() {
    for (status, expected) in [
        (400, BadRequest),
        (401, Auth),
        (402, Billing),
        (403, Auth),
        (404, ModelNotFound),
        (408, Timeout),
        (413, PayloadTooLarge),
        (429, RateLimited),
        (500, ServerError),
        (529, Overloaded),
    ] {
        assert_eq!(classify(status, "?"), expected, "{status}");
    }
    assert!(!flags(Billing).retryable, "fault_f12: no credit is not retried");
    assert!(flags(RateLimited).retryable);
}
