//! Who asks: made by the auth layer, handed down to everything that acts for a client.

use std::collections::BTreeSet;

use talaria_openapi::auth::Scope;
use talaria_openapi::ids::{KeyId, ProfileId};
use talaria_openapi::time::Timestamp;

/// The credential behind a request, and the one profile that the request acts in (I9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Whose credential it is.
    pub name: PrincipalName,
    /// The profile that the request acts in; every query filters by it.
    pub profile_id: ProfileId,
    /// What the credential may do.
    pub scopes: BTreeSet<Scope>,
    /// When the credential ends.
    pub expires_at: Option<Timestamp>,
}

/// Whose credential it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrincipalName {
    /// The person who owns the home.
    Local,
    /// An API key, or a token made with it.
    Key(KeyId),
}

impl std::fmt::Display for PrincipalName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Key(id) => write!(f, "key:{id}"),
        }
    }
}

/// The text names no principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown principal")]
pub struct UnknownPrincipal;

impl std::str::FromStr for PrincipalName {
    type Err = UnknownPrincipal;

    fn from_str(text: &str) -> Result<Self, UnknownPrincipal> {
        if text == "local" {
            return Ok(Self::Local);
        }
        let key_id = text.strip_prefix("key:").and_then(|id| id.parse().ok());
        key_id.map(Self::Key).ok_or(UnknownPrincipal)
    }
}
