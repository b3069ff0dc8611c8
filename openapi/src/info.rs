//! What a server says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Answer of `GET /v1/info`. Without a credential only the version and the ways to sign in are filled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Info {
    /// The server's version.
    pub version: String,
    /// Versions of this API that it speaks.
    pub api_versions: Vec<String>,
    /// How one can sign in.
    pub auth_methods: Vec<String>,
    /// What it can do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub capabilities: Option<BTreeMap<String, bool>>,
    /// Its limits, by name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limits: Option<BTreeMap<String, u64>>,
    /// The model that answers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<ModelInfo>,
}

/// The model that answers when nobody names another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ModelInfo {
    /// As `provider/model`.
    pub name: String,
    /// Why this one: `configuration`, `environment`, `found on this host` or `built-in demo`.
    pub chosen_by: String,
    /// How many tokens it reads, where that is known.
    pub context_length: Option<u64>,
}

/// Answer of `GET /healthz` and `GET /readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`, or what is wrong.
    pub status: String,
    /// Of `readyz`: each check and its result.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub checks: BTreeMap<String, String>,
}
