//! The store on a database of its own.
#![expect(clippy::unwrap_used, reason = "a test binary: its helpers fail like its tests")]

mod busy;
mod later;
mod machine;
mod walls;

use std::path::Path;
use std::sync::Arc;

use talaria_domain::clock::SystemClock;
use talaria_domain::scope::TaskScope;
use talaria_openapi::Metadata;
use talaria_openapi::ids::{ProfileId, SessionId};
use talaria_openapi::messages::Part;
use talaria_openapi::runs::{RunLimits, TriggerKind};
use talaria_openapi::sessions::{Session, SessionSource};
use talaria_store::{ActiveRun, NewRun, NewSession, RunOptions, Settings, Store, WhenBusy};

fn settings(folder: &Path) -> Settings {
    Settings {
        path: folder.join("talaria.db"),
        backups: folder.join("backups"),
        blobs: folder.join("files"),
    }
}

async fn open(folder: &Path) -> Store {
    Store::open(&settings(folder), Arc::new(SystemClock), &TaskScope::new())
        .await
        .unwrap()
}

async fn session(store: &Store, profile_id: ProfileId) -> Session {
    store.create_session(new_session(profile_id)).await.unwrap()
}

fn new_session(profile_id: ProfileId) -> NewSession {
    NewSession {
        id: SessionId::new(),
        profile_id,
        title: Some("mine".to_owned()),
        metadata: Metadata::default(),
        model: "script/test".to_owned(),
        source: SessionSource::Api,
        workspace: "/".to_owned(),
        prompt: Vec::new(),
        messages: Vec::new(),
        is_ephemeral: false,
        request_sha256: String::new(),
    }
}

fn new_run(session: &Session, text: &str) -> NewRun {
    NewRun {
        session_id: session.id,
        profile_id: session.profile_id,
        content: vec![Part::Text { text: text.to_owned() }],
        id: None,
        input_id: None,
        request_sha256: String::new(),
        start_after: None,
        when_busy: WhenBusy::Wait,
        model: None,
        limits: RunLimits {
            max_rounds: 3,
            max_active_seconds: None,
            max_cost_usd: None,
        },
        options: RunOptions::default(),
        trigger: TriggerKind::Api,
        metadata: Metadata::default(),
    }
}

async fn active_run(store: &Store, session: &Session) -> Box<ActiveRun> {
    store
        .start_run(new_run(session, "a secret word"))
        .await
        .unwrap()
        .active
        .unwrap()
}
