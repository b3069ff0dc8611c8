//! What the agent can do.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use talaria_domain::tool::ToolSpec;
use talaria_openapi::errors::ErrorCode;
use talaria_openapi::page::Page;
use talaria_openapi::tools::Tool;

use crate::auth::Caller;
use crate::error::{ApiError, ApiResult};
use crate::params::Params;
use crate::state::AppState;

/// All tools, by name.
#[utoipa::path(get, path = "/v1/tools", tag = "tools",
    responses((status = 200, body = Page<Tool>)))]
pub(crate) async fn list_tools(State(state): State<AppState>, _: Caller, uri: Uri) -> ApiResult<Json<Page<Tool>>> {
    Params::of(&uri)?.finish()?;
    let data = state
        .settings
        .runs
        .tools()
        .iter()
        .map(|tool| to_wire(tool.spec()))
        .collect();
    Ok(Json(Page {
        data,
        next_cursor: None,
        has_more: false,
    }))
}

/// One tool.
#[utoipa::path(get, path = "/v1/tools/{name}", tag = "tools", params(("name" = String, Path,)),
    responses((status = 200, body = Tool)))]
pub(crate) async fn get_tool(
    State(state): State<AppState>,
    _: Caller,
    Path(name): Path<String>,
    uri: Uri,
) -> ApiResult<Json<Tool>> {
    Params::of(&uri)?.finish()?;
    let tool = state
        .settings
        .runs
        .tools()
        .get(&name)
        .ok_or_else(|| ApiError::new(ErrorCode::ToolNotFound))?;
    Ok(Json(to_wire(tool.spec())))
}

fn to_wire(spec: &ToolSpec) -> Tool {
    Tool {
        name: spec.name.to_owned(),
        object: "tool".into(),
        description: spec.description.to_owned(),
        parameters: spec.parameters.clone(),
        toolset: spec.toolset.to_owned(),
        risk: spec.risk,
        source: "builtin".to_owned(),
        available: true,
        unavailable_reason: None,
    }
}
