//! What can go wrong in the store.

/// A failure of the store. A variant exists because some caller behaves differently.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such row, or it belongs to another profile.
    #[error("not found")]
    NotFound,
    /// A rule of the schema refused the write.
    #[error("conflict: {constraint}")]
    Conflict {
        /// What the database says of it.
        constraint: String,
    },
    /// The chain has an active run.
    #[error("session is busy")]
    Busy(Box<Busy>),
    /// The chain's queue is full.
    #[error("queue is full")]
    QueueFull,
    /// The run has ended or is about to: nothing can be told to it.
    #[error("the run can't be steered")]
    NotSteerable,
    /// The run can't go on: it ended for good, or its chain has gone on without it.
    #[error("the run can't be resumed")]
    NotResumable,
    /// The place is no place to fork from or to rewind to: it is inside a call and its result, or not of this transcript.
    #[error("the place is between a call and its result")]
    InvalidPoint,
    /// The input doesn't wait any more.
    #[error("the input doesn't wait any more")]
    NotWaiting,
    /// The id is taken by something else.
    #[error("the id is taken")]
    IdConflict,
    /// The object has changed since the caller read it.
    #[error("precondition failed")]
    PreconditionFailed,
    /// The writer is no longer the run's owner, or the run has ended: stop without another write.
    #[error("no longer the owner of the run")]
    Fenced,
    /// The database can't be used now: nothing was written.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// What is stored makes no sense.
    #[error("the database holds a broken {what}")]
    Corrupt {
        /// Which kind of thing.
        what: &'static str,
    },
    /// The database was made by a newer version.
    #[error("the database was made by a newer version of Talaria")]
    Newer,
}

/// What a busy chain is busy with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// The active run.
    pub run_id: talaria_openapi::ids::RunId,
    /// Where it stands.
    pub status: talaria_openapi::runs::RunStatus,
    /// How many inputs wait behind it.
    pub queue_depth: u32,
}

/// The store's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether only the job that met it is refused; anything else ends the whole batch of the writer.
    pub(crate) fn is_own_refusal(&self) -> bool {
        match self {
            Self::NotFound
            | Self::Conflict { .. }
            | Self::Busy(_)
            | Self::QueueFull
            | Self::NotSteerable
            | Self::NotResumable
            | Self::NotWaiting
            | Self::InvalidPoint
            | Self::IdConflict
            | Self::PreconditionFailed
            | Self::Fenced
            | Self::Corrupt { .. } => true,
            Self::Unavailable(_) | Self::Newer => false,
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::RowNotFound => Self::NotFound,
            sqlx::Error::Database(database)
                if database.is_unique_violation()
                    || database.is_foreign_key_violation()
                    || database.is_check_violation() =>
            {
                Self::Conflict {
                    constraint: database.message().to_owned(),
                }
            }
            _ => Self::Unavailable(error.to_string()),
        }
    }
}
