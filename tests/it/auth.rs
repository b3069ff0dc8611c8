//! Tokens made with keys, and what happens to what was let in when its key ends.

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use reqwest::Method;
use serde_json::{Value, json};
use talaria_client::Client;
use talaria_openapi::auth::Scope;
use talaria_tests::model_script::text;
use talaria_tests::server::TestServer;

use crate::{ask, session, start};

pub(crate) async fn new_key(server: &TestServer, scopes: &[Scope]) -> (String, String) {
    let key: Value = server
        .client
        .request(Method::POST, "/v1/keys")
        .json(&json!({"name": "a key", "scopes": scopes}))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let text = |name: &str| key[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

async fn exchange(server: &TestServer, credential: &str, form: &[(&str, &str)]) -> (u16, Value) {
    let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let client = Client::new(&server.base_url, Some(credential.to_owned()), None).unwrap();
    let response = client
        .request(Method::POST, "/v1/auth/token")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body.join("&"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["cache-control"], "no-store");
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn get(server: &TestServer, credential: &str, path: &str) -> (u16, Value) {
    let client = Client::new(&server.base_url, Some(credential.to_owned()), None).unwrap();
    let response = client.request(Method::GET, path).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn contract_54_a_key_makes_tokens_that_anybody_can_verify() {
    let (server, _) = start().await;
    let (key_id, secret) = new_key(&server, &[Scope::SessionsRead, Scope::RunsWrite]).await;
    let grant = ("grant_type", "client_credentials");
    let (status, answer) = exchange(
        &server,
        &secret,
        &[grant, ("scope", "sessions:read"), ("resource", "x")],
    )
    .await;
    assert_eq!((status, answer["expires_in"].as_u64()), (200, Some(900)), "{answer}");
    let token = answer["access_token"].as_str().unwrap();

    let (_, jwks) = get(&server, "", "/.well-known/jwks.json").await;
    let verify = DecodingKey::from_ed_components(jwks["keys"][0]["x"].as_str().unwrap()).unwrap();
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.set_audience(&["talaria"]);
    let claims = jsonwebtoken::decode::<Value>(token, &verify, &validation).unwrap();
    assert_eq!(claims.header.kid.as_deref(), jwks["keys"][0]["kid"].as_str());
    assert_eq!(claims.claims["sub"], format!("key:{key_id}"));

    let (_, who) = get(&server, token, "/v1/auth/whoami").await;
    assert_eq!(who["principal"], format!("key:{key_id}"));
    assert_eq!(who["scopes"], json!(["sessions:read"]));
    assert_eq!(get(&server, token, "/v1/sessions").await.0, 200);
    let (status, refused) = get(&server, token, "/v1/keys").await;
    assert_eq!((status, &refused["code"]), (403, &json!("insufficient_scope")));

    for (credential, form, expected) in [
        (secret.as_str(), vec![grant, ("scope", "admin")], (400, "invalid_scope")),
        (
            &secret,
            vec![("grant_type", "password")],
            (400, "unsupported_grant_type"),
        ),
        (&secret, vec![], (400, "unsupported_grant_type")),
        (token, vec![grant], (400, "unauthorized_client")),
        ("tlr_nothing", vec![grant], (401, "invalid_client")),
    ] {
        let (status, error) = exchange(&server, credential, &form).await;
        assert_eq!((status, error["error"].as_str().unwrap()), expected, "{form:?}");
    }
    let (_, metadata) = get(&server, "", "/.well-known/oauth-authorization-server").await;
    assert_eq!(metadata["token_endpoint"], format!("{}/v1/auth/token", server.base_url));
}

#[tokio::test]
async fn contract_55_what_a_revoked_key_opened_ends() {
    let (mut server, model) = start().await;
    model.reply(text(&"word ".repeat(2_000)).slowly(std::time::Duration::from_millis(10)));
    let (key_id, secret) = new_key(&server, &[Scope::SessionsRead]).await;
    let (_, answer) = exchange(&server, &secret, &[("grant_type", "client_credentials")]).await;
    let token = answer["access_token"].as_str().unwrap().to_owned();
    server.stop().await;
    server.restart().await;
    assert_eq!(
        get(&server, &token, "/v1/sessions").await.0,
        200,
        "the signing key outlives the process"
    );

    let session_id = session(&server.client).await;
    let run = ask(&server.client, session_id, "talk").await;
    let mut streams = Vec::new();
    for credential in [&secret, &token] {
        let client = Client::new(&server.base_url, Some(credential.clone()), None).unwrap();
        let stream = client.request(Method::GET, &format!("/v1/runs/{}/stream", run.id));
        streams.push(stream.send().await.unwrap());
    }
    let path = format!("/v1/keys/{key_id}");
    server.client.request(Method::DELETE, &path).send().await.unwrap();
    for stream in streams {
        let body = stream.text().await.unwrap();
        let last = body.trim_end().rsplit("\n\n").next().unwrap();
        assert!(last.contains(r#""reason":"token_expired""#), "{last}");
    }
    for credential in [&secret, &token] {
        let (status, problem) = get(&server, credential, "/v1/sessions").await;
        assert_eq!((status, &problem["code"]), (401, &json!("unauthenticated")));
    }
    let run = server.client.get_run(run.id, 0).await.unwrap();
    assert!(!run.status.is_ended(), "inv_i1: the run doesn't belong to its readers");
    let rename = server
        .client
        .request(Method::PATCH, &path)
        .json(&json!({"name": "again"}));
    let renamed: Value = rename.send().await.unwrap().json().await.unwrap();
    assert!(
        !renamed["revoked_at"].is_null(),
        "a change doesn't bring a key back: {renamed}"
    );
    assert!(!renamed["last_used_at"].is_null(), "{renamed}");
    assert!(!server.log().contains(&token), "inv_i11: no token in the log");
}
