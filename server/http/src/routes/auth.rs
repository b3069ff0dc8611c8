//! Who am I?

use axum::Json;
use axum::http::Uri;
use talaria_openapi::auth::Whoami;
use talaria_openapi::errors::Problem;

use crate::auth::Caller;
use crate::error::ApiResult;
use crate::params::Params;

/// Who the server takes you for.
#[utoipa::path(get, path = "/v1/auth/whoami", tag = "auth",
    responses((status = 200, body = Whoami), (status = 401, body = Problem)))]
pub(crate) async fn whoami(caller: Caller, uri: Uri) -> ApiResult<Json<Whoami>> {
    Params::of(&uri)?.finish()?;
    let principal = caller.0;
    Ok(Json(Whoami {
        principal: principal.name.to_string(),
        profile_id: principal.profile_id,
        scopes: principal.scopes.into_iter().collect(),
        expires_at: principal.expires_at,
    }))
}
