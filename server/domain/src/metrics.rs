//! The names of what is measured, as `/metrics` shows them (api.md 2.12). Times are in seconds.

/// Gauge: runs that this server works on.
pub const RUNS_ACTIVE: &str = "talaria_runs_active";
/// Histogram: from the moment a server begins to work on a run to the moment it leaves it.
pub const RUN_SECONDS: &str = "talaria_run_seconds";
/// Histogram: from a request to a model to the first thing that it says.
pub const FIRST_TOKEN_SECONDS: &str = "talaria_first_token_seconds";
/// Gauge: open streams.
pub const SSE_CONNECTIONS: &str = "talaria_sse_connections";
/// Histogram: events between what a reader has got and the head of its log, each time that it reads.
pub const SSE_LAG_EVENTS: &str = "talaria_sse_lag_events";
/// Counter by `reason`: streams that were told to load a snapshot.
pub const SSE_RESETS: &str = "talaria_sse_resets_total";
/// Histogram: from the hand-over of a write to its commit.
pub const EVENT_APPEND_SECONDS: &str = "talaria_event_append_seconds";
/// Histogram by `route` and `status`: from a request's head to its answer's head.
pub const HTTP_REQUESTS_SECONDS: &str = "talaria_http_requests_seconds";
