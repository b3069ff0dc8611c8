//! The clock, so that tests can hold it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use talaria_openapi::time::Timestamp;

/// Tells the time of day. Never used for order or leases.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The host's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that is handed around.
pub type SharedClock = Arc<dyn Clock>;
