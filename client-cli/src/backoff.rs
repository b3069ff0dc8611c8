//! How long to wait before a connection is made again.

use std::hash::BuildHasher as _;
use std::time::Duration;

/// The first wait, where the server has named none.
const FIRST: Duration = Duration::from_millis(200);
/// The longest wait, but for one that the server asks for.
const LONGEST: Duration = Duration::from_secs(10);
/// The longest wait that a server may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// Waits that grow with each failure and begin anew with each success.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: FIRST,
            next: FIRST,
        }
    }
}

impl Backoff {
    /// The server names the first wait.
    pub(crate) fn begin_with(&mut self, first: Duration) {
        self.first = first.min(LONGEST_ASKED);
        self.next = self.next.max(self.first);
    }

    /// The server names the next wait only.
    pub(crate) fn ask(&mut self, next: Duration) {
        self.next = next.min(LONGEST_ASKED);
    }

    /// What was hoped for has happened.
    pub(crate) fn succeed(&mut self) {
        self.next = self.first;
    }

    /// Waits. Never shorter than it should be, and up to half as long again, so that the clients of a server that was
    /// restarted don't all come at once.
    pub(crate) async fn wait(&mut self) {
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST.max(self.first));
        // A fresh hasher is seeded at random, which is chance enough for this.
        let chance = std::hash::RandomState::new().hash_one(0) % 512;
        tokio::time::sleep(wait + wait * u32::try_from(chance).unwrap_or(0) / 1024).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    async fn waited(backoff: &mut Backoff) -> Duration {
        let began = Instant::now();
        backoff.wait().await;
        began.elapsed()
    }

    fn is_about(waited: Duration, expected: Duration) -> bool {
        (expected..=expected * 3 / 2 + Duration::from_millis(2)).contains(&waited)
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_to_a_bound_and_begin_anew() {
        let mut backoff = Backoff::default();
        let mut expected = FIRST;
        for _ in 0..12 {
            let waited = waited(&mut backoff).await;
            assert!(is_about(waited, expected), "{waited:?} instead of {expected:?}");
            expected = (expected * 2).min(LONGEST);
        }
        assert_eq!(expected, LONGEST);
        backoff.succeed();
        let waited = waited(&mut backoff).await;
        assert!(is_about(waited, FIRST), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_may_ask_for_longer_waits() {
        let mut backoff = Backoff::default();
        backoff.begin_with(Duration::from_secs(2));
        assert!(is_about(waited(&mut backoff).await, Duration::from_secs(2)));
        assert!(is_about(waited(&mut backoff).await, Duration::from_secs(4)));
        backoff.succeed();
        assert!(is_about(waited(&mut backoff).await, Duration::from_secs(2)));
        backoff.ask(Duration::from_millis(50));
        assert!(is_about(waited(&mut backoff).await, Duration::from_millis(50)));
        backoff.ask(Duration::MAX);
        assert!(is_about(waited(&mut backoff).await, LONGEST_ASKED));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_differ() {
        let mut all = std::collections::BTreeSet::new();
        for _ in 0..20 {
            all.insert(waited(&mut Backoff::default()).await);
        }
        assert!(all.len() > 5, "{all:?}");
    }
}
