//! The one writer: gathers waiting jobs into one transaction, each in a savepoint, and answers after the common commit.
//!
//! Only a job's own refusal (a constraint, a fence, a precondition) rolls back to its savepoint. Any other database error
//! abandons the batch: the connection is closed, every job of it gets [`Error::Unavailable`], none is acknowledged.
//! A job touches nothing but the connection that it is given; wake-ups and replies come after the commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use talaria_domain::clock::SharedClock;
use talaria_domain::metrics as names;
use talaria_domain::scope::TaskScope;
use talaria_openapi::time::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::wake::{News, Wakeups};
use crate::{Error, Result};

/// Jobs that may wait; a caller beyond that waits for a place.
const MAX_WAITING: usize = 1024;
/// Jobs of one transaction.
const MAX_BATCH: usize = 256;
const BEGIN_DELTA: &str = "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE; SAVEPOINT job";
const BEGIN_FULL: &str = "PRAGMA synchronous = FULL; BEGIN IMMEDIATE; SAVEPOINT job";
/// How long the writer waits before it opens a broken database again.
const REOPEN_DELAY: Duration = Duration::from_millis(200);

/// What a commit must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process: for jobs that append nothing but deltas.
    Delta,
    /// The end of the machine.
    Full,
}

/// The transaction that a job works in.
pub struct Tx {
    /// The connection; inside the job's savepoint.
    pub(crate) connection: SqliteConnection,
    /// The time of the batch.
    pub(crate) now: Timestamp,
    news: Vec<News>,
}

impl Tx {
    /// Notes what readers are to be told after the commit.
    pub(crate) fn tell(&mut self, news: News) {
        self.news.push(news);
    }
}

type Work<T> = Box<dyn for<'tx> FnOnce(&'tx mut Tx) -> BoxFuture<'tx, Result<T>> + Send>;

trait Job: Send {
    fn durability(&self) -> Durability;
    fn run<'tx>(&'tx mut self, tx: &'tx mut Tx) -> BoxFuture<'tx, Result<()>>;
    /// Answers the caller: what the job made, or `failure`.
    fn answer(self: Box<Self>, failure: Option<Error>);
}

struct WriteJob<T> {
    durability: Durability,
    work: Option<Work<T>>,
    made: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send> Job for WriteJob<T> {
    fn durability(&self) -> Durability {
        self.durability
    }

    fn run<'tx>(&'tx mut self, tx: &'tx mut Tx) -> BoxFuture<'tx, Result<()>> {
        Box::pin(async move {
            let Some(work) = self.work.take() else {
                return Ok(());
            };
            self.made = Some(work(tx).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>, failure: Option<Error>) {
        let outcome = match (failure, self.made) {
            (Some(error), _) => Err(error),
            (None, Some(made)) => Ok(made),
            (None, None) => Err(Error::Unavailable("the job was not run".to_owned())),
        };
        // A caller that has gone away needs no answer.
        drop(self.reply.send(outcome));
    }
}

/// The handle to the writer task.
#[derive(Clone)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
    closing: CancellationToken,
    closed: CancellationToken,
}

impl Writer {
    pub(crate) async fn start(
        options: SqliteConnectOptions,
        wakeups: Arc<Wakeups>,
        clock: SharedClock,
        scope: &TaskScope,
    ) -> Result<Self> {
        let connection = options.connect().await?;
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let (closing, closed) = (CancellationToken::new(), CancellationToken::new());
        let task = WriterTask {
            options,
            wakeups,
            clock,
            waiting,
            closing: closing.clone(),
        };
        let ended = closed.clone().drop_guard();
        scope.spawn(async move {
            task.run(connection).await;
            drop(ended);
        });
        Ok(Self { jobs, closing, closed })
    }

    /// Runs `work` in a transaction and answers after its commit.
    pub(crate) async fn write<T, F>(&self, durability: Durability, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'tx> FnOnce(&'tx mut Tx) -> BoxFuture<'tx, Result<T>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = WriteJob {
            durability,
            work: Some(Box::new(work)),
            made: None,
            reply,
        };
        let begun = Instant::now();
        let gone = || Error::Unavailable("the writer has stopped".to_owned());
        self.jobs.send(Box::new(job)).await.map_err(|_| gone())?;
        let answer = answer.await.unwrap_or_else(|_| Err(gone()));
        metrics::histogram!(names::EVENT_APPEND_SECONDS).record(begun.elapsed());
        answer
    }
}

impl Writer {
    /// Takes no more jobs, does those it has, and closes its connection.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.closed.cancelled().await;
    }
}

