//! Query parameters: each is taken by name, and what is left over is refused.

use std::str::FromStr;

use axum::extract::Query;
use axum::http::Uri;
use talaria_openapi::errors::ErrorCode;

use crate::error::{ApiError, ApiResult};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 200;

/// The parameters of a request that nobody has taken yet.
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn of(uri: &Uri) -> ApiResult<Self> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| ApiError::new(ErrorCode::ValidationFailed).detail(error.to_string()))?;
        Ok(Self(pairs))
    }

    /// The value of a parameter, left in place.
    pub(crate) fn peek(&self, name: &str) -> Option<String> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    }

    /// The value of a parameter.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// The value of a parameter, read as a `T`.
    pub(crate) fn take_as<T: FromStr>(&mut self, name: &str, expected: &str) -> ApiResult<Option<T>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        text.parse()
            .map(Some)
            .map_err(|_| invalid(name, &format!("`{text}` is not {expected}")))
    }

    /// The value of a parameter, read as one of the names of an enum.
    pub(crate) fn take_name<T: serde::de::DeserializeOwned>(&mut self, name: &str) -> ApiResult<Option<T>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        serde_json::from_value(serde_json::Value::String(text))
            .map(Some)
            .map_err(|error| invalid(name, &error.to_string()))
    }

    /// `limit`: 1 to 200, 50 when left out.
    pub(crate) fn take_limit(&mut self) -> ApiResult<u32> {
        let limit = self
            .take_as("limit", "a number from 1 to 200")?
            .unwrap_or(DEFAULT_LIMIT);
        if (1..=MAX_LIMIT).contains(&limit) {
            Ok(limit)
        } else {
            Err(invalid("limit", "must be from 1 to 200"))
        }
    }

    /// `order`: whether it is ascending.
    pub(crate) fn take_ascending(&mut self, default: bool) -> ApiResult<bool> {
        match self.take("order").as_deref() {
            None => Ok(default),
            Some("asc") => Ok(true),
            Some("desc") => Ok(false),
            Some(_) => Err(invalid("order", "must be `asc` or `desc`")),
        }
    }

    /// Refuses parameters that come in a later version.
    pub(crate) fn refuse_later(&self, names: &[&str]) -> ApiResult<()> {
        match names.iter().find(|name| self.peek(name).is_some()) {
            Some(name) => Err(ApiError::unsupported(name)),
            None => Ok(()),
        }
    }

    /// Refuses what nobody has taken. `profile` is read by the auth layer.
    pub(crate) fn finish(self) -> ApiResult<()> {
        match self.0.into_iter().find(|(name, _)| name != "profile") {
            Some((name, _)) => {
                let detail = format!("there is no parameter `{name}` here");
                Err(ApiError::new(ErrorCode::UnknownField)
                    .detail(detail.clone())
                    .parameter(&name, "unknown", detail))
            }
            None => Ok(()),
        }
    }
}

pub(crate) fn invalid(name: &str, detail: &str) -> ApiError {
    ApiError::new(ErrorCode::ValidationFailed)
        .detail(format!("`{name}`: {detail}"))
        .parameter(name, "invalid", detail)
}
