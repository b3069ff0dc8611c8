//! Which scopes a route needs: one table.
//!
//! It is checked before anything else of a request is read, it is what the OpenAPI document says, and `docs/API-TABLES.md`
//! shows it. A route that is neither here nor open answers nobody.

use axum::http::Method;
use talaria_openapi::auth::Scope;

use Scope::{Admin, FilesRead, InteractionsResolve, KeysManage, RunsWrite, SessionsRead, SessionsWrite, ToolsRead};

/// Method, path as the router knows it, and every scope that is needed.
type Row = (&'static str, &'static str, &'static [Scope]);

/// What every route needs that isn't open to everybody. None: any valid credential will do.
pub const SCOPES: &[Row] = &[
    ("GET", "/v1/sessions", &[SessionsRead]),
    ("POST", "/v1/sessions", &[SessionsWrite]),
    ("GET", "/v1/sessions/{session_id}", &[SessionsRead]),
    ("PATCH", "/v1/sessions/{session_id}", &[SessionsWrite]),
    ("DELETE", "/v1/sessions/{session_id}", &[SessionsWrite]),
    ("POST", "/v1/sessions/{session_id}/fork", &[SessionsWrite]),
    ("POST", "/v1/sessions/{session_id}/rewind", &[SessionsWrite]),
    ("GET", "/v1/sessions/{session_id}/messages", &[SessionsRead]),
    (
        "GET",
        "/v1/sessions/{session_id}/messages/{message_id}",
        &[SessionsRead],
    ),
    ("GET", "/v1/sessions/{session_id}/prompt", &[SessionsRead]),
    ("GET", "/v1/sessions/{session_id}/snapshot", &[SessionsRead]),
    ("GET", "/v1/sessions/{session_id}/export", &[SessionsRead]),
    ("GET", "/v1/sessions/{session_id}/events", &[SessionsRead]),
    ("GET", "/v1/sessions/{session_id}/stream", &[SessionsRead]),
    ("GET", "/v1/sessions/{session_id}/queue", &[SessionsRead]),
    ("PATCH", "/v1/sessions/{session_id}/queue/{input_id}", &[RunsWrite]),
    ("DELETE", "/v1/sessions/{session_id}/queue/{input_id}", &[RunsWrite]),
    ("POST", "/v1/sessions/{session_id}/runs", &[RunsWrite]),
    ("POST", "/v1/sessions/{session_id}/cancel", &[RunsWrite]),
    ("GET", "/v1/runs", &[SessionsRead]),
    // Without `session_id` it also begins a session: see `routes::runs::create_run`.
    ("POST", "/v1/runs", &[RunsWrite]),
    ("GET", "/v1/runs/{run_id}", &[SessionsRead]),
    ("GET", "/v1/runs/{run_id}/stream", &[SessionsRead]),
    ("POST", "/v1/runs/{run_id}/cancel", &[RunsWrite]),
    ("POST", "/v1/runs/{run_id}/resume", &[RunsWrite]),
    ("POST", "/v1/runs/{run_id}/steer", &[RunsWrite]),
    ("GET", "/v1/inputs/{input_id}", &[SessionsRead]),
    ("GET", "/v1/interactions", &[SessionsRead]),
    ("GET", "/v1/interactions/{interaction_id}", &[SessionsRead]),
    (
        "POST",
        "/v1/interactions/{interaction_id}/resolve",
        &[InteractionsResolve],
    ),
    ("GET", "/v1/approval-rules", &[SessionsRead]),
    ("DELETE", "/v1/approval-rules/{rule_id}", &[InteractionsResolve]),
    ("GET", "/v1/tools", &[ToolsRead]),
    ("GET", "/v1/tools/{name}", &[ToolsRead]),
    ("GET", "/v1/files/{file_id}", &[FilesRead]),
    ("GET", "/v1/files/{file_id}/content", &[FilesRead]),
    ("GET", "/v1/search", &[SessionsRead]),
    ("GET", "/v1/auth/whoami", &[]),
    ("POST", "/v1/auth/token", &[]),
    ("GET", "/v1/keys", &[KeysManage, Admin]),
    ("POST", "/v1/keys", &[KeysManage, Admin]),
    ("PATCH", "/v1/keys/{key_id}", &[KeysManage, Admin]),
    ("DELETE", "/v1/keys/{key_id}", &[KeysManage, Admin]),
    ("POST", "/v1/keys/{key_id}/rotate", &[KeysManage, Admin]),
    ("GET", "/metrics", &[Admin]),
];

/// The scopes of a route; `None` for one that isn't in the table.
pub(crate) fn needed(method: &Method, path: &str) -> Option<&'static [Scope]> {
    // Whoever may read something may also ask whether it is there.
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let row = SCOPES.iter().find(|row| row.0 == method && row.1 == path);
    row.map(|row| row.2)
}
