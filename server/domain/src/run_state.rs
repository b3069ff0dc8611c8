//! The life of a run, as a pure function. Handlers, the loop, cancel and recovery all go through [`next`].
//!
//! ```text
//! queued ─claim▶ running ─▶ completed │ failed │ interrupted
//!    │            │ ▲ │
//!    │        park▼ │claim
//!    │      requires_action ──────cancel────────┐
//!    │                └─cancel▶ cancelling ─▶ cancelled
//!    └──────────cancel──────────────────────────▲
//! interrupted, failed ─resume▶ running (the next attempt)
//! ```

use talaria_openapi::runs::RunStatus;

/// What happens to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// An owner takes it: it begins to work.
    Claim,
    /// It waits for a person: it holds no owner and no slot.
    Park,
    /// Somebody wants it to stop.
    Cancel,
    /// It said its final answer.
    Complete,
    /// A fault stopped it.
    Fail,
    /// Its owner has stopped after a [`Transition::Cancel`].
    ConfirmCancel,
    /// Its owner died and it may go on in a new attempt.
    Recover,
    /// Its owner died and it can't go on by itself.
    Interrupt,
    /// A person lets it go on after it was interrupted, or failed in a way that may pass.
    Resume,
}

/// What a transition leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Where the run stands now.
    pub status: RunStatus,
    /// Whether this ends the attempt: its terminal event is due in the same transaction (I4).
    pub is_terminal: bool,
    /// Whether a new attempt begins, so that writes of the old owner are refused.
    pub new_attempt: bool,
    /// Whether nothing changed: the caller answers as before and writes nothing.
    pub is_repeat: bool,
}

/// The transition is not possible from here: somebody else was faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a run that is {status:?} can't {transition:?}")]
pub struct Illegal {
    /// Where the run stands.
    pub status: RunStatus,
    /// What was asked for.
    pub transition: Transition,
}

/// Where a run goes from `status`.
pub fn next(status: RunStatus, transition: Transition) -> Result<Next, Illegal> {
    use RunStatus as S;
    use Transition as T;
    let go = |status: RunStatus| Next {
        status,
        is_terminal: status.is_ended(),
        new_attempt: false,
        is_repeat: false,
    };
    let stay = Next {
        status,
        is_terminal: false,
        new_attempt: false,
        is_repeat: true,
    };
    match (status, transition) {
        (S::Queued | S::RequiresAction, T::Claim) => Ok(go(S::Running)),
        (S::Queued | S::RequiresAction, T::Cancel) => Ok(go(S::Cancelled)),
        (S::Running, T::Park) => Ok(go(S::RequiresAction)),
        (S::Running, T::Cancel) => Ok(go(S::Cancelling)),
        (S::Cancelling, T::Cancel) => Ok(stay),
        // An ended run stays as it ended; cancelling it is no error.
        (S::Completed | S::Failed | S::Cancelled | S::Interrupted, T::Cancel) => Ok(stay),
        (S::Running, T::Complete) => Ok(go(S::Completed)),
        (S::Running, T::Fail) => Ok(go(S::Failed)),
        (S::Cancelling, T::ConfirmCancel) => Ok(go(S::Cancelled)),
        (S::Running, T::Recover) => Ok(Next {
            new_attempt: true,
            ..go(S::Running)
        }),
        (S::Running, T::Interrupt) => Ok(go(S::Interrupted)),
        (S::Interrupted | S::Failed, T::Resume) => Ok(Next {
            new_attempt: true,
            ..go(S::Running)
        }),
        _ => Err(Illegal { status, transition }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUSES: [RunStatus; 8] = [
        RunStatus::Queued,
        RunStatus::Running,
        RunStatus::RequiresAction,
        RunStatus::Cancelling,
        RunStatus::Completed,
        RunStatus::Failed,
        RunStatus::Cancelled,
        RunStatus::Interrupted,
    ];
    const TRANSITIONS: [Transition; 9] = [
        Transition::Claim,
        Transition::Park,
        Transition::Cancel,
        Transition::Complete,
        Transition::Fail,
        Transition::ConfirmCancel,
        Transition::Recover,
        Transition::Interrupt,
        Transition::Resume,
    ];

    #[test]
    fn inv_i4_nothing_follows_an_end() {
        for status in STATUSES.into_iter().filter(|status| status.is_ended()) {
            for transition in TRANSITIONS {
                let changed = next(status, transition).is_ok_and(|next| !next.is_repeat);
                // But another attempt, which a person asks for.
                let is_resume =
                    transition == Transition::Resume && matches!(status, RunStatus::Interrupted | RunStatus::Failed);
                assert_eq!(changed, is_resume, "{status:?} must not {transition:?}");
            }
        }
    }

    #[test]
    fn inv_i4_a_terminal_event_is_due_exactly_when_a_run_ends() {
        for status in STATUSES {
            for transition in TRANSITIONS {
                if let Ok(next) = next(status, transition) {
                    assert_eq!(
                        next.is_terminal,
                        next.status.is_ended() && !next.is_repeat,
                        "{status:?} {transition:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn cancel_is_possible_from_everywhere() {
        for status in STATUSES {
            assert!(next(status, Transition::Cancel).is_ok(), "{status:?}");
        }
    }

    #[test]
    fn a_run_that_was_told_to_stop_never_completes() {
        assert!(next(RunStatus::Cancelling, Transition::Complete).is_err());
    }
}
