//! Tokens, and who the server takes you for.

use axum::Json;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use talaria_openapi::auth::{AuthorizationServer, Jwks, Scope, TokenError, TokenRequest, TokenResponse, Whoami};
use talaria_openapi::errors::ErrorCode;

use crate::auth::{Caller, is_token};
use crate::body;
use crate::error::{ApiError, ApiResult};
use crate::params::Params;
use crate::state::AppState;
use crate::tokens::join;

/// Who the server takes you for.
#[utoipa::path(get, path = "/v1/auth/whoami", tag = "auth",
    responses((status = 200, body = Whoami)))]
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

/// Makes a token of at most 15 minutes with an API key, sent as `Authorization: Bearer`. Errors have OAuth's own form.
#[utoipa::path(post, path = "/v1/auth/token", tag = "auth",
    request_body(content((TokenRequest = "application/x-www-form-urlencoded"), (TokenRequest = "application/json"))),
    responses((status = 200, body = TokenResponse), (status = 400, body = TokenError), (status = 401, body = TokenError)))]
pub(crate) async fn create_token(State(state): State<AppState>, request: Request) -> Result<Response, TokenFailure> {
    let (mut parts, body) = request.into_parts();
    if is_token(&parts.headers) {
        return Err(bad(
            "unauthorized_client",
            "a token can't make tokens: send the API key that it was made with",
        ));
    }
    let caller = Caller::from_request_parts(&mut parts, &state).await?;
    let wanted: TokenRequest = body::form_or_json(Request::from_parts(parts, body)).await?;
    if wanted.grant_type != "client_credentials" {
        return Err(bad(
            "unsupported_grant_type",
            "`grant_type` must be `client_credentials`",
        ));
    }
    let scopes = scopes(&caller, wanted.scope.as_deref())?;
    let issued = state.tokens.issue(&caller.0, &scopes, state.settings.clock.now());
    let issued = issued.ok_or_else(|| ApiError::new(ErrorCode::Internal))?;
    let answer = TokenResponse {
        access_token: issued.token,
        token_type: "Bearer".to_owned(),
        expires_in: u64::try_from(issued.expires_in).unwrap_or(0),
        scope: join(&scopes),
    };
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(answer)).into_response())
}

/// The scopes that were asked for; all that the caller has when none were.
fn scopes(caller: &Caller, wanted: Option<&str>) -> Result<Vec<Scope>, TokenFailure> {
    let Some(wanted) = wanted else {
        return Ok(caller.0.scopes.iter().copied().collect());
    };
    let mut scopes = Vec::new();
    for name in wanted.split_ascii_whitespace() {
        match name.parse() {
            Ok(scope) if caller.0.scopes.contains(&scope) => scopes.push(scope),
            Ok(_) | Err(_) => return Err(bad("invalid_scope", &format!("the key has no scope `{name}`"))),
        }
    }
    Ok(scopes)
}

/// The keys that verify tokens.
#[utoipa::path(get, path = "/.well-known/jwks.json", tag = "auth", security(()), responses((status = 200, body = Jwks)))]
pub(crate) async fn jwks(State(state): State<AppState>) -> Json<Jwks> {
    Json(Jwks {
        keys: vec![state.tokens.public().clone()],
    })
}

/// Where tokens come from (RFC 8414).
#[utoipa::path(get, path = "/.well-known/oauth-authorization-server", tag = "auth", security(()),
    responses((status = 200, body = AuthorizationServer)))]
pub(crate) async fn authorization_server(State(state): State<AppState>) -> Json<AuthorizationServer> {
    let issuer = state.tokens.issuer().to_owned();
    Json(AuthorizationServer {
        token_endpoint: format!("{issuer}/v1/auth/token"),
        jwks_uri: format!("{issuer}/.well-known/jwks.json"),
        issuer,
        grant_types_supported: vec!["client_credentials".to_owned()],
        token_endpoint_auth_methods_supported: vec!["bearer".to_owned()],
        response_types_supported: Vec::new(),
        scopes_supported: Scope::ALL.to_vec(),
    })
}

/// An error in OAuth's form (RFC 6749, 5.2).
pub(crate) struct TokenFailure {
    status: StatusCode,
    error: &'static str,
    description: String,
}

fn bad(error: &'static str, description: &str) -> TokenFailure {
    TokenFailure {
        status: StatusCode::BAD_REQUEST,
        error,
        description: description.to_owned(),
    }
}

impl From<ApiError> for TokenFailure {
    fn from(error: ApiError) -> Self {
        let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let code = match status {
            StatusCode::UNAUTHORIZED => "invalid_client",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request",
        };
        Self {
            status: if code == "invalid_request" {
                StatusCode::BAD_REQUEST
            } else {
                status
            },
            error: code,
            description: error.public_text(),
        }
    }
}

impl IntoResponse for TokenFailure {
    fn into_response(self) -> Response {
        let body = TokenError {
            error: self.error.to_owned(),
            error_description: self.description,
        };
        let mut response = (self.status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
