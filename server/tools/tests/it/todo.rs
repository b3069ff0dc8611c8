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

#[tokio::test]
async fn a_merge_changes_what_it_names_and_keeps_the_rest() {
    let bench = bench();
    let todos = json!([
        {"id": "a", "content": "one", "status": "in_progress"},
        {"id": "b", "content": "two"}
    ]);
    bench.call("todo", json!({"todos": todos})).await.unwrap();
    let changes = json!([
        {"id": "b", "status": "in_progress"},
        {"id": "c", "content": "three"},
        {"id": "a", "content": "ONE", "status": "completed"}
    ]);
    let merged = bench
        .call("todo", json!({"todos": changes, "merge": true}))
        .await
        .unwrap();
    let merged: serde_json::Value = serde_json::from_str(&merged).unwrap();
    assert_eq!(
        merged,
        json!({
            "todos": [
                {"id": "a", "content": "ONE", "status": "completed"},
                {"id": "b", "content": "two", "status": "in_progress"},
                {"id": "c", "content": "three", "status": "pending"}
            ],
            "summary": {"total": 3, "pending": 1, "in_progress": 1, "completed": 1, "cancelled": 0}
        })
    );
}

#[tokio::test]
async fn a_list_that_is_not_in_order_leaves_the_one_before() {
    let bench = bench();
    let todos = json!([{"id": "a", "content": "one", "status": "in_progress"}]);
    let before = bench.call("todo", json!({"todos": todos})).await.unwrap();
    let many: Vec<_> = (0..257)
        .map(|id| json!({"id": id.to_string(), "content": "x"}))
        .collect();
    for (todos, merge, reason) in [
        (json!([{"id": "", "content": "x"}]), false, "1 to 64 characters"),
        (
            json!([{"id": "i".repeat(65), "content": "x"}]),
            false,
            "1 to 64 characters",
        ),
        (
            json!([{"id": "b", "content": "x"}, {"id": " b", "content": "y"}]),
            true,
            "`b` stands there twice",
        ),
        (json!([{"id": "b", "status": "pending"}]), true, "`b` is new"),
        (json!([{"id": "a", "status": "completed"}]), false, "`a` is new"),
        (
            json!([{"id": "b", "content": "x", "status": "in_progress"}]),
            true,
            "not a, b",
        ),
        (json!([{"id": "b", "content": " "}]), true, "no content"),
        (
            json!([{"id": "b", "content": "x".repeat(4_001)}]),
            true,
            "say it shorter",
        ),
        (json!(many), false, "at most 256"),
        (
            json!([{"id": "b", "content": "x", "status": "done"}]),
            true,
            "the arguments don't fit",
        ),
    ] {
        let refused = bench
            .call("todo", json!({"todos": todos, "merge": merge}))
            .await
            .unwrap_err();
        assert!(refused.contains(reason), "{refused}");
        assert_eq!(bench.call("todo", json!({})).await.unwrap(), before, "{reason}");
    }
}
