//! Reads the arguments of a call; a mistake is told to the model so that it can mend it.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use talaria_domain::tool::{Arguments, ToolError};

/// Longest preview of a call, in cells.
pub(crate) const PREVIEW_CELLS: usize = 80;

/// The arguments as a `T`.
pub(crate) fn read<T: DeserializeOwned>(arguments: &Arguments) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(arguments.clone()))
        .map_err(|error| ToolError::Respond(format!("the arguments don't fit: {error}. See the tool's schema")))
}

/// A number, also where the model wrote it as text.
pub(crate) fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    match Option::<Value>::deserialize(deserializer)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => text.trim().parse().map(Some).map_err(serde::de::Error::custom),
        Some(value) => value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| serde::de::Error::custom(format!("expected a number from 0, found {value}"))),
    }
}

/// One line for people, from an argument.
pub(crate) fn preview(arguments: &Arguments, name: &str) -> String {
    let text = arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    talaria_text::cut::one_line(text, PREVIEW_CELLS)
}
