//! `${NAME}` in values.

use std::collections::BTreeMap;

/// Replaces each `${NAME}` by its value; what is no name stays as it is. Fails with the name that has no value.
pub fn expand(text: &str, environment: &BTreeMap<String, String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        match after.split_once('}') {
            Some((name, behind)) if is_name(name) => {
                expanded.push_str(environment.get(name).ok_or_else(|| name.to_owned())?);
                rest = behind;
            }
            _ => {
                expanded.push_str("${");
                rest = after;
            }
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
