//! Full-text search over the profile's messages.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use talaria_openapi::errors::{ErrorCode, Problem};
use talaria_openapi::messages::{Message, Role};
use talaria_openapi::search::{SearchHit, SearchResults, SnippetPiece};
use talaria_store::SearchScope;
use talaria_text::search_query::SearchQuery;

use crate::auth::Caller;
use crate::error::{ApiError, ApiResult};
use crate::params::{Params, invalid};
use crate::state::AppState;

const MAX_QUERY_BYTES: usize = 2_000;
const SNIPPET_CHARS: usize = 240;

/// Messages that match, newest first. Words are joined by "and"; `"phrase"`, `-word`, `word*`, `tool:name`, `role:user` work;
/// anything else is searched as it is.
#[utoipa::path(get, path = "/v1/search", tag = "search",
    params(("q" = String, Query,), ("limit" = Option<u32>, Query,), ("cursor" = Option<String>, Query,), ("session_id" = Option<String>, Query,), ("role" = Option<Role>, Query,)),
    responses((status = 200, body = SearchResults), (status = 400, body = Problem)))]
pub(crate) async fn search(State(state): State<AppState>, caller: Caller, uri: Uri) -> ApiResult<Json<SearchResults>> {
    let begun = Instant::now();
    let mut params = Params::of(&uri)?;
    params.refuse_later(&["in", "from", "to"])?;
    let limit = params.take_limit()?;
    let cursor = params.take("cursor");
    let text = params.take("q").ok_or_else(|| invalid("q", "say what to search for"))?;
    let mut scope = SearchScope {
        session_id: params.take_as("session_id", "the id of a session")?,
        role: params.take_name("role")?,
        before: None,
    };
    params.finish()?;
    if text.len() > MAX_QUERY_BYTES {
        return Err(invalid("q", &format!("at most {MAX_QUERY_BYTES} bytes")));
    }
    let list = format!("search {text} {scope:?}");
    if let Some(cursor) = cursor {
        scope.before = Some(state.cursor_key.verify(caller.profile_id(), &list, &cursor)?.0);
    }
    let query = SearchQuery::parse(&text);
    let page = state
        .settings
        .store
        .search(caller.profile_id(), &query, &scope, limit as usize)
        .await;
    let page = page.map_err(|error| ApiError::from(error).not_found(ErrorCode::NotFound))?;
    let next_cursor = page
        .next_before
        .map(|before| state.cursor_key.sign(caller.profile_id(), &list, before, ""));
    Ok(Json(SearchResults {
        data: page
            .hits
            .into_iter()
            .map(|(message, title)| to_hit(&query, &message, title))
            .collect(),
        has_more: next_cursor.is_some(),
        next_cursor,
        took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    }))
}

fn to_hit(query: &SearchQuery, message: &Message, session_title: Option<String>) -> SearchHit {
    let text = talaria_store::searchable_text(message);
    let snippet = query
        .snippet(&text, SNIPPET_CHARS)
        .into_iter()
        .map(|(t, hit)| SnippetPiece { t, hit });
    SearchHit {
        kind: "message".into(),
        session_id: message.session_id,
        session_title,
        run_id: message.run_id,
        message_id: message.id,
        role: message.role,
        created_at: message.created_at,
        score: query.score(&text),
        snippet: snippet.collect(),
    }
}
