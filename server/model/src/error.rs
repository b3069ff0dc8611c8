//! What goes wrong between here and a provider.

use std::time::Duration;

use talaria_domain::model::ModelError;

use crate::{classify, retry_after};

/// Longest text of a provider that is shown.
const MAX_SHOWN_CHARS: usize = 300;

/// What happened, before it is classified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The provider answered with an error.
    Answered {
        /// The HTTP status; `None` where the error stood inside a stream and named none.
        status: Option<u16>,
        /// What the provider says, in one line and without the key. Whole: what decides may stand at its end.
        body: String,
    },
    /// The configured address isn't one of a model API.
    Address(String),
    /// The configured key can't be sent.
    Key(String),
    /// No connection, or it broke.
    Network(String),
    /// The provider's certificate isn't trusted.
    Certificate(String),
    /// Nothing came for too long.
    Idle(Duration),
    /// The stream made no sense.
    Malformed(String),
}

/// A failed request to a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{provider}/{model}: {kind:?}")]
pub struct Error {
    /// What happened.
    pub kind: Kind,
    /// The provider's name.
    pub provider: String,
    /// The model that was asked for.
    pub model: String,
    /// How long it asks to wait.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// What the caller gets: the reason, the flags, and a message for people.
    #[must_use]
    pub fn classify(&self) -> ModelError {
        let reason = classify::reason(&self.kind);
        let provider = format!("{} ({})", self.provider, self.model);
        let what = match &self.kind {
            Kind::Answered {
                status: Some(status),
                body,
            } => format!("{provider} answered {status}: {}", shown(body)),
            Kind::Answered { status: None, body } => format!("{provider} reported an error: {}", shown(body)),
            Kind::Address(detail) => format!(
                "{provider} can't be asked: {detail}. Check `base_url` of this provider in config.yaml; most end in /v1"
            ),
            Kind::Key(detail) => format!("{provider} can't be asked: {detail}"),
            Kind::Network(detail) => format!("{provider} can't be reached: {detail}"),
            Kind::Certificate(detail) => format!("the certificate of {provider} isn't trusted: {detail}"),
            Kind::Idle(time) => format!("{provider} sent nothing for {} s", time.as_secs()),
            Kind::Malformed(detail) => format!("the answer of {provider} made no sense: {detail}"),
        };
        let (provider_status, asked_to_wait) = match &self.kind {
            Kind::Answered { status, body } => (*status, retry_after::in_words(body)),
            Kind::Address(_)
            | Kind::Key(_)
            | Kind::Network(_)
            | Kind::Certificate(_)
            | Kind::Idle(_)
            | Kind::Malformed(_) => (None, None),
        };
        ModelError {
            reason,
            flags: classify::flags(reason),
            message: format!("{what}{}", classify::advice(reason, &self.model)),
            provider_status,
            retry_after: self.retry_after.or(asked_to_wait),
        }
    }
}

/// A provider's words, short enough for a message. The source of a web page tells nobody anything.
fn shown(body: &str) -> String {
    let start: String = body.chars().take(MAX_SHOWN_CHARS).collect();
    let lower = start.trim_start().to_lowercase();
    if start.trim().is_empty() {
        "(nothing)".to_owned()
    } else if lower.starts_with("<!doctype") || lower.starts_with("<html") {
        "(a web page)".to_owned()
    } else if start.len() < body.len() {
        start + "…"
    } else {
        start
    }
}
