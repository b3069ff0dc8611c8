//! What waits in a chain can be changed until it is delivered (api.md 2.5): its words, its place, and how it is delivered.

use sqlx::Row as _;
use talaria_openapi::events::EventBody;
use talaria_openapi::ids::{InputId, ProfileId, RunId, SessionId};
use talaria_openapi::inputs::{Delivery, Input, InputStatus};
use talaria_openapi::messages::Part;
use talaria_openapi::runs::{RunOutput, RunStatus, Stop, StopReason};

use crate::accept::{BEFORE_THE_QUEUE, is_steerable, supersede_active};
use crate::runs::{ActiveRun, RunRow};
use crate::transitions::append_terminal;
use crate::writer::{Durability, Tx};
use crate::{Error, Result, Store};

/// What to change of an input that waits.
#[derive(Debug, Clone, Default)]
pub struct QueueChanges {
    /// Other words.
    pub content: Option<Vec<Part>>,
    /// Its new place, from 1; beyond the end is the end.
    pub position: Option<u32>,
    /// How it is delivered; [`Delivery::Run`] is taken as [`Delivery::Queue`].
    pub delivery: Option<Delivery>,
}

/// What a change of the queue led to.
#[derive(Debug)]
pub struct Requeued {
    /// The input as it is now.
    pub input: Input,
    /// The run that began with it: the caller owns it.
    pub active: Option<Box<ActiveRun>>,
    /// The run that was told to stop for it.
    pub superseded: Option<RunId>,
    /// The run that it is told to, at its next safe point.
    pub steered: Option<RunId>,
}

impl Store {
    /// Changes an input that waits in a chain. Refused with [`Error::NotWaiting`] once it doesn't, with
    /// [`Error::NotSteerable`] where it is to be told to a run and none can be told anything.
    pub async fn change_queued(
        &self,
        profile_id: ProfileId,
        (root_id, input_id): (SessionId, InputId),
        changes: QueueChanges,
        by: String,
    ) -> Result<Requeued> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(async move {
                    let row = find(tx, profile_id, root_id, input_id).await?;
                    tx_change(tx, row, changes, by).await
                })
            })
            .await
    }
}

/// The waiting run of an input.
async fn find(tx: &mut Tx, profile_id: ProfileId, root_id: SessionId, input_id: InputId) -> Result<RunRow> {
    let input = tx.get_input(input_id).await?;
    let row = tx.get_run(input.run_id.ok_or(Error::NotFound)?).await?;
    if row.run.profile_id != profile_id || row.run.root_id != root_id {
        return Err(Error::NotFound);
    }
    if row.run.status != RunStatus::Queued || row.input_id != input_id {
        return Err(Error::NotWaiting);
    }
    Ok(row)
}

async fn tx_change(tx: &mut Tx, row: RunRow, changes: QueueChanges, by: String) -> Result<Requeued> {
    let mut input = tx.get_input(row.input_id).await?;
    if let Some(content) = changes.content {
        input.content = content;
    }
    if let Some(position) = changes.position {
        place(tx, &row, position).await?;
    }
    match changes.delivery {
        Some(Delivery::Steer) => steer(tx, row, input).await,
        Some(Delivery::Interrupt) => interrupt(tx, row, input, by).await,
        Some(Delivery::Queue | Delivery::Run) => {
            input.delivery = Delivery::Queue;
            stay(tx, &row, input).await
        }
        None => stay(tx, &row, input).await,
    }
}

async fn stay(tx: &mut Tx, row: &RunRow, input: Input) -> Result<Requeued> {
    Ok(Requeued {
        input: tell(tx, row, input).await?,
        active: None,
        superseded: None,
        steered: None,
    })
}

/// Stores a changed input, and tells of it.
async fn tell(tx: &mut Tx, row: &RunRow, input: Input) -> Result<Input> {
    let place = row.place();
    tx.put_input(place.root_id, row.run.profile_id, &input).await?;
    let accepted = EventBody::InputAccepted {
        input: Box::new(input.clone()),
    };
    tx.append(place, &accepted).await?;
    Ok(input)
}

/// Moves a waiting run: the numbers that order the queue stay, and are dealt out anew.
async fn place(tx: &mut Tx, row: &RunRow, position: u32) -> Result<()> {
    let waiting =
        sqlx::query("SELECT id, queued_seq FROM runs WHERE root_id = $1 AND status = 'queued' ORDER BY queued_seq")
            .bind(row.run.root_id.to_string())
            .fetch_all(&mut tx.connection)
            .await?;
    let numbers: Vec<i64> = waiting.iter().map(|found| found.get(1)).collect();
    let others = waiting.iter().map(|found| found.get::<String, _>(0));
    let mut order: Vec<String> = others.filter(|other| *other != row.run.id.to_string()).collect();
    let at = usize::try_from(position.saturating_sub(1)).unwrap_or(usize::MAX);
    order.insert(at.min(order.len()), row.run.id.to_string());
    for (run_id, number) in order.iter().zip(numbers) {
        sqlx::query("UPDATE runs SET queued_seq = $2 WHERE id = $1")
            .bind(run_id)
            .bind(number)
            .execute(&mut tx.connection)
            .await?;
    }
    Ok(())
}

/// It comes next, at once: the active run is told to stop.
async fn interrupt(tx: &mut Tx, row: RunRow, mut input: Input, by: String) -> Result<Requeued> {
    let (root_id, run_id) = (row.run.root_id, row.run.id);
    input.delivery = Delivery::Interrupt;
    let input = tell(tx, &row, input).await?;
    sqlx::query("UPDATE runs SET queued_seq = $2, start_after = NULL WHERE id = $1")
        .bind(run_id.to_string())
        .bind(BEFORE_THE_QUEUE + input.accepted_seq)
        .execute(&mut tx.connection)
        .await?;
    let superseded = supersede_active(tx, root_id, by).await?;
    let active = tx.claim_next(root_id).await?;
    Ok(Requeued {
        input: tx.get_input(input.id).await?,
        active,
        superseded,
        steered: None,
    })
}

/// It is told to the active run, and its own run never begins.
async fn steer(tx: &mut Tx, mut row: RunRow, mut input: Input) -> Result<Requeued> {
    let (busy, _) = tx.busy(row.run.root_id).await?;
    let active = busy.filter(is_steerable).ok_or(Error::NotSteerable)?.run_id;
    row.run.status = RunStatus::Cancelled;
    row.run.queue_position = None;
    row.run.ended_at = Some(tx.now);
    row.run.output = Some(RunOutput::default());
    row.run.stop = Some(Stop {
        reason: StopReason::Superseded,
        detail: Some(format!("its input was told to {active} instead")),
    });
    append_terminal(tx, &mut row).await?;
    tx.update_run(&row).await?;
    input.delivery = Delivery::Steer;
    input.status = InputStatus::Accepted;
    input.run_id = Some(active);
    let told_to = tx.get_run(active).await?;
    let input = tell(tx, &told_to, input).await?;
    // The run's own name is taken by the one that never begins.
    sqlx::query("UPDATE inputs SET steers = $2, drop_undelivered = 0, named_run_id = NULL WHERE id = $1")
        .bind(input.id.to_string())
        .bind(active.to_string())
        .execute(&mut tx.connection)
        .await?;
    Ok(Requeued {
        input,
        active: None,
        superseded: None,
        steered: Some(active),
    })
}
