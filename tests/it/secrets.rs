//! Planted secrets are found in no sink (I11).

use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::json;
use talaria_openapi::events::EventBody;
use talaria_openapi::ids::SessionId;
use talaria_tests::model_script::{ModelScript, calls, pieces, refusal, text};
use talaria_tests::server::TestServer;

use crate::{ask, session, start, watch};

/// Put together here, so that nobody's scanner takes them for real.
struct Planted {
    /// Has no form that shows what it is: known by value only.
    provider_key: String,
    github: String,
    aws: String,
    jwt: String,
}

impl Planted {
    fn new() -> Self {
        let part = "q7Rk2mZx9Lw4Tn8Vb3Hc";
        Self {
            provider_key: format!("plain words {part}"),
            github: format!("gh{}_{}", "p", part.repeat(2).chars().take(36).collect::<String>()),
            aws: format!("AK{}{}", "IA", "Q7RK2MZX4LW4TN7V"),
            jwt: format!("ey{}.ey{}.{part}", "JhbGciOiJIUzI1NiJ9", "JzdWIiOiIxMjM0NTY3ODkwIn0"),
        }
    }

    fn all(&self) -> [&str; 4] {
        [&self.provider_key, &self.github, &self.aws, &self.jwt]
    }

    fn assert_absent(&self, place: &str, bytes: &[u8]) {
        for secret in self.all() {
            // A half of one is too much as well.
            let half = secret.get(secret.len() / 2..).unwrap().as_bytes();
            let is_there = bytes.windows(half.len()).any(|window| window == half);
            assert!(!is_there, "{secret} is in {place}");
        }
    }
}

/// Starts a server whose provider has this key.
async fn start_with_key(key: &str) -> (TestServer, ModelScript) {
    let model = ModelScript::start().await;
    let mut server = TestServer::prepare(env!("CARGO_BIN_EXE_talaria-server"), &model, "");
    let path = server.home().join("config.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    let kind = "    kind: openai_chat\n";
    let config = config.replace(kind, &format!("{kind}    api_key: \"{key}\"\n"));
    std::fs::write(path, config).unwrap();
    server.restart().await;
    (server, model)
}

/// Every file of the home but those in which the person keeps the secrets.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with("config.yaml") {
            found.push(path);
        }
    }
    found
}

fn assert_home_is_clean(server: &TestServer, planted: &Planted) {
    let files = files(&server.home());
    assert!(files.contains(&server.database()));
    for file in files {
        planted.assert_absent(&file.display().to_string(), &std::fs::read(&file).unwrap());
    }
    planted.assert_absent("the log", server.log().as_bytes());
    let database = std::fs::read(server.database()).unwrap();
    let has_token = |bytes: &[u8]| {
        bytes
            .windows(server.token.len())
            .any(|window| window == server.token.as_bytes())
    };
    assert!(
        !has_token(&database) && !has_token(server.log().as_bytes()),
        "the token"
    );
}

async fn get(server: &TestServer, path: &str) -> Vec<u8> {
    let response = server.client.request(Method::GET, path).send().await.unwrap();
    assert!(response.status().is_success(), "{path}");
    response.bytes().await.unwrap().to_vec()
}

async fn assert_answers_are_clean(server: &TestServer, session_id: SessionId, planted: &Planted) {
    for path in [
        format!("/v1/sessions/{session_id}"),
        format!("/v1/sessions/{session_id}/messages"),
        format!("/v1/sessions/{session_id}/export"),
        format!("/v1/sessions/{session_id}/export?format=markdown"),
    ] {
        planted.assert_absent(&path, &get(server, &path).await);
    }
}

