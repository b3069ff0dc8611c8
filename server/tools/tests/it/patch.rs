//! Changing several files at once.

use proptest::prelude::*;
use serde_json::json;

use crate::{Bench, bench};

impl Bench {
    async fn patch(&self, patch: &str) -> Result<String, String> {
        self.call("patch", json!({"mode": "patch", "patch": patch})).await
    }

    /// Everything in the workspace: names and contents.
    fn everything(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path("ws")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                }
                let content = std::fs::read(entry.path()).unwrap_or_default();
                found.push((entry.path().display().to_string(), content));
            }
        }
        found.sort();
        found
    }
}

const CODE: &str = "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n";

#[tokio::test]
async fn one_patch_adds_updates_moves_and_deletes() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = bench();
    bench.put("a.py", CODE);
    bench.put("run.sh", "#!/bin/sh\r\necho old\r\n");
    bench.put("gone.txt", "bye\n");
    bench.put("pic.bin", "\0\u{1}");
    std::fs::set_permissions(bench.path("ws/run.sh"), std::fs::Permissions::from_mode(0o751)).unwrap();
    let said = bench
        .patch(
            "*** Begin Patch\n*** Update File: a.py\n@@ class B:\n     def f(self):\n-        return 1\n+        return 2\n\
             *** Update File: run.sh\n*** Move to: bin/run.sh\n@@\n-echo old\n+echo new\n+echo more\n\
             *** Add File: docs/b.txt\n+one\n+two\n*** Delete File: gone.txt\n\n*** Move File: pic.bin -> img/pic.bin\n\
             *** End Patch\n",
        )
        .await
        .unwrap();
    assert!(
        said.starts_with(
            "changed a.py\nmoved run.sh to bin/run.sh\nadded docs/b.txt\ndeleted gone.txt\nmoved pic.bin to img/pic.bin\n"
        ),
        "{said}"
    );
    assert!(said.contains("-        return 1\n+        return 2\n"), "{said}");
    assert!(
        said.contains("--- run.sh\n+++ bin/run.sh\n") && said.contains("--- /dev/null\n+++ docs/b.txt\n"),
        "{said}"
    );
    assert!(
        said.contains("--- gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"),
        "{said}"
    );
    assert_eq!(
        bench.text("a.py"),
        CODE.replace(
            "class B:\n    def f(self):\n        return 1",
            "class B:\n    def f(self):\n        return 2"
        )
    );
    assert_eq!(bench.text("bin/run.sh"), "#!/bin/sh\r\necho new\r\necho more\r\n");
    let mode = std::fs::metadata(bench.path("ws/bin/run.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o751, "a file that moves stays executable");
    assert_eq!(bench.text("docs/b.txt"), "one\ntwo\n");
    assert_eq!(bench.text("img/pic.bin"), "\0\u{1}");
    for gone in ["run.sh", "gone.txt", "pic.bin"] {
        assert!(!bench.path("ws").join(gone).exists(), "{gone}");
    }
}

#[tokio::test]
async fn unified_diffs_are_patches_too() {
    let bench = bench();
    bench.put("src/a.py", CODE);
    bench.put("old.txt", "x\n");
    bench.put("empty.txt", "1\n2");
    let said = bench
        .patch(
            "diff --git a/src/a.py b/src/a.py\nindex 1..2 100644\n--- a/src/a.py\n+++ b/src/a.py\n@@ -6,9 +6,9 @@ class B:\n     \
             def f(self):\n-        return 1\n+        return 2\n\
             diff --git a/old.txt b/new.txt\nsimilarity index 100%\nrename from old.txt\nrename to new.txt\n\
             --- /dev/null\n+++ b/c.txt\n@@ -0,0 +1 @@\n+no end\n\\ No newline at end of file\n\
             --- a/empty.txt\n+++ b/empty.txt\n@@ -2 +2 @@\n-2\n\\ No newline at end of file\n+3\n",
        )
        .await
        .unwrap();
    assert!(
        said.starts_with("changed src/a.py\nmoved old.txt to new.txt\nadded c.txt\nchanged empty.txt\n"),
        "{said}"
    );
    assert!(
        bench
            .text("src/a.py")
            .ends_with("class B:\n    def f(self):\n        return 2\n")
    );
    assert!(
        bench
            .text("src/a.py")
            .starts_with("class A:\n    def f(self):\n        return 1\n")
    );
    assert_eq!(bench.text("c.txt"), "no end");
    assert_eq!(bench.text("empty.txt"), "1\n3\n");
    assert_eq!(bench.text("new.txt"), "x\n");
}

#[tokio::test]
async fn one_change_that_does_not_fit_stops_them_all() {
    let bench = bench();
    bench.put("a.py", CODE);
    bench.put("b.txt", "b\n");
    std::fs::create_dir(bench.path("ws/folder")).unwrap();
    let before = bench.everything();
    let first = "*** Begin Patch\n*** Add File: new/deep/c.txt\n+c\n*** Update File: b.txt\n@@\n-b\n+B\n";
    let outside = bench.path("home/token").display().to_string();
    for (second, reason) in [
        (
            "*** Update File: a.py\n@@\n-nowhere at all\n+x\n",
            "`a.py`: its lines aren't in the file",
        ),
        (
            "*** Update File: a.py\n@@\n     def f(self):\n-        return 1\n+        return 2\n",
            "stand 2 times in the file (lines 2, 6)",
        ),
        (
            "*** Update File: a.py\n@@ class C:\n-        return 1\n+        return 2\n",
            "no line `class C:`",
        ),
        ("*** Update File: a.py\n@@ def f\n", "changes nothing in `a.py`"),
        ("*** Update File: a.py\n@@\n+only new\n", "only new lines"),
        (
            "*** Update File: missing.py\n@@\n-a\n+b\n",
            "`missing.py`: it doesn't exist",
        ),
        ("*** Update File: a.py\nreturn 1\n", "line 9 of the patch"),
        ("*** Add File: a.py\n+x\n", "exists already"),
        ("*** Add File: b.txt/c\n+x\n", "can't be a file and hold"),
        ("*** Add File: a.py/c\n+x\n", "a folder that is a file"),
        ("*** Delete File: folder\n", "it is a folder"),
        ("*** Delete File: b.txt\n", "names `b.txt` twice"),
        ("*** Delete File: ../home/token\n", "out of bounds"),
        ("*** Update File: a.py\n*** Move to: ~/a.py\n", "`~` is not understood"),
        (&format!("*** Move File: a.py -> {outside}\n"), "out of bounds"),
        ("--- a/a.py\n+++ b/a.py\n", "`b.txt`: its lines"),
    ] {
        let refused = bench.patch(&format!("{first}{second}*** End Patch")).await.unwrap_err();
        assert!(refused.contains(reason), "{second}: {refused}");
        assert_eq!(bench.everything(), before, "{second}");
    }
    let prose = bench.patch("please change b to c").await.unwrap_err();
    assert!(prose.contains("*** Begin Patch"), "{prose}");
}

#[tokio::test]
async fn what_the_host_refuses_leaves_nothing_behind() {
    let bench = bench();
    bench.put("b.txt", "b\n");
    let before = bench.everything();
    let long = "n".repeat(300);
    let patch = format!("*** Update File: b.txt\n@@\n-b\n+B\n*** Add File: new/{long}\n+x\n");
    let refused = bench.patch(&patch).await.unwrap_err();
    assert!(refused.starts_with("nothing was changed: "), "{refused}");
    assert_eq!(bench.everything(), before);
}

#[tokio::test]
async fn hunks_are_taken_tolerantly_and_in_order() {
    let bench = bench();
    bench.put(
        "a.py",
        "def f():\n\tx = “1”  \n\treturn x\n\ndef g():\n\treturn 2\n\ndef h():\n\treturn 3",
    );
    bench
        .patch(
            "*** Update File: a.py\n@@ def f():\n     x = \"1\"\n-    return x\n+    if x:\n+        return x\n\
             @@ def g():\n@@\n-    return 2\n+    return 4\n@@ def h():\n+    log()\n*** Update File: a.py\n@@\n-    return 3\n\
             +    return 5\n*** End of File\n",
        )
        .await
        .unwrap();
    assert_eq!(
        bench.text("a.py"),
        "def f():\n\tx = “1”  \n\tif x:\n\t\treturn x\n\ndef g():\n\treturn 4\n\ndef h():\n    log()\n\treturn 5"
    );
}

#[tokio::test]
async fn a_call_says_what_it_lacks_and_which_paths_it_touches() {
    let bench = bench();
    for (arguments, reason) in [
        (json!({}), "needs `path`"),
        (json!({"mode": "patch"}), "needs `patch`"),
        (json!({"path": "a", "old_string": "x"}), "needs `new_string`"),
        (json!({"mode": "guess"}), "the arguments don't fit"),
    ] {
        assert!(
            bench.call("patch", arguments).await.unwrap_err().contains(reason),
            "{reason}"
        );
    }
    let tool = bench.tools.get("patch").unwrap();
    let arguments = json!({"patch": "*** Add File: a\n+x\n*** Move File: b -> c/d"});
    let paths = tool.paths(arguments.as_object().unwrap(), &bench.context).unwrap();
    assert_eq!(paths, [bench.path("ws/a"), bench.path("ws/b"), bench.path("ws/c/d")]);
    assert_eq!(tool.preview(arguments.as_object().unwrap()), "a, b, c/d");
    let broken = json!({"patch": "*** Move File: b"});
    assert_eq!(
        tool.paths(broken.as_object().unwrap(), &bench.context),
        None,
        "it runs alone"
    );
}

fn any_patch_line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*** Begin Patch".to_owned()),
        Just("*** End of File".to_owned()),
        Just("@@".to_owned()),
        "@@ (-[0-9]{1,3}|[a-c ]{0,3})".prop_map(String::from),
        "\\*\\*\\* (Add|Update|Delete) File: [ab]{1,2}".prop_map(String::from),
        "\\*\\*\\* Move to: [ab]{1,2}".prop_map(String::from),
        "(---|\\+\\+\\+) (a/|b/)?([ab]{1,2}|/dev/null)".prop_map(String::from),
        "[-+ ][a-c“\t ]{0,3}".prop_map(String::from),
        ".{0,6}".prop_map(String::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_patch_is_done_whole_or_not_at_all(lines in prop::collection::vec(any_patch_line(), 0..12), text in "[a-c\t\r\n“]{0,12}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let bench = bench();
            bench.put("a", &text);
            let before = bench.everything();
            match bench.patch(&lines.join("\n")).await {
                Ok(_) => assert!(bench.everything().iter().all(|(name, _)| !name.contains(".talaria-"))),
                Err(_) => assert_eq!(bench.everything(), before),
            }
        });
    }
}
