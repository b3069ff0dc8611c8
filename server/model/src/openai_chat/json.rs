//! JSON as providers write it, and what their errors say.

use serde_json::Value;

/// JSON, also where it holds half a surrogate pair, which strict readers refuse: it becomes U+FFFD.
pub(super) fn parse(json: &str) -> Option<Value> {
    serde_json::from_str(json)
        .ok()
        .or_else(|| serde_json::from_str(&without_lone_surrogates(json)).ok())
}

fn without_lone_surrogates(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let unit = |text: &str| {
            let hex = text.strip_prefix('u').and_then(|text| text.get(..4))?;
            u16::from_str_radix(hex, 16).ok()
        };
        let second = after.get(5..).and_then(|text| text.strip_prefix('\\')).and_then(unit);
        match (unit(after), second) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => {
                out.push('\\');
                out.push_str(after.get(..11).unwrap_or(after));
                rest = after.get(11..).unwrap_or_default();
            }
            (Some(0xd800..=0xdfff), _) => {
                out.push_str("\\ufffd");
                rest = after.get(5..).unwrap_or_default();
            }
            _ => {
                // The escaped letter goes with its backslash: `\\u` is no escape of a unit.
                let letter = after.chars().next();
                out.push('\\');
                out.extend(letter);
                rest = after.get(letter.map_or(0, char::len_utf8)..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

/// The error that a document reports. A field that holds nothing reports nothing.
pub(super) fn error_of(value: &Value) -> Option<&Value> {
    value.get("error").filter(|error| match error {
        Value::Null | Value::Bool(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Number(_) | Value::Array(_) => true,
    })
}

/// The HTTP status that stands in an error, as a number or as text.
pub(super) fn error_status(error: &Value) -> Option<u16> {
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    ["status", "status_code", "code"]
        .iter()
        .filter_map(|name| number(error.get(name)?))
        .find_map(|code| u16::try_from(code).ok().filter(|code| (400..600).contains(code)))
}

/// What an error says, from a body of any shape.
pub(super) fn error_text(body: &str) -> String {
    let Some(value) = parse(body) else {
        return body.to_owned();
    };
    // Some put the error into a list.
    let value = value.get(0).unwrap_or(&value);
    error_value_text(error_of(value).unwrap_or(value))
}

pub(super) fn error_value_text(error: &Value) -> String {
    if let Some(text) = error.as_str() {
        return text.to_owned();
    }
    let field = |name: &str| error.get(name).and_then(Value::as_str);
    let mut parts: Vec<&str> = ["type", "code", "status", "message", "detail"]
        .into_iter()
        .filter_map(field)
        .filter(|text| !text.is_empty())
        .collect();
    // OpenRouter hides what the provider behind it says one level deeper.
    parts.extend(error.pointer("/metadata/raw").and_then(Value::as_str));
    if parts.is_empty() {
        error.to_string()
    } else {
        parts.join(": ")
    }
}
