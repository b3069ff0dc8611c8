//! The transcript of a session.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse as _, Response};
use talaria_openapi::errors::{ErrorCode, Problem};
use talaria_openapi::messages::{Message, MessageStatus, Part, ResultContent, Role};
use talaria_openapi::page::Page;
use talaria_openapi::sessions::{ExportLine, Session};
use talaria_store::MessageFilter;

use crate::auth::Caller;
use crate::error::{ApiError, ApiResult};
use crate::params::{Params, invalid};
use crate::routes::{id, sessions};
use crate::state::AppState;

/// Messages of a session, oldest first.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/messages", tag = "sessions",
    params(("session_id" = String, Path,), ("limit" = Option<u32>, Query,), ("cursor" = Option<String>, Query,), ("order" = Option<String>, Query,),
        ("role" = Option<Role>, Query,), ("run_id" = Option<String>, Query,), ("after_seq" = Option<i64>, Query,),
        ("include" = Option<String>, Query, description = "`superseded`: also what a rewind took out")),
    responses((status = 200, body = Page<Message>), (status = 400, body = Problem)))]
pub(crate) async fn list_messages(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
) -> ApiResult<Response> {
    let mut params = Params::of(&uri)?;
    params.refuse_later(&["chain"])?;
    let with_superseded = match params.take("include").as_deref() {
        None => false,
        Some("superseded") => true,
        Some(_) => return Err(invalid("include", "must be `superseded`")),
    };
    let limit = params.take_limit()?;
    let cursor = params.take("cursor");
    let mut filter = MessageFilter {
        role: params.take_name("role")?,
        run_id: params.take_as("run_id", "the id of a run")?,
        after_seq: params.take_as("after_seq", "a number")?.unwrap_or(0),
        before_seq: None,
        with_superseded,
        is_descending: !params.take_ascending(true)?,
    };
    params.finish()?;
    let session = sessions::find(&state, &caller, &session_id).await?;
    let list = format!("messages {} {filter:?}", session.id);
    if let Some(cursor) = cursor {
        let (seq, _) = state.cursor_key.verify(caller.profile_id(), &list, &cursor)?;
        if filter.is_descending {
            filter.before_seq = Some(seq);
        } else {
            filter.after_seq = seq;
        }
    }
    let found = state
        .settings
        .store
        .list_messages(caller.profile_id(), session.id, &filter, limit + 1)
        .await?;
    let place = |message: &Message| (message.seq, message.id.to_string());
    Ok(sessions::page(&state, &caller, &uri, &list, found, (limit, place)))
}

/// One message, whole.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/messages/{message_id}", tag = "sessions",
    params(("session_id" = String, Path,), ("message_id" = String, Path,)),
    responses((status = 200, body = Message)))]
pub(crate) async fn get_message(
    State(state): State<AppState>,
    caller: Caller,
    Path((session_id, message_id)): Path<(String, String)>,
    uri: Uri,
) -> ApiResult<Json<Message>> {
    Params::of(&uri)?.finish()?;
    let session = sessions::find(&state, &caller, &session_id).await?;
    let message_id = id(&message_id, ErrorCode::MessageNotFound)?;
    let message = state
        .settings
        .store
        .get_message(caller.profile_id(), session.id, message_id)
        .await;
    message
        .map(Json)
        .map_err(|error| ApiError::from(error).not_found(ErrorCode::MessageNotFound))
}

/// The whole session, as JSON lines or as Markdown.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/export", tag = "sessions",
    params(("session_id" = String, Path,), ("format" = Option<String>, Query, description = "`jsonl` (default) or `markdown`")),
    responses((status = 200, content((ExportLine = "application/x-ndjson"), (String = "text/markdown")))))]
pub(crate) async fn export_session(
    State(state): State<AppState>,
    caller: Caller,
    Path(session_id): Path<String>,
    uri: Uri,
) -> ApiResult<Response> {
    let mut params = Params::of(&uri)?;
    let format = params.take("format").unwrap_or_else(|| "jsonl".to_owned());
    params.finish()?;
    let session = sessions::find(&state, &caller, &session_id).await?;
    let messages = state.settings.store.history(session.id).await?;
    let (media_type, extension, text) = match format.as_str() {
        "jsonl" => ("application/x-ndjson", "jsonl", json_lines(session.clone(), messages)),
        "markdown" => ("text/markdown; charset=utf-8", "md", markdown(&session, &messages)),
        _ => return Err(invalid("format", "must be `jsonl` or `markdown`")),
    };
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{}.{extension}\"", session.id)) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

fn json_lines(session: Session, messages: Vec<Message>) -> String {
    let first = ExportLine::Session {
        session: Box::new(session),
    };
    let rest = messages.into_iter().map(|message| ExportLine::Message {
        message: Box::new(message),
    });
    let lines = std::iter::once(first)
        .chain(rest)
        .filter_map(|line| serde_json::to_string(&line).ok());
    lines.map(|line| line + "\n").collect()
}

fn markdown(session: &Session, messages: &[Message]) -> String {
    let title = session.title.clone().unwrap_or_else(|| session.id.to_string());
    let mut text = format!(
        "# {title}\n\n{} · {} · {}\n",
        session.id, session.model, session.created_at
    );
    for message in messages
        .iter()
        .filter(|message| message.status != MessageStatus::InProgress)
    {
        let who = match message.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
            Role::Tool => "Tool",
        };
        text.push_str(&format!("\n## {who}\n"));
        message.parts.iter().for_each(|part| push_part(&mut text, part));
    }
    text
}

fn push_part(text: &mut String, part: &Part) {
    match part {
        Part::Text { text: said } => text.push_str(&format!("\n{said}\n")),
        Part::Reasoning { .. } => {}
        Part::Image { file_id } | Part::File { file_id } => text.push_str(&format!("\n[file {file_id}]\n")),
        Part::ToolCall { name, arguments, .. } => {
            text.push_str(&fenced(&format!("{name} {arguments}"), "json"));
        }
        Part::ToolResult { content, .. } => {
            for ResultContent::Text { text: result } in content {
                text.push_str(&fenced(result, ""));
            }
        }
    }
}

/// A fence that its content can't close.
fn fenced(content: &str, language: &str) -> String {
    let longest = content.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("\n{fence}{language}\n{}\n{fence}\n", content.trim_end())
}
