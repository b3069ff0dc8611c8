//! `talaria approvals`: what runs wait for, and answers to it from another terminal.

use talaria_openapi::interactions::{ChoiceId, Interaction, InteractionKind, ResolveInteractionRequest};
use talaria_text::cut::one_line;

use crate::args::ApprovalsCommand;
use crate::client::Client;
use crate::error::Result;
use crate::render;

pub(crate) async fn approvals(client: &Client, command: Option<ApprovalsCommand>) -> Result<()> {
    let (id, choice, message) = match command.unwrap_or(ApprovalsCommand::List) {
        ApprovalsCommand::List => return list(client).await,
        ApprovalsCommand::Approve { id, session, always } => {
            let choice = match (session, always) {
                (_, true) => ChoiceId::AllowAlways,
                (true, false) => ChoiceId::AllowSession,
                (false, false) => ChoiceId::AllowOnce,
            };
            (id, choice, None)
        }
        ApprovalsCommand::Deny { id, why } => {
            let waiting = client.pending_interactions().await?.data;
            let is_question = waiting
                .iter()
                .any(|found| found.id == id && found.kind == InteractionKind::Question);
            (id, if is_question { ChoiceId::Skip } else { ChoiceId::Deny }, why)
        }
    };
    let request = ResolveInteractionRequest {
        choice: Some(choice),
        message,
        ..ResolveInteractionRequest::default()
    };
    client.resolve_interaction(id, &request).await?;
    render::notice("answered");
    Ok(())
}

async fn list(client: &Client) -> Result<()> {
    let waiting = client.pending_interactions().await?.data;
    if waiting.is_empty() {
        render::notice("nothing waits for a person");
    }
    for interaction in waiting {
        render::print(&format!("{}\n", one_line(&line(&interaction), render::size().0)))?;
    }
    Ok(())
}

fn line(interaction: &Interaction) -> String {
    let minutes = interaction.expires_in_ms / 60_000;
    format!(
        "{}  {} min  {}: {}",
        interaction.id, minutes, interaction.title, interaction.message
    )
}
