//! The transitions of a run that has begun: what its owner writes, and cancel. Each is one transaction with its events.

use talaria_domain::run_state::{self, Transition};
use talaria_openapi::events::EventBody;
use talaria_openapi::ids::{RunId, SessionId};
use talaria_openapi::inputs::InputStatus;
use talaria_openapi::messages::Usage;
use talaria_openapi::runs::{CancelMode, Run, RunOutput, RunStatus, Stop, StopReason};

use crate::rows::{from_json, to_json};
use crate::runs::{ActiveRun, End, RunRow, Step};
use crate::writer::Tx;
use crate::{Error, Result};
use crate::{accept, interactions};

pub(crate) async fn tx_record(
    tx: &mut Tx,
    run_id: RunId,
    fence: i64,
    steps: Vec<Step>,
) -> Result<Option<Box<ActiveRun>>> {
    let mut row = tx.get_run(run_id).await.map_err(|error| match error {
        Error::NotFound => Error::Fenced,
        other => other,
    })?;
    let is_owner = row.fence == fence && matches!(row.run.status, RunStatus::Running | RunStatus::Cancelling);
    if !is_owner {
        return Err(Error::Fenced);
    }
    for step in steps {
        apply(tx, &mut row, step).await?;
    }
    tx.update_run(&row).await?;
    if row.run.status.is_ended() {
        tx.claim_next(row.run.root_id).await
    } else {
        Ok(None)
    }
}

async fn apply(tx: &mut Tx, row: &mut RunRow, step: Step) -> Result<()> {
    let place = row.place();
    match step {
        Step::Event(body) => drop(tx.append(place, &body).await?),
        Step::Message(message) => drop(tx.put_message(place, row.run.profile_id, *message).await?),
        Step::File(file) => {
            tx.put_file(place.root_id, row.run.profile_id, &file).await?;
            tx.append(place, &EventBody::FileCreated { file: *file }).await?;
        }
        Step::StartTool {
            call_id,
            name,
            is_read_only,
        } => {
            sqlx::query(
                "INSERT INTO tool_calls (run_id, call_id, root_id, name, read_only) VALUES ($1, $2, $3, $4, $5) \
                 ON CONFLICT (run_id, call_id) DO UPDATE SET name = excluded.name, read_only = excluded.read_only",
            )
            .bind(row.run.id.to_string())
            .bind(call_id)
            .bind(place.root_id.to_string())
            .bind(name)
            .bind(is_read_only)
            .execute(&mut tx.connection)
            .await?;
        }
        Step::Usage {
            usage,
            round,
            budget_remaining,
        } => {
            row.run.usage += usage;
            add_chain_usage(tx, place.root_id, usage).await?;
            tx.append(
                place,
                &EventBody::RunUsage {
                    usage,
                    round,
                    budget_remaining,
                },
            )
            .await?;
        }
        Step::Park { asked, still_pending } => interactions::tx_park(tx, row, asked, &still_pending).await?,
        Step::Resume(after) => {
            let next = run_state::next(row.run.status, Transition::Recover).map_err(|_| Error::Fenced)?;
            row.run.status = next.status;
            row.run.attempt += 1;
            tx.append(
                place,
                &EventBody::RunResumed {
                    after,
                    attempt: row.run.attempt,
                },
            )
            .await?;
        }
        Step::End(end) => end_run(tx, row, *end).await?,
    }
    Ok(())
}

async fn add_chain_usage(tx: &mut Tx, root_id: SessionId, more: Usage) -> Result<()> {
    let text: String = sqlx::query_scalar("SELECT usage FROM chains WHERE root_id = $1")
        .bind(root_id.to_string())
        .fetch_one(&mut tx.connection)
        .await?;
    let mut usage: Usage = from_json(&text, "usage")?;
    usage += more;
    sqlx::query("UPDATE chains SET usage = $2, updated_at = max(updated_at + 1, $3) WHERE root_id = $1")
        .bind(root_id.to_string())
        .bind(to_json(&usage)?)
        .bind(tx.now.as_millis())
        .execute(&mut tx.connection)
        .await?;
    Ok(())
}

/// Ends a run with its terminal event. A run that was told to stop ends as cancelled, whatever its owner meant.
async fn end_run(tx: &mut Tx, row: &mut RunRow, end: End) -> Result<()> {
    let was_cancelled = row.run.status == RunStatus::Cancelling;
    let transition = if was_cancelled {
        Transition::ConfirmCancel
    } else {
        end.transition
    };
    let next = run_state::next(row.run.status, transition).map_err(|_| Error::Fenced)?;
    row.run.status = next.status;
    row.run.ended_at = Some(tx.now);
    row.run.output = Some(end.output);
    row.run.error = end.error.filter(|_| !was_cancelled);
    row.run.stop = Some(match row.run.stop.take() {
        // Whoever stopped it has said why.
        Some(told) if was_cancelled => told,
        None if was_cancelled => Stop {
            reason: StopReason::Cancelled,
            detail: end.stop.detail,
        },
        _ => end.stop,
    });
    append_terminal(tx, row).await?;
    accept::promote_undelivered(tx, row).await
}

pub(crate) async fn append_terminal(tx: &mut Tx, row: &mut RunRow) -> Result<()> {
    let place = row.place();
    let seq = tx.next_seq(place.root_id).await?;
    row.run.first_seq.get_or_insert(seq);
    row.run.last_seq = Some(seq);
    let run = Box::new(row.run.clone());
    let body = match row.run.status {
        RunStatus::Completed => EventBody::RunCompleted { run },
        RunStatus::Failed => EventBody::RunFailed { run },
        RunStatus::Interrupted => EventBody::RunInterrupted { run },
        _ => EventBody::RunCancelled { run },
    };
    tx.insert_event(place, seq, &body).await
}

pub(crate) async fn tx_cancel(
    tx: &mut Tx,
    mut row: RunRow,
    by: String,
    mode: CancelMode,
    reason: Option<String>,
) -> Result<(Run, bool)> {
    let next = run_state::next(row.run.status, Transition::Cancel).map_err(|_| Error::Fenced)?;
    if next.is_repeat {
        return Ok((row.run, false));
    }
    let was_waiting = row.run.status == RunStatus::Queued;
    row.run.status = next.status;
    let place = row.place();
    interactions::cancel_pending(tx, &mut row).await?;
    // Whoever takes its place has said so before.
    row.run.stop.get_or_insert_with(|| Stop {
        reason: StopReason::Cancelled,
        detail: reason.clone(),
    });
    if next.is_terminal {
        if was_waiting {
            drop_input(tx, &row, reason.clone().unwrap_or_else(|| format!("cancelled by {by}"))).await?;
        }
        row.run.queue_position = None;
        row.run.ended_at = Some(tx.now);
        row.run.output = Some(RunOutput {
            text: String::new(),
            message_ids: Vec::new(),
        });
        append_terminal(tx, &mut row).await?;
        accept::promote_undelivered(tx, &row).await?;
    } else {
        tx.append(place, &EventBody::RunCancelling { mode, by, reason }).await?;
    }
    tx.update_run(&row).await?;
    Ok((row.run, true))
}

/// A run that never began: its input will not be delivered.
async fn drop_input(tx: &mut Tx, row: &RunRow, reason: String) -> Result<()> {
    let place = row.place();
    let mut input = tx.get_input(row.input_id).await?;
    input.status = InputStatus::Cancelled;
    tx.put_input(place.root_id, row.run.profile_id, &input).await?;
    let input_id = input.id;
    tx.append(place, &EventBody::InputCancelled { input_id, reason })
        .await?;
    Ok(())
}
