//! Whether a call may run: the policy decides by its risk, rules that people have made decide for them, and people decide the
//! rest. What a call may not run with is never found out by trying (api.md 2.5a).

use sha2::{Digest as _, Sha256};
use talaria_domain::model::ModelCall;
use talaria_domain::tool::{Arguments, Assessment, Tool, ToolContext};
use talaria_openapi::ids::{InteractionId, MessageId};
use talaria_openapi::interactions::{
    Choice, ChoiceId, Interaction, InteractionKind, InteractionStatus, InteractionTool, Question,
};
use talaria_openapi::messages::Role;
use talaria_openapi::runs::ApprovalPolicy;
use talaria_openapi::time::Timestamp;
use talaria_openapi::tools::Risk;
use talaria_store::{Asked, Result};

use crate::turn::Turn;

/// What becomes of a call.
pub(crate) enum Gate {
    /// It runs, with arguments of a person where one has changed them.
    Open(Option<Arguments>),
    /// A person is asked.
    Ask(Box<Asked>),
    /// A person was asked and has not answered yet.
    Wait(InteractionId),
    /// It doesn't run; the model is told why.
    Refuse(String),
    /// It asked a person something, and this is the answer.
    Answer(String),
}

/// What the policy says of a risk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    Ask,
    Refuse,
}

fn verdict(policy: ApprovalPolicy, risk: Risk) -> Verdict {
    use ApprovalPolicy as P;
    match (risk, policy) {
        (Risk::Low, _) => Verdict::Allow,
        (Risk::Critical, _) | (Risk::Medium | Risk::High, P::Deny) => Verdict::Refuse,
        (Risk::Medium, P::AutoSafe | P::AutoAll) | (Risk::High, P::AutoAll) => Verdict::Allow,
        (Risk::Medium, P::Ask) | (Risk::High, P::Ask | P::AutoSafe) => Verdict::Ask,
    }
}

/// Decides on a call. `known` holds what was asked for the calls of this answer before.
pub(crate) async fn gate(
    turn: &Turn,
    call: &ModelCall,
    tool: &dyn Tool,
    (arguments, context): (&Arguments, &ToolContext),
    known: &[Interaction],
) -> Result<Gate> {
    let answered = known.iter().find(|interaction| interaction.tool_call_id == call.id);
    if let Some(questions) = tool.questions(arguments) {
        return Ok(match answered {
            Some(interaction) => of_question(interaction),
            None => Gate::Ask(Box::new(question(turn, call, questions))),
        });
    }
    let assessment = tool.assess(arguments, context);
    if let Some(interaction) = answered {
        return Ok(of_approval(interaction));
    }
    match verdict(turn.approval_policy(), assessment.risk) {
        Verdict::Allow => Ok(Gate::Open(None)),
        Verdict::Refuse => Ok(Gate::Refuse(format!(
            "refused by the server's rules, and not run: {}",
            assessment.message
        ))),
        Verdict::Ask if is_allowed_by_rule(turn, tool, &assessment).await? => Ok(Gate::Open(None)),
        Verdict::Ask => Ok(Gate::Ask(Box::new(approval(turn, call, arguments, assessment)))),
    }
}

async fn is_allowed_by_rule(turn: &Turn, tool: &dyn Tool, assessment: &Assessment) -> Result<bool> {
    let (run, kind) = (&turn.active.run, &assessment.kind_of_call);
    let rules = turn
        .store
        .approval_rules_for(run.profile_id, run.root_id, tool.spec().name, kind);
    Ok(rules.await?.iter().any(|rule| assessment.risk <= rule.risk))
}

fn of_approval(interaction: &Interaction) -> Gate {
    let said = |what: &str| match interaction
        .resolution
        .as_ref()
        .and_then(|found| found.message.as_deref())
    {
        Some(message) => format!("{what}: {message}"),
        None => what.to_owned(),
    };
    match interaction.status {
        InteractionStatus::Pending => Gate::Wait(interaction.id),
        InteractionStatus::Expired => Gate::Refuse("not run: nobody allowed it in time".to_owned()),
        InteractionStatus::Cancelled => Gate::Refuse("not run: the run was stopped".to_owned()),
        InteractionStatus::Resolved => match &interaction.resolution {
            Some(resolution) if is_yes(resolution.choice) => Gate::Open(resolution.edited_arguments.clone()),
            _ => Gate::Refuse(said("not run: the user said no")),
        },
    }
}

fn is_yes(choice: Option<ChoiceId>) -> bool {
    matches!(
        choice,
        Some(ChoiceId::AllowOnce | ChoiceId::AllowSession | ChoiceId::AllowAlways)
    )
}

