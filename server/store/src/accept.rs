//! Accepting inputs: one becomes a run at once, waits, takes the place of the active run, or is told to it. One that comes
//! again is recognised by the ids that the client gave it (I7, I8).

use sqlx::Row as _;
use talaria_openapi::ObjectName;
use talaria_openapi::events::EventBody;
use talaria_openapi::ids::{InputId, RunId, SessionId};
use talaria_openapi::inputs::{Delivery, IfUndelivered, Input, InputStatus};
use talaria_openapi::messages::{Part, Usage};
use talaria_openapi::runs::{CancelMode, Run, RunInput, RunKind, RunLinks, RunStatus, Stop, StopReason, Trigger};
use talaria_openapi::sessions::Session;
use talaria_openapi::time::Timestamp;

use crate::rows::{from_json, id, name_of, to_json};
use crate::runs::{NewRun, RunRow, Started, WhenBusy};
use crate::transitions::tx_cancel;
use crate::writer::Tx;
use crate::{Busy, Error, MAX_QUEUE, Result};

/// Added to the number of an input that interrupts: it stands before everything that waits, and behind those that
/// interrupted before it.
pub(crate) const BEFORE_THE_QUEUE: i64 = -(1 << 60);

/// How an input reaches the agent.
enum Way {
    Now,
    InQueue,
    AtItsHead(String),
    ToActive(RunId, IfUndelivered),
}

pub(crate) async fn tx_accept(tx: &mut Tx, new: NewRun) -> Result<Started> {
    if let Some(known) = find_repeated(tx, &new).await? {
        return Ok(known);
    }
    let named = tx.get_session(new.profile_id, new.session_id).await?;
    let session = if named.tip_id == named.id {
        named
    } else {
        tx.get_session(new.profile_id, named.tip_id).await?
    };
    match way(tx, session.root_id, &new).await? {
        Way::ToActive(run_id, if_undelivered) => steer(tx, run_id, new, if_undelivered).await,
        Way::Now => begin(tx, &session, new).await,
        Way::InQueue => wait(tx, &session, new, Delivery::Queue, None).await,
        Way::AtItsHead(by) => interrupt(tx, &session, new, by).await,
    }
}

