//! Runs: everything from one input to its terminal event.

use serde::{Deserialize, Serialize};

use crate::ids::{InputId, InteractionId, MessageId, ProfileId, RunId, SessionId};
use crate::inputs::{Delivery, IfUndelivered, InputBody, InputStatus};
use crate::messages::Usage;
use crate::time::Timestamp;
use crate::{Metadata, ObjectName};

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// Answers an input.
    Message,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Waits for its turn.
    Queued,
    /// At work.
    Running,
    /// Waits for a person.
    RequiresAction,
    /// Was told to stop and is about to.
    Cancelling,
    /// Done.
    Completed,
    /// Stopped by a fault.
    Failed,
    /// Stopped by a person.
    Cancelled,
    /// Stopped by the end of its server.
    Interrupted,
}

impl RunStatus {
    /// Whether nothing more happens by itself.
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Interrupted
        )
    }
}

/// Who started a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Trigger {
    /// Where the input came from.
    #[serde(rename = "type")]
    pub kind: TriggerKind,
    /// The input that became this run.
    pub input_id: Option<InputId>,
}

/// Where the input of a run came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TriggerKind {
    /// A program.
    Api,
    /// The terminal client.
    Cli,
}

/// What a run said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunOutput {
    /// The final answer, or what there was of it.
    pub text: String,
    /// The messages that it stands in.
    pub message_ids: Vec<MessageId>,
}

/// Why a run stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Stop {
    /// The reason, for programs.
    pub reason: StopReason,
    /// The reason, for people.
    pub detail: Option<String>,
}

/// Why a run stopped, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer was complete.
    EndTurn,
    /// The budget of model rounds was used up; the answer is a closing one.
    MaxRounds,
    /// The model reached its output limit again and again.
    MaxTokens,
    /// The provider refused to answer.
    Refusal,
    /// A person stopped it.
    Cancelled,
    /// A newer input took its place.
    Superseded,
    /// A fault stopped it.
    Error,
    /// Its server ended.
    ServerRestart,
}

/// The fault that stopped a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunError {
    /// The fault, for programs.
    pub code: RunErrorCode,
    /// The fault, for people: what happened, why, and what to do.
    pub message: String,
    /// Whether trying the same again may help.
    pub retryable: bool,
    /// The HTTP status that the model provider answered with.
    pub provider_status: Option<u16>,
}

/// The fault that stopped a run, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunErrorCode {
    /// The provider refused the key, or it has no credit left.
    ModelAuthFailed,
    /// The provider asks to slow down.
    ModelRateLimited,
    /// The provider can't keep up, or can't be reached.
    ModelOverloaded,
    /// The conversation is longer than the model can read.
    ContextOverflow,
    /// The provider refused the content.
    ContentFiltered,
    /// The provider didn't understand the request.
    ProviderBadRequest,
    /// The server itself failed.
    Internal,
}

/// What bounds a run. What is `null` isn't bounded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunLimits {
    /// Model rounds.
    pub max_rounds: u32,
    /// Seconds of work.
    pub max_active_seconds: Option<u64>,
    /// US dollars.
    pub max_cost_usd: Option<f64>,
}

/// The input of a run, in the answers of `POST` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunInput {
    /// Its id.
    pub id: InputId,
    /// How it reaches the agent.
    pub delivery: Delivery,
    /// What became of it so far.
    pub status: InputStatus,
}

/// Where a run is to be found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunLinks {
    /// The run.
    #[serde(rename = "self")]
    pub this: String,
    /// Its stream.
    pub stream: String,
    /// Stops it.
    pub cancel: String,
}

impl RunLinks {
    /// The links of a run.
    #[must_use]
    pub fn of(run_id: RunId) -> Self {
        let this = format!("/v1/runs/{run_id}");
        Self {
            stream: format!("{this}/stream"),
            cancel: format!("{this}/cancel"),
            this,
        }
    }
}

/// Everything from one input to its terminal event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Always `run`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub object: ObjectName,
    /// What it is for.
    pub kind: RunKind,
    /// The session that it works in.
    pub session_id: SessionId,
    /// That session's chain.
    pub root_id: SessionId,
    /// The run that started it.
    pub parent_run_id: Option<RunId>,
    /// The profile that owns it.
    pub profile_id: ProfileId,
    /// The model that answers, as `provider/model`.
    pub model: String,
    /// Counts from 1; each resumption adds one.
    pub attempt: u32,
    /// Where it stands.
    pub status: RunStatus,
    /// Its place in the queue, from 1.
    pub queue_position: Option<u32>,
    /// Who started it.
    pub trigger: Trigger,
    /// Sequence number of its first event.
    pub first_seq: Option<i64>,
    /// Sequence number of its last event so far.
    pub last_seq: Option<i64>,
    /// What it said, when it has ended.
    pub output: Option<RunOutput>,
    /// What it waits for.
    pub pending_interactions: Vec<InteractionId>,
    /// Why it stopped.
    pub stop: Option<Stop>,
    /// The fault that stopped it.
    pub error: Option<RunError>,
    /// What bounds it.
    pub limits: RunLimits,
    /// What it cost so far.
    pub usage: Usage,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// It doesn't begin before this time; left out when it may begin at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_after: Option<Timestamp>,
    /// When it first began to work.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Client-made annotations.
    pub metadata: Metadata,
    /// Its input, in the answers of `POST` only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub input: Option<RunInput>,
    /// Where it is to be found.
    pub links: RunLinks,
}

