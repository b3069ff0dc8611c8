//! What runs wait for: listed, read, answered; and the rules that answers have made.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use serde_json::{Map, Value};
use talaria_openapi::errors::{ErrorCode, Problem};
use talaria_openapi::interactions::{
    ApprovalRule, ChoiceId, Interaction, InteractionKind, InteractionStatus, Question, Resolution,
    ResolveInteractionRequest,
};
use talaria_openapi::page::Page;
use talaria_store::InteractionFilter;

use crate::auth::Caller;
use crate::body::Body;
use crate::error::{ApiError, ApiResult};
use crate::params::Params;
use crate::routes::id;
use crate::state::AppState;

const MAX_MESSAGE_CHARS: usize = 2_000;
const MAX_ANSWER_CHARS: usize = 10_000;
const MAX_RULES: u32 = 200;

/// Interactions of the profile, newest first.
#[utoipa::path(get, path = "/v1/interactions", tag = "interactions",
    params(("limit" = Option<u32>, Query,), ("status" = Option<InteractionStatus>, Query,), ("kind" = Option<InteractionKind>, Query,),
        ("session_id" = Option<String>, Query,), ("run_id" = Option<String>, Query,)),
    responses((status = 200, body = Page<Interaction>)))]
pub(crate) async fn list_interactions(
    State(state): State<AppState>,
    caller: Caller,
    uri: Uri,
) -> ApiResult<Json<Page<Interaction>>> {
    let mut params = Params::of(&uri)?;
    let limit = params.take_limit()?;
    let filter = InteractionFilter {
        status: params.take_name("status")?,
        kind: params.take_name("kind")?,
        session_id: params.take_as("session_id", "the id of a session")?,
        run_id: params.take_as("run_id", "the id of a run")?,
    };
    params.finish()?;
    let store = &state.settings.store;
    let found = store.list_interactions(caller.profile_id(), &filter, limit).await?;
    Ok(Json(whole(
        found.into_iter().map(|found| counted(&state, found)).collect(),
    )))
}

/// One interaction.
#[utoipa::path(get, path = "/v1/interactions/{interaction_id}", tag = "interactions", params(("interaction_id" = String, Path,)),
    responses((status = 200, body = Interaction)))]
pub(crate) async fn get_interaction(
    State(state): State<AppState>,
    caller: Caller,
    Path(interaction_id): Path<String>,
    uri: Uri,
) -> ApiResult<Json<Interaction>> {
    Params::of(&uri)?.finish()?;
    let interaction = find(&state, &caller, &interaction_id).await?;
    Ok(Json(counted(&state, interaction)))
}

async fn find(state: &AppState, caller: &Caller, interaction_id: &str) -> ApiResult<Interaction> {
    let interaction_id = id(interaction_id, ErrorCode::InteractionNotFound)?;
    let found = state
        .settings
        .store
        .get_interaction(caller.profile_id(), interaction_id)
        .await;
    found.map_err(|error| ApiError::from(error).not_found(ErrorCode::InteractionNotFound))
}

/// With the time that is left now.
fn counted(state: &AppState, interaction: Interaction) -> Interaction {
    let left = interaction.expires_at.as_millis() - state.settings.clock.now().as_millis();
    Interaction {
        expires_in_ms: left.max(0),
        ..interaction
    }
}

/// Answers an interaction. The same answer again is answered alike; another one is refused.
#[utoipa::path(post, path = "/v1/interactions/{interaction_id}/resolve", tag = "interactions",
    params(("interaction_id" = String, Path,)), request_body = ResolveInteractionRequest,
    responses((status = 200, body = Interaction), (status = 409, body = Problem)))]
pub(crate) async fn resolve_interaction(
    State(state): State<AppState>,
    caller: Caller,
    Path(interaction_id): Path<String>,
    uri: Uri,
    Body(request): Body<ResolveInteractionRequest>,
) -> ApiResult<Json<Interaction>> {
    Params::of(&uri)?.finish()?;
    let interaction = find(&state, &caller, &interaction_id).await?;
    check(&state, &interaction, &request)?;
    let resolution = Resolution {
        choice: request.choice,
        edited_arguments: request.edited_arguments,
        answers: request.answers,
        message: request.message,
        resolved_by: caller.0.name.to_string(),
        resolved_at: state.settings.clock.now(),
    };
    let runs = &state.settings.runs;
    let resolved = runs
        .resolve(caller.profile_id(), interaction.id, resolution.clone())
        .await?;
    if resolved.is_accepted || is_same(resolved.interaction.resolution.as_ref(), &resolution) {
        return Ok(Json(counted(&state, resolved.interaction)));
    }
    let resolution = serde_json::to_value(&resolved.interaction.resolution).unwrap_or(Value::Null);
    Err(ApiError::new(ErrorCode::AlreadyResolved)
        .detail("somebody else was faster, or nobody answered in time")
        .extra("resolution", resolution))
}

/// Whether two answers say the same, whoever gave them.
fn is_same(given: Option<&Resolution>, again: &Resolution) -> bool {
    given.is_some_and(|given| {
        (given.choice, &given.edited_arguments, &given.answers)
            == (again.choice, &again.edited_arguments, &again.answers)
    })
}

