//! `talaria runs`: what the agent did and does, in any session.

use std::process::ExitCode;

use talaria_openapi::messages::Role;
use talaria_openapi::runs::{CancelMode, CancelRunRequest, Run, RunStatus};
use talaria_text::cut::one_line;

use crate::args::RunsCommand;
use crate::client::Client;
use crate::commands::minute;
use crate::error::Result;
use crate::{commands, render, run};

pub(crate) async fn runs(client: &Client, command: RunsCommand) -> Result<ExitCode> {
    match command {
        RunsCommand::List { session, limit } => {
            let page = client.list_runs(session, limit).await?;
            if page.data.is_empty() {
                render::notice("no runs yet: ask something with `talaria run`");
            }
            for run in page.data {
                render::print(&format!("{}\n", one_line(&line(&run), render::size().0)))?;
            }
        }
        RunsCommand::Show { id } => show(client, &client.get_run(id, 0).await?).await?,
        RunsCommand::Watch { id, json } => return run::watch(client, id, json).await,
        RunsCommand::Cancel { id, why, force } => {
            let request = CancelRunRequest {
                mode: if force { CancelMode::Force } else { CancelMode::Graceful },
                reason: why,
                wait: true,
                ..CancelRunRequest::default()
            };
            let run = client.cancel_run(id, &request).await?;
            render::notice(&match run.status {
                RunStatus::Cancelled => "stopped".to_owned(),
                RunStatus::Cancelling => "it is still stopping: `talaria runs show` tells when it has".to_owned(),
                ended => format!("it had ended already: {}", name(ended)),
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn line(run: &Run) -> String {
    let tokens = run.usage.input_tokens + run.usage.output_tokens;
    let status = name(run.status);
    format!(
        "{}  {}  {status:<15}  {tokens:>8} tokens  {}",
        run.id,
        minute(run.created_at),
        run.model
    )
}

/// As people and the API call it.
fn name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Queued => "queued",
        RunStatus::Running => "running",
        RunStatus::RequiresAction => "requires_action",
        RunStatus::Cancelling => "cancelling",
        RunStatus::Completed => "completed",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
        RunStatus::Interrupted => "interrupted",
    }
}

async fn show(client: &Client, run: &Run) -> Result<()> {
    let mut facts = vec![
        ("session", run.session_id.to_string()),
        ("status", name(run.status).to_owned()),
        ("model", run.model.clone()),
        ("accepted", run.created_at.to_string()),
    ];
    facts.extend(run.start_after.map(|at| ("not before", at.to_string())));
    facts.extend(run.started_at.map(|at| ("started", at.to_string())));
    facts.extend(run.ended_at.map(|at| ("ended", at.to_string())));
    facts.extend(run.stop.as_ref().and_then(|stop| Some(("why", stop.detail.clone()?))));
    facts.extend(run.error.as_ref().map(|error| ("fault", error.message.clone())));
    let usage = format!("{} in, {} out", run.usage.input_tokens, run.usage.output_tokens);
    facts.push(("tokens", usage));
    render::print_entries(facts.iter().map(|(name, value)| (*name, value.as_str())), 12)?;
    let waiting = run.pending_interactions.len();
    if waiting > 0 {
        render::notice(&format!("it waits for you ({waiting}): talaria approvals"));
    }
    for message in client.list_messages(run.session_id).await? {
        if message.run_id == Some(run.id) && message.role != Role::Tool {
            commands::show_message(&message)?;
        }
    }
    Ok(())
}