/// What to do when the session is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// Answer 409 `session_busy`.
    #[default]
    Reject,
    /// Wait for the session to be idle.
    Queue,
    /// Stop the active run and take its place.
    Interrupt,
    /// Tell the active run at its next safe point.
    Steer,
}

/// Which of the session's tools a run may use. Patterns are names with `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ToolFilter {
    /// Only these; all when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Not these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// Limits of a request: each may only be tighter than the profile's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RequestLimits {
    /// Model rounds, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<u32>,
}

/// Who must agree before a tool acts, from tight to loose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPolicy {
    /// Everything above low risk is refused.
    Deny,
    /// Everything above low risk is asked for.
    Ask,
    /// High risk is asked for.
    AutoSafe,
    /// Nothing is asked for.
    AutoAll,
}

/// Body of `POST /v1/sessions/{id}/runs` and of `POST /v1/runs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateRunRequest {
    /// An id for the run. A request with an id that was taken already gives what became of the first one, and does nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<RunId>,
    /// An id for the input, which is recognised as the run's is, also when it steers another run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub input_id: Option<InputId>,
    /// What to say to the agent.
    pub input: InputBody,
    /// What to do when the session is busy.
    #[serde(default)]
    pub on_busy: OnBusy,
    /// The model of this run, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<String>,
    /// Stands at the end of the system prompt during this run only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instructions: Option<String>,
    /// Which tools the run may use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tools: Option<ToolFilter>,
    /// A tighter approval policy than the profile's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval_policy: Option<ApprovalPolicy>,
    /// Not before this time: until then the run waits in the queue. At most a year ahead.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_after: Option<Timestamp>,
    /// What becomes of the run when the connection that waits for it is lost.
    #[serde(default)]
    pub on_disconnect: OnDisconnect,
    /// Tighter limits than the profile's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limits: Option<RequestLimits>,
    /// Annotations.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub metadata: Option<Metadata>,
    /// With `POST /v1/runs`: the session to run in.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session_id: Option<SessionId>,
    /// With `POST /v1/runs` and without `session_id`: the session to create.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<NewSessionOfRun>,
}

impl CreateRunRequest {
    /// A request that says `text` and leaves everything else as configured.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            id: None,
            input_id: None,
            input: InputBody::Text(text.into()),
            on_busy: OnBusy::default(),
            model: None,
            instructions: None,
            tools: None,
            approval_policy: None,
            start_after: None,
            on_disconnect: OnDisconnect::default(),
            limits: None,
            metadata: None,
            session_id: None,
            session: None,
        }
    }
}

/// The session that `POST /v1/runs` creates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct NewSessionOfRun {
    /// At most 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// The folder that tools work in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Whether it is unlisted, unsearched, and purged an hour after its last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<bool>,
}

/// What becomes of a run when its client is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It goes on; whoever comes back finds it.
    #[default]
    Continue,
    /// It is cancelled, unless somebody reads its stream again within ten seconds. Only for requests that wait for the run:
    /// with `Accept: text/event-stream` or `Prefer: wait`.
    Cancel,
}

/// How to stop a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CancelMode {
    /// Give tools a moment to stop.
    #[default]
    Graceful,
    /// Now.
    Force,
}

/// Body of `POST /v1/runs/{id}/cancel`; may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CancelRunRequest {
    /// How.
    pub mode: CancelMode,
    /// Why, for people; at most 500 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long tools have to stop by themselves: 5,000 when left out, at most 30,000. Nothing with `force`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Answer when the run has ended.
    pub wait: bool,
}

/// Body of `POST /v1/runs/{id}/steer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SteerRunRequest {
    /// An id for the input. Sent again, it gives what became of the first one, and does nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<InputId>,
    /// What to tell the agent.
    pub input: InputBody,
    /// What becomes of it when the run ends first.
    #[serde(default)]
    pub if_undelivered: IfUndelivered,
}

/// What becomes of the queue when a session is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum QueueAfterCancel {
    /// Its first run starts.
    #[default]
    Keep,
    /// Everything in it is cancelled.
    Clear,
}

/// Body of `POST /v1/sessions/{id}/cancel`; may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CancelSessionRequest {
    /// What becomes of the queue.
    pub queue: QueueAfterCancel,
    /// How the active run is stopped.
    pub mode: CancelMode,
    /// Why, for people; at most 500 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long tools have to stop by themselves: 5,000 when left out, at most 30,000. Nothing with `force`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Answer when the run has ended.
    pub wait: bool,
}

/// What the cancel of a session stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CancelledSession {
    /// The run that was active.
    pub run: Option<Run>,
    /// The inputs that waited and never will be delivered.
    pub cleared: Vec<InputId>,
}

/// Body of `POST /v1/runs/{id}/resume`; may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ResumeRunRequest {
    /// Something more to say to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<InputBody>,
}
