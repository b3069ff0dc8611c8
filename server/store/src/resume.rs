//! An interrupted run, or one that failed in a way that may pass, goes on in a new attempt when a person says so.

use talaria_domain::run_state::{self, Transition};
use talaria_openapi::events::{EventBody, ResumedAfter};
use talaria_openapi::ids::{ProfileId, RunId};
use talaria_openapi::messages::{MessageKind, Part};

use crate::accept;
use crate::runs::{ActiveRun, RunRow};
use crate::writer::{Durability, Tx};
use crate::{Error, Result, Store};

impl Store {
    /// Claims a run that has ended for another attempt, with something more to say if there is. Refused with
    /// [`Error::NotResumable`] for a run that ended for good, and once the chain has gone on without it.
    pub async fn resume_run(&self, profile_id: ProfileId, run_id: RunId, more: Vec<Part>) -> Result<Box<ActiveRun>> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(tx_resume(tx, profile_id, run_id, more))
            })
            .await
    }
}

async fn tx_resume(tx: &mut Tx, profile_id: ProfileId, run_id: RunId, more: Vec<Part>) -> Result<Box<ActiveRun>> {
    let mut row = tx.get_run(run_id).await?;
    if row.run.profile_id != profile_id {
        return Err(Error::NotFound);
    }
    let failed_for_good = row.run.error.as_ref().is_some_and(|error| !error.retryable);
    if failed_for_good || !is_last(tx, &row).await? {
        return Err(Error::NotResumable);
    }
    let next = run_state::next(row.run.status, Transition::Resume).map_err(|_| Error::NotResumable)?;
    row.run.status = next.status;
    row.run.attempt += 1;
    row.fence += 1;
    row.run.ended_at = None;
    row.run.stop = None;
    row.run.error = None;
    row.run.output = None;
    let resumed = EventBody::RunResumed {
        after: ResumedAfter::ResumeCall,
        attempt: row.run.attempt,
    };
    tx.append(row.place(), &resumed).await?;
    tx.update_run(&row).await?;
    if !more.is_empty() {
        let input = accept::put_more(tx, &row, more).await?;
        tx.deliver(&row, input, MessageKind::Normal).await?;
    }
    let session = tx.get_session(profile_id, row.run.session_id).await?;
    Ok(Box::new(ActiveRun {
        run: row.run,
        options: row.options,
        fence: row.fence,
        session,
    }))
}

/// Whether nothing was accepted in the chain after this run, and it wasn't rewound.
async fn is_last(tx: &mut Tx, row: &RunRow) -> Result<bool> {
    let later: i64 =
        sqlx::query_scalar("SELECT count(*) FROM runs WHERE root_id = $1 AND id <> $2 AND (created_at, id) > ($3, $2)")
            .bind(row.run.root_id.to_string())
            .bind(row.run.id.to_string())
            .bind(row.run.created_at.as_millis())
            .fetch_one(&mut tx.connection)
            .await?;
    let rewound_seq: i64 = sqlx::query_scalar("SELECT rewound_seq FROM chains WHERE root_id = $1")
        .bind(row.run.root_id.to_string())
        .fetch_one(&mut tx.connection)
        .await?;
    Ok(later == 0 && row.run.last_seq.is_some_and(|last| last > rewound_seq))
}
