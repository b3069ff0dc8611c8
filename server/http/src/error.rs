//! The one error of the border: a code, a public text, and what only the log gets to see.
//!
//! Handlers return [`ApiError`]; the outermost middleware adds the request's id and path to the problem document.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use talaria_openapi::errors::{ErrorCode, FieldError, Problem};

/// An answer from 400 up.
#[derive(Debug, Clone)]
pub struct ApiError {
    pub(crate) code: ErrorCode,
    detail: Option<String>,
    errors: Vec<FieldError>,
    extra: Map<String, Value>,
    retry_after: Option<u64>,
    scope: Option<&'static str>,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(code: ErrorCode) -> Self {
        Self {
            code,
            detail: None,
            errors: Vec::new(),
            extra: Map::new(),
            retry_after: None,
            scope: None,
        }
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn extra(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn field(mut self, pointer: impl Into<String>, code: &str, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (Some(pointer.into()), detail.into());
        self.errors.push(FieldError {
            pointer,
            parameter: None,
            code: code.to_owned(),
            detail,
        });
        self
    }

    pub(crate) fn parameter(mut self, name: &str, code: &str, detail: impl Into<String>) -> Self {
        let (parameter, detail) = (Some(name.to_owned()), detail.into());
        self.errors.push(FieldError {
            pointer: None,
            parameter,
            code: code.to_owned(),
            detail,
        });
        self
    }

    /// A body that is well-formed but wrong in one place.
    pub(crate) fn invalid(pointer: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self::new(ErrorCode::ValidationFailed)
            .detail(detail.clone())
            .field(pointer, "invalid", detail)
    }

    /// Something that comes in a later version.
    pub(crate) fn unsupported(parameter: &str) -> Self {
        let detail = format!("`{parameter}` is not supported yet: leave it out");
        Self::new(ErrorCode::UnsupportedParameter)
            .detail(detail.clone())
            .parameter(parameter, "unsupported", detail)
    }

    pub(crate) fn insufficient_scope(scope: &'static str) -> Self {
        let mut error = Self::new(ErrorCode::InsufficientScope)
            .detail(format!("the credential lacks the scope `{scope}`: use one that has it"))
            .extra("required", scope);
        error.scope = Some(scope);
        error
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// What a person gets to read of it.
    pub(crate) fn public_text(self) -> String {
        self.detail.unwrap_or_else(|| self.code.title().to_owned())
    }

    pub(crate) fn not_found(self, code: ErrorCode) -> Self {
        if self.code == ErrorCode::NotFound {
            Self::new(code)
        } else {
            self
        }
    }
}

impl From<talaria_store::Error> for ApiError {
    fn from(error: talaria_store::Error) -> Self {
        use talaria_store::Error;
        match error {
            Error::NotFound => Self::new(ErrorCode::NotFound),
            Error::Busy(busy) => {
                let links = talaria_openapi::runs::RunLinks::of(busy.run_id);
                let links = json!({ "run": links.this, "stream": links.stream, "cancel": links.cancel });
                Self::new(ErrorCode::SessionBusy)
                    .detail(format!(
                        "{} is active: wait for it, cancel it, or send `on_busy: queue`",
                        busy.run_id
                    ))
                    .extra("active_run_id", busy.run_id.to_string())
                    .extra("active_run_status", json!(busy.status))
                    .extra("pending_interactions", json!([]))
                    .extra("queue_depth", busy.queue_depth)
                    .extra("links", links)
                    .retry_after(2)
            }
            Error::QueueFull => Self::new(ErrorCode::QueueFull)
                .detail(format!(
                    "{} inputs wait already: try again when some are done",
                    talaria_store::MAX_QUEUE
                ))
                .retry_after(5),
            Error::NotSteerable => Self::new(ErrorCode::RunNotSteerable)
                .detail("the run has ended or is being cancelled: send the input as a new run"),
            Error::NotResumable => Self::new(ErrorCode::RunNotResumable).detail(
                "only the last run of a session goes on, when it was interrupted or failed in a way that may pass",
            ),
            Error::InvalidPoint => Self::new(ErrorCode::InvalidForkPoint)
                .detail("a call and its result belong together: choose a message before or after both"),
            Error::NotWaiting => {
                Self::new(ErrorCode::InputAlreadyDelivered).detail("the input was delivered or cancelled already")
            }
            Error::IdConflict => Self::new(ErrorCode::IdConflict).detail("the id is taken: choose another one"),
            Error::PreconditionFailed => Self::new(ErrorCode::PreconditionFailed)
                .detail("the object has changed since you read it: read it again and repeat the change"),
            Error::Unavailable(reason) => {
                tracing::error!(error = %reason, "the store is unavailable: {reason}");
                Self::new(ErrorCode::StorageUnavailable).retry_after(2)
            }
            Error::Conflict { .. } | Error::Fenced | Error::Corrupt { .. } | Error::Newer => {
                tracing::error!(error = %error, "the store failed: {error}");
                Self::new(ErrorCode::Internal)
            }
        }
    }
}

impl From<talaria_agent::Error> for ApiError {
    fn from(error: talaria_agent::Error) -> Self {
        match error {
            talaria_agent::Error::Store(error) => error.into(),
            talaria_agent::Error::TooManyRuns { .. } => Self::new(ErrorCode::TooManyRuns)
                .detail(error.to_string())
                .retry_after(5),
            talaria_agent::Error::Draining => Self::new(ErrorCode::Draining)
                .detail("try again when the server is back")
                .retry_after(5),
            talaria_agent::Error::UnknownModel { .. } => Self::invalid("/model", error.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let problem = Problem {
            kind: format!("https://talaria.invalid/problems/{}", self.code.as_str()),
            title: self.code.title().to_owned(),
            status: self.code.status(),
            code: self.code,
            detail: self.detail,
            instance: None,
            request_id: String::new(),
            retryable: self.code.is_retryable(),
            errors: self.errors,
            extra: self.extra,
        };
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        let challenge = match (self.code, self.scope) {
            (ErrorCode::Unauthenticated, _) => Some("Bearer".to_owned()),
            (ErrorCode::TokenExpired, _) => Some(r#"Bearer error="invalid_token""#.to_owned()),
            (_, Some(scope)) => Some(format!(r#"Bearer error="insufficient_scope", scope="{scope}""#)),
            _ => None,
        };
        if let Some(challenge) = challenge.and_then(|challenge| HeaderValue::from_str(&challenge).ok()) {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response.extensions_mut().insert(problem);
        response
    }
}
