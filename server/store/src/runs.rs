//! Runs: start, queue, the owner's transitions, cancel. Every step of a run's life is one transaction with its events.

use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use talaria_domain::run_state::{self, Transition};
use talaria_openapi::Metadata;
use talaria_openapi::events::{EventBody, ResumedAfter};
use talaria_openapi::files::File;
use talaria_openapi::ids::{InputId, InteractionId, ProfileId, RunId, SessionId};
use talaria_openapi::inputs::IfUndelivered;
use talaria_openapi::messages::{Message, MessageKind, Part, Usage};
use talaria_openapi::runs::{
    ApprovalPolicy, CancelMode, Run, RunError, RunLimits, RunOutput, RunStatus, Stop, ToolFilter, TriggerKind,
};
use talaria_openapi::sessions::Session;
use talaria_openapi::time::Timestamp;

use crate::accept;
use crate::events::Place;
use crate::interactions::Asked;
use crate::rows::{from_json, name_of, to_json};
use crate::writer::{Durability, Tx};
use crate::{Busy, Error, Result, Store};

/// What a request asked for beyond its input; kept with the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// The end of the system prompt during this run.
    pub instructions: Option<String>,
    /// Which tools it may use.
    pub tools: Option<ToolFilter>,
    /// Who must agree before a tool acts.
    pub approval_policy: Option<ApprovalPolicy>,
}

/// What to do with an input when a run of the chain is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhenBusy {
    /// Refuse it.
    Refuse,
    /// It waits for its turn.
    Wait,
    /// The active run is told to stop, in the name of this principal, and the input comes next.
    Interrupt(String),
    /// The active run is told at its next safe point.
    Steer(IfUndelivered),
    /// This run is told at its next safe point; when it isn't active any more, the input is refused.
    SteerOnly(RunId, IfUndelivered),
}

/// A run to start.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Any session of the chain; the run works in the chain's tip.
    pub session_id: SessionId,
    /// The profile.
    pub profile_id: ProfileId,
    /// The run's id, where the client has named one.
    pub id: Option<RunId>,
    /// The input's id, where the client has named one.
    pub input_id: Option<InputId>,
    /// SHA-256 of the request, to recognise a repeated one.
    pub request_sha256: String,
    /// What to say.
    pub content: Vec<Part>,
    /// Not before this time; it waits in the queue until then.
    pub start_after: Option<Timestamp>,
    /// What to do when the chain is busy.
    pub when_busy: WhenBusy,
    /// `provider/model`; the session's when `None`.
    pub model: Option<String>,
    /// Its limits.
    pub limits: RunLimits,
    /// Its options.
    pub options: RunOptions,
    /// Where it comes from.
    pub trigger: TriggerKind,
    /// Annotations.
    pub metadata: Metadata,
}

/// A run that somebody owns: what its loop needs.
#[derive(Debug, Clone)]
pub struct ActiveRun {
    /// The run.
    pub run: Run,
    /// Its options.
    pub options: RunOptions,
    /// Every write of the owner names it; an older one is refused.
    pub fence: i64,
    /// Its session.
    pub session: Session,
}

/// A run that was accepted.
#[derive(Debug, Clone)]
pub struct Started {
    /// The run, with its input.
    pub run: Run,
    /// Set when it began at once: the caller owns it.
    pub active: Option<Box<ActiveRun>>,
    /// The run that was told to stop for it.
    pub superseded: Option<RunId>,
    /// Whether the input was told to the run that is given, instead of starting one.
    pub is_steer: bool,
    /// Whether the input was accepted before, and nothing was done now.
    pub is_repeated: bool,
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// Complete, fail, confirm a cancel, or interrupt.
    pub transition: Transition,
    /// Why.
    pub stop: Stop,
    /// The fault, of a failed run.
    pub error: Option<RunError>,
    /// What it said.
    pub output: RunOutput,
}

/// One step of a run, written by its owner.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// An event without a row of its own.
    Event(EventBody),
    /// A message that is being said or is whole; by its status.
    Message(Box<Message>),
    /// A file was made; its bytes are written.
    File(Box<File>),
    /// A tool begins.
    StartTool {
        /// The call.
        call_id: String,
        /// The tool.
        name: String,
        /// Whether it may run again after a crash.
        is_read_only: bool,
    },
    /// A model call was paid for.
    Usage {
        /// What it cost.
        usage: Usage,
        /// The round.
        round: u32,
        /// Rounds left.
        budget_remaining: u32,
    },
    /// The run waits for people: for what is asked now, and for what was asked before and is still open.
    Park {
        /// What is asked.
        asked: Vec<Asked>,
        /// What is open already.
        still_pending: Vec<InteractionId>,
    },
    /// A new attempt begins.
    Resume(ResumedAfter),
    /// The run ends.
    End(Box<End>),
}

/// Which runs, and from where.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Of one session.
    pub session_id: Option<SessionId>,
    /// Of one status.
    pub status: Option<RunStatus>,
    /// Beyond this place: time and id of the last one seen.
    pub beyond: Option<(Timestamp, RunId)>,
    /// Oldest first.
    pub is_ascending: bool,
}

