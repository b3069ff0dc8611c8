//! Names of fields, headers and options whose values are secret.

/// How a secret name ends, without `_`, `-` and `.`, and of what kind its value is. The longer endings first.
const ENDINGS: &[(&str, &str)] = &[
    ("authorization", AUTHORIZATION),
    ("passphrase", "password"),
    ("password", "password"),
    ("passwd", "password"),
    ("passcode", "password"),
    ("pwd", "password"),
    ("xamzsignature", "signature"),
    ("secretkey", "secret"),
    ("accesskey", "secret"),
    ("accountkey", "secret"),
    ("signingkey", "secret"),
    ("encryptionkey", "secret"),
    ("masterkey", "secret"),
    ("privatekey", "private-key"),
    ("apikey", "api-key"),
    ("authkey", "api-key"),
    ("subscriptionkey", "api-key"),
    ("secret", "secret"),
    ("credential", "secret"),
    ("credentials", "secret"),
    ("token", "token"),
    ("jwt", "token"),
    ("cookie", COOKIE),
];
/// Names that are secret only when they are the whole name.
const WHOLE: &[(&str, &str)] = &[
    ("pass", "password"),
    ("sig", "signature"),
    ("sessionid", "token"),
    ("auth", "token"),
];
/// Endings of names that only look secret.
const HARMLESS: &[&str] = &[
    "pagetoken",
    "nexttoken",
    "continuationtoken",
    "synctoken",
    "cancellationtoken",
    "canceltoken",
    "publickey",
];
/// Longest name that is looked at.
pub(super) const MAX_NAME: usize = 64;

/// Of an `Authorization` header.
pub(super) const AUTHORIZATION: &str = "authorization";
/// Of a `Cookie` header.
pub(super) const COOKIE: &str = "cookie";

/// Of what kind the values of this name are. `None`: they are no secrets.
pub(super) fn kind_of(name: &str) -> Option<&'static str> {
    let mut folded = [0_u8; MAX_NAME];
    let mut length = 0;
    let tail = name.get(name.len().saturating_sub(MAX_NAME)..).unwrap_or(name);
    for byte in tail.bytes().filter(u8::is_ascii_alphanumeric) {
        if let Some(slot) = folded.get_mut(length) {
            *slot = byte.to_ascii_lowercase();
            length += 1;
        }
    }
    let folded = folded.get(..length).unwrap_or_default();
    if HARMLESS.iter().any(|ending| folded.ends_with(ending.as_bytes())) {
        return None;
    }
    let whole = WHOLE.iter().find(|(name, _)| folded == name.as_bytes());
    let ending = || ENDINGS.iter().find(|(ending, _)| folded.ends_with(ending.as_bytes()));
    whole.or_else(ending).map(|(_, kind)| *kind)
}

/// Attributes of a cookie that anybody may read.
pub(super) fn is_cookie_attribute(name: &str) -> bool {
    ["path", "domain", "expires", "max-age", "samesite", "version"]
        .iter()
        .any(|attribute| name.eq_ignore_ascii_case(attribute))
}

/// Whether a byte may stand in a name.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}
