//! Reading, writing and changing files.

use serde_json::json;

use crate::bench;

#[tokio::test]
async fn what_is_written_is_read_and_found() {
    let bench = bench();
    let written = bench
        .call("write_file", json!({"path": "a/b.txt", "content": "one\ntwo\nthree\n"}))
        .await;
    assert_eq!(written.unwrap(), "wrote 14 bytes to a/b.txt; made the folders a/");
    assert_eq!(
        bench.call("read_file", json!({"path": "a/b.txt"})).await.unwrap(),
        "1|one\n2|two\n3|three\n"
    );
    let page = bench
        .call("read_file", json!({"path": "a/b.txt", "offset": "2", "limit": 1}))
        .await
        .unwrap();
    assert_eq!(page, "2|two\n(3 lines in all; go on with offset 3)");
    let diff = bench
        .call(
            "patch",
            json!({"path": "a/b.txt", "old_string": "two", "new_string": "2"}),
        )
        .await
        .unwrap();
    assert!(diff.contains("-two\n+2\n"), "{diff}");
    assert_eq!(
        bench.call("search_files", json!({"pattern": "^2$"})).await.unwrap(),
        "a/b.txt:2:2"
    );
    assert_eq!(
        bench
            .call("search_files", json!({"pattern": "*.txt", "target": "files"}))
            .await
            .unwrap(),
        "a/b.txt"
    );
}

#[tokio::test]
async fn binary_files_and_line_ends_are_respected() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = bench();
    std::fs::write(bench.path("ws/x.bin"), [0, 159, 146, 150]).unwrap();
    assert!(
        bench
            .call("read_file", json!({"path": "x.bin"}))
            .await
            .unwrap_err()
            .contains("binary file of 4 bytes")
    );
    std::fs::write(bench.path("ws/dos.txt"), "a\r\nb\r\n").unwrap();
    std::fs::set_permissions(bench.path("ws/dos.txt"), std::fs::Permissions::from_mode(0o640)).unwrap();
    bench
        .call(
            "patch",
            json!({"path": "dos.txt", "old_string": "b", "new_string": "c\nd"}),
        )
        .await
        .unwrap();
    assert_eq!(
        std::fs::read_to_string(bench.path("ws/dos.txt")).unwrap(),
        "a\r\nc\r\nd\r\n"
    );
    assert_eq!(
        std::fs::metadata(bench.path("ws/dos.txt"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o640
    );
    assert_eq!(
        std::fs::read_dir(bench.path("ws")).unwrap().count(),
        2,
        "nothing is left over"
    );
}

#[tokio::test]
async fn made_folders_are_told_and_a_failed_write_leaves_none() {
    let bench = bench();
    let written = bench
        .call("write_file", json!({"path": "x/y/z.txt", "content": "1"}))
        .await;
    assert_eq!(
        written.unwrap(),
        "wrote 1 bytes to x/y/z.txt; made the folders x/, x/y/"
    );
    let again = bench
        .call("write_file", json!({"path": "x/y/z.txt", "content": "22"}))
        .await;
    assert_eq!(again.unwrap(), "wrote 2 bytes to x/y/z.txt");
    let long = format!("new/{}", "n".repeat(300));
    assert!(
        bench
            .call("write_file", json!({"path": long, "content": "1"}))
            .await
            .is_err()
    );
    assert!(!bench.path("ws/new").exists());
}

#[tokio::test]
async fn only_regular_files_are_replaced() {
    let bench = bench();
    std::fs::create_dir(bench.path("ws/folder")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.path("ws/socket")).unwrap();
    for (path, reason) in [("folder", "it is a folder"), ("socket", "it is not a regular file")] {
        let refused = bench
            .call("write_file", json!({"path": path, "content": "x"}))
            .await
            .unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
    assert_eq!(
        std::fs::read_dir(bench.path("ws")).unwrap().count(),
        2,
        "nothing is left over"
    );
}

#[tokio::test]
async fn a_stopped_call_does_nothing() {
    let bench = bench();
    bench.context.cancel.cancel();
    let stopped = bench.call("write_file", json!({"path": "a.txt", "content": "x"})).await;
    assert!(stopped.unwrap_err().contains("stopped"));
    assert!(!bench.path("ws/a.txt").exists());
}

#[tokio::test]
async fn the_mark_of_a_secret_is_never_written_over_the_secret() {
    let bench = bench();
    bench.put(".env", "HOST=a\nKEY=the-true-secret\n");
    let shown = "HOST=b\nKEY=[redacted:secret]\n";
    let refused = bench
        .call("write_file", json!({"path": ".env", "content": shown}))
        .await
        .unwrap_err();
    assert!(refused.contains("stands for a secret"), "{refused}");
    let change = json!({"path": ".env", "old_string": "KEY=the-true-secret", "new_string": "KEY=[redacted:secret]"});
    let refused = bench.call("patch", change).await.unwrap_err();
    assert!(refused.contains("stands for a secret"), "{refused}");
    assert_eq!(bench.text(".env"), "HOST=a\nKEY=the-true-secret\n");
    // A text that is about the mark may be changed.
    bench.put("notes.md", "it shows [redacted:secret] there\n");
    let change = json!({"path": "notes.md", "content": "it shows [redacted:secret] here\n"});
    bench.call("write_file", change).await.unwrap();
}
