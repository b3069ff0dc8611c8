//! Searching files.

use serde_json::json;

use crate::bench;

#[tokio::test]
async fn searches_page_and_skip_what_git_ignores() {
    let bench = bench();
    for index in 0..5 {
        std::fs::write(bench.path(&format!("ws/f{index}.txt")), "needle\n").unwrap();
    }
    std::fs::write(bench.path("ws/.gitignore"), "f0.txt\n").unwrap();
    let page = bench
        .call("search_files", json!({"pattern": "needle", "limit": 2, "offset": 1}))
        .await
        .unwrap();
    assert_eq!(page, "f2.txt:1:needle\nf3.txt:1:needle\n(more: go on with offset 3)");
    let literal = bench.call("search_files", json!({"pattern": "needle("})).await.unwrap();
    assert!(literal.contains("searched as it is"), "{literal}");
}

#[tokio::test]
async fn patterns_with_folders_are_those_of_the_workspace() {
    let bench = bench();
    bench
        .call("write_file", json!({"path": "src/a.rs", "content": "needle"}))
        .await
        .unwrap();
    bench
        .call("write_file", json!({"path": "b.rs", "content": "needle"}))
        .await
        .unwrap();
    let found = bench
        .call("search_files", json!({"pattern": "needle", "file_glob": "src/*.rs"}))
        .await
        .unwrap();
    assert_eq!(found, "src/a.rs:1:needle");
}
