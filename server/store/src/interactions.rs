//! What runs wait for people for. An answer, an expiry and a cancel are each one transaction with their events; with the last
//! one the run goes on.

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use talaria_domain::run_state::{self, Transition};
use talaria_openapi::events::{EventBody, ResumedAfter};
use talaria_openapi::ids::{InteractionId, MessageId, ProfileId, RunId, SessionId};
use talaria_openapi::interactions::{
    ApprovalRule, ChoiceId, Interaction, InteractionKind, InteractionStatus, Resolution,
};
use talaria_openapi::runs::RunStatus;

use crate::rows::{from_json, name_of, to_json};
use crate::runs::{ActiveRun, RunRow};
use crate::writer::{Durability, Tx};
use crate::{Error, Result, Store};

/// An interaction that a run's owner asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// What is asked.
    pub interaction: Interaction,
    /// The answer of the model that makes the call.
    pub message_id: MessageId,
    /// What a rule that is made with it remembers.
    pub kind_of_call: String,
}

/// What an answer led to.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The interaction as it is now.
    pub interaction: Interaction,
    /// Whether this answer is the one that counts.
    pub is_accepted: bool,
    /// The run, where it goes on: the caller owns it.
    pub active: Option<Box<ActiveRun>>,
}

/// Which interactions.
#[derive(Debug, Clone, Default)]
pub struct InteractionFilter {
    /// Of one status.
    pub status: Option<InteractionStatus>,
    /// Of one kind.
    pub kind: Option<InteractionKind>,
    /// Of one session.
    pub session_id: Option<SessionId>,
    /// Of one run.
    pub run_id: Option<RunId>,
}

impl Store {
    /// One interaction of a profile.
    pub async fn get_interaction(&self, profile_id: ProfileId, interaction_id: InteractionId) -> Result<Interaction> {
        let row = sqlx::query("SELECT doc FROM interactions WHERE id = $1 AND profile_id = $2")
            .bind(interaction_id.to_string())
            .bind(profile_id.to_string())
            .fetch_one(&self.readers)
            .await?;
        to_interaction(&row)
    }

    /// Interactions of a profile, newest first.
    pub async fn list_interactions(
        &self,
        profile_id: ProfileId,
        filter: &InteractionFilter,
        limit: u32,
    ) -> Result<Vec<Interaction>> {
        let rows = sqlx::query(
            "SELECT doc FROM interactions WHERE profile_id = $1 AND ($2 IS NULL OR status = $2) AND ($3 IS NULL OR kind = $3) \
             AND ($4 IS NULL OR session_id = $4) AND ($5 IS NULL OR run_id = $5) ORDER BY created_at DESC, id DESC LIMIT $6",
        )
        .bind(profile_id.to_string())
        .bind(filter.status.as_ref().map(name_of).transpose()?)
        .bind(filter.kind.as_ref().map(name_of).transpose()?)
        .bind(filter.session_id.map(|id| id.to_string()))
        .bind(filter.run_id.map(|id| id.to_string()))
        .bind(limit)
        .fetch_all(&self.readers)
        .await?;
        rows.iter().map(to_interaction).collect()
    }

    /// The interactions of the calls of one answer, in the order that they were asked in.
    pub async fn interactions_of(&self, run_id: RunId, message_id: MessageId) -> Result<Vec<Interaction>> {
        let rows =
            sqlx::query("SELECT doc FROM interactions WHERE run_id = $1 AND message_id = $2 ORDER BY created_at, id")
                .bind(run_id.to_string())
                .bind(message_id.to_string())
                .fetch_all(&self.readers)
                .await?;
        rows.iter().map(to_interaction).collect()
    }

    /// What waits in a chain.
    pub async fn pending_interactions(&self, root_id: SessionId) -> Result<Vec<Interaction>> {
        let rows = sqlx::query(
            "SELECT doc FROM interactions WHERE root_id = $1 AND status = 'pending' ORDER BY created_at, id",
        )
        .bind(root_id.to_string())
        .fetch_all(&self.readers)
        .await?;
        rows.iter().map(to_interaction).collect()
    }

