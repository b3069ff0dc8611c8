//! JSON bodies, read strictly: no duplicate keys, no unknown fields, and every mistake with its place.

use std::fmt;

use axum::extract::{FromRequest, Request};
use axum::http::header;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use talaria_openapi::errors::ErrorCode;

use crate::error::{ApiError, ApiResult};
use crate::state::AppState;

/// Longest body.
pub(crate) const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &AppState) -> ApiResult<Self> {
        require_json(&request)?;
        read(&bytes(request).await?).map(Self)
    }
}

/// A JSON body that may be left out.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<AppState> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &AppState) -> ApiResult<Self> {
        let has_type = request.headers().contains_key(header::CONTENT_TYPE);
        let typed = require_json(&request);
        let bytes = bytes(request).await?;
        if bytes.is_empty() && !has_type {
            return Ok(Self(T::default()));
        }
        typed?;
        if bytes.is_empty() {
            Ok(Self(T::default()))
        } else {
            read(&bytes).map(Self)
        }
    }
}

/// A form or JSON; what OAuth's clients send.
pub(crate) async fn form_or_json<T: DeserializeOwned>(request: Request) -> ApiResult<T> {
    if media_type(&request).eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        let bytes = bytes(request).await?;
        return serde_urlencoded::from_bytes(&bytes)
            .map_err(|error| ApiError::new(ErrorCode::ValidationFailed).detail(error.to_string()));
    }
    require_json(&request)?;
    read(&bytes(request).await?)
}

fn require_json(request: &Request) -> ApiResult<()> {
    if media_type(request).eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ApiError::new(ErrorCode::UnsupportedMediaType).detail("send JSON with `Content-Type: application/json`"))
}

/// The media type of a body, without its parameters.
fn media_type(request: &Request) -> &str {
    let whole = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    whole.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

async fn bytes(request: Request) -> ApiResult<axum::body::Bytes> {
    axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES)
        .await
        .map_err(|error| {
            if is_too_long(&error) {
                ApiError::new(ErrorCode::BodyTooLarge).detail(format!("the limit is {MAX_BODY_BYTES} bytes"))
            } else {
                ApiError::new(ErrorCode::InvalidJson).detail("the body could not be read to its end")
            }
        })
}

fn is_too_long(error: &axum::Error) -> bool {
    // axum gives no other way to tell: its limit is the only error with this text.
    std::error::Error::source(error).is_some_and(|source| source.to_string().contains("length limit exceeded"))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = StrictValue
        .deserialize(&mut json)
        .and_then(|value| json.end().map(|()| value));
    let value = value.map_err(|error| ApiError::new(ErrorCode::InvalidJson).detail(error.to_string()))?;
    // Every body is an object; serde would also take a list of an object's values in their order.
    if !value.is_object() {
        let detail = "the body must be a JSON object";
        return Err(ApiError::new(ErrorCode::ValidationFailed)
            .detail(detail)
            .field("", "invalid", detail));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let pointer = pointer(error.path());
        let message = error.into_inner().to_string();
        if let Some(name) = unknown_field(&message) {
            let pointer = format!(
                "{}/{name}",
                pointer.strip_suffix(&format!("/{name}")).unwrap_or(&pointer)
            );
            return ApiError::new(ErrorCode::UnknownField).detail(message.clone()).field(
                pointer,
                "unknown_field",
                message,
            );
        }
        ApiError::new(ErrorCode::ValidationFailed)
            .detail(message.clone())
            .field(pointer, "invalid", message)
    })
}

fn unknown_field(message: &str) -> Option<&str> {
    message.strip_prefix("unknown field `")?.split('`').next()
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// Reads any JSON, but refuses an object that names a key twice.
struct StrictValue;

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Self)?;
            if fields.insert(key.clone(), value).is_some() {
                return Err(A::Error::custom(format!("the key `{key}` stands twice in one object")));
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use talaria_openapi::runs::CreateRunRequest;
    use talaria_openapi::sessions::CreateSessionRequest;

    use super::*;

    #[test]
    fn duplicate_keys_are_refused_at_any_depth() {
        for body in [r#"{"title":"a","title":"b"}"#, r#"{"metadata":{"k":"1","k":"2"}}"#] {
            let error = read::<CreateSessionRequest>(body.as_bytes()).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidJson, "{body}");
        }
    }

    #[test]
    fn unknown_fields_are_named() {
        let error = read::<CreateSessionRequest>(br#"{"titel":"x"}"#).unwrap_err();
        assert_eq!(error.code, ErrorCode::UnknownField);
        let response = format!("{error:?}");
        assert!(response.contains(r#"pointer: Some("/titel")"#), "{response}");
    }

    #[test]
    fn only_objects_are_bodies() {
        for body in ["[null,null]", "null", "1", "\"x\"", "[]"] {
            let error = read::<CreateSessionRequest>(body.as_bytes()).unwrap_err();
            assert_eq!(error.code, ErrorCode::ValidationFailed, "{body}");
        }
        assert!(read::<CreateSessionRequest>(b"{}").is_ok());
    }

    #[test]
    fn mistakes_are_placed() {
        let body = br#"{"input":[{"role":"user","content":[{"type":"text","text":7}]}]}"#;
        let error = format!("{:?}", read::<CreateRunRequest>(body).unwrap_err());
        assert!(error.contains("/input/0/content/0"), "{error}");
    }
}
