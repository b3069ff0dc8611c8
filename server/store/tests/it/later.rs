use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use talaria_domain::clock::Clock;
use talaria_domain::run_state::Transition;
use talaria_domain::scope::TaskScope;
use talaria_openapi::runs::{Run, RunOutput, Stop, StopReason};
use talaria_openapi::time::Timestamp;
use talaria_store::{EPHEMERAL_MILLIS, End, NewRun, NewSession, SessionFilter, Step, Store};

use super::*;

/// A clock that stands still until it is set.
#[derive(Debug)]
struct HandClock(AtomicI64);

impl HandClock {
    fn forward(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

async fn open_at(folder: &Path) -> (Store, Arc<HandClock>, ProfileId) {
    let clock = Arc::new(HandClock(AtomicI64::new(1_800_000_000_000)));
    let store = Store::open(&settings(folder), Arc::clone(&clock) as _, &TaskScope::new())
        .await
        .unwrap();
    let profile = store.ensure_profile("default").await.unwrap();
    (store, clock, profile.id)
}

fn later(session: &Session, clock: &HandClock, millis: i64) -> NewRun {
    NewRun {
        start_after: Some(Timestamp::from_millis(clock.now().as_millis() + millis)),
        ..new_run(session, "later")
    }
}

async fn complete(store: &Store, active: &ActiveRun) -> Option<Run> {
    let end = Step::End(Box::new(End {
        transition: Transition::Complete,
        stop: Stop {
            reason: StopReason::EndTurn,
            detail: None,
        },
        error: None,
        output: RunOutput::default(),
    }));
    let next = store.record(active.run.id, active.fence, vec![end]).await.unwrap();
    next.map(|next| next.run)
}

#[tokio::test]
async fn a_run_for_later_waits_for_its_time_and_lets_others_pass() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock, profile_id) = open_at(folder.path()).await;
    let session = session(&store, profile_id).await;
    let delayed = store.start_run(later(&session, &clock, 60_000)).await.unwrap();
    assert!(delayed.active.is_none());
    let due = Timestamp::from_millis(clock.now().as_millis() + 60_000);
    assert_eq!(store.next_due(clock.now()).await.unwrap(), Some(due));
    assert!(store.claim_due().await.unwrap().is_empty());
    // Somebody who comes meanwhile doesn't wait for it.
    let now = store.start_run(new_run(&session, "now")).await.unwrap().active.unwrap();
    clock.forward(60_000);
    assert!(store.claim_due().await.unwrap().is_empty(), "the chain is busy");
    let next = complete(&store, &now).await;
    assert_eq!(
        next.map(|run| run.id),
        Some(delayed.run.id),
        "the end of the other claims it"
    );
}

#[tokio::test]
async fn a_run_whose_time_has_come_in_an_idle_chain_is_claimed() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock, profile_id) = open_at(folder.path()).await;
    let session = session(&store, profile_id).await;
    let delayed = store.start_run(later(&session, &clock, 1_000)).await.unwrap();
    clock.forward(1_000);
    let claimed = store.claim_due().await.unwrap();
    assert_eq!(
        claimed.iter().map(|active| active.run.id).collect::<Vec<_>>(),
        [delayed.run.id]
    );
    assert!(store.claim_due().await.unwrap().is_empty());
    assert_eq!(store.next_due(clock.now()).await.unwrap(), None);
}

#[tokio::test]
async fn an_ephemeral_chain_is_unlisted_and_purged_an_hour_after_its_last_run() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock, profile_id) = open_at(folder.path()).await;
    let new = NewSession {
        is_ephemeral: true,
        ..new_session(profile_id)
    };
    let brief = store.create_session(new).await.unwrap();
    assert!(brief.ephemeral);
    let kept = session(&store, profile_id).await;
    let listed = store
        .list_sessions(profile_id, &SessionFilter::default(), 10)
        .await
        .unwrap();
    assert_eq!(listed.iter().map(|session| session.id).collect::<Vec<_>>(), [kept.id]);
    let active = store.start_run(new_run(&brief, "hi")).await.unwrap().active.unwrap();
    assert!(
        store
            .list_runs(profile_id, &Default::default(), 10)
            .await
            .unwrap()
            .is_empty()
    );
    clock.forward(2 * EPHEMERAL_MILLIS);
    assert_eq!(store.purge_ephemeral().await.unwrap(), 0, "a run is at work");
    complete(&store, &active).await;
    clock.forward(EPHEMERAL_MILLIS);
    assert_eq!(store.purge_ephemeral().await.unwrap(), 0, "not a moment too soon");
    clock.forward(1);
    assert_eq!(store.purge_ephemeral().await.unwrap(), 1);
    assert!(store.get_session(profile_id, brief.id).await.is_err());
    assert!(store.get_session(profile_id, kept.id).await.is_ok());
}