    /// Answers an interaction. An answer to one that doesn't wait any more changes nothing: see [`Resolved::is_accepted`].
    pub async fn resolve_interaction(
        &self,
        profile_id: ProfileId,
        interaction_id: InteractionId,
        resolution: Resolution,
    ) -> Result<Resolved> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(tx_resolve(tx, profile_id, interaction_id, resolution))
            })
            .await
    }

    /// Closes what nobody answered in time, which counts as no; gives the runs that go on.
    pub async fn expire_interactions(&self) -> Result<Vec<ActiveRun>> {
        self.writer.write(Durability::Full, |tx| Box::pin(tx_expire(tx))).await
    }

    /// The rules that allow a kind of call in a chain.
    pub async fn approval_rules_for(
        &self,
        profile_id: ProfileId,
        root_id: SessionId,
        tool: &str,
        kind_of_call: &str,
    ) -> Result<Vec<ApprovalRule>> {
        let rows = sqlx::query(
            "SELECT doc FROM approval_rules WHERE profile_id = $1 AND tool = $2 AND kind_of_call = $3 \
             AND (root_id IS NULL OR root_id = $4)",
        )
        .bind(profile_id.to_string())
        .bind(tool)
        .bind(kind_of_call)
        .bind(root_id.to_string())
        .fetch_all(&self.readers)
        .await?;
        rows.iter().map(|row| from_json(row.get(0), "approval rule")).collect()
    }

    /// The rules of a profile, newest first.
    pub async fn list_approval_rules(&self, profile_id: ProfileId, limit: u32) -> Result<Vec<ApprovalRule>> {
        let rows =
            sqlx::query("SELECT doc FROM approval_rules WHERE profile_id = $1 ORDER BY created_at DESC, id LIMIT $2")
                .bind(profile_id.to_string())
                .bind(limit)
                .fetch_all(&self.readers)
                .await?;
        rows.iter().map(|row| from_json(row.get(0), "approval rule")).collect()
    }

    /// Takes a rule back: what it allowed is asked for again.
    pub async fn delete_approval_rule(&self, profile_id: ProfileId, rule_id: InteractionId) -> Result<()> {
        self.writer
            .write(Durability::Full, move |tx| {
                Box::pin(async move {
                    let deleted = sqlx::query("DELETE FROM approval_rules WHERE id = $1 AND profile_id = $2")
                        .bind(rule_id.to_string())
                        .bind(profile_id.to_string())
                        .execute(&mut tx.connection)
                        .await?;
                    if deleted.rows_affected() == 0 {
                        return Err(Error::NotFound);
                    }
                    Ok(())
                })
            })
            .await
    }
}

