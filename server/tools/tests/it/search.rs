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

#[tokio::test]
async fn results_are_lines_files_or_counts() {
    let bench = bench();
    bench.put("a.txt", "one\nneedle 1\nthree\nneedle 2\nfive\nsix\nseven\nneedle 3\n");
    bench.put("b.txt", "nothing\n");
    bench.put("c.txt", "needle\r\n");
    let look = async |more: serde_json::Value| {
        let mut arguments = json!({"pattern": "needle"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        bench.call("search_files", arguments).await.unwrap()
    };
    assert_eq!(look(json!({"output_mode": "files_with_matches"})).await, "a.txt\nc.txt");
    assert_eq!(
        look(json!({"output_mode": "files_only", "limit": 1})).await,
        "a.txt\n(more: go on with offset 1)"
    );
    assert_eq!(look(json!({"output_mode": "count"})).await, "a.txt:3\nc.txt:1");
    assert_eq!(look(json!({"output_mode": "count", "offset": 1})).await, "c.txt:1");
    assert_eq!(
        look(json!({"context": 1})).await,
        "a.txt-1-one\na.txt:2:needle 1\na.txt-3-three\na.txt:4:needle 2\na.txt-5-five\n--\na.txt-7-seven\na.txt:8:needle 3\n\
         --\nc.txt:1:needle"
    );
    assert_eq!(
        look(json!({"context": 1, "offset": 1, "limit": 1})).await,
        "a.txt-3-three\na.txt:4:needle 2\na.txt-5-five\n(more: go on with offset 2)"
    );
    assert_eq!(look(json!({"pattern": "^needle$"})).await, "c.txt:1:needle");
    assert_eq!(look(json!({"pattern": "1\\sthree"})).await, "nothing found");
    for two_lines in ["1\nthree", "1\\nthree"] {
        let refused = bench.call("search_files", json!({"pattern": two_lines})).await;
        assert!(refused.unwrap_err().contains("within one line"));
    }
}

#[tokio::test]
async fn ignore_files_outside_of_the_workspace_have_no_say() {
    let bench = bench();
    std::fs::write(bench.path(".gitignore"), "*.txt\n").unwrap();
    std::fs::write(bench.path(".ignore"), "*.txt\n").unwrap();
    bench.put("a.txt", "needle\n");
    bench.put("sub/.ignore", "b.txt\n");
    bench.put("sub/b.txt", "needle\n");
    bench.put("sub/c.txt", "needle\n");
    let found = bench.call("search_files", json!({"pattern": "needle"})).await.unwrap();
    assert_eq!(found, "a.txt:1:needle\nsub/c.txt:1:needle");
    let missing = bench
        .call("search_files", json!({"pattern": "needle", "path": "gone"}))
        .await;
    assert_eq!(missing.unwrap_err(), "`gone` doesn't exist");
}

#[tokio::test]
async fn of_a_huge_line_the_beginning_is_searched_and_the_hit_is_shown() {
    let bench = bench();
    let long = "x".repeat(2_000_000);
    bench.put("min.js", &format!("{}needle{long}lost\nlater\n", "y".repeat(700)));
    let found = bench
        .call("search_files", json!({"pattern": "needle|lost|later"}))
        .await
        .unwrap();
    let (first, rest) = found.split_once('\n').unwrap();
    assert!(
        first.starts_with("min.js:1:…yyyy") && first.contains("yneedlex") && first.ends_with("x…"),
        "{first}"
    );
    assert!(first.chars().count() < 520, "{first}");
    assert_eq!(
        rest,
        "min.js:2:later\n(of lines longer than 1 MiB only the beginning was searched)"
    );
}
