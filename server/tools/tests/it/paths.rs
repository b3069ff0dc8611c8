//! Which paths a tool takes.

use std::path::Path;

use serde_json::json;
use talaria_tools::paths::{DeniedPaths, workspace_allowed};

use crate::{bench, context};

#[tokio::test]
async fn no_path_leads_out_of_the_workspace() {
    let bench = bench();
    std::os::unix::fs::symlink(bench.path("home"), bench.path("ws/link")).unwrap();
    std::os::unix::fs::symlink(bench.path("nowhere"), bench.path("ws/dangling")).unwrap();
    let outside = bench.path("outside.txt").display().to_string();
    let token = bench.path("home/token").display().to_string();
    let key = bench.path("user/.ssh/id_ed25519").display().to_string();
    for path in [
        "../outside.txt",
        "x/../../outside.txt",
        "link/token",
        "dangling",
        "/etc/passwd",
        "",
        "a\0b",
        "~/notes.txt",
        "~root/x",
        "~",
        &outside,
        &token,
        &key,
    ] {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            (
                "patch",
                json!({"path": path, "old_string": "secret", "new_string": "x"}),
            ),
            ("search_files", json!({"pattern": "secret", "path": path})),
        ] {
            assert!(bench.call(tool, arguments).await.is_err(), "{tool} {path}");
        }
    }
    assert_eq!(std::fs::read_to_string(&token).unwrap(), "secret");
    assert!(!bench.path("outside.txt").exists() && !bench.path("nowhere").exists());
}

#[tokio::test]
async fn a_workspace_inside_the_home_sees_itself_only() {
    let mut bench = bench();
    bench.context = context(&bench.path("home/inside"));
    assert!(
        bench
            .call("write_file", json!({"path": "mine.txt", "content": "x"}))
            .await
            .is_ok()
    );
    assert!(bench.call("read_file", json!({"path": "../token"})).await.is_err());
    let denied = DeniedPaths::new(&bench.path("home"), Some(&bench.path("user")));
    let roots = [bench.path(".")];
    let roots = roots.map(|root| root.canonicalize().unwrap());
    assert!(workspace_allowed(&bench.path("home"), &roots, &denied).is_err());
    assert!(workspace_allowed(&bench.path("user/.ssh"), &roots, &denied).is_err());
    let everywhere = ["/".into()];
    for system in ["/", "/proc", "/proc/self", "/sys", "/dev"] {
        let path = Path::new(system).canonicalize().unwrap();
        assert!(workspace_allowed(&path, &everywhere, &denied).is_err(), "{system}");
    }
    assert!(workspace_allowed(&bench.path("home/inside"), &roots, &denied).is_ok());
}

#[tokio::test]
async fn a_tilde_is_no_home() {
    let bench = bench();
    let refused = bench
        .call("write_file", json!({"path": "~/a.txt", "content": "x"}))
        .await
        .unwrap_err();
    assert!(
        refused.contains("`~` is not understood") && refused.contains("inside the workspace"),
        "{refused}"
    );
    // A name may begin with it all the same.
    assert!(
        bench
            .call("write_file", json!({"path": "./~a.txt", "content": "x"}))
            .await
            .is_ok()
    );
    assert!(bench.path("ws/~a.txt").exists());
}
