//! Wake-ups: "this chain has events up to …". Readers subscribe first, then read: the newest events from memory, older ones
//! from the log.

use std::collections::HashMap;

use parking_lot::Mutex;
use talaria_openapi::ids::{RunId, SessionId};
use tokio::sync::watch;

use crate::events::EventPage;
use crate::tail::{Logged, Tail};

/// Chains that nobody watches any more are forgotten once there are more than this.
const SWEEP_ABOVE: usize = 4_096;

/// The chains that somebody watches. Bounded by the number of open readers.
#[derive(Debug, Default)]
pub struct Wakeups {
    chains: Mutex<HashMap<SessionId, Chain>>,
}

#[derive(Debug)]
struct Chain {
    head_seq: watch::Sender<i64>,
    tail: Tail,
}

/// An event that a commit has appended to a chain.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) root_id: SessionId,
    pub(crate) logged: Logged,
}

impl Wakeups {
    /// Subscribes to a chain. The value is the newest number that was committed while anybody watched; 0 before.
    pub fn subscribe(&self, root_id: SessionId) -> watch::Receiver<i64> {
        let mut chains = self.chains.lock();
        if chains.len() >= SWEEP_ABOVE && !chains.contains_key(&root_id) {
            chains.retain(|_, chain| chain.head_seq.receiver_count() > 0);
        }
        let chain = chains.entry(root_id).or_insert_with(|| Chain {
            head_seq: watch::Sender::new(0),
            tail: Tail::default(),
        });
        chain.head_seq.subscribe()
    }

    /// The newest events of a chain, where they are known without the log.
    pub(crate) fn events_after(
        &self,
        root_id: SessionId,
        run_id: Option<RunId>,
        after: i64,
        limit: u32,
    ) -> Option<EventPage> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.chains.lock().get(&root_id)?.tail.after(after, run_id, limit)
    }

    /// Called after the commit only, with everything that it did in its order.
    pub(crate) fn notify(&self, news: impl Iterator<Item = News>) {
        let mut chains = self.chains.lock();
        for news in news {
            let News { root_id, logged } = news;
            let Some(chain) = chains.get_mut(&root_id) else {
                continue;
            };
            let head_seq = logged.event.seq;
            chain.tail.push(logged);
            if chain.head_seq.send(head_seq).is_err() {
                // Nobody listens any more.
                chains.remove(&root_id);
            }
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
        let event = crate::StoredEvent {
            seq: 7,
            event_type: String::new(),
            payload: String::new(),
        };
        let logged = Logged { run_id: None, event };
        wakeups.notify(std::iter::once(News { root_id, logged }));
        assert_eq!(*watched.borrow_and_update(), 7);
    }
}