/// The answer to an input that was accepted before. The same id for anything else is refused.
async fn find_repeated(tx: &mut Tx, new: &NewRun) -> Result<Option<Started>> {
    let row = sqlx::query(
        "SELECT doc, profile_id, request_sha256 FROM inputs WHERE id = $1 OR named_run_id = $2 \
         UNION ALL SELECT inputs.doc, inputs.profile_id, inputs.request_sha256 FROM runs \
         JOIN inputs ON inputs.id = runs.input_id WHERE runs.id = $2 LIMIT 1",
    )
    .bind(new.input_id.map(|id| id.to_string()))
    .bind(new.id.map(|id| id.to_string()))
    .fetch_optional(&mut tx.connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let is_same = row.get::<&str, _>(1) == new.profile_id.to_string()
        && row.get::<Option<&str>, _>(2) == Some(new.request_sha256.as_str());
    if !is_same {
        return Err(Error::IdConflict);
    }
    let input: Input = from_json(row.get(0), "input")?;
    let run_id = input.run_id.ok_or(Error::Corrupt { what: "input" })?;
    let mut run = tx.get_run(run_id).await?.run;
    run.input = Some(told(&input));
    Ok(Some(Started {
        is_repeated: true,
        ..started(run)
    }))
}

async fn way(tx: &mut Tx, root_id: SessionId, new: &NewRun) -> Result<Way> {
    let (busy, queue_depth) = tx.busy(root_id).await?;
    let queue_full = || {
        if queue_depth >= MAX_QUEUE {
            Err(Error::QueueFull)
        } else {
            Ok(())
        }
    };
    if is_for_later(tx, new) {
        return queue_full().map(|()| Way::InQueue);
    }
    match (busy, &new.when_busy) {
        (Some(busy), WhenBusy::SteerOnly(run_id, if_undelivered)) if busy.run_id == *run_id && is_steerable(&busy) => {
            Ok(Way::ToActive(*run_id, *if_undelivered))
        }
        (_, WhenBusy::SteerOnly(..)) => Err(Error::NotSteerable),
        (None, _) if !tx.has_due(root_id).await? => Ok(Way::Now),
        (Some(busy), WhenBusy::Refuse) => Err(Error::Busy(Box::new(busy))),
        (Some(busy), WhenBusy::Steer(if_undelivered)) if is_steerable(&busy) => {
            Ok(Way::ToActive(busy.run_id, *if_undelivered))
        }
        (Some(_), WhenBusy::Steer(_)) => Err(Error::NotSteerable),
        (_, WhenBusy::Interrupt(by)) => queue_full().map(|()| Way::AtItsHead(by.clone())),
        (None, _) | (Some(_), WhenBusy::Wait) => queue_full().map(|()| Way::InQueue),
    }
}

/// Whether its time has not come yet.
fn is_for_later(tx: &Tx, new: &NewRun) -> bool {
    new.start_after.is_some_and(|at| at > tx.now)
}

pub(crate) fn is_steerable(busy: &Busy) -> bool {
    matches!(busy.status, RunStatus::Running | RunStatus::RequiresAction)
}

async fn begin(tx: &mut Tx, session: &Session, new: NewRun) -> Result<Started> {
    let (row, input) = store(tx, session, new, Delivery::Run, None).await?;
    let active = tx.claim(row).await?;
    let mut run = active.run.clone();
    run.input = Some(RunInput {
        status: InputStatus::Delivered,
        ..told(&input)
    });
    Ok(Started {
        active: Some(active),
        ..started(run)
    })
}

async fn wait(
    tx: &mut Tx,
    session: &Session,
    new: NewRun,
    delivery: Delivery,
    queued_seq: Option<i64>,
) -> Result<Started> {
    let (row, input) = store(tx, session, new, delivery, queued_seq).await?;
    let mut run = enqueue(tx, row).await?;
    run.input = Some(told(&input));
    Ok(started(run))
}

/// The active run is told to stop, and the input comes next. A run that only waited for a person has ended with that.
async fn interrupt(tx: &mut Tx, session: &Session, new: NewRun, by: String) -> Result<Started> {
    let superseded = supersede_active(tx, session.root_id, by).await?;
    let waiting = wait(tx, session, new, Delivery::Interrupt, Some(BEFORE_THE_QUEUE)).await?;
    let claimed = tx.claim_next(session.root_id).await?;
    let active = claimed.filter(|active| active.run.id == waiting.run.id);
    let run = match &active {
        Some(active) => Run {
            input: waiting.run.input,
            ..active.run.clone()
        },
        None => waiting.run,
    };
    Ok(Started {
        active,
        superseded,
        ..started(run)
    })
}

/// Tells the active run, if there is one, to stop for a newer message; gives it.
pub(crate) async fn supersede_active(tx: &mut Tx, root_id: SessionId, by: String) -> Result<Option<RunId>> {
    let Some(active) = tx.busy(root_id).await?.0 else {
        return Ok(None);
    };
    if active.status != RunStatus::Cancelling {
        let mut row = tx.get_run(active.run_id).await?;
        row.run.stop = Some(Stop {
            reason: StopReason::Superseded,
            detail: Some("a newer message took its place".to_owned()),
        });
        tx_cancel(tx, row, by, CancelMode::Graceful, None).await?;
    }
    Ok(Some(active.run_id))
}

/// The input waits for the next safe point of the active run.
async fn steer(tx: &mut Tx, run_id: RunId, new: NewRun, if_undelivered: IfUndelivered) -> Result<Started> {
    let mut row = tx.get_run(run_id).await?;
    let input = Input {
        run_id: Some(run_id),
        ..new_input(tx.now, &row, &new, Delivery::Steer)
    };
    let input = put_accepted(tx, &row, input, &new).await?;
    sqlx::query("UPDATE inputs SET steers = $2, drop_undelivered = $3 WHERE id = $1")
        .bind(input.id.to_string())
        .bind(run_id.to_string())
        .bind(if_undelivered == IfUndelivered::Drop)
        .execute(&mut tx.connection)
        .await?;
    row.run.input = Some(told(&input));
    Ok(Started {
        is_steer: true,
        ..started(row.run)
    })
}

/// Makes runs of the inputs that an ended run was not told any more; they wait like any other.
pub(crate) async fn promote_undelivered(tx: &mut Tx, ended: &RunRow) -> Result<()> {
    let rows =
        sqlx::query("SELECT doc, drop_undelivered, named_run_id FROM inputs WHERE steers = $1 ORDER BY accepted_seq")
            .bind(ended.run.id.to_string())
            .fetch_all(&mut tx.connection)
            .await?;
    for row in rows {
        let mut input: Input = from_json(row.get(0), "input")?;
        let (place, profile_id) = (ended.place(), ended.run.profile_id);
        let reason = "the run that it was meant for ended first".to_owned();
        if row.get::<bool, _>(1) {
            input.status = InputStatus::Cancelled;
            let input_id = input.id;
            tx.append(place, &EventBody::InputCancelled { input_id, reason })
                .await?;
        } else {
            let named: Option<&str> = row.get(2);
            let run_id = named.map(id).transpose()?.unwrap_or_else(RunId::new);
            let promoted = promoted_row(tx.now, ended, run_id, input.id);
            input.status = InputStatus::Promoted;
            input.run_id = Some(run_id);
            let input_id = input.id;
            let body = EventBody::InputPromoted {
                input_id,
                run_id,
                reason,
            };
            tx.append(promoted.place(), &body).await?;
            insert_run(tx, &promoted, input.accepted_seq).await?;
            enqueue(tx, promoted).await?;
        }
        tx.put_input(place.root_id, profile_id, &input).await?;
        sqlx::query("UPDATE inputs SET steers = NULL WHERE id = $1")
            .bind(input.id.to_string())
            .execute(&mut tx.connection)
            .await?;
    }
    Ok(())
}

/// A promoted input takes over the options of the run that it was meant for.
fn promoted_row(now: Timestamp, ended: &RunRow, run_id: RunId, input_id: InputId) -> RunRow {
    let run = Run {
        id: run_id,
        attempt: 1,
        status: RunStatus::Queued,
        queue_position: None,
        trigger: Trigger {
            kind: ended.run.trigger.kind,
            input_id: Some(input_id),
        },
        first_seq: None,
        last_seq: None,
        output: None,
        stop: None,
        error: None,
        usage: Usage::default(),
        created_at: now,
        started_at: None,
        start_after: None,
        ended_at: None,
        input: None,
        links: RunLinks::of(run_id),
        ..ended.run.clone()
    };
    RunRow {
        run,
        options: ended.options.clone(),
        fence: 0,
        input_id,
    }
}

fn started(run: Run) -> Started {
    Started {
        run,
        active: None,
        superseded: None,
        is_steer: false,
        is_repeated: false,
    }
}

fn told(input: &Input) -> RunInput {
    RunInput {
        id: input.id,
        delivery: input.delivery,
        status: input.status,
    }
}

/// Stores an input and its run. `queued_seq` moves its place in the queue.
async fn store(
    tx: &mut Tx,
    session: &Session,
    new: NewRun,
    delivery: Delivery,
    moved: Option<i64>,
) -> Result<(RunRow, Input)> {
    let row = new_row(tx.now, session, &new);
    let input = new_input(tx.now, &row, &new, delivery);
    let input = put_accepted(tx, &row, input, &new).await?;
    insert_run(tx, &row, input.accepted_seq + moved.unwrap_or(0)).await?;
    Ok((row, input))
}

async fn put_accepted(tx: &mut Tx, row: &RunRow, mut input: Input, new: &NewRun) -> Result<Input> {
    let place = row.place();
    input.accepted_seq = tx.next_seq(place.root_id).await?;
    tx.put_input(place.root_id, row.run.profile_id, &input).await?;
    sqlx::query("UPDATE inputs SET request_sha256 = $2, named_run_id = $3, accepted_seq = $4 WHERE id = $1")
        .bind(input.id.to_string())
        .bind(&new.request_sha256)
        .bind(new.id.map(|id| id.to_string()))
        .bind(input.accepted_seq)
        .execute(&mut tx.connection)
        .await?;
    let accepted = EventBody::InputAccepted {
        input: Box::new(input.clone()),
    };
    tx.insert_event(place, input.accepted_seq, &accepted).await?;
    Ok(input)
}

/// Stores what is said to a run that goes on.
pub(crate) async fn put_more(tx: &mut Tx, row: &RunRow, content: Vec<Part>) -> Result<Input> {
    let place = row.place();
    let input = Input {
        id: InputId::new(),
        object: "input".into(),
        session_id: place.session_id,
        created_at: tx.now,
        status: InputStatus::Accepted,
        delivery: Delivery::Run,
        run_id: Some(row.run.id),
        content,
        accepted_seq: tx.next_seq(place.root_id).await?,
        delivered_seq: None,
    };
    tx.put_input(place.root_id, row.run.profile_id, &input).await?;
    let accepted = EventBody::InputAccepted {
        input: Box::new(input.clone()),
    };
    tx.insert_event(place, input.accepted_seq, &accepted).await?;
    Ok(input)
}

async fn enqueue(tx: &mut Tx, mut row: RunRow) -> Result<Run> {
    let place = row.place();
    let seq = tx.next_seq(place.root_id).await?;
    let queue_position: u32 = sqlx::query_scalar(
        "SELECT count(*) FROM runs WHERE root_id = $1 AND status = 'queued' \
         AND queued_seq <= (SELECT queued_seq FROM runs WHERE id = $2)",
    )
    .bind(place.root_id.to_string())
    .bind(row.run.id.to_string())
    .fetch_one(&mut tx.connection)
    .await?;
    row.run.first_seq = Some(seq);
    row.run.last_seq = Some(seq);
    row.run.queue_position = Some(queue_position);
    tx.update_run(&row).await?;
    let run = Box::new(row.run.clone());
    tx.insert_event(place, seq, &EventBody::RunQueued { run, queue_position })
        .await?;
    Ok(row.run)
}

fn new_row(now: Timestamp, session: &Session, new: &NewRun) -> RunRow {
    let run_id = new.id.unwrap_or_else(RunId::new);
    let input_id = new.input_id.unwrap_or_else(InputId::new);
    let run = Run {
        id: run_id,
        object: ObjectName::Borrowed("run"),
        kind: RunKind::Message,
        session_id: session.id,
        root_id: session.root_id,
        parent_run_id: None,
        profile_id: session.profile_id,
        model: new.model.clone().unwrap_or_else(|| session.model.clone()),
        attempt: 1,
        status: RunStatus::Queued,
        queue_position: None,
        trigger: Trigger {
            kind: new.trigger,
            input_id: Some(input_id),
        },
        first_seq: None,
        last_seq: None,
        output: None,
        pending_interactions: Vec::new(),
        stop: None,
        error: None,
        limits: new.limits,
        usage: Usage::default(),
        created_at: now,
        started_at: None,
        start_after: new.start_after,
        ended_at: None,
        metadata: new.metadata.clone(),
        input: None,
        links: RunLinks::of(run_id),
    };
    RunRow {
        run,
        options: new.options.clone(),
        fence: 0,
        input_id,
    }
}

fn new_input(now: Timestamp, row: &RunRow, new: &NewRun, delivery: Delivery) -> Input {
    Input {
        id: new.input_id.unwrap_or(match delivery {
            // The row is the active run's, with the input of its own.
            Delivery::Steer => InputId::new(),
            Delivery::Run | Delivery::Queue | Delivery::Interrupt => row.input_id,
        }),
        object: "input".into(),
        session_id: row.run.session_id,
        created_at: now,
        status: match delivery {
            Delivery::Run | Delivery::Steer => InputStatus::Accepted,
            Delivery::Queue | Delivery::Interrupt => InputStatus::Queued,
        },
        delivery,
        run_id: Some(row.run.id),
        content: new.content.clone(),
        accepted_seq: 0,
        delivered_seq: None,
    }
}

async fn insert_run(tx: &mut Tx, row: &RunRow, queued_seq: i64) -> Result<()> {
    sqlx::query(
        "INSERT INTO runs (id, root_id, session_id, profile_id, status, fence, options, input_id, queued_seq, start_after, doc, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(row.run.id.to_string())
    .bind(row.run.root_id.to_string())
    .bind(row.run.session_id.to_string())
    .bind(row.run.profile_id.to_string())
    .bind(name_of(&row.run.status)?)
    .bind(row.fence)
    .bind(to_json(&row.options)?)
    .bind(row.input_id.to_string())
    .bind(queued_seq)
    .bind(row.run.start_after.map(Timestamp::as_millis))
    .bind(to_json(&row.run)?)
    .bind(row.run.created_at.as_millis())
    .execute(&mut tx.connection)
    .await?;
    Ok(())
}
