//! What a server finds when it starts: runs that were cut off, and whether the machine stopped cleanly.

use std::collections::BTreeMap;

use sqlx::Row as _;
use talaria_openapi::ids::{RunId, SessionId};

use crate::rows::id;
use crate::runs::ActiveRun;
use crate::writer::{Durability, Tx};
use crate::{Error, Result, Store};

/// How far numbers jump after an unclean stop of the machine, so that none that anybody saw is used again.
const SEQ_JUMP: i64 = 1 << 20;

/// A run whose owner died.
#[derive(Debug, Clone)]
pub struct CutRun {
    /// The run, taken over: its old owner's writes are refused.
    pub active: Box<ActiveRun>,
    /// The calls that had begun, and whether each may run again.
    pub started_calls: BTreeMap<String, bool>,
}

/// What was found at the start.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Runs that were cut off.
    pub cut: Vec<CutRun>,
    /// Waiting runs whose chain is idle, claimed.
    pub claimed: Vec<ActiveRun>,
}

impl Store {
    /// Marks the server as serving on this boot of the machine. After an unclean stop of the machine every chain's numbers
    /// jump, and the gap is fenced off.
    pub async fn mark_serving(&self, boot_id: String) -> Result<()> {
        self.writer
            .write(Durability::Full, move |tx| Box::pin(tx_mark_serving(tx, boot_id)))
            .await
    }

    /// Marks that everything was written that was to be written, and leaves the database as one file.
    pub async fn mark_stopped(&self) -> Result<()> {
        let marked = self.writer.write(Durability::Full, move |tx| {
            Box::pin(async move {
                sqlx::query("UPDATE server_state SET stopped_cleanly = 1")
                    .execute(&mut tx.connection)
                    .await?;
                Ok(())
            })
        });
        marked.await?;
        self.readers.close().await;
        self.writer.close().await;
        Ok(())
    }

    /// Takes over every run whose owner is gone, and claims what waits in idle chains. Only before anything is served.
    pub async fn recover(&self) -> Result<Recovered> {
        self.sweep_blobs().await?;
        self.recover_except(&[]).await
    }

    /// As [`Store::recover`], for a server that works on the runs of `owned`.
    pub async fn recover_except(&self, owned: &[RunId]) -> Result<Recovered> {
        let live = sqlx::query(
            "SELECT id, root_id, status FROM runs WHERE status IN ('queued', 'running', 'cancelling') ORDER BY created_at, id",
        )
        .fetch_all(&self.readers)
        .await?;
        let mut recovered = Recovered::default();
        for row in live {
            let (run_id, root_id): (RunId, SessionId) = (id(row.get(0))?, id(row.get(1))?);
            if owned.contains(&run_id) {
                continue;
            }
            if row.get::<&str, _>(2) == "queued" {
                let claim = self
                    .writer
                    .write(Durability::Full, move |tx| Box::pin(tx.claim_next(root_id)));
                recovered.claimed.extend(claim.await?.map(|active| *active));
            } else {
                recovered.cut.push(self.take_over(run_id).await?);
            }
        }
        Ok(recovered)
    }

    async fn take_over(&self, run_id: RunId) -> Result<CutRun> {
        self.writer
            .write(Durability::Full, move |tx| Box::pin(tx_take_over(tx, run_id)))
            .await
    }
}

async fn tx_take_over(tx: &mut Tx, run_id: RunId) -> Result<CutRun> {
    let mut row = tx.get_run(run_id).await?;
    row.fence += 1;
    tx.update_run(&row).await?;
    let calls = sqlx::query("SELECT call_id, read_only FROM tool_calls WHERE run_id = $1")
        .bind(run_id.to_string())
        .fetch_all(&mut tx.connection)
        .await?;
    let started_calls = calls.iter().map(|call| (call.get(0), call.get(1))).collect();
    let session = tx.get_session(row.run.profile_id, row.run.session_id).await?;
    let active = Box::new(ActiveRun {
        run: row.run,
        options: row.options,
        fence: row.fence,
        session,
    });
    Ok(CutRun { active, started_calls })
}

async fn tx_mark_serving(tx: &mut Tx, boot_id: String) -> Result<()> {
    let before = sqlx::query("SELECT boot_id, stopped_cleanly FROM server_state")
        .fetch_optional(&mut tx.connection)
        .await?;
    let machine_died = before.is_some_and(|row| row.get::<&str, _>(0) != boot_id && !row.get::<bool, _>(1));
    if machine_died {
        jump(tx).await?;
    }
    sqlx::query(
        "INSERT INTO server_state (id, boot_id, stopped_cleanly) VALUES (1, $1, 0) \
         ON CONFLICT (id) DO UPDATE SET boot_id = excluded.boot_id, stopped_cleanly = 0",
    )
    .bind(boot_id)
    .execute(&mut tx.connection)
    .await?;
    Ok(())
}

async fn jump(tx: &mut Tx) -> Result<()> {
    let chains = sqlx::query("SELECT root_id, head_seq FROM chains")
        .fetch_all(&mut tx.connection)
        .await?;
    for chain in chains {
        let root_id: SessionId = id(chain.get(0))?;
        let head_seq: i64 = chain.get(1);
        let until_seq = head_seq
            .checked_add(SEQ_JUMP)
            .ok_or(Error::Corrupt { what: "chain head" })?;
        sqlx::query("INSERT INTO log_fences (root_id, after_seq, until_seq) VALUES ($1, $2, $3)")
            .bind(root_id.to_string())
            .bind(head_seq)
            .bind(until_seq - 1)
            .execute(&mut tx.connection)
            .await?;
        sqlx::query("UPDATE chains SET head_seq = $2 WHERE root_id = $1")
            .bind(root_id.to_string())
            .bind(until_seq)
            .execute(&mut tx.connection)
            .await?;
    }
    Ok(())
}
