//! What happens when its time has come: runs that were asked for later, and chains that were only for a while.

use sqlx::Row as _;
use talaria_openapi::ids::{FileId, ProfileId, SessionId};
use talaria_openapi::time::Timestamp;

use crate::rows::id;
use crate::runs::ActiveRun;
use crate::sessions::tx_remove_chain;
use crate::writer::{Durability, Tx};
use crate::{Result, Store};

/// How long an ephemeral chain is kept after its last run.
pub const EPHEMERAL_MILLIS: i64 = 60 * 60 * 1000;
/// Who deleted it.
const BY: &str = "server";
/// What one transaction takes at most, so that others don't wait for it.
const AT_ONCE: i64 = 20;

impl Store {
    /// When the next thing is due: an interaction expires, or a run may start.
    pub async fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>> {
        let next: Option<i64> = sqlx::query_scalar(
            "SELECT min(at) FROM (SELECT min(expires_at) AS at FROM interactions WHERE status = 'pending' UNION ALL \
             SELECT min(start_after) FROM runs WHERE status = 'queued' AND start_after > $1)",
        )
        .bind(now.as_millis())
        .fetch_one(&self.readers)
        .await?;
        Ok(next.map(Timestamp::from_millis))
    }

    /// Claims the runs whose time has come in chains that are idle. Where a chain is busy, its end claims them.
    pub async fn claim_due(&self) -> Result<Vec<ActiveRun>> {
        self.writer
            .write(Durability::Full, |tx| Box::pin(tx_claim_due(tx)))
            .await
    }

    /// Removes ephemeral chains whose last run ended an hour ago; gives how many.
    pub async fn purge_ephemeral(&self) -> Result<usize> {
        let purged = self.writer.write(Durability::Full, |tx| Box::pin(tx_purge(tx)));
        let (count, files) = purged.await?;
        if !files.is_empty() {
            self.remove_blobs(files).await;
        }
        Ok(count)
    }
}

async fn tx_claim_due(tx: &mut Tx) -> Result<Vec<ActiveRun>> {
    let due: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT root_id FROM runs WHERE status = 'queued' AND start_after <= $1 AND NOT EXISTS \
         (SELECT 1 FROM runs AS active WHERE active.root_id = runs.root_id \
          AND active.status IN ('running', 'requires_action', 'cancelling')) LIMIT $2",
    )
    .bind(tx.now.as_millis())
    .bind(AT_ONCE)
    .fetch_all(&mut tx.connection)
    .await?;
    let mut claimed = Vec::new();
    for root_id in due {
        claimed.extend(tx.claim_next(id(&root_id)?).await?.map(|active| *active));
    }
    Ok(claimed)
}

async fn tx_purge(tx: &mut Tx) -> Result<(usize, Vec<FileId>)> {
    let cutoff = Timestamp::from_millis(tx.now.as_millis() - EPHEMERAL_MILLIS);
    let chains = sqlx::query(
        "SELECT root_id, profile_id FROM chains WHERE ephemeral = 1 AND created_at < $1 AND NOT EXISTS \
         (SELECT 1 FROM runs WHERE runs.root_id = chains.root_id \
          AND (runs.status IN ('queued', 'running', 'requires_action', 'cancelling') \
               OR json_extract(runs.doc, '$.ended_at') >= $2)) LIMIT $3",
    )
    .bind(cutoff.as_millis())
    .bind(cutoff.to_string())
    .bind(AT_ONCE)
    .fetch_all(&mut tx.connection)
    .await?;
    let (count, mut files) = (chains.len(), Vec::new());
    for row in chains {
        let (root_id, profile_id): (SessionId, ProfileId) = (id(row.get(0))?, id(row.get(1))?);
        files.extend(tx_remove_chain(tx, profile_id, root_id, BY).await?);
    }
    Ok((count, files))
}
