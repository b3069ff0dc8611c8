//! Files of sessions: what they are, and their bytes.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use talaria_openapi::errors::ErrorCode;
use talaria_openapi::files::File;
use tower_http::services::ServeFile;

use crate::auth::Caller;
use crate::error::{ApiError, ApiResult};
use crate::params::Params;
use crate::routes::id;
use crate::state::AppState;

/// What a file is.
#[utoipa::path(get, path = "/v1/files/{file_id}", tag = "files", params(("file_id" = String, Path,)),
    responses((status = 200, body = File)))]
pub(crate) async fn get_file(
    State(state): State<AppState>,
    caller: Caller,
    Path(file_id): Path<String>,
    uri: axum::http::Uri,
) -> ApiResult<Json<File>> {
    Params::of(&uri)?.finish()?;
    find(&state, &caller, &file_id).await.map(Json)
}

/// The bytes of a file. `Range` gives a part of them.
#[utoipa::path(get, path = "/v1/files/{file_id}/content", tag = "files",
    params(("file_id" = String, Path,), ("Range" = Option<String>, Header,)),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"), (status = 206), (status = 416)))]
pub(crate) async fn get_file_content(
    State(state): State<AppState>,
    caller: Caller,
    Path(file_id): Path<String>,
    request: Request,
) -> ApiResult<Response> {
    Params::of(request.uri())?.finish()?;
    let file = find(&state, &caller, &file_id).await?;
    let mut service = ServeFile::new(state.settings.store.blob_path(file.id));
    let answer = service.try_call(request).await.map_err(|error| {
        tracing::error!(error = %error, "a file could not be read: {error}");
        ApiError::new(ErrorCode::StorageUnavailable)
    })?;
    if answer.status() == axum::http::StatusCode::NOT_FOUND {
        tracing::error!(file.id = %file.id, "the bytes of a file are gone");
        return Err(ApiError::new(ErrorCode::Internal));
    }
    let mut answer = answer.map(Body::new);
    let headers = answer.headers_mut();
    // A browser must never take a file for a page of this server.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_DISPOSITION, attachment(&file.filename)?);
    if answer.status().is_success() {
        let media_type = HeaderValue::from_str(&file.media_type).map_err(|_| ApiError::new(ErrorCode::Internal))?;
        answer.headers_mut().insert(header::CONTENT_TYPE, media_type);
    }
    Ok(answer)
}

async fn find(state: &AppState, caller: &Caller, file_id: &str) -> ApiResult<File> {
    let file_id = id(file_id, ErrorCode::FileNotFound)?;
    let found = state.settings.store.get_file(caller.profile_id(), file_id).await;
    found.map_err(|error| ApiError::from(error).not_found(ErrorCode::FileNotFound))
}

/// `attachment` with a name that no client can misread: plain ASCII, and the true one in UTF-8 (RFC 6266).
fn attachment(name: &str) -> ApiResult<HeaderValue> {
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._- ".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    let encoded: String = name
        .bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect();
    HeaderValue::from_str(&format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"))
        .map_err(|_| ApiError::new(ErrorCode::Internal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_not_leave_their_quotes() {
        let header = attachment("a\"; x=1\r\nü.txt").unwrap();
        let expected = "attachment; filename=\"a__ x_1___.txt\"; filename*=UTF-8''a%22%3B%20x%3D1%0D%0A%C3%BC.txt";
        assert_eq!(header.to_str().unwrap(), expected);
    }
}
