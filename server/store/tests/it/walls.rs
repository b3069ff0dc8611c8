//! Profiles are walls: what belongs to one doesn't exist for another.

use talaria_openapi::files::File;
use talaria_openapi::ids::FileId;
use talaria_openapi::runs::CancelMode;
use talaria_openapi::time::Timestamp;
use talaria_store::{Error, MessageFilter, Result, RunFilter, SearchScope, SessionChanges, SessionFilter, Step};
use talaria_text::search_query::SearchQuery;

use crate::{active_run, new_run, open, session};

fn assert_missing<T: std::fmt::Debug>(what: &str, found: Result<T>) {
    let error = found.map(|found| format!("{found:?}")).unwrap_err();
    assert!(matches!(error, Error::NotFound), "{what}: {error:?}");
}

#[tokio::test]
async fn inv_i9_nothing_of_a_profile_is_there_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let mine = store.ensure_profile("mine").await.unwrap().id;
    let other = store.ensure_profile("other").await.unwrap().id;
    let session = session(&store, mine).await;
    let active = active_run(&store, &session).await;
    store.start_run(new_run(&session, "later")).await.unwrap();
    let file = File {
        id: FileId::new(),
        object: "file".into(),
        session_id: session.id,
        filename: "x".to_owned(),
        media_type: "text/plain".to_owned(),
        size_bytes: 0,
        sha256: String::new(),
        created_at: Timestamp::from_millis(0),
    };
    let made = Step::File(Box::new(file.clone()));
    store.record(active.run.id, active.fence, vec![made]).await.unwrap();
    let message_id = store.history(session.id).await.unwrap()[0].id;

    // Everything is there for its owner …
    assert!(store.get_session(mine, session.id).await.is_ok());
    assert!(store.get_message(mine, session.id, message_id).await.is_ok());
    let queue = store.list_queue(mine, session.root_id).await.unwrap();
    let [input] = &queue[..] else {
        panic!("one input waits: {queue:?}")
    };
    let input_id = input.id;
    assert!(store.get_file(mine, file.id).await.is_ok());
    assert!(store.get_input(mine, input_id).await.is_ok());
    let query = SearchQuery::parse("secret");
    let search = async |profile| {
        store
            .search(profile, &query, &SearchScope::default(), 10)
            .await
            .unwrap()
    };
    assert_eq!(search(mine).await.hits.len(), 1);

    // … and for nobody else.
    assert_missing("session", store.get_session(other, session.id).await);
    assert_missing("snapshot", store.get_snapshot(other, session.id).await);
    assert_missing("prompt", store.get_prompt(other, session.id).await);
    assert_missing(
        "change",
        store.update_session(other, session.id, SessionChanges::default()).await,
    );
    assert_missing("delete", store.delete_session(other, session.id, "me".to_owned()).await);
    assert_missing("message", store.get_message(other, session.id, message_id).await);
    assert_missing("run", store.get_run(other, active.run.id).await);
    assert_missing("input", store.get_input(other, input_id).await);
    assert_missing("file", store.get_file(other, file.id).await);
    let cancelled = store.cancel_run(other, active.run.id, "me".to_owned(), CancelMode::Graceful, None);
    assert_missing("cancel", cancelled.await);
    let mut foreign = new_run(&session, "let me in");
    foreign.profile_id = other;
    assert_missing("start", store.start_run(foreign).await);
    let all = MessageFilter::default();
    let messages = store.list_messages(other, session.id, &all, 10);
    assert!(messages.await.unwrap().is_empty());
    assert!(
        store
            .list_sessions(other, &SessionFilter::default(), 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .list_runs(other, &RunFilter::default(), 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(store.list_queue(other, session.root_id).await.unwrap().is_empty());
    assert!(search(other).await.hits.is_empty());
    assert!(store.tombstone(other, session.root_id).await.unwrap().is_none());
}
