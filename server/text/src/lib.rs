//! Text, pure: cutting, cleaning, redacting, and the tokens of search. No IO.
//!
//! Invariant (I13): text is cut and split here and nowhere else, always between characters.
#![warn(missing_docs)]
#![expect(
    clippy::string_slice,
    reason = "the one crate that cuts; every index comes from a character boundary"
)]

pub mod cut;
pub mod redact;
pub mod sanitize;
pub mod search_query;
mod search_term;
pub mod search_tokens;
