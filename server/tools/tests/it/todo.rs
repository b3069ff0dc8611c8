//! The list of what has to be done.

use serde_json::json;
use talaria_openapi::ids::SessionId;

use crate::bench;

#[tokio::test]
async fn the_list_of_a_session_is_its_own() {
    let mut bench = bench();
    let item = json!({"id": "1", "content": "look", "status": "pending"});
    bench.call("todo", json!({"todos": [item]})).await.unwrap();
    let done = json!({"id": "1", "content": "look", "status": "completed"});
    let merged = bench
        .call("todo", json!({"todos": [done], "merge": true}))
        .await
        .unwrap();
    assert!(
        merged.contains(r#""completed":1"#) && merged.contains(r#""total":1"#),
        "{merged}"
    );
    bench.context.session_id = SessionId::new();
    assert!(bench.call("todo", json!({})).await.unwrap().contains(r#""total":0"#));
}
