//! The agent: the loop of model rounds and tools, and the runs that it works in.
//!
//! What it is *not*: it knows no HTTP, no provider and no concrete tool; models and tools are the ports of
//! `talaria-domain`. It doesn't know who listens: it writes to the log, readers read the log.
//!
//! Start reading at [`run`] (the public face), then `turn.rs` (the loop, top to bottom).
#![warn(missing_docs)]

mod answer;
mod approvals;
mod ending;
mod error;
mod history;
mod live_output;
mod message;
mod outcome;
pub mod prompt;
mod recovery;
mod results;
mod retry;
pub mod run;
mod segments;
mod timers;
mod tool_calls;
mod tool_filter;
mod turn;

pub use error::{Error, Result};
pub use run::{Cancel, ResolveModel, Runs, Settings};
