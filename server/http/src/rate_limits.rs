//! Rate limits: what one credential may ask for in a minute. They are per server and per credential, in its profile; the
//! person who owns the home has none. A run that works is never slowed by them: only requests are counted.

use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{HeaderValue, Method, Response};
use governor::clock::{Clock as _, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use talaria_domain::principal::{Principal, PrincipalName};
use talaria_openapi::errors::ErrorCode;
use talaria_openapi::ids::{KeyId, ProfileId};

use crate::error::{ApiError, ApiResult};

/// Credentials that are remembered before those with a full quota are forgotten.
const SWEEP_ABOVE: usize = 10_000;
/// The window of every policy, in seconds.
const WINDOW: u64 = 60;

/// What a credential may ask for in a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimits {
    /// Runs that it may create.
    pub runs: NonZeroU32,
    /// Requests of any other kind.
    pub requests: NonZeroU32,
}

type Key = (ProfileId, KeyId);
type Limiter = RateLimiter<Key, HashMapStateStore<Key>, DefaultClock, StateInformationMiddleware>;

/// One policy, and who has used how much of it.
struct Policy {
    name: &'static str,
    quota: NonZeroU32,
    limiter: Limiter,
}

/// The policies of a server.
pub(crate) struct Policies {
    runs: Policy,
    requests: Policy,
}

/// What a limited answer says of its limit; set by whoever counts, read by the middleware.
#[derive(Clone, Default)]
pub(crate) struct RateSlot(Arc<OnceLock<Standing>>);

/// How a credential stands.
struct Standing {
    policy: &'static str,
    quota: NonZeroU32,
    remaining: u32,
    reset: Duration,
}

impl Policies {
    pub(crate) fn new(limits: RateLimits) -> Self {
        Self {
            runs: Policy::new("runs", limits.runs),
            requests: Policy::new("requests", limits.requests),
        }
    }

    /// Counts a request; refused when its credential has none left.
    pub(crate) fn count(
        &self,
        principal: &Principal,
        (method, route): (&Method, &str),
        slot: Option<&RateSlot>,
    ) -> ApiResult<()> {
        let PrincipalName::Key(key_id) = principal.name else {
            return Ok(());
        };
        let creates_run = method == Method::POST && route.ends_with("/runs");
        let policy = if creates_run { &self.runs } else { &self.requests };
        policy.count(&(principal.profile_id, key_id), slot)
    }
}

impl Policy {
    fn new(name: &'static str, quota: NonZeroU32) -> Self {
        let (store, clock) = (HashMapStateStore::default(), DefaultClock::default());
        Self {
            name,
            quota,
            limiter: Limiter::new(Quota::per_minute(quota), store, clock),
        }
    }

    fn count(&self, key: &Key, slot: Option<&RateSlot>) -> ApiResult<()> {
        if self.limiter.len() > SWEEP_ABOVE {
            self.limiter.retain_recent();
        }
        let (remaining, wait) = match self.limiter.check_key(key) {
            Ok(state) => (state.remaining_burst_capacity(), None),
            Err(refused) => (0, Some(refused.wait_time_from(DefaultClock::default().now()))),
        };
        let standing = Standing {
            policy: self.name,
            quota: self.quota,
            remaining,
            reset: Duration::from_secs(WINDOW) * (self.quota.get() - remaining) / self.quota.get(),
        };
        if let Some(slot) = slot {
            drop(slot.0.set(standing));
        }
        match wait {
            None => Ok(()),
            Some(wait) => Err(ApiError::new(ErrorCode::RateLimited)
                .detail(format!(
                    "this credential may make {} {} in a minute: wait, or raise `server.rate_limits` in config.yaml",
                    self.quota, self.name
                ))
                .retry_after(whole_seconds(wait).max(1))),
        }
    }
}

impl RateSlot {
    /// Writes the headers of the limit (IETF draft `draft-ietf-httpapi-ratelimit-headers`), if one was counted.
    pub(crate) fn tell<B>(&self, response: &mut Response<B>) {
        let Some(standing) = self.0.get() else { return };
        let (name, quota) = (standing.policy, standing.quota);
        let (remaining, reset) = (standing.remaining, whole_seconds(standing.reset));
        for (header, value) in [
            ("ratelimit-policy", format!("\"{name}\";q={quota};w={WINDOW}")),
            ("ratelimit", format!("\"{name}\";r={remaining};t={reset}")),
        ] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(header, value);
            }
        }
    }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
