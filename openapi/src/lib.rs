//! The wire contract: every type that crosses the HTTP border, and nothing else.
//!
//! What it is *not*: it knows no database, no router and no agent; it holds no logic beyond parsing and printing.
//! The server, the terminal client and the tests share these types, so they can't drift apart.
//!
//! Start reading at [`events`]: the log of a chain is the heart of the product.
#![warn(missing_docs)]

pub mod auth;
pub mod errors;
pub mod events;
pub mod files;
pub mod ids;
pub mod info;
pub mod inputs;
pub mod interactions;
pub mod messages;
pub mod page;
pub mod runs;
pub mod search;
pub mod sessions;
pub mod time;
pub mod tools;

/// Names the kind of an object in its `object` field, such as `session`.
pub type ObjectName = std::borrow::Cow<'static, str>;

/// Small client-made annotations: at most 32 pairs, keys of at most 64 and values of at most 512 characters.
pub type Metadata = std::collections::BTreeMap<String, String>;
