//! What can go wrong for a client; each says what to do.

use talaria_openapi::errors::{ErrorCode, Problem};

/// A failure of a client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused.
    #[error("{}", problem_text(.0))]
    Problem(Box<Problem>),
    /// No server answers.
    #[error("no server answers at {url} ({reason}). Start one with `talaria server start`, or name another with --url")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// Why.
        reason: String,
    },
    /// Something answers with an error that is no problem document of this version.
    #[error("the server refuses ({status}): {text}{}", advice_for_status(*.status))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What there was of a reason.
        text: String,
    },
    /// The server says something that this client doesn't understand.
    #[error("the server's answer makes no sense ({0}). Are client and server of the same version?")]
    Protocol(String),
    /// Nobody takes what this program prints.
    #[error("the output can't be written: {0}")]
    Output(std::io::Error),
    /// Anything on this host; says what to do by itself.
    #[error("{0}")]
    Local(String),
}

/// The client's result.
pub(crate) type Result<T> = std::result::Result<T, Error>;

const LOG_IN: &str = "Log in with `talaria login --key`, or put a key into TALARIA_TOKEN";

fn problem_text(problem: &Problem) -> String {
    let mut text = problem.title.clone();
    if let Some(detail) = &problem.detail {
        text.push_str(&format!(": {detail}"));
    }
    // Often the detail is that of the only mistake.
    let is_said = |detail: &String| problem.detail.as_ref().is_some_and(|said| said.contains(detail));
    for error in problem.errors.iter().filter(|error| !is_said(&error.detail)) {
        let place = error.pointer.as_ref().or(error.parameter.as_ref());
        let place = place.map_or_else(String::new, |place| format!("{place}: "));
        text.push_str(&format!("; {place}{}", error.detail));
    }
    if let Some(advice) = advice(problem.code) {
        text.push_str(&format!(". {advice}"));
    }
    format!("{text} ({}, request {})", problem.code.as_str(), problem.request_id)
}

/// What a person at a terminal can do about it, where the server's own detail can't know.
fn advice(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::Unauthenticated | ErrorCode::TokenExpired => Some(LOG_IN),
        ErrorCode::InsufficientScope => Some("Use a key that has the scope"),
        ErrorCode::SessionNotFound => Some("`talaria sessions list` shows those there are"),
        ErrorCode::TooManyRuns | ErrorCode::TooManyStreams | ErrorCode::QueueFull => Some("Try again in a moment"),
        ErrorCode::Draining | ErrorCode::StorageUnavailable => {
            Some("Try again in a moment; `talaria server logs` says more")
        }
        ErrorCode::Internal => Some("`talaria server logs` says more"),
        _ => None,
    }
}

fn advice_for_status(status: u16) -> String {
    match status {
        401 => format!(". {LOG_IN}"),
        300..=399 => ". Name the server's own address with --url".to_owned(),
        _ => String::new(),
    }
}
