//! What the black-box tests stand on: a server as a process or a part of the test, and a scripted model that checks every
//! request that it gets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test support fails like a test")]

pub mod bench;
pub mod model_script;
pub mod pty;
pub mod server;
