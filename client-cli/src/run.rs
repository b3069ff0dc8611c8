//! `talaria run`: one question, one answer, one exit code.

use std::io::Read as _;
use std::process::ExitCode;

use talaria_openapi::events::EventBody;
use talaria_openapi::ids::{RunId, SessionId};
use talaria_openapi::runs::{CancelRunRequest, CreateRunRequest, OnBusy, RunStatus};

use crate::client::Client;
use crate::commands::{Connected, new_session};
use crate::error::{Error, Result};
use crate::render::{self, Progress};
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
    let status = follow(&connected.client, run.id, json).await?;
    Ok(match status {
        RunStatus::Completed => ExitCode::SUCCESS,
        RunStatus::Cancelled => ExitCode::from(EXIT_CANCELLED),
        _ => ExitCode::from(EXIT_FAILED),
    })
}

fn read_input() -> Result<String> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Error::Local(format!("standard input can't be read: {error}")))?;
    Ok(text)
}

/// Shows a run to its end. Ctrl+C stops the run; a second one stops watching it.
pub(crate) async fn follow(client: &Client, run_id: RunId, json: bool) -> Result<RunStatus> {
    let mut watch = RunWatch::new(client.clone(), run_id, None);
    let mut progress = Progress::default();
    let mut interrupts = 0;
    let mut status = None;
    loop {
        let next = tokio::select! {
            next = watch.next() => next?,
            _ = tokio::signal::ctrl_c() => {
                interrupts += 1;
                if interrupts > 1 {
                    return Ok(RunStatus::Cancelled);
                }
                progress.end_line();
                render::notice("stopping (Ctrl+C again leaves at once)");
                client.cancel_run(run_id, &CancelRunRequest::default()).await?;
                continue;
            }
        };
        let Some(watched) = next else { break };
        if json {
            render::print_line(&watched.data);
        } else {
            progress.show(&watched.event.body);
        }
        match &watched.event.body {
            EventBody::RunCompleted { run }
            | EventBody::RunFailed { run }
            | EventBody::RunCancelled { run }
            | EventBody::RunInterrupted { run } => {
                status = Some(run.status);
            }
            _ => {}
        }
    }
    progress.end_line();
    match status {
        Some(status) => Ok(status),
        // The stream was reset past the end: the run itself says how it ended.
        None => Ok(client.get_run(run_id, 0).await?.status),
    }
}
