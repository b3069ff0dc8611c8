//! `talaria run`: one question, one answer, one exit code.

use std::io::Read as _;
use std::pin::pin;
use std::process::ExitCode;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use talaria_openapi::ids::{RunId, SessionId};
use talaria_openapi::runs::{CreateRunRequest, OnBusy, Run, RunStatus};

use crate::client::Client;
use crate::commands::{Connected, new_session};
use crate::error::{Error, Result};
use crate::follow::{Follower, answer_of, cancel, ended, final_status};
use crate::render;
use crate::watch::RunWatch;

const EXIT_FAILED: u8 = 1;
const EXIT_CANCELLED: u8 = 130;

pub(crate) async fn run(
    connected: Connected,
    prompt: &str,
    json: bool,
    session: Option<SessionId>,
    model: Option<String>,
) -> Result<ExitCode> {
    let text = if prompt == "-" {
        read_input()?
    } else {
        prompt.to_owned()
    };
    let session_id = match session {
        Some(session_id) => session_id,
        None => new_session(&connected).await?.id,
    };
    let request = CreateRunRequest {
        model,
        on_busy: OnBusy::Queue,
        ..CreateRunRequest::text(text)
    };
    let run = connected.client.create_run(session_id, &request).await?;
    watch(&connected.client, run.id, json).await
}

/// Shows a run to its end; the exit code tells how it ended.
pub(crate) async fn watch(client: &Client, run_id: RunId, json: bool) -> Result<ExitCode> {
    let status = if json {
        print_events(client, run_id).await?
    } else {
        Follower::new(client, run_id, None)?.follow().await?.status
    };
    Ok(match status {
        Some(RunStatus::Completed) => ExitCode::SUCCESS,
        // Also when the person left before the run had stopped.
        Some(RunStatus::Cancelled) | None => ExitCode::from(EXIT_CANCELLED),
        Some(_) => ExitCode::from(EXIT_FAILED),
    })
}

fn read_input() -> Result<String> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Error::Local(format!("standard input can't be read: {error}")))?;
    Ok(text)
}

/// Prints a run's events, one JSON a line, to its end. Ctrl+C stops the run; a second one stops watching it.
async fn print_events(client: &Client, run_id: RunId) -> Result<Option<RunStatus>> {
    let mut events = pin!(RunWatch::new(client.clone(), run_id, None).into_stream());
    let mut request: Option<BoxFuture<'static, Result<Run>>> = None;
    let mut interrupts = 0;
    let mut status = None;
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(watched) = event.transpose()? else { break };
                status = ended(&watched).or(status);
                render::print_json(&watched.data)?;
            }
            _ = tokio::signal::ctrl_c() => {
                interrupts += 1;
                if interrupts > 1 {
                    return Ok(None);
                }
                request = Some(cancel(client.clone(), run_id));
            }
            answer = answer_of(&mut request) => drop(answer?),
        }
    }
    final_status(client, run_id, status).await.map(Some)
}
