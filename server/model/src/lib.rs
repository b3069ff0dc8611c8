//! Outgoing model APIs, behind `domain::ModelClient`.
//!
//! What it is *not*: it knows no session and no run, and repeats no request; the caller decides by the flags of the error.
//! Start reading at [`openai_chat`], then `classify.rs`, the one table of what providers say when they fail.
#![warn(missing_docs)]

pub mod catalog;
mod classify;
pub mod demo;
mod error;
mod http_client;
pub mod openai_chat;
pub mod probe;
mod retry_after;

pub use error::Error;
