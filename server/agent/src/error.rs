//! What can go wrong when a client asks something of a run.

/// A failure of the agent's public face.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] talaria_store::Error),
    /// Too many runs are active.
    #[error("{limit} runs are active, which is the limit")]
    TooManyRuns {
        /// The limit.
        limit: usize,
    },
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Draining,
    /// No provider answers to the model's name.
    #[error("there is no model `{model}`")]
    UnknownModel {
        /// The name.
        model: String,
    },
}

/// The agent's result.
pub type Result<T> = std::result::Result<T, Error>;
