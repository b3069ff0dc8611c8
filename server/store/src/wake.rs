//! Wake-ups: "this chain has events up to …", without data. Readers subscribe first, then read the log.

use std::collections::HashMap;

use parking_lot::Mutex;
use talaria_openapi::ids::SessionId;
use tokio::sync::watch;

/// Chains that nobody watches any more are forgotten once there are more than this.
const SWEEP_ABOVE: usize = 4_096;

/// The chains that somebody watches. Bounded by the number of open readers.
#[derive(Debug, Default)]
pub struct Wakeups {
    chains: Mutex<HashMap<SessionId, watch::Sender<i64>>>,
}

impl Wakeups {
    /// Subscribes to a chain. The value is the newest number that was committed while anybody watched; 0 before.
    pub fn subscribe(&self, root_id: SessionId) -> watch::Receiver<i64> {
        let mut chains = self.chains.lock();
        if chains.len() >= SWEEP_ABOVE && !chains.contains_key(&root_id) {
            chains.retain(|_, sender| sender.receiver_count() > 0);
        }
        chains
            .entry(root_id)
            .or_insert_with(|| watch::Sender::new(0))
            .subscribe()
    }

    /// Called after the commit only.
    pub(crate) fn notify(&self, root_id: SessionId, head_seq: i64) {
        let mut chains = self.chains.lock();
        if let Some(sender) = chains.get(&root_id)
            && sender.send(head_seq).is_err()
        {
            // Nobody listens any more.
            chains.remove(&root_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_i15_chains_that_nobody_watches_are_forgotten() {
        let wakeups = Wakeups::default();
        let root_id = SessionId::new();
        let mut watched = wakeups.subscribe(root_id);
        for _ in 0..3 * SWEEP_ABOVE {
            drop(wakeups.subscribe(SessionId::new()));
        }
        assert!(wakeups.chains.lock().len() <= SWEEP_ABOVE);
        wakeups.notify(root_id, 7);
        assert_eq!(*watched.borrow_and_update(), 7);
    }
}
