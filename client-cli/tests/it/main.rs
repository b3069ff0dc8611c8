//! The client against servers that break in every way.
#![expect(clippy::unwrap_used, reason = "tests")]

mod fake_server;
mod refusals;
mod resume;
