//! The tools as a model would use them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test binary: its helpers fail like its tests"
)]

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use talaria_domain::tool::{ToolContext, ToolError, ToolSet};
use talaria_openapi::ids::{ProfileId, RunId, SessionId};
use talaria_tools::paths::{DeniedPaths, workspace_allowed};
use tokio_util::sync::CancellationToken;

struct Bench {
    folder: tempfile::TempDir,
    tools: ToolSet,
    context: ToolContext,
}

/// A workspace beside a server's home and a person's home.
fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["home/inside", "user/.ssh", "ws"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("home/token"), "secret").unwrap();
    std::fs::write(root.join("user/.ssh/id_ed25519"), "secret").unwrap();
    let denied = Arc::new(DeniedPaths::new(&root.join("home"), Some(&root.join("user"))));
    let context = context(&root.join("ws"));
    Bench {
        folder,
        tools: ToolSet::new(talaria_tools::builtin_tools(denied)),
        context,
    }
}

fn context(workspace: &Path) -> ToolContext {
    ToolContext {
        profile_id: ProfileId::new(),
        session_id: SessionId::new(),
        run_id: RunId::new(),
        workspace: workspace.into(),
        cancel: CancellationToken::new(),
    }
}

impl Bench {
    async fn call(&self, name: &str, arguments: Value) -> Result<String, String> {
        let tool = self.tools.get(name).unwrap();
        match tool.run(arguments.as_object().unwrap(), &self.context).await {
            Ok(output) => Ok(output.text),
            Err(ToolError::Respond(text)) => Err(text),
            Err(ToolError::Fatal(error)) => panic!("{error}"),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }
}

#[tokio::test]
async fn what_is_written_is_read_and_found() {
    let bench = bench();
    let written = bench
        .call("write_file", json!({"path": "a/b.txt", "content": "one\ntwo\nthree\n"}))
        .await;
    assert_eq!(written.unwrap(), "wrote 14 bytes to a/b.txt");
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

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(Value::from)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_arguments_break_a_tool(values in prop::collection::vec(any_json(), 8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let bench = bench();
            let names = ["path", "content", "old_string", "new_string", "pattern", "limit", "offset", "todos"];
            let arguments = names.into_iter().map(str::to_owned).zip(values).collect();
            for tool in bench.tools.iter() {
                tool.preview(&arguments);
                tool.paths(&arguments, &bench.context);
                let known = tool.spec().parameters["properties"].as_object().unwrap();
                let fitting = arguments.clone().into_iter().filter(|(name, _)| known.contains_key(name)).collect();
                if let Err(ToolError::Fatal(error)) = tool.run(&fitting, &bench.context).await {
                    panic!("{}: {error}", tool.spec().name);
                }
            }
        });
    }
}