fn check(state: &AppState, interaction: &Interaction, request: &ResolveInteractionRequest) -> ApiResult<()> {
    if request
        .message
        .as_ref()
        .is_some_and(|text| text.chars().count() > MAX_MESSAGE_CHARS)
    {
        return Err(wrong("/message", format!("at most {MAX_MESSAGE_CHARS} characters")));
    }
    if let Some(choice) = request.choice {
        if !interaction.choices.iter().any(|known| known.id == choice) {
            let detail = "this interaction has no such choice";
            return Err(ApiError::new(ErrorCode::InvalidChoice)
                .detail(detail)
                .field("/choice", "invalid", detail));
        }
        if let Some(edited) = &request.edited_arguments {
            return check_edit(state, interaction, choice, edited);
        }
        return Ok(());
    }
    match (&request.answers, interaction.kind) {
        (Some(answers), InteractionKind::Question) => check_answers(&interaction.questions, answers),
        (_, InteractionKind::Question) => Err(wrong("/answers", "answer the questions, or choose `skip`")),
        (_, InteractionKind::Approval) => {
            let detail = "choose one of the interaction's choices";
            Err(ApiError::new(ErrorCode::InvalidChoice)
                .detail(detail)
                .field("/choice", "missing", detail))
        }
    }
}

fn wrong(pointer: &str, detail: impl Into<String>) -> ApiError {
    let detail = detail.into();
    ApiError::new(ErrorCode::InvalidAnswer)
        .detail(detail.clone())
        .field(pointer, "invalid", detail)
}

/// Changed arguments must still be a call of the tool: what it requires is there, and of its type.
fn check_edit(
    state: &AppState,
    interaction: &Interaction,
    choice: ChoiceId,
    edited: &Map<String, Value>,
) -> ApiResult<()> {
    let Some(tool) = interaction.tool.as_ref().filter(|_| choice != ChoiceId::Deny) else {
        return Err(wrong("/edited_arguments", "only a call that is allowed can be changed"));
    };
    let Some(known) = state.settings.runs.tools().get(&tool.name) else {
        return Ok(());
    };
    let schema = &known.spec().parameters;
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    for name in required {
        if !edited.contains_key(name) {
            return Err(wrong(&format!("/edited_arguments/{name}"), "the tool requires it"));
        }
    }
    for (name, value) in edited {
        let pointer = format!("/edited_arguments/{name}");
        let Some(property) = schema["properties"].get(name) else {
            return Err(wrong(&pointer, "the tool has no such argument"));
        };
        if !has_type(value, &property["type"]) {
            return Err(wrong(&pointer, format!("must be of the type {}", property["type"])));
        }
    }
    Ok(())
}

fn has_type(value: &Value, expected: &Value) -> bool {
    match expected {
        Value::String(name) => match name.as_str() {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => true,
        },
        Value::Array(names) => names.iter().any(|name| has_type(value, name)),
        _ => true,
    }
}

fn check_answers(questions: &[Question], answers: &BTreeMap<String, Vec<String>>) -> ApiResult<()> {
    if let Some(unknown) = answers
        .keys()
        .find(|id| !questions.iter().any(|question| question.id == **id))
    {
        return Err(wrong(&format!("/answers/{unknown}"), "there is no such question"));
    }
    for question in questions {
        let pointer = format!("/answers/{}", question.id);
        let Some(given) = answers.get(&question.id).filter(|given| !given.is_empty()) else {
            return Err(wrong(&pointer, "this question has no answer"));
        };
        if given.len() > 1 && !question.multiple {
            return Err(wrong(&pointer, "only one answer can be given"));
        }
        for answer in given {
            if answer.chars().count() > MAX_ANSWER_CHARS {
                return Err(wrong(&pointer, format!("at most {MAX_ANSWER_CHARS} characters")));
            }
            if !question.free_text && !question.options.contains(answer) {
                return Err(wrong(
                    &pointer,
                    format!("must be one of: {}", question.options.join(", ")),
                ));
            }
        }
    }
    Ok(())
}

/// What people have allowed beyond one call, newest first.
#[utoipa::path(get, path = "/v1/approval-rules", tag = "interactions", responses((status = 200, body = Page<ApprovalRule>)))]
pub(crate) async fn list_approval_rules(
    State(state): State<AppState>,
    caller: Caller,
    uri: Uri,
) -> ApiResult<Json<Page<ApprovalRule>>> {
    Params::of(&uri)?.finish()?;
    let rules = state
        .settings
        .store
        .list_approval_rules(caller.profile_id(), MAX_RULES)
        .await?;
    Ok(Json(whole(rules)))
}

/// Takes back what was allowed.
#[utoipa::path(delete, path = "/v1/approval-rules/{rule_id}", tag = "interactions", params(("rule_id" = String, Path,)),
    responses((status = 204)))]
pub(crate) async fn delete_approval_rule(
    State(state): State<AppState>,
    caller: Caller,
    Path(rule_id): Path<String>,
    uri: Uri,
) -> ApiResult<StatusCode> {
    Params::of(&uri)?.finish()?;
    let rule_id = id(&rule_id, ErrorCode::NotFound)?;
    state
        .settings
        .store
        .delete_approval_rule(caller.profile_id(), rule_id)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn whole<T>(data: Vec<T>) -> Page<T> {
    Page {
        data,
        next_cursor: None,
        has_more: false,
    }
}
