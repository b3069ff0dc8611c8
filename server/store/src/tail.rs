//! The newest events of a chain that somebody watches, in memory: who keeps up reads them from here, without the database.

use std::collections::VecDeque;

use talaria_openapi::ids::RunId;

use crate::events::{EventPage, StoredEvent};

/// Events of a chain that are kept, and their bytes: about what a reader falls behind by while it is written to.
const MAX_EVENTS: usize = 256;
const MAX_BYTES: usize = 256 * 1024;

/// The type of the event that ends a chain.
pub const SESSION_DELETED: &str = "session.deleted";

/// An event with what readers choose by.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) run_id: Option<RunId>,
    pub(crate) event: StoredEvent,
}

/// Every event of a chain from some number on; nothing when that number isn't known.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// The newest number, once any event was taken.
    head_seq: Option<i64>,
    /// All events after this number are here.
    complete_after: i64,
    events: VecDeque<Logged>,
    bytes: usize,
}

impl Tail {
    /// Takes a committed event. One that doesn't follow the newest begins anew: somebody else has written in between.
    pub(crate) fn push(&mut self, logged: Logged) {
        let seq = logged.event.seq;
        if self.head_seq != Some(seq - 1) {
            *self = Self {
                complete_after: seq - 1,
                ..Self::default()
            };
        }
        self.head_seq = Some(seq);
        self.bytes += logged.event.payload.len();
        self.events.push_back(logged);
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.event.payload.len();
            self.complete_after = oldest.event.seq;
        }
    }

    /// The events after a number, as the log would give them; `None` when only the log can.
    pub(crate) fn after(&self, after: i64, run_id: Option<RunId>, limit: usize) -> Option<EventPage> {
        let head_seq = self.head_seq.filter(|_| after >= self.complete_after)?;
        // The end of the whole chain is for the readers of each run.
        let is_of_run =
            |logged: &Logged| run_id.is_none() || logged.run_id == run_id || logged.event.event_type == SESSION_DELETED;
        let is_wanted = |logged: &&Logged| logged.event.seq > after && is_of_run(logged);
        let wanted = self.events.iter().filter(is_wanted).take(limit);
        Some(EventPage {
            events: wanted.map(|logged| logged.event.clone()).collect(),
            head_seq,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(seq: i64, run_id: Option<RunId>, length: usize) -> Logged {
        let event = StoredEvent {
            seq,
            event_type: "x".to_owned(),
            payload: "x".repeat(length),
        };
        Logged { run_id, event }
    }

    fn numbers(tail: &Tail, after: i64, run_id: Option<RunId>, limit: usize) -> Option<Vec<i64>> {
        let page = tail.after(after, run_id, limit)?;
        Some(page.events.iter().map(|event| event.seq).collect())
    }

    #[test]
    fn a_tail_answers_only_what_it_has_whole() {
        let (mut tail, run) = (Tail::default(), Some(RunId::new()));
        assert_eq!(numbers(&tail, 0, None, 9), None);
        for seq in 5..9 {
            tail.push(logged(seq, run.filter(|_| seq % 2 == 0), 1));
        }
        assert_eq!(numbers(&tail, 3, None, 9), None, "4 may have been there");
        assert_eq!(numbers(&tail, 4, None, 9), Some(vec![5, 6, 7, 8]));
        assert_eq!(numbers(&tail, 5, None, 2), Some(vec![6, 7]));
        assert_eq!(numbers(&tail, 4, run, 9), Some(vec![6, 8]));
        assert_eq!(numbers(&tail, 8, None, 9), Some(vec![]));
        assert_eq!(tail.after(8, None, 9).unwrap().head_seq, 8);
        // Another writer took 9.
        tail.push(logged(10, None, 1));
        assert_eq!(numbers(&tail, 8, None, 9), None);
        assert_eq!(numbers(&tail, 9, None, 9), Some(vec![10]));
    }

    #[test]
    fn inv_i15_a_tail_is_bounded_in_events_and_bytes() {
        for length in [1, 10_000, MAX_BYTES + 1] {
            let mut tail = Tail::default();
            for seq in 1..=1_000 {
                tail.push(logged(seq, None, length));
                assert!(tail.events.len() <= MAX_EVENTS && tail.bytes <= MAX_BYTES);
                assert_eq!(numbers(&tail, seq, None, 9), Some(vec![]), "the head is always known");
            }
            let oldest = tail.events.front().map_or(1_001, |logged| logged.event.seq);
            assert_eq!(tail.complete_after, oldest - 1);
        }
    }
}