struct WriterTask {
    options: SqliteConnectOptions,
    wakeups: Arc<Wakeups>,
    clock: SharedClock,
    waiting: mpsc::Receiver<Box<dyn Job>>,
    closing: CancellationToken,
}

impl WriterTask {
    async fn run(mut self, connection: SqliteConnection) {
        let mut connection = Some(connection);
        let mut batch = Vec::new();
        while self.next_batch(&mut batch).await > 0 {
            let open = match connection.take() {
                Some(open) => Ok(open),
                None => self.options.connect().await.map_err(Error::from),
            };
            let jobs = std::mem::take(&mut batch);
            match open {
                Ok(open) => connection = self.commit(open, jobs).await,
                Err(error) => {
                    abandon(jobs, &error);
                    tokio::time::sleep(REOPEN_DELAY).await;
                }
            }
        }
        if let Some(connection) = connection {
            // The database is whole either way; an orderly close only saves the next start some work.
            drop(connection.close().await);
        }
    }

    /// Waits for jobs; none come once the writer is closed and has done what it had taken.
    async fn next_batch(&mut self, batch: &mut Vec<Box<dyn Job>>) -> usize {
        tokio::select! {
            biased;
            () = self.closing.cancelled(), if !self.waiting.is_closed() => {
                self.waiting.close();
                self.waiting.recv_many(batch, MAX_BATCH).await
            }
            taken = self.waiting.recv_many(batch, MAX_BATCH) => taken,
        }
    }

    /// Runs one batch; gives the connection back unless it is broken.
    async fn commit(&self, connection: SqliteConnection, mut jobs: Vec<Box<dyn Job>>) -> Option<SqliteConnection> {
        let mut tx = Tx {
            connection,
            now: self.clock.now(),
            news: Vec::new(),
        };
        match run_batch(&mut tx, &mut jobs).await {
            Ok(failures) => {
                self.wakeups.notify(tx.news.drain(..));
                for (job, failure) in jobs.into_iter().zip(failures) {
                    job.answer(failure);
                }
                Some(tx.connection)
            }
            Err(error) => {
                tracing::error!(error = %error, "a batch of writes was abandoned: {error}");
                abandon(jobs, &error);
                drop(tx.connection.close_hard().await);
                None
            }
        }
    }
}

/// Every statement is a way to the database's thread and back, so those that frame the jobs travel together.
async fn run_batch(tx: &mut Tx, jobs: &mut [Box<dyn Job>]) -> Result<Vec<Option<Error>>> {
    let is_delta = jobs.iter().all(|job| job.durability() == Durability::Delta);
    // It can't change inside a transaction.
    execute(tx, if is_delta { BEGIN_DELTA } else { BEGIN_FULL }).await?;
    let mut failures = Vec::with_capacity(jobs.len());
    let last = jobs.len().saturating_sub(1);
    for (index, job) in jobs.iter_mut().enumerate() {
        let told = tx.news.len();
        let failure = match job.run(tx).await {
            Ok(()) => None,
            Err(error) if error.is_own_refusal() => Some(error),
            Err(error) => return Err(error),
        };
        if failure.is_some() {
            tx.news.truncate(told);
        }
        let after = match (failure.is_some(), index == last) {
            (false, false) => "RELEASE job; SAVEPOINT job",
            (false, true) => "RELEASE job; COMMIT",
            (true, false) => "ROLLBACK TO job; RELEASE job; SAVEPOINT job",
            (true, true) => "ROLLBACK TO job; RELEASE job; COMMIT",
        };
        execute(tx, after).await?;
        failures.push(failure);
    }
    Ok(failures)
}

async fn execute(tx: &mut Tx, sql: &'static str) -> Result<()> {
    sqlx::query(sql).execute(&mut tx.connection).await?;
    Ok(())
}

fn abandon(jobs: Vec<Box<dyn Job>>, error: &Error) {
    for job in jobs {
        job.answer(Some(Error::Unavailable(error.to_string())));
    }
}
