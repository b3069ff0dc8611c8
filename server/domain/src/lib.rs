//! Nouns, ports and laws. No IO.
//!
//! Models and tools are seen through the traits in [`model`] and [`tool`]; the life of a run is the pure function in
//! [`run_state`]; tasks are spawned through [`scope`] only.
#![warn(missing_docs)]

pub mod clock;
pub mod live;
pub mod metrics;
pub mod model;
pub mod principal;
pub mod run_state;
pub mod scope;
pub mod tool;

/// A secret value: its `Debug` shows nothing.
pub type Secret = secrecy::SecretString;