fn of_question(interaction: &Interaction) -> Gate {
    let answers = interaction
        .resolution
        .as_ref()
        .and_then(|resolution| resolution.answers.as_ref());
    match (interaction.status, answers) {
        (InteractionStatus::Pending, _) => Gate::Wait(interaction.id),
        (InteractionStatus::Resolved, Some(answers)) => {
            let lines = interaction.questions.iter().filter_map(|question| {
                let given = answers.get(&question.id)?;
                Some(format!("{}\n{}", question.text, given.join("; ")))
            });
            Gate::Answer(lines.collect::<Vec<_>>().join("\n\n"))
        }
        (InteractionStatus::Resolved, None) => {
            Gate::Answer("[the user doesn't want to answer: go on with your best guess]".to_owned())
        }
        (InteractionStatus::Expired | InteractionStatus::Cancelled, _) => {
            Gate::Answer("[nobody answered in time: go on with your best guess]".to_owned())
        }
    }
}

fn approval(turn: &Turn, call: &ModelCall, arguments: &Arguments, assessment: Assessment) -> Asked {
    let json = serde_json::to_vec(arguments).unwrap_or_default();
    let arguments_sha256 = Sha256::digest(json).iter().map(|byte| format!("{byte:02x}")).collect();
    let choices = [
        ChoiceId::AllowOnce,
        ChoiceId::AllowSession,
        ChoiceId::AllowAlways,
        ChoiceId::Deny,
    ];
    let interaction = Interaction {
        title: assessment.title,
        message: assessment.message,
        tool: Some(InteractionTool {
            name: call.name.clone(),
            arguments: arguments.clone(),
            arguments_sha256,
            risk: assessment.risk,
        }),
        choices: choices.map(|id| Choice { id }).into(),
        editable: true,
        ..blank(turn, call, InteractionKind::Approval)
    };
    asked(turn, interaction, assessment.kind_of_call)
}

fn question(turn: &Turn, call: &ModelCall, questions: Vec<Question>) -> Asked {
    let message = questions
        .first()
        .map(|question| question.text.clone())
        .unwrap_or_default();
    let interaction = Interaction {
        title: "The agent asks".to_owned(),
        message,
        choices: vec![Choice { id: ChoiceId::Skip }],
        questions,
        ..blank(turn, call, InteractionKind::Question)
    };
    asked(turn, interaction, String::new())
}

fn blank(turn: &Turn, call: &ModelCall, kind: InteractionKind) -> Interaction {
    let patience = turn.approval_timeout_millis;
    Interaction {
        id: InteractionId::new(),
        object: "interaction".into(),
        kind,
        status: InteractionStatus::Pending,
        session_id: turn.active.session.id,
        run_id: turn.active.run.id,
        tool_call_id: call.id.clone(),
        title: String::new(),
        message: String::new(),
        tool: None,
        choices: Vec::new(),
        editable: false,
        questions: Vec::new(),
        expires_at: Timestamp::from_millis(turn.clock.now().as_millis() + patience),
        expires_in_ms: patience,
        resolution: None,
    }
}

fn asked(turn: &Turn, interaction: Interaction, kind_of_call: String) -> Asked {
    Asked {
        interaction,
        message_id: calling_message(turn).unwrap_or_else(MessageId::new),
        kind_of_call,
    }
}

/// What was asked for the calls of the answer that is being worked on.
pub(crate) async fn known(turn: &Turn) -> Result<Vec<Interaction>> {
    match calling_message(turn) {
        Some(message_id) => turn.store.interactions_of(turn.active.run.id, message_id).await,
        None => Ok(Vec::new()),
    }
}

fn calling_message(turn: &Turn) -> Option<MessageId> {
    let mut answers = turn.transcript.iter().rev();
    answers
        .find(|message| message.role == Role::Assistant)
        .map(|message| message.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_policies_and_risks() {
        use ApprovalPolicy::{Ask, AutoAll, AutoSafe, Deny};
        use Verdict as V;
        for (policy, medium, high) in [
            (Deny, V::Refuse, V::Refuse),
            (Ask, V::Ask, V::Ask),
            (AutoSafe, V::Allow, V::Ask),
            (AutoAll, V::Allow, V::Allow),
        ] {
            assert_eq!(verdict(policy, Risk::Low), V::Allow, "{policy:?}");
            assert_eq!(verdict(policy, Risk::Medium), medium, "{policy:?}");
            assert_eq!(verdict(policy, Risk::High), high, "{policy:?}");
            assert_eq!(verdict(policy, Risk::Critical), V::Refuse, "{policy:?}");
        }
    }
}
