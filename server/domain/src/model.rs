//! The port to models.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde_json::Value;
use talaria_openapi::messages::{FinishReason, Usage};
use talaria_openapi::runs::RunErrorCode;

/// One request to a model. Equal requests are sent as equal bytes (I6).
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The model's name at its provider, without the provider's prefix.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The history, legal in the sense of I5.
    pub messages: Vec<ModelMessage>,
    /// What the model may call; empty forbids calls.
    pub tools: Vec<ModelTool>,
    /// Cap of the answer; the provider's own when `None`.
    pub max_output_tokens: Option<u32>,
}

/// One message as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelMessage {
    /// Somebody asks.
    User {
        /// What.
        text: String,
    },
    /// The model answered.
    Assistant {
        /// What it said; may be empty beside calls.
        text: String,
        /// What it asked for.
        calls: Vec<ModelCall>,
    },
    /// A tool answered.
    Tool {
        /// The call that it answers.
        call_id: String,
        /// What it answered.
        text: String,
    },
}

/// A call that a model made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    /// Its id.
    pub id: String,
    /// The tool's name as the model said it.
    pub name: String,
    /// The arguments as the model said them: raw JSON text, perhaps broken.
    pub arguments: String,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON schema of its arguments.
    pub parameters: Value,
}

/// A piece of an answer. Calls are numbered from 0 in the order that they begin; pieces of two calls may alternate.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// Text.
    Text(String),
    /// A thought.
    Reasoning(String),
    /// A call begins. Sent once a call, before its arguments.
    CallStarted {
        /// Its number.
        index: usize,
        /// Its id; made up by the client where the provider gives none, never empty, unique within the answer.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// A piece of a call's arguments.
    CallArguments {
        /// Its number.
        index: usize,
        /// Raw JSON text.
        json: String,
    },
    /// What the answer cost; at most once, before `Finished`.
    Usage(Usage),
    /// The answer is whole. Always the last event of a good stream; a stream that ends without it has failed.
    Finished(FinishReason),
}

/// The answer of a model, piece by piece. After an error nothing follows. Dropping it closes the upstream socket.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// Speaks to models of one provider.
#[async_trait]
pub trait ModelClient: Send + Sync + 'static {
    /// Sends one request. It is not repeated here: the caller decides by the flags of the error.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;
}

/// A classified failure of a model request (mission R3): the loop looks at the flags only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What happened, for programs.
    pub reason: FailureReason,
    /// What may be done about it.
    pub flags: FailureFlags,
    /// What happened, why, and what to do, for people. Holds no secret.
    pub message: String,
    /// The HTTP status of the provider.
    pub provider_status: Option<u16>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

/// Why a model request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// The key is missing, wrong or not allowed.
    Auth,
    /// No credit left.
    Billing,
    /// Too many requests.
    RateLimited,
    /// The provider can't keep up.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// No connection, or it broke.
    Network,
    /// Nothing came for too long.
    Timeout,
    /// The stream made no sense, or ended too early.
    MalformedStream,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// The request as a whole is too large.
    PayloadTooLarge,
    /// There is no such model.
    ModelNotFound,
    /// The provider refuses the content.
    ContentPolicy,
    /// The provider doesn't understand the request.
    BadRequest,
    /// The provider's certificate isn't trusted.
    Certificate,
    /// Anything else.
    Unknown,
}

/// What may be done about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "mission R3 names these four flags")]
pub struct FailureFlags {
    /// The same request may succeed later.
    pub retryable: bool,
    /// A shorter conversation may succeed.
    pub should_compress: bool,
    /// Another key may succeed.
    pub should_rotate_credential: bool,
    /// Another model may succeed.
    pub should_fallback: bool,
}

impl FailureReason {
    /// How a run that dies of it is reported.
    #[must_use]
    pub fn run_error_code(self) -> RunErrorCode {
        match self {
            Self::Auth | Self::Billing => RunErrorCode::ModelAuthFailed,
            Self::RateLimited => RunErrorCode::ModelRateLimited,
            Self::Overloaded | Self::ServerError | Self::Network | Self::Timeout | Self::MalformedStream => {
                RunErrorCode::ModelOverloaded
            }
            Self::ContextOverflow | Self::PayloadTooLarge => RunErrorCode::ContextOverflow,
            Self::ContentPolicy => RunErrorCode::ContentFiltered,
            Self::ModelNotFound | Self::BadRequest | Self::Certificate | Self::Unknown => {
                RunErrorCode::ProviderBadRequest
            }
        }
    }
}
