//! Every SQL statement of the product.
//!
//! What it is *not*: it doesn't know what a run does or who listens. It knows rows, states and the log.
//!
//! Two doors write, there is no third: [`Store::append`] for deltas of a run's owner, and the transitions (`create_session`,
//! `start_run`, [`Store::record`], `cancel_run`, …), each one transaction with its events. One writer task gathers the jobs
//! of both kinds into common commits. Readers are a pool of read-only connections. Start reading at [`writer`].
#![warn(missing_docs)]

mod accept;
mod error;
mod events;
mod files;
mod forks;
mod inputs;
mod interactions;
mod keys;
mod later;
mod messages;
mod migrate;
mod profiles;
mod queue;
mod recovery;
mod resume;
mod rewind;
mod rows;
mod runs;
mod search;
mod sessions;
mod signing_keys;
mod tail;
mod transitions;
mod wake;
pub mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use talaria_domain::clock::SharedClock;
use talaria_domain::scope::TaskScope;
use tokio::sync::watch;

pub use error::{Busy, Error, Result};
pub use events::{EventPage, StoredEvent};
pub use files::Blob;
pub use forks::{ForkPoint, NewFork};
pub use interactions::{Asked, InteractionFilter, Resolved};
pub use keys::KeyRow;
pub use later::EPHEMERAL_MILLIS;
pub use messages::MessageFilter;
pub use profiles::Profile;
pub use queue::{QueueChanges, Requeued};
pub use recovery::{CutRun, Recovered};
pub use runs::{ActiveRun, End, NewRun, RunFilter, RunOptions, Started, Step, WhenBusy};
pub use search::{SearchPage, SearchScope, searchable_text};
pub use sessions::{NewSession, SessionChanges, SessionFilter};
pub use signing_keys::SealedKey;
pub use tail::SESSION_DELETED;
pub use wake::Wakeups;

/// How many inputs may wait in a chain.
pub const MAX_QUEUE: u32 = 16;
/// Connections that read at the same time.
const READERS: u32 = 4;
/// Free space of the disk below which the server isn't ready.
const MIN_FREE_BYTES: u64 = 64 * 1024 * 1024;
/// How long a reader waits for a connection before it gives up.
const READER_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the database is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The database's file.
    pub path: PathBuf,
    /// Where copies are put before a migration.
    pub backups: PathBuf,
    /// Where the bytes of files are.
    pub blobs: PathBuf,
}

/// The store. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    readers: SqlitePool,
    writer: writer::Writer,
    wakeups: Arc<Wakeups>,
    keys_changed: Arc<watch::Sender<u64>>,
    blobs: Arc<Path>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the database, migrates it, and starts its writer in `scope`. The writer ends when the last clone is dropped.
    pub async fn open(settings: &Settings, clock: SharedClock, scope: &TaskScope) -> Result<Self> {
        migrate::run(settings).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(READER_TIMEOUT)
            .connect_lazy_with(options(&settings.path).read_only(true));
        let wakeups = Arc::new(Wakeups::default());
        let writer = writer::Writer::start(options(&settings.path), Arc::clone(&wakeups), clock, scope).await?;
        Ok(Self {
            readers,
            writer,
            wakeups,
            keys_changed: Arc::default(),
            blobs: settings.blobs.as_path().into(),
        })
    }

    /// Tells of new events, chain by chain.
    #[must_use]
    pub fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }

    /// Whether a write is committed within `timeout`.
    pub async fn is_writable(&self, timeout: Duration) -> bool {
        let probe = self
            .writer
            .write(writer::Durability::Delta, |_| Box::pin(async { Ok(()) }));
        matches!(tokio::time::timeout(timeout, probe).await, Ok(Ok(())))
    }

    /// Whether the schema is the one that this program was made for.
    pub async fn is_migrated(&self) -> bool {
        migrate::is_current(&self.readers).await.unwrap_or(false)
    }

    /// Whether the disk has room for a while of work.
    #[must_use]
    pub fn has_space(&self) -> bool {
        let folder = self.blobs.parent().unwrap_or(&self.blobs);
        rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= MIN_FREE_BYTES)
    }

    /// Whether a read succeeds.
    pub async fn is_readable(&self) -> bool {
        sqlx::query("SELECT 1").execute(&self.readers).await.is_ok()
    }
}

/// How every connection is opened: write-ahead log, foreign keys, a short wait for locks (only this process writes).
pub(crate) fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .pragma("cache_size", "-1024")
        .pragma("temp_store", "memory")
        .disable_statement_logging()
}