impl Store {
    /// Accepts an input: starts its run at once, queues it, or refuses with [`Error::Busy`] or [`Error::QueueFull`].
    pub async fn start_run(&self, new: NewRun) -> Result<Started> {
        self.writer
            .write(Durability::Full, move |tx| Box::pin(accept::tx_accept(tx, new)))
            .await
    }

    /// The second door of a run's owner: all steps or none. Refused with [`Error::Fenced`] once the caller isn't the owner.
    /// After an end it claims the chain's next waiting run for the caller, and gives it back.
    pub async fn record(&self, run_id: RunId, fence: i64, steps: Vec<Step>) -> Result<Option<Box<ActiveRun>>> {
        let is_delta = |step: &Step| matches!(step, Step::Event(body) if body.is_delta());
        let durability = if steps.iter().all(is_delta) {
            Durability::Delta
        } else {
            Durability::Full
        };
        self.writer
            .write(durability, move |tx| {
                Box::pin(crate::transitions::tx_record(tx, run_id, fence, steps))
            })
            .await
    }

    /// Takes back a run that still waits. Refused with [`Error::NotWaiting`] once it has begun.
    pub async fn cancel_waiting(&self, profile_id: ProfileId, run_id: RunId, by: String) -> Result<Run> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(async move {
                    let row = tx.get_run(run_id).await?;
                    if row.run.profile_id != profile_id {
                        return Err(Error::NotFound);
                    }
                    if row.run.status != RunStatus::Queued {
                        return Err(Error::NotWaiting);
                    }
                    let (run, _) = crate::transitions::tx_cancel(tx, row, by, CancelMode::Graceful, None).await?;
                    Ok(run)
                })
            })
            .await
    }

    /// Tells a run to stop. Gives the run, and the chain's next one where that begins with it: the caller owns it.
    pub async fn cancel_run(
        &self,
        profile_id: ProfileId,
        run_id: RunId,
        by: String,
        mode: CancelMode,
        reason: Option<String>,
    ) -> Result<(Run, Option<Box<ActiveRun>>)> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(async move {
                    let row = tx.get_run(run_id).await?;
                    if row.run.profile_id != profile_id {
                        return Err(Error::NotFound);
                    }
                    let (run, has_changed) = crate::transitions::tx_cancel(tx, row, by, mode, reason).await?;
                    // A run that only waited for a person has ended with this.
                    let next = match has_changed && run.status.is_ended() {
                        true => tx.claim_next(run.root_id).await?,
                        false => None,
                    };
                    Ok((run, next))
                })
            })
            .await
    }

    /// One run.
    pub async fn get_run(&self, profile_id: ProfileId, run_id: RunId) -> Result<Run> {
        let row = sqlx::query("SELECT doc, queued_seq FROM runs WHERE id = $1 AND profile_id = $2")
            .bind(run_id.to_string())
            .bind(profile_id.to_string())
            .fetch_one(&self.readers)
            .await?;
        let mut run: Run = from_json(row.get(0), "run")?;
        if run.status == RunStatus::Queued {
            let ahead: u32 = sqlx::query_scalar(
                "SELECT count(*) FROM runs WHERE root_id = $1 AND status = 'queued' AND queued_seq <= $2",
            )
            .bind(run.root_id.to_string())
            .bind(row.get::<i64, _>(1))
            .fetch_one(&self.readers)
            .await?;
            run.queue_position = Some(ahead);
        }
        Ok(run)
    }

    /// Runs of a profile, by the time they were accepted.
    pub async fn list_runs(&self, profile_id: ProfileId, filter: &RunFilter, limit: u32) -> Result<Vec<Run>> {
        const NEWEST: &str = "SELECT doc FROM runs WHERE profile_id = $1 AND ($2 IS NULL OR session_id = $2) \
             AND ($2 IS NOT NULL OR root_id NOT IN (SELECT root_id FROM chains WHERE ephemeral = 1)) \
             AND ($3 IS NULL OR status = $3) AND ($4 IS NULL OR (created_at, id) < ($4, $5)) \
             ORDER BY created_at DESC, id DESC LIMIT $6";
        const OLDEST: &str = "SELECT doc FROM runs WHERE profile_id = $1 AND ($2 IS NULL OR session_id = $2) \
             AND ($2 IS NOT NULL OR root_id NOT IN (SELECT root_id FROM chains WHERE ephemeral = 1)) \
             AND ($3 IS NULL OR status = $3) AND ($4 IS NULL OR (created_at, id) > ($4, $5)) \
             ORDER BY created_at, id LIMIT $6";
        let rows = sqlx::query(if filter.is_ascending { OLDEST } else { NEWEST })
            .bind(profile_id.to_string())
            .bind(filter.session_id.map(|id| id.to_string()))
            .bind(filter.status.as_ref().map(name_of).transpose()?)
            .bind(filter.beyond.map(|(at, _)| at.as_millis()))
            .bind(filter.beyond.map(|(_, id)| id.to_string()))
            .bind(limit)
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(|row| from_json(row.get(0), "run")).collect()
    }
}