/// Asks, and parks the run until everything is answered.
pub(crate) async fn tx_park(
    tx: &mut Tx,
    row: &mut RunRow,
    asked: Vec<Asked>,
    still_pending: &[InteractionId],
) -> Result<()> {
    let next = run_state::next(row.run.status, Transition::Park).map_err(|_| Error::Fenced)?;
    row.run.status = next.status;
    row.run.pending_interactions = still_pending.to_vec();
    let place = row.place();
    for Asked {
        interaction,
        message_id,
        kind_of_call,
    } in asked
    {
        row.run.pending_interactions.push(interaction.id);
        sqlx::query(
            "INSERT INTO interactions (id, root_id, profile_id, session_id, run_id, message_id, kind, status, expires_at, \
             kind_of_call, doc, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        )
        .bind(interaction.id.to_string())
        .bind(place.root_id.to_string())
        .bind(row.run.profile_id.to_string())
        .bind(place.session_id.to_string())
        .bind(row.run.id.to_string())
        .bind(message_id.to_string())
        .bind(name_of(&interaction.kind)?)
        .bind(name_of(&interaction.status)?)
        .bind(interaction.expires_at.as_millis())
        .bind(kind_of_call)
        .bind(to_json(&interaction)?)
        .bind(tx.now.as_millis())
        .execute(&mut tx.connection)
        .await?;
        let interaction = Box::new(interaction);
        tx.append(place, &EventBody::InteractionRequested { interaction })
            .await?;
    }
    let interaction_ids = row.run.pending_interactions.clone();
    tx.append(place, &EventBody::RunRequiresAction { interaction_ids })
        .await?;
    Ok(())
}

async fn tx_resolve(
    tx: &mut Tx,
    profile_id: ProfileId,
    interaction_id: InteractionId,
    resolution: Resolution,
) -> Result<Resolved> {
    let row = sqlx::query("SELECT doc, kind_of_call FROM interactions WHERE id = $1 AND profile_id = $2")
        .bind(interaction_id.to_string())
        .bind(profile_id.to_string())
        .fetch_one(&mut tx.connection)
        .await?;
    let (mut interaction, kind_of_call) = (to_interaction(&row)?, row.get::<String, _>(1));
    if interaction.status != InteractionStatus::Pending {
        return Ok(Resolved {
            interaction,
            is_accepted: false,
            active: None,
        });
    }
    interaction.resolution = Some(resolution);
    let run = tx.get_run(interaction.run_id).await?;
    remember(tx, &run, &interaction, kind_of_call).await?;
    let active = close(tx, run, &mut interaction, InteractionStatus::Resolved).await?;
    Ok(Resolved {
        interaction,
        is_accepted: true,
        active,
    })
}

async fn tx_expire(tx: &mut Tx) -> Result<Vec<ActiveRun>> {
    let rows = sqlx::query("SELECT doc FROM interactions WHERE status = 'pending' AND expires_at <= $1 LIMIT 100")
        .bind(tx.now.as_millis())
        .fetch_all(&mut tx.connection)
        .await?;
    let mut go_on = Vec::new();
    for row in rows {
        let mut interaction = to_interaction(&row)?;
        let run = tx.get_run(interaction.run_id).await?;
        let active = close(tx, run, &mut interaction, InteractionStatus::Expired).await?;
        go_on.extend(active.map(|active| *active));
    }
    Ok(go_on)
}

/// A run that was cancelled while it waited: nobody is asked any more.
pub(crate) async fn cancel_pending(tx: &mut Tx, row: &mut RunRow) -> Result<()> {
    for interaction_id in std::mem::take(&mut row.run.pending_interactions) {
        let found = sqlx::query("SELECT doc FROM interactions WHERE id = $1")
            .bind(interaction_id.to_string())
            .fetch_one(&mut tx.connection)
            .await?;
        let mut interaction = to_interaction(&found)?;
        interaction.status = InteractionStatus::Cancelled;
        put(tx, row, &interaction).await?;
    }
    Ok(())
}

/// An interaction waits no more. With the last one its run goes on.
async fn close(
    tx: &mut Tx,
    mut row: RunRow,
    interaction: &mut Interaction,
    status: InteractionStatus,
) -> Result<Option<Box<ActiveRun>>> {
    interaction.status = status;
    put(tx, &row, interaction).await?;
    if row.run.status != RunStatus::RequiresAction {
        return Ok(None);
    }
    row.run.pending_interactions.retain(|id| *id != interaction.id);
    if row.run.pending_interactions.is_empty() {
        return tx.resume_parked(row).await.map(Some);
    }
    let interaction_ids = row.run.pending_interactions.clone();
    tx.append(row.place(), &EventBody::RunRequiresAction { interaction_ids })
        .await?;
    tx.update_run(&row).await?;
    Ok(None)
}

async fn put(tx: &mut Tx, row: &RunRow, interaction: &Interaction) -> Result<()> {
    sqlx::query("UPDATE interactions SET status = $2, doc = $3 WHERE id = $1")
        .bind(interaction.id.to_string())
        .bind(name_of(&interaction.status)?)
        .bind(to_json(interaction)?)
        .execute(&mut tx.connection)
        .await?;
    let interaction = Box::new(interaction.clone());
    tx.append(row.place(), &EventBody::InteractionResolved { interaction })
        .await?;
    Ok(())
}

/// Stores the rule that an answer makes, if it makes one.
async fn remember(tx: &mut Tx, row: &RunRow, interaction: &Interaction, kind_of_call: String) -> Result<()> {
    let (Some(resolution), Some(tool)) = (&interaction.resolution, &interaction.tool) else {
        return Ok(());
    };
    let root_id = match resolution.choice {
        Some(ChoiceId::AllowSession) => Some(row.run.root_id),
        Some(ChoiceId::AllowAlways) => None,
        _ => return Ok(()),
    };
    let rule = ApprovalRule {
        id: interaction.id,
        object: "approval_rule".into(),
        root_id,
        tool: tool.name.clone(),
        kind_of_call,
        risk: tool.risk,
        created_at: tx.now,
        created_by: resolution.resolved_by.clone(),
    };
    sqlx::query(
        "INSERT INTO approval_rules (id, profile_id, root_id, tool, kind_of_call, doc, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(rule.id.to_string())
    .bind(row.run.profile_id.to_string())
    .bind(root_id.map(|id| id.to_string()))
    .bind(&rule.tool)
    .bind(&rule.kind_of_call)
    .bind(to_json(&rule)?)
    .bind(tx.now.as_millis())
    .execute(&mut tx.connection)
    .await?;
    Ok(())
}

impl Tx {
    /// A parked run goes on with an owner of its own.
    async fn resume_parked(&mut self, mut row: RunRow) -> Result<Box<ActiveRun>> {
        let next = run_state::next(row.run.status, Transition::Claim).map_err(|_| Error::Fenced)?;
        row.run.status = next.status;
        row.fence += 1;
        let resumed = EventBody::RunResumed {
            after: ResumedAfter::Interaction,
            attempt: row.run.attempt,
        };
        self.append(row.place(), &resumed).await?;
        self.update_run(&row).await?;
        let session = self.get_session(row.run.profile_id, row.run.session_id).await?;
        Ok(Box::new(ActiveRun {
            run: row.run,
            options: row.options,
            fence: row.fence,
            session,
        }))
    }
}

fn to_interaction(row: &SqliteRow) -> Result<Interaction> {
    from_json(row.get(0), "interaction")
}