#[tokio::test]
async fn inv_i11_planted_secrets_are_found_in_no_sink() {
    let planted = Planted::new();
    let (mut server, model) = start_with_key(&planted.provider_key).await;
    let secrets = planted.all().join("\n");
    // In the part that the model gets, in the part that is cut out of it, and where the cut is.
    let filler = format!("{}\n", "words ".repeat(100)).repeat(100);
    let long = format!("{secrets}\n{filler}\n{secrets}\n{filler}\n{secrets}\n");
    std::fs::write(server.workspace().join("keys.txt"), long).unwrap();
    model.reply(calls(&[("c1", "read_file", json!({"path": "keys.txt", "limit": 300}))]));
    // Split where it hurts: within each, and each after a word.
    let said: Vec<String> = planted
        .all()
        .iter()
        .flat_map(|secret| {
            let (head, tail) = secret.split_at(secret.len() / 2);
            [format!("It is {head}"), format!("{tail}, yes.\n")]
        })
        .collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    model.reply(pieces(&said, &said));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "Which keys are there?").await;
    let events = watch(&server.client, run.id).await;
    planted.assert_absent("the events", format!("{events:?}").as_bytes());
    let has_file = events
        .iter()
        .any(|watched| matches!(watched.event.body, EventBody::FileCreated { .. }));
    assert!(has_file, "the output is kept whole in a file too");
    let text = said_in(&events);
    for kind in ["own-secret", "github", "aws", "jwt"] {
        assert!(text.contains(&format!("It is [redacted:{kind}], yes.")), "{text}");
    }
    let sent = model.requests()[1].to_string();
    planted.assert_absent("what the model gets to see of the tool", sent.as_bytes());
    assert!(sent.contains("[redacted:github]"), "{sent}");

    // A provider that says too much.
    let header = format!("Authorization: Bearer {}", planted.github);
    let body = json!({"error": {"message": format!("no: {header}, {}, {}", planted.provider_key, planted.aws)}});
    model.reply(refusal(401, &body.to_string()));
    let run = ask(&server.client, session_id, "And now?").await;
    let events = watch(&server.client, run.id).await;
    assert_eq!(events.last().unwrap().event.body.event_type(), "run.failed");
    let shown = format!("{events:?}");
    assert!(
        shown.contains("[redacted:aws]") && shown.contains("[redacted:own-secret]"),
        "{shown}"
    );
    planted.assert_absent("the events of the error", shown.as_bytes());
    planted.assert_absent("the run", &get(&server, &format!("/v1/runs/{}", run.id)).await);

    assert_answers_are_clean(&server, session_id, &planted).await;
    assert_home_is_clean(&server, &planted);
    server.stop().await;
    assert_home_is_clean(&server, &planted);
}

fn said_in(events: &[talaria_client::watch::Watched]) -> String {
    let deltas = events.iter().filter_map(|watched| match &watched.event.body {
        EventBody::TextDelta { text, .. } => Some(text.as_str()),
        _ => None,
    });
    deltas.collect()
}

#[tokio::test]
async fn inv_i11_a_person_s_own_message_stays_as_said_and_is_in_no_log() {
    let planted = Planted::new();
    let (server, model) = start().await;
    model.reply(text("Thanks."));
    let session_id = session(&server.client).await;
    let asked = format!("Use {} for the push.", planted.github);
    let run = ask(&server.client, session_id, &asked).await;
    let events = watch(&server.client, run.id).await;
    assert_eq!(said_in(&events), "Thanks.");
    let messages = get(&server, &format!("/v1/sessions/{session_id}/messages")).await;
    assert!(String::from_utf8(messages).unwrap().contains(&asked));
    assert!(model.requests()[0].to_string().contains(&asked));
    planted.assert_absent("the log", server.log().as_bytes());
}

#[tokio::test]
async fn inv_i5_i11_arguments_stay_as_said_and_their_preview_shows_no_secret() {
    let planted = Planted::new();
    let (server, model) = start().await;
    let content = format!("key = {}\n", planted.github);
    let path = format!("{}.txt", planted.aws);
    model.reply(calls(&[(
        "c1",
        "write_file",
        json!({"path": path, "content": content}),
    )]));
    model.reply(text("Written."));
    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "write it").await;
    let events = watch(&server.client, run.id).await;
    assert_eq!(
        std::fs::read_to_string(server.workspace().join(&path)).unwrap(),
        content
    );
    let preview = events.iter().find_map(|watched| match &watched.event.body {
        EventBody::ToolStarted { preview, .. } => Some(preview.as_str()),
        _ => None,
    });
    assert_eq!(preview, Some("[redacted:aws].txt"));
    let told = &model.requests()[1]["messages"];
    let call = told
        .as_array()
        .unwrap()
        .iter()
        .find_map(|message| message["tool_calls"].get(0));
    let arguments = call.unwrap()["function"]["arguments"].as_str().unwrap();
    let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
    assert_eq!(arguments, json!({"path": path, "content": content}));
}
