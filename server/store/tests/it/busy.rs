//! Who comes next in a busy chain.

use talaria_domain::run_state::Transition;
use talaria_openapi::inputs::IfUndelivered;
use talaria_openapi::runs::{RunOutput, RunStatus, Stop, StopReason};
use talaria_store::{ActiveRun, End, NewRun, Step, Store, WhenBusy};

use crate::{active_run, new_run, open, session};

/// Ends a run; gives the one that was claimed with it.
async fn end(store: &Store, active: &ActiveRun) -> Option<Box<ActiveRun>> {
    let stop = Stop {
        reason: StopReason::EndTurn,
        detail: None,
    };
    let end = End {
        transition: Transition::Complete,
        stop,
        error: None,
        output: RunOutput::default(),
    };
    let steps = vec![Step::End(Box::new(end))];
    store.record(active.run.id, active.fence, steps).await.unwrap()
}

#[tokio::test]
async fn who_interrupts_comes_before_what_waits_in_the_order_of_arrival() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let profile_id = store.ensure_profile("default").await.unwrap().id;
    let session = session(&store, profile_id).await;
    let active = active_run(&store, &session).await;
    let say = async |text: &str, when_busy: WhenBusy| {
        let new = NewRun {
            when_busy,
            ..new_run(&session, text)
        };
        store.start_run(new).await.unwrap()
    };
    let waiting = say("waits", WhenBusy::Wait).await.run;
    let first = say("first", WhenBusy::Interrupt("me".to_owned())).await;
    assert_eq!(first.superseded, Some(active.run.id));
    let second = say("second", WhenBusy::Interrupt("me".to_owned())).await;
    assert_eq!(
        (second.run.queue_position, second.run.status),
        (Some(2), RunStatus::Queued)
    );

    let mut claimed = end(&store, &active).await;
    for expected in [first.run.id, second.run.id, waiting.id] {
        let next = claimed.unwrap();
        assert_eq!(next.run.id, expected);
        claimed = end(&store, &next).await;
    }
    assert!(claimed.is_none());
    let ended = store.get_run(profile_id, active.run.id).await.unwrap();
    assert_eq!(
        (ended.status, ended.stop.unwrap().reason),
        (RunStatus::Cancelled, StopReason::Superseded)
    );
}

#[tokio::test]
async fn inv_i7_what_a_run_was_not_told_any_more_becomes_a_run_or_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let profile_id = store.ensure_profile("default").await.unwrap().id;
    let session = session(&store, profile_id).await;
    let active = active_run(&store, &session).await;
    for (text, if_undelivered) in [("keep", IfUndelivered::Queue), ("drop", IfUndelivered::Drop)] {
        let new = NewRun {
            when_busy: WhenBusy::Steer(if_undelivered),
            ..new_run(&session, text)
        };
        assert!(store.start_run(new).await.unwrap().is_steer);
    }
    let promoted = end(&store, &active).await.unwrap();
    assert_ne!(promoted.run.id, active.run.id);
    assert!(end(&store, &promoted).await.is_none(), "only one was kept");
    let history = store.history(session.id).await.unwrap();
    let said: Vec<String> = history.iter().map(talaria_openapi::messages::Message::text).collect();
    assert_eq!(said, ["a secret word", "keep"]);
}
