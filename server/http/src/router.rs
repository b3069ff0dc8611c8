//! Every route on one page. Registering a route is documenting it: the OpenAPI document is made from this list.

use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, Method, Uri, header};
use axum::routing::get;
use talaria_openapi::errors::{ErrorCode, Problem};
use talaria_openapi::events::{ControlEvent, Event};
use tower_http::cors::{AllowOrigin, CorsLayer};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::routes;
use crate::state::AppState;

/// How long a browser may remember what it may do.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Talaria",
        description = "A self-hosted agent server: sessions, messages and streaming runs as resources.",
        license(name = "Apache-2.0")
    ),
    components(schemas(Problem, Event, ControlEvent)),
    security(("key" = []))
)]
struct Document;

/// Routes that answer without a credential.
pub const OPEN_ROUTES: &[&str] = &[
    "/healthz",
    "/readyz",
    "/v1/info",
    "/openapi.json",
    "/docs",
    "/.well-known/jwks.json",
    "/.well-known/oauth-authorization-server",
];

fn documented() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(anybody())
        .merge(of_sessions())
        .merge(of_runs())
        .merge(of_interactions())
        .merge(of_everything_else())
        .merge(for_operators())
}

fn anybody() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(routes::health::healthz))
        .routes(routes!(routes::health::readyz))
        .routes(routes!(routes::info::info))
        .routes(routes!(routes::auth::jwks))
        .routes(routes!(routes::auth::authorization_server))
}

fn of_sessions() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(
            routes::sessions::create_session,
            routes::sessions::list_sessions
        ))
        .routes(routes!(
            routes::sessions::get_session,
            routes::sessions::update_session,
            routes::sessions::delete_session
        ))
        .routes(routes!(routes::forks::fork_session))
        .routes(routes!(routes::forks::rewind_session))
        .routes(routes!(routes::messages::list_messages))
        .routes(routes!(routes::messages::get_message))
        .routes(routes!(routes::messages::export_session))
        .routes(routes!(routes::sessions::get_prompt))
        .routes(routes!(routes::sessions::get_snapshot))
        .routes(routes!(routes::streams::list_events))
        .routes(routes!(routes::streams::stream_session))
}

fn of_runs() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(routes::runs::create_run_in_session))
        .routes(routes!(routes::runs::create_run, routes::runs::list_runs))
        .routes(routes!(routes::runs::get_run))
        .routes(routes!(routes::streams::stream_run))
        .routes(routes!(routes::cancel::cancel_run))
        .routes(routes!(routes::cancel::cancel_session))
        .routes(routes!(routes::runs::steer_run))
        .routes(routes!(routes::runs::resume_run))
        .routes(routes!(routes::inputs::get_input))
        .routes(routes!(routes::inputs::list_queue))
        .routes(routes!(routes::inputs::update_queued, routes::inputs::delete_queued))
}

fn of_interactions() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(routes::interactions::list_interactions))
        .routes(routes!(routes::interactions::get_interaction))
        .routes(routes!(routes::interactions::resolve_interaction))
        .routes(routes!(routes::interactions::list_approval_rules))
        .routes(routes!(routes::interactions::delete_approval_rule))
}

fn of_everything_else() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(routes::tools::list_tools))
        .routes(routes!(routes::tools::get_tool))
        .routes(routes!(routes::files::get_file))
        .routes(routes!(routes::files::get_file_content))
        .routes(routes!(routes::search::search))
        .routes(routes!(routes::auth::whoami))
        .routes(routes!(routes::auth::create_token))
}

fn for_operators() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(routes::metrics::metrics))
        .routes(routes!(routes::keys::create_key, routes::keys::list_keys))
        .routes(routes!(routes::keys::update_key, routes::keys::revoke_key))
        .routes(routes!(routes::keys::rotate_key))
}

/// The OpenAPI document of this server.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    crate::document::complete(documented().into_openapi())
}

/// The whole service.
pub fn router(state: AppState) -> Router {
    let (router, _) = documented().split_for_parts();
    let docs = utoipa_swagger_ui::SwaggerUi::new("/docs").url("/openapi.json", document());
    router
        .merge(docs)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(cors(&state.settings.hosts.origins))
        .layer(axum::middleware::from_fn_with_state(
            state.clone(),
            crate::middleware::around,
        ))
        .with_state(state)
}

/// What operators see without a credential, on a loopback listener of its own: metrics, health, readiness.
pub fn operators(state: AppState) -> Router {
    Router::new()
        .route("/metrics", get(routes::metrics::open_metrics))
        .route("/healthz", get(routes::health::healthz))
        .route("/readyz", get(routes::health::readyz))
        .fallback(not_found)
        .layer(axum::middleware::from_fn(crate::middleware::loopback_only))
        .with_state(state)
}

/// What browsers of the configured origins may do; without any the layer says nothing, and browsers refuse by themselves.
/// Credentials of browsers are never asked for: a key or token is sent by the page, in a header.
fn cors(origins: &[String]) -> CorsLayer {
    let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    let allowed = [
        "if-match",
        "last-event-id",
        "idempotency-key",
        "prefer",
        "range",
        "x-api-key",
        "x-request-id",
        "x-talaria-profile",
    ];
    let exposed = [
        "content-location",
        "content-range",
        "etag",
        "idempotency-replayed",
        "link",
        "location",
        "ratelimit",
        "ratelimit-policy",
        "retry-after",
        "www-authenticate",
        "x-request-id",
    ];
    let named = |names: &[&'static str]| {
        names
            .iter()
            .map(|name| HeaderName::from_static(name))
            .collect::<Vec<_>>()
    };
    let mut allowed = named(&allowed);
    allowed.extend([header::AUTHORIZATION, header::CONTENT_TYPE]);
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::PUT, Method::DELETE])
        .allow_headers(allowed)
        .expose_headers(named(&exposed))
        .max_age(PREFLIGHT_AGE)
}

async fn not_found(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::NotFound).detail(format!("there is nothing at {}; see /docs", uri.path()))
}

async fn method_not_allowed(method: Method) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed).detail(format!("{method} is not possible here; see the Allow header"))
}