/// A run as it is stored.
pub(crate) struct RunRow {
    pub(crate) run: Run,
    pub(crate) options: RunOptions,
    pub(crate) fence: i64,
    pub(crate) input_id: InputId,
}

impl RunRow {
    pub(crate) fn place(&self) -> Place {
        Place {
            root_id: self.run.root_id,
            session_id: self.run.session_id,
            run_id: Some(self.run.id),
        }
    }
}

impl Tx {
    pub(crate) async fn get_run(&mut self, run_id: RunId) -> Result<RunRow> {
        let row = sqlx::query("SELECT doc, options, fence, input_id FROM runs WHERE id = $1")
            .bind(run_id.to_string())
            .fetch_one(&mut self.connection)
            .await?;
        Ok(RunRow {
            run: from_json(row.get(0), "run")?,
            options: from_json(row.get(1), "run options")?,
            fence: row.get(2),
            input_id: crate::rows::id(row.get(3))?,
        })
    }

    /// Writes back a run that changed.
    pub(crate) async fn update_run(&mut self, row: &RunRow) -> Result<()> {
        sqlx::query("UPDATE runs SET status = $2, fence = $3, doc = $4 WHERE id = $1")
            .bind(row.run.id.to_string())
            .bind(name_of(&row.run.status)?)
            .bind(row.fence)
            .bind(to_json(&row.run)?)
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    /// Refuses with [`Error::Busy`] while a run of the chain is active.
    pub(crate) async fn refuse_if_busy(&mut self, root_id: SessionId) -> Result<()> {
        match self.busy(root_id).await? {
            (Some(busy), _) => Err(Error::Busy(Box::new(busy))),
            (None, _) => Ok(()),
        }
    }

    pub(crate) async fn busy(&mut self, root_id: SessionId) -> Result<(Option<Busy>, u32)> {
        let queue_depth: u32 = sqlx::query_scalar("SELECT count(*) FROM runs WHERE root_id = $1 AND status = 'queued'")
            .bind(root_id.to_string())
            .fetch_one(&mut self.connection)
            .await?;
        let row = sqlx::query(
            "SELECT id, status FROM runs WHERE root_id = $1 AND status IN ('running', 'requires_action', 'cancelling')",
        )
        .bind(root_id.to_string())
        .fetch_optional(&mut self.connection)
        .await?;
        let busy = row
            .map(|row| {
                let status = from_json(&format!("\"{}\"", row.get::<&str, _>(1)), "run status")?;
                Ok::<_, Error>(Busy {
                    run_id: crate::rows::id(row.get(0))?,
                    status,
                    queue_depth,
                })
            })
            .transpose()?;
        Ok((busy, queue_depth))
    }

    /// Whether a run waits whose time has come.
    pub(crate) async fn has_due(&mut self, root_id: SessionId) -> Result<bool> {
        let due: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM runs WHERE root_id = $1 AND status = 'queued' AND (start_after IS NULL OR start_after <= $2)",
        )
        .bind(root_id.to_string())
        .bind(self.now.as_millis())
        .fetch_one(&mut self.connection)
        .await?;
        Ok(due > 0)
    }

    /// Claims a waiting run: it begins to work, and its input enters the transcript.
    pub(crate) async fn claim(&mut self, mut row: RunRow) -> Result<Box<ActiveRun>> {
        let next = run_state::next(row.run.status, Transition::Claim).map_err(|_| Error::Fenced)?;
        let place = row.place();
        row.run.status = next.status;
        row.run.queue_position = None;
        row.run.started_at = Some(self.now);
        row.fence += 1;
        let seq = self.next_seq(place.root_id).await?;
        row.run.first_seq.get_or_insert(seq);
        row.run.last_seq = Some(seq);
        let started = EventBody::RunStarted {
            run: Box::new(row.run.clone()),
            attempt: row.run.attempt,
        };
        self.insert_event(place, seq, &started).await?;
        self.update_run(&row).await?;
        let input = self.get_input(row.input_id).await?;
        self.deliver(&row, input, MessageKind::Normal).await?;
        let session = self.get_session(row.run.profile_id, row.run.session_id).await?;
        Ok(Box::new(ActiveRun {
            run: row.run,
            options: row.options,
            fence: row.fence,
            session,
        }))
    }

    /// Claims the chain's first waiting run, when none is active.
    pub(crate) async fn claim_next(&mut self, root_id: SessionId) -> Result<Option<Box<ActiveRun>>> {
        if self.busy(root_id).await?.0.is_some() {
            return Ok(None);
        }
        let waiting: Option<String> = sqlx::query_scalar(
            "SELECT id FROM runs WHERE root_id = $1 AND status = 'queued' AND (start_after IS NULL OR start_after <= $2) \
             ORDER BY queued_seq LIMIT 1",
        )
        .bind(root_id.to_string())
        .bind(self.now.as_millis())
        .fetch_optional(&mut self.connection)
        .await?;
        match waiting {
            Some(run_id) => {
                let row = self.get_run(crate::rows::id(&run_id)?).await?;
                Ok(Some(self.claim(row).await?))
            }
            None => Ok(None),
        }
    }
}
