//! Logs: to standard error, one line an event.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Begins to log. A filter that can't be read is replaced by `info`.
pub(crate) fn start(filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let is_terminal = std::io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        // It would complain to standard error, and panic when that is what can't be written: on a full disk, for example.
        .log_internal_errors(false);
    // Somebody who has set a subscriber before keeps it.
    drop(subscriber.try_init());
}
