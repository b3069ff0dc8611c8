//! When a failed model request is sent again. Looks at the flags of the failure only (mission R3).

use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use talaria_domain::model::ModelError;

/// Requests of one round, the first one included.
const MAX_ATTEMPTS: u32 = 4;
const BASE: Duration = Duration::from_millis(500);
const CEILING: Duration = Duration::from_secs(60);

/// How long to wait before attempt `failed_attempts + 1`; `None` when it isn't worth another.
pub(crate) fn delay(error: &ModelError, failed_attempts: u32) -> Option<Duration> {
    if !error.flags.retryable || failed_attempts >= MAX_ATTEMPTS {
        return None;
    }
    let backoff = BASE
        .saturating_mul(2_u32.saturating_pow(failed_attempts.saturating_sub(1)))
        .min(CEILING);
    // Jitter of up to a half, so that runs that failed together don't come back together.
    let random = std::hash::RandomState::new().build_hasher().finish();
    let jitter = backoff.mul_f64((random % 1000) as f64 / 2000.0);
    Some(error.retry_after.unwrap_or(backoff + jitter))
}

#[cfg(test)]
mod tests {
    use talaria_domain::model::{FailureFlags, FailureReason};

    use super::*;

    fn error(retryable: bool, retry_after: Option<Duration>) -> ModelError {
        ModelError {
            reason: FailureReason::Overloaded,
            flags: FailureFlags {
                retryable,
                ..FailureFlags::default()
            },
            message: String::new(),
            provider_status: None,
            retry_after,
        }
    }

    #[test]
    fn row_r3_only_the_flag_decides() {
        assert!(delay(&error(true, None), 1).is_some());
        assert_eq!(delay(&error(false, Some(BASE)), 1), None);
    }

    #[test]
    fn delays_grow_honour_the_provider_and_end() {
        let (first, third) = (
            delay(&error(true, None), 1).unwrap(),
            delay(&error(true, None), 3).unwrap(),
        );
        assert!(first >= BASE && third >= BASE * 4 && third > first);
        assert_eq!(
            delay(&error(true, Some(Duration::from_secs(7))), 1),
            Some(Duration::from_secs(7))
        );
        assert_eq!(delay(&error(true, None), MAX_ATTEMPTS), None);
    }
}
