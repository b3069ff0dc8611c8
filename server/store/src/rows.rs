//! Small conversions between rows and values.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// JSON text of a document.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|_| Error::Corrupt { what: "document" })
}

/// A document from its JSON text.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str, what: &'static str) -> Result<T> {
    serde_json::from_str(text).map_err(|_| Error::Corrupt { what })
}

/// The name that serde gives a unit variant, such as `running`.
pub(crate) fn name_of<T: Serialize>(value: &T) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        _ => Err(Error::Corrupt { what: "enum" }),
    }
}

/// An id from its text.
pub(crate) fn id<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::Corrupt { what: "id" })
}
