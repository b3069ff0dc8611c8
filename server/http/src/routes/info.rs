//! What the server says of itself.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use talaria_openapi::info::Info;

use crate::auth::MaybeCaller;
use crate::body::MAX_BODY_BYTES;
use crate::error::ApiResult;
use crate::params::Params;
use crate::state::AppState;

/// Version, capabilities and limits. Without a credential: version and ways to sign in only.
#[utoipa::path(get, path = "/v1/info", tag = "operations", security((), ("key" = [])),
    responses((status = 200, body = Info)))]
pub(crate) async fn info(State(state): State<AppState>, caller: MaybeCaller, uri: Uri) -> ApiResult<Json<Info>> {
    Params::of(&uri)?.finish()?;
    let is_known = caller.0.is_some();
    let settings = &state.settings;
    let limits = || {
        BTreeMap::from([
            ("body_bytes".to_owned(), MAX_BODY_BYTES as u64),
            ("queued_inputs".to_owned(), u64::from(talaria_store::MAX_QUEUE)),
            ("max_rounds".to_owned(), u64::from(settings.max_rounds)),
            ("streams".to_owned(), settings.max_streams as u64),
        ])
    };
    let capabilities = || {
        let named = [
            ("approvals", false),
            ("local_terminal", false),
            ("search", true),
            ("demo_model", settings.model.name == "demo/demo"),
        ];
        named.into_iter().map(|(name, has)| (name.to_owned(), has)).collect()
    };
    Ok(Json(Info {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api_versions: vec!["v1".to_owned()],
        auth_methods: vec!["bearer".to_owned(), "x-api-key".to_owned()],
        capabilities: is_known.then(capabilities),
        limits: is_known.then(limits),
        model: is_known.then(|| settings.model.clone()),
    }))
}
