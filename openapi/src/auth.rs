//! Keys, tokens and scopes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ObjectName;
use crate::ids::{KeyId, ProfileId};
use crate::time::Timestamp;

macro_rules! scopes {
    ($($(#[$doc:meta])* $name:ident = $text:tt;)+) => {
        /// What a credential may do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        pub enum Scope {$(
            $(#[$doc])*
            #[serde(rename = $text)]
            $name,
        )+}

        impl Scope {
            /// Every scope there is.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Its name on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {$(Self::$name => $text,)+}
            }
        }

        impl FromStr for Scope {
            type Err = UnknownScope;

            fn from_str(text: &str) -> Result<Self, UnknownScope> {
                match text {
                    $($text => Ok(Self::$name),)+
                    _ => Err(UnknownScope),
                }
            }
        }
    };
}

scopes! {
    /// Read sessions, runs, messages, events; search.
    SessionsRead = "sessions:read";
    /// Create, change and delete sessions.
    SessionsWrite = "sessions:write";
    /// Start and stop runs.
    RunsWrite = "runs:write";
    /// Answer what a run waits for. Not part of `runs:write`: who starts runs can't approve their commands.
    InteractionsResolve = "interactions:resolve";
    /// List tools.
    ToolsRead = "tools:read";
    /// Read files.
    FilesRead = "files:read";
    /// Create and revoke keys (with `admin`).
    KeysManage = "keys:manage";
    /// Operate the server: keys, metrics.
    Admin = "admin";
}

/// The text names no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownScope;

impl fmt::Display for UnknownScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown scope")
    }
}

impl std::error::Error for UnknownScope {}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An API key. Its secret is shown once, when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ApiKey {
    /// Its id.
    pub id: KeyId,
    /// Always `key`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub object: ObjectName,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// The profiles that it may enter; the first one is its default.
    pub profiles: Vec<ProfileId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, within a minute.
    pub last_used_at: Option<Timestamp>,
    /// The whole key, in the answer that made it only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub secret: Option<String>,
}

/// Body of `POST /v1/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateKeyRequest {
    /// What people call it: 1 to 100 characters.
    pub name: String,
    /// What it may do: none that the maker hasn't.
    pub scopes: Vec<Scope>,
    /// When it stops working by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Timestamp>,
}

/// Body of `PATCH /v1/keys/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct UpdateKeyRequest {
    /// A new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Body of `POST /v1/keys/{id}/rotate`; may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RotateKeyRequest {
    /// How long the old secret still works: 0 to 604,800 seconds, a day when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_seconds: Option<u64>,
}

/// Body of `POST /v1/auth/token`, form-encoded or JSON. Parameters that it doesn't know are ignored (RFC 6749, 3.2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct TokenRequest {
    /// Always `client_credentials`.
    pub grant_type: String,
    /// Scopes, separated by spaces; all of the key's when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// A short-lived token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TokenResponse {
    /// The token: a JWT signed with `EdDSA`.
    pub access_token: String,
    /// Always `Bearer`.
    pub token_type: String,
    /// Seconds that it works.
    pub expires_in: u64,
    /// Its scopes, separated by spaces.
    pub scope: String,
}

/// An error of the token endpoint, in OAuth's own form (RFC 6749, 5.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TokenError {
    /// OAuth's code.
    pub error: String,
    /// For people.
    pub error_description: String,
}

/// The public half of the key that signs tokens (RFC 8037).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Jwk {
    /// Always `OKP`.
    pub kty: String,
    /// Always `Ed25519`.
    pub crv: String,
    /// Always `sig`.
    #[serde(rename = "use")]
    pub key_use: String,
    /// Always `EdDSA`.
    pub alg: String,
    /// Its name in the header of tokens.
    pub kid: String,
    /// The public key, in base64url.
    pub x: String,
}

/// The keys that tokens can be verified with (RFC 7517).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Jwks {
    /// One or more.
    pub keys: Vec<Jwk>,
}

/// Where tokens come from (RFC 8414).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuthorizationServer {
    /// The server's address.
    pub issuer: String,
    /// Where tokens are made.
    pub token_endpoint: String,
    /// Where the keys are.
    pub jwks_uri: String,
    /// Ways to get a token.
    pub grant_types_supported: Vec<String>,
    /// How a client proves itself at the token endpoint: its API key as a bearer token.
    pub token_endpoint_auth_methods_supported: Vec<String>,
    /// None: there is no authorization endpoint.
    pub response_types_supported: Vec<String>,
    /// Every scope there is.
    pub scopes_supported: Vec<Scope>,
}

/// Who the server takes you for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Whoami {
    /// A name for the credential, such as `local` or `key:key_01…`.
    pub principal: String,
    /// The profile that this request acts in.
    pub profile_id: ProfileId,
    /// What the credential may do.
    pub scopes: Vec<Scope>,
    /// When the credential stops working.
    pub expires_at: Option<Timestamp>,
}
