//! What can go wrong for a client; each says what to do.

use talaria_openapi::errors::Problem;

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
    /// The server says something that this client doesn't understand.
    #[error("the server's answer makes no sense ({0}). Are client and server of the same version?")]
    Protocol(String),
    /// Anything on this host; says what to do by itself.
    #[error("{0}")]
    Local(String),
}

/// The client's result.
pub(crate) type Result<T> = std::result::Result<T, Error>;

fn problem_text(problem: &Problem) -> String {
    let detail = problem
        .detail
        .as_ref()
        .map(|detail| format!(": {detail}"))
        .unwrap_or_default();
    format!(
        "{}{detail} ({}, request {})",
        problem.title,
        problem.code.as_str(),
        problem.request_id
    )
}
