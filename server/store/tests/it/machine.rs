//! What the store does when the machine, the disk or the version is not what it was.

use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use talaria_domain::clock::SystemClock;
use talaria_domain::scope::TaskScope;
use talaria_openapi::ids::SessionId;
use talaria_store::{Error, SessionChanges, Store};

use crate::{open, session, settings};

async fn head(store: &Store, root_id: SessionId) -> i64 {
    store.events_after(root_id, None, 0, 1).await.unwrap().head_seq
}

#[tokio::test]
async fn inv_i2_numbers_jump_after_an_unclean_stop_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    store.mark_serving("boot one".to_owned()).await.unwrap();
    let profile_id = store.ensure_profile("default").await.unwrap().id;
    let session = session(&store, profile_id).await;
    let before = head(&store, session.root_id).await;

    // Another process on the same boot: nothing was lost with the machine.
    let store = open(folder.path()).await;
    store.mark_serving("boot one".to_owned()).await.unwrap();
    assert_eq!(head(&store, session.root_id).await, before);

    // Another boot without a clean stop: what may have been seen is never numbered again.
    let store = open(folder.path()).await;
    store.mark_serving("boot two".to_owned()).await.unwrap();
    let jumped = head(&store, session.root_id).await;
    assert_eq!(jumped, before + (1 << 20));
    for (cursor, is_lost) in [(before, false), (before + 1, true), (jumped - 1, true), (jumped, false)] {
        let found = store.is_fenced_off(session.root_id, cursor).await.unwrap();
        assert_eq!(found, is_lost, "cursor {cursor}: head was {before}, is {jumped}");
    }
    let title = Some(Some("still here".to_owned()));
    let change = SessionChanges {
        title,
        ..SessionChanges::default()
    };
    store.update_session(profile_id, session.id, change).await.unwrap();
    let page = store.events_after(session.root_id, None, before, 10).await.unwrap();
    assert_eq!(page.events.first().map(|event| event.seq), Some(jumped + 1));

    // A clean stop: the next boot goes on where this one ended.
    store.mark_stopped().await.unwrap();
    let store = open(folder.path()).await;
    store.mark_serving("boot three".to_owned()).await.unwrap();
    assert_eq!(head(&store, session.root_id).await, jumped + 1);
}

#[tokio::test]
async fn inv_i17_a_newer_schema_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).await.mark_stopped().await.unwrap();
    let path = folder.path().join("talaria.db");
    let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'of the future', 1, x'00', 0)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    sqlx::Connection::close(connection).await.unwrap();
    let before = std::fs::read(&path).unwrap();
    let clock = std::sync::Arc::new(SystemClock);
    let refused = Store::open(&settings(folder.path()), clock, &TaskScope::new()).await;
    assert!(matches!(refused, Err(Error::Newer)), "{refused:?}");
    assert!(std::fs::read(&path).unwrap() == before, "not a byte was changed");
}
