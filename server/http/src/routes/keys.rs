//! API keys: made, renamed, rotated, revoked. The secret is shown once.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use talaria_openapi::auth::{ApiKey, CreateKeyRequest, RotateKeyRequest, UpdateKeyRequest};
use talaria_openapi::errors::ErrorCode;
use talaria_openapi::ids::KeyId;
use talaria_openapi::page::Page;
use talaria_openapi::time::Timestamp;
use talaria_store::KeyRow;

use crate::auth::{Caller, KEY_PREFIX};
use crate::body::{Body, OptionalBody};
use crate::error::{ApiError, ApiResult};
use crate::params::Params;
use crate::routes::id;
use crate::state::{AppState, sha256_hex};

const MAX_NAME_CHARS: usize = 100;
const MAX_KEYS: u32 = 200;
const DEFAULT_OVERLAP_SECONDS: u64 = 86_400;
const MAX_OVERLAP_SECONDS: u64 = 604_800;

/// Makes a key. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/v1/keys", tag = "auth", request_body = CreateKeyRequest,
    responses((status = 201, body = ApiKey)))]
pub(crate) async fn create_key(
    State(state): State<AppState>,
    caller: Caller,
    uri: Uri,
    Body(request): Body<CreateKeyRequest>,
) -> ApiResult<(StatusCode, Json<ApiKey>)> {
    Params::of(&uri)?.finish()?;
    check_name(&request.name)?;
    if request.scopes.is_empty() {
        return Err(ApiError::invalid(
            "/scopes",
            "a key without scopes can do nothing: name at least one",
        ));
    }
    // Nobody gives away what he hasn't.
    request.scopes.iter().try_for_each(|scope| caller.allow(*scope))?;
    let now = state.settings.clock.now();
    if request.expires_at.is_some_and(|at| at <= now) {
        return Err(ApiError::invalid("/expires_at", "is in the past"));
    }
    let key_id = KeyId::new();
    let secret = new_secret(key_id)?;
    let mut key = ApiKey {
        id: key_id,
        object: "key".into(),
        name: request.name,
        scopes: request.scopes,
        profiles: vec![caller.profile_id()],
        created_at: now,
        expires_at: request.expires_at,
        revoked_at: None,
        last_used_at: None,
        secret: None,
    };
    let row = KeyRow {
        key: key.clone(),
        secret_sha256: sha256_hex(&secret),
        previous: None,
    };
    state.settings.store.create_key(caller.profile_id(), row).await?;
    key.secret = Some(secret);
    Ok((StatusCode::CREATED, Json(key)))
}

fn new_secret(key_id: KeyId) -> ApiResult<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(error = %error, "the host gives no random bytes: {error}");
        ApiError::new(ErrorCode::Internal)
    })?;
    Ok(format!(
        "{KEY_PREFIX}{}_{}",
        key_id.ulid(),
        URL_SAFE_NO_PAD.encode(bytes)
    ))
}

fn check_name(name: &str) -> ApiResult<()> {
    let length = name.chars().count();
    if (1..=MAX_NAME_CHARS).contains(&length) {
        Ok(())
    } else {
        Err(ApiError::invalid("/name", "1 to 100 characters"))
    }
}

/// The keys of the profile, newest first, without their secrets.
#[utoipa::path(get, path = "/v1/keys", tag = "auth",
    responses((status = 200, body = Page<ApiKey>)))]
pub(crate) async fn list_keys(
    State(state): State<AppState>,
    caller: Caller,
    uri: Uri,
) -> ApiResult<Json<Page<ApiKey>>> {
    Params::of(&uri)?.finish()?;
    let data = state.settings.store.list_keys(caller.profile_id(), MAX_KEYS).await?;
    Ok(Json(Page {
        data,
        next_cursor: None,
        has_more: false,
    }))
}

/// Changes a key of the caller's profile.
async fn change(
    state: &AppState,
    caller: &Caller,
    key_id: &str,
    change: impl FnOnce(&mut KeyRow, Timestamp) + Send + 'static,
) -> ApiResult<ApiKey> {
    let key_id = id(key_id, ErrorCode::KeyNotFound)?;
    let changed = state
        .settings
        .store
        .change_key(caller.profile_id(), key_id, change)
        .await;
    changed
        .map(|row| row.key)
        .map_err(|error| ApiError::from(error).not_found(ErrorCode::KeyNotFound))
}

/// Renames a key.
#[utoipa::path(patch, path = "/v1/keys/{key_id}", tag = "auth", params(("key_id" = String, Path,)), request_body = UpdateKeyRequest,
    responses((status = 200, body = ApiKey)))]
pub(crate) async fn update_key(
    State(state): State<AppState>,
    caller: Caller,
    Path(key_id): Path<String>,
    uri: Uri,
    Body(request): Body<UpdateKeyRequest>,
) -> ApiResult<Json<ApiKey>> {
    Params::of(&uri)?.finish()?;
    request.name.as_deref().map_or(Ok(()), check_name)?;
    let renamed = change(&state, &caller, &key_id, |row, _| {
        if let Some(name) = request.name {
            row.key.name = name;
        }
    });
    renamed.await.map(Json)
}

/// Revokes a key at once.
#[utoipa::path(delete, path = "/v1/keys/{key_id}", tag = "auth", params(("key_id" = String, Path,)),
    responses((status = 204)))]
pub(crate) async fn revoke_key(
    State(state): State<AppState>,
    caller: Caller,
    Path(key_id): Path<String>,
    uri: Uri,
) -> ApiResult<StatusCode> {
    Params::of(&uri)?.finish()?;
    let revoked = change(&state, &caller, &key_id, |row, now| {
        row.key.revoked_at.get_or_insert(now);
    });
    revoked.await.map(|_| StatusCode::NO_CONTENT)
}

/// Gives a key a new secret; the old one works a while longer.
#[utoipa::path(post, path = "/v1/keys/{key_id}/rotate", tag = "auth", params(("key_id" = String, Path,)), request_body = RotateKeyRequest,
    responses((status = 200, body = ApiKey)))]
pub(crate) async fn rotate_key(
    State(state): State<AppState>,
    caller: Caller,
    Path(key_id): Path<String>,
    uri: Uri,
    OptionalBody(request): OptionalBody<RotateKeyRequest>,
) -> ApiResult<Json<ApiKey>> {
    Params::of(&uri)?.finish()?;
    let overlap = request.overlap_seconds.unwrap_or(DEFAULT_OVERLAP_SECONDS);
    if overlap > MAX_OVERLAP_SECONDS {
        return Err(ApiError::invalid(
            "/overlap_seconds",
            format!("at most {MAX_OVERLAP_SECONDS}"),
        ));
    }
    let secret = new_secret(id(&key_id, ErrorCode::KeyNotFound)?)?;
    let hash = sha256_hex(&secret);
    let rotated = change(&state, &caller, &key_id, move |row, now| {
        if row.key.revoked_at.is_none() {
            let until = now.as_millis() + i64::try_from(overlap).unwrap_or(0) * 1000;
            let replaced = std::mem::replace(&mut row.secret_sha256, hash);
            row.previous = Some((replaced, Timestamp::from_millis(until)));
        }
    });
    let mut key = rotated.await?;
    if key.revoked_at.is_some() {
        return Err(ApiError::new(ErrorCode::KeyNotFound).detail("the key is revoked: make a new one"));
    }
    key.secret = Some(secret);
    Ok(Json(key))
}
