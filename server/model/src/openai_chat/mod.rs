//! The chat-completions wire: OpenAI, OpenRouter, Ollama, llama.cpp, vLLM and many others, with their many liberties.

mod calls;
mod json;
mod request;
mod stream;
mod thoughts;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use secrecy::ExposeSecret as _;
use talaria_domain::Secret;
use talaria_domain::model::{ModelClient, ModelError, ModelEvent, ModelRequest, ModelStream};
use talaria_text::redact::Redactor;

use crate::error::{Error, Kind};
use crate::http_client;
pub use stream::Decoder;

/// Longest error body that is read.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// How long a provider may take to say what is wrong, once it has refused.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest text of a provider that is shown.
const MAX_SHOWN_CHARS: usize = 300;
/// How long a provider may take for its first event: it may have to load the model and read the whole prompt.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest wait that a provider can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// A provider that speaks this wire.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// Its name, for people.
    pub name: String,
    /// Where it is, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// Its key.
    pub api_key: Option<Secret>,
    /// How long a stream may be silent; comments don't count as speech.
    pub idle_timeout: Duration,
}

/// Speaks to one provider.
#[derive(Debug, Clone)]
pub struct OpenAiChat {
    config: Arc<ProviderConfig>,
}

impl OpenAiChat {
    /// A client of this provider. Nothing is sent or built before the first request.
    #[must_use]
    pub fn new(config: ProviderConfig) -> Self {
        let config = Arc::new(config);
        Self { config }
    }
}

/// One request: whom is asked, for errors.
#[derive(Debug)]
struct Asked {
    config: Arc<ProviderConfig>,
    model: String,
}

impl Asked {
    fn error(&self, kind: Kind) -> Error {
        Error {
            kind,
            provider: self.config.name.clone(),
            model: self.model.clone(),
            retry_after: None,
        }
    }

    async fn send(&self, request: &ModelRequest) -> Result<Response, Error> {
        let client =
            http_client::client_for(&self.config.base_url).map_err(|error| self.error(Kind::Network(error)))?;
        let url = format!("{}/chat/completions", self.config.base_url.trim_end_matches('/'));
        let mut post = client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .body(request::body(request));
        if let Some(key) = &self.config.api_key {
            post = post.bearer_auth(key.expose_secret());
        }
        let sent = tokio::time::timeout(FIRST_EVENT_TIMEOUT, post.send()).await;
        let response = sent
            .map_err(|_| self.error(Kind::Idle(FIRST_EVENT_TIMEOUT)))?
            .map_err(|error| self.network(&error))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.refused(response).await)
        }
    }

    async fn refused(&self, response: Response) -> Error {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let mut body = Vec::new();
        // What came until then is enough to tell.
        let patience = ERROR_BODY_TIMEOUT.min(self.config.idle_timeout);
        drop(tokio::time::timeout(patience, read_up_to(response, MAX_ERROR_BYTES, &mut body)).await);
        let text = json::error_text(&String::from_utf8_lossy(&body));
        Error {
            retry_after,
            ..self.error(Kind::Answered {
                status: Some(status),
                body: self.shown(&text),
            })
        }
    }

    /// What a provider says, short, in one line, and without secrets (I11).
    fn shown(&self, text: &str) -> String {
        let key = self.config.api_key.as_ref().map(secrecy::ExposeSecret::expose_secret);
        let text = Redactor::new(key).redact(text);
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .chars()
            .take(MAX_SHOWN_CHARS)
            .collect()
    }

    fn network(&self, error: &reqwest::Error) -> Error {
        let mut text = String::new();
        let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
        while let Some(error) = cause {
            text = error.to_string();
            cause = error.source();
        }
        // The error itself would show the address with whatever stands in it.
        let text = if text.is_empty() {
            "the connection broke".to_owned()
        } else {
            text
        };
        let is_certificate = text.to_lowercase().contains("certificate");
        self.error(if is_certificate {
            Kind::Certificate(text)
        } else {
            Kind::Network(text)
        })
    }
}

/// Reads a body until it ends, breaks, or is long enough.
async fn read_up_to(mut response: Response, limit: usize, body: &mut Vec<u8>) {
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= limit {
            return;
        }
    }
}

#[async_trait]
impl ModelClient for OpenAiChat {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let asked = Asked {
            config: Arc::clone(&self.config),
            model: request.model.clone(),
        };
        let response = asked.send(&request).await.map_err(|error| error.classify())?;
        let reader = Reader {
            asked,
            response,
            decoder: Decoder::default(),
            ready: Vec::new().into_iter(),
            has_spoken: false,
            is_over: false,
        };
        Ok(futures_util::stream::unfold(reader, Reader::next).boxed())
    }
}

struct Reader {
    asked: Asked,
    response: Response,
    decoder: Decoder,
    ready: std::vec::IntoIter<Result<ModelEvent, Kind>>,
    has_spoken: bool,
    is_over: bool,
}

impl Reader {
    async fn next(mut self) -> Option<(Result<ModelEvent, ModelError>, Self)> {
        loop {
            if let Some(event) = self.ready.next() {
                self.has_spoken = true;
                // Nothing follows the end, even where the provider keeps the connection open.
                self.is_over |= matches!(event, Ok(ModelEvent::Finished(_)));
                let event = event.map_err(|kind| {
                    self.is_over = true;
                    self.failure(kind)
                });
                return Some((event, self));
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.fill().await {
                self.is_over = true;
                return Some((Err(error), self));
            }
        }
    }

    /// Reads until the decoder has something. The clock runs until a real event: comments don't set it back.
    async fn fill(&mut self) -> Result<(), ModelError> {
        let patience = if self.has_spoken {
            self.asked.config.idle_timeout
        } else {
            FIRST_EVENT_TIMEOUT
        };
        let until = tokio::time::Instant::now() + patience;
        loop {
            let chunk = tokio::time::timeout_at(until, self.response.chunk()).await;
            let events = match chunk {
                Ok(Ok(Some(bytes))) => self.decoder.push(&bytes),
                // However it ends: the answer is whole when the provider has said so.
                Ok(Ok(None)) => self.close(),
                Ok(Err(_)) | Err(_) if self.decoder.has_finished() => self.close(),
                Ok(Err(error)) => return Err(self.asked.network(&error).classify()),
                Err(_) => return Err(self.failure(Kind::Idle(patience))),
            };
            if !events.is_empty() || self.is_over {
                self.ready = events.into_iter();
                return Ok(());
            }
        }
    }

    fn close(&mut self) -> Vec<Result<ModelEvent, Kind>> {
        self.is_over = true;
        self.decoder.finish()
    }

    fn failure(&self, kind: Kind) -> ModelError {
        let kind = match kind {
            Kind::Answered { status, body } => Kind::Answered {
                status,
                body: self.asked.shown(&body),
            },
            other => other,
        };
        self.asked.error(kind).classify()
    }
}

/// How long a provider asks to wait: seconds, milliseconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(millis).min(MAX_RETRY_AFTER));
    }
    let value = text(RETRY_AFTER.as_str())?;
    let wait = match value.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => httpdate::parse_http_date(value)
            .ok()?
            .duration_since(SystemTime::now())
            .unwrap_or_default(),
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests;
