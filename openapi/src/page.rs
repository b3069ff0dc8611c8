//! Lists: keyset pages without totals.

use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The entries, in the order that was asked for.
    pub data: Vec<T>,
    /// Hand it back as `?cursor=` to get the next page; `null` on the last one.
    pub next_cursor: Option<String>,
    /// Whether a next page exists.
    pub has_more: bool,
}
