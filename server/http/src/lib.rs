//! The HTTP border: parses and authorises requests, calls the agent and the store, and prints answers and streams.
//!
//! What it is *not*: it holds no business rule. Every route is on one page: [`router`].

mod accept;
mod attendance;
mod auth;
mod body;
mod cursor;
mod document;
mod error;
mod idempotency;
mod middleware;
mod params;
mod rate_limits;
pub mod router;
mod routes;
pub mod scopes;
mod sse;
mod state;
pub mod tables;
mod tokens;

pub use error::ApiError;
pub use rate_limits::RateLimits;
pub use state::{AppState, CheckWorkspace, HostPolicy, RenderMetrics, Settings};
pub use tokens::SigningKey;
