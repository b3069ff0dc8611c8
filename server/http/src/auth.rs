//! Who asks: the credential of a request, checked in constant time, becomes a [`Principal`] in one profile.

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use talaria_domain::principal::{Principal, PrincipalName};
use talaria_openapi::auth::{ApiKey, Scope};
use talaria_openapi::errors::ErrorCode;
use talaria_openapi::ids::{KeyId, ProfileId};
use talaria_openapi::time::Timestamp;

use crate::error::{ApiError, ApiResult};
use crate::params::Params;
use crate::rate_limits::RateSlot;
use crate::scopes;
use crate::state::AppState;
use crate::tokens::Refused;

/// What every key of ours begins with, so that scanners of secrets know it.
pub(crate) const KEY_PREFIX: &str = "tlr_";
/// How exactly a key's last use is known.
const LAST_USED_MILLIS: i64 = 60_000;

/// An authenticated caller.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Principal);

impl Caller {
    /// Refuses unless the credential has the scope.
    pub(crate) fn allow(&self, scope: Scope) -> ApiResult<()> {
        if self.0.scopes.contains(&scope) {
            Ok(())
        } else {
            Err(ApiError::insufficient_scope(scope.as_str()))
        }
    }

    /// Whoever a request's credential stands for, in the profile that it names.
    async fn known(parts: &Parts, state: &AppState) -> ApiResult<Self> {
        let token = credential(&parts.headers)
            .ok_or_else(|| unauthenticated("send `Authorization: Bearer <key>`; the local key is in <home>/token"))?;
        let principal = authenticate(state, token).await?;
        enter_profile(state, parts, &principal)?;
        Ok(Self(principal))
    }

    /// Refuses unless the credential has the scopes of the route, and has not asked too often.
    fn enter_route(&self, parts: &Parts, state: &AppState) -> ApiResult<()> {
        let route = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        let route = route.unwrap_or_default();
        // A route that nobody has given scopes is nobody's.
        let needed = scopes::needed(&parts.method, route).unwrap_or(Scope::ALL);
        needed.iter().try_for_each(|scope| self.allow(*scope))?;
        let slot = parts.extensions.get::<RateSlot>();
        state.rates.count(&self.0, (&parts.method, route), slot)
    }

    /// The profile that the request acts in.
    pub(crate) fn profile_id(&self) -> ProfileId {
        self.0.profile_id
    }
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        let caller = Self::known(parts, state).await?;
        caller.enter_route(parts, state)?;
        Ok(caller)
    }
}

/// A caller where none is needed.
pub(crate) struct MaybeCaller(pub(crate) Option<Caller>);

impl FromRequestParts<AppState> for MaybeCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        if credential(&parts.headers).is_none() {
            return Ok(Self(None));
        }
        Caller::known(parts, state).await.map(|caller| Self(Some(caller)))
    }
}

fn unauthenticated(detail: &str) -> ApiError {
    ApiError::new(ErrorCode::Unauthenticated).detail(detail)
}

fn credential(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
    bearer.or_else(|| headers.get("x-api-key").and_then(|value| value.to_str().ok()))
}

/// Whether the credential of a request is one of our short-lived tokens.
pub(crate) fn is_token(headers: &HeaderMap) -> bool {
    credential(headers).is_some_and(|text| !text.starts_with(KEY_PREFIX) && text.split('.').count() == 3)
}

async fn authenticate(state: &AppState, credential: &str) -> ApiResult<Principal> {
    let digest: [u8; 32] = Sha256::digest(credential.as_bytes()).into();
    if bool::from(digest.ct_eq(&state.settings.bootstrap_sha256)) {
        return Ok(Principal {
            name: PrincipalName::Local,
            profile_id: state.settings.profile.id,
            scopes: Scope::ALL.iter().copied().collect(),
            expires_at: None,
        });
    }
    match credential.strip_prefix(KEY_PREFIX) {
        Some(rest) => by_key(state, credential, rest).await,
        None => by_token(state, credential).await,
    }
}

fn refused() -> ApiError {
    unauthenticated("the credential is not valid, or was revoked")
}

fn expired(detail: &str) -> ApiError {
    ApiError::new(ErrorCode::TokenExpired).detail(detail)
}

async fn by_key(state: &AppState, credential: &str, rest: &str) -> ApiResult<Principal> {
    let key_id = key_id_of(rest).ok_or_else(refused)?;
    let row = state.settings.store.find_key(key_id).await?.ok_or_else(refused)?;
    let now = state.settings.clock.now();
    if !proves(credential, &row, now) {
        return Err(refused());
    }
    let principal = of_key(&row.key, now)?;
    note_use(state, &row.key, now).await;
    Ok(principal)
}

/// A token is as good as the key that it was made with: it ends with it, and has none of the scopes that it lost.
async fn by_token(state: &AppState, token: &str) -> ApiResult<Principal> {
    let now = state.settings.clock.now();
    let mut principal = state.tokens.verify(token, now).map_err(|reason| match reason {
        Refused::Expired => expired("the token has expired: get a new one at /v1/auth/token"),
        Refused::Invalid => refused(),
    })?;
    if let PrincipalName::Key(key_id) = principal.name {
        let row = state.settings.store.find_key(key_id).await?.ok_or_else(refused)?;
        let behind = of_key(&row.key, now)?;
        principal.scopes.retain(|scope| behind.scopes.contains(scope));
        if !row.key.profiles.contains(&principal.profile_id) {
            return Err(refused());
        }
    }
    Ok(principal)
}

fn of_key(key: &ApiKey, now: Timestamp) -> ApiResult<Principal> {
    if key.revoked_at.is_some() {
        return Err(refused());
    }
    if key.expires_at.is_some_and(|at| at <= now) {
        return Err(expired("the key has expired: make a new one"));
    }
    Ok(Principal {
        name: PrincipalName::Key(key.id),
        profile_id: key.profiles.first().copied().ok_or_else(refused)?,
        scopes: key.scopes.iter().copied().collect(),
        expires_at: key.expires_at,
    })
}

/// Whether a principal that has been let in still would be: asked by what goes on for long.
pub(crate) async fn still_works(state: &AppState, principal: &Principal) -> bool {
    let PrincipalName::Key(key_id) = principal.name else {
        return true;
    };
    match state.settings.store.find_key(key_id).await {
        Ok(row) => row.is_some_and(|row| row.key.revoked_at.is_none()),
        // A database that can't be read now says nothing of the key.
        Err(_) => true,
    }
}

async fn note_use(state: &AppState, key: &ApiKey, now: Timestamp) {
    let is_fresh = key
        .last_used_at
        .is_some_and(|at| now.as_millis() - at.as_millis() < LAST_USED_MILLIS);
    if !is_fresh && let Err(error) = state.settings.store.touch_key(key.id).await {
        tracing::warn!(error = %error, "the use of a key could not be noted: {error}");
    }
}

fn key_id_of(rest: &str) -> Option<KeyId> {
    let (ulid, _) = rest.split_once('_')?;
    format!("{}{ulid}", KeyId::PREFIX).parse().ok()
}

fn proves(token: &str, row: &talaria_store::KeyRow, now: Timestamp) -> bool {
    let given = crate::state::sha256_hex(token);
    let is = |hash: &str| bool::from(given.as_bytes().ct_eq(hash.as_bytes()));
    let is_previous = row
        .previous
        .as_ref()
        .is_some_and(|(hash, until)| is(hash) && now < *until);
    is(&row.secret_sha256) || is_previous
}

/// The profile that a request names must be the credential's; anything else doesn't exist for it.
fn enter_profile(state: &AppState, parts: &Parts, principal: &Principal) -> ApiResult<()> {
    let header = parts
        .headers
        .get("x-talaria-profile")
        .map(|value| value.to_str().unwrap_or_default().to_owned());
    let named = match header {
        Some(name) => Some(name),
        None => Params::of(&parts.uri)?.peek("profile"),
    };
    let profile = &state.settings.profile;
    let is_own =
        |name: &str| principal.profile_id == profile.id && (name == profile.name || name == profile.id.to_string());
    match named {
        Some(name) if !is_own(&name) => Err(ApiError::new(ErrorCode::ProfileNotFound)),
        _ => Ok(()),
    }
}
