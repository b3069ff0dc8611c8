//! The terminal as a model uses it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use talaria_domain::tool::{Tool, ToolContext, ToolError, ToolOutput};
use talaria_tools::paths::DeniedPaths;
use talaria_tools::sandbox::Sandbox;
use talaria_tools::terminal::terminal_tools;

use crate::context;

struct Desk {
    folder: tempfile::TempDir,
    terminal: Arc<dyn Tool>,
    context: ToolContext,
}

fn desk() -> Desk {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    // A name that a shell could take apart.
    for name in ["ho'me $x", "ws/sub dir"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let home = root.join("ho'me $x");
    let denied = Arc::new(DeniedPaths::new(&home, None));
    let sandbox = Sandbox::new(Some(env!("CARGO_BIN_EXE_sandbox-exec-for-tests").into()), &denied);
    let environment = BTreeMap::from([("OPENAI_API_KEY", "secret"), ("LANG", "C.UTF-8")]);
    let environment = environment
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let [terminal] = &terminal_tools(sandbox, denied, home.join("scratch"), &environment.collect())[..] else {
        panic!("one tool");
    };
    Desk {
        terminal: Arc::clone(terminal),
        context: context(&root.join("ws")),
        folder,
    }
}

impl Desk {
    async fn call(&self, arguments: Value) -> ToolOutput {
        let output = self.terminal.run(arguments.as_object().unwrap(), &self.context).await;
        output.unwrap()
    }

    async fn refused(&self, arguments: Value) -> String {
        match self.terminal.run(arguments.as_object().unwrap(), &self.context).await {
            Err(ToolError::Respond(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    async fn said(&self, command: &str) -> String {
        let output = self.call(json!({"command": command})).await;
        assert!(!output.is_error, "{output:?}");
        output.text
    }
}

#[tokio::test]
async fn a_command_answers_with_its_output_and_how_it_ended() {
    let desk = desk();
    for (command, expected) in [
        ("echo one; echo two >&2; echo three", "one\ntwo\nthree"),
        ("true", "[no output]"),
        ("echo no; exit 3", "no\n[exit code 3]"),
        ("false", "[exit code 1]"),
        ("kill -9 $$", "[ended by signal 9]"),
        ("if true; then\n  cat <<'END'\n$1 'x' \"y\"\nEND\nfi", "$1 'x' \"y\""),
        ("echo $# ${1-none} $0", "0 none bash"),
        (
            "no-such-command",
            "bash: line 1: no-such-command: command not found\n[exit code 127]",
        ),
        ("cat", "[no output]"),
        ("printf '\\033[31mred\\033[0m'", "\u{1b}[31mred\u{1b}[0m"),
        ("echo ${OPENAI_API_KEY-none} $LANG", "none C.UTF-8"),
    ] {
        assert_eq!(desk.said(command).await, expected, "{command}");
    }
    let text = desk.said("echo (").await;
    assert!(text.contains("syntax error") && !text.contains("__"), "{text}");
}

#[tokio::test]
async fn the_folder_stays_from_call_to_call() {
    let desk = desk();
    assert_eq!(
        desk.said("cd 'sub dir'").await,
        "[the working directory is now sub dir]"
    );
    let root = desk.folder.path().canonicalize().unwrap();
    let sub = root.join("ws/sub dir").display().to_string();
    assert_eq!(desk.said("pwd").await, sub);
    // However the shell ends.
    assert_eq!(
        desk.said("cd ..; set -e; false").await,
        "[exit code 1]\n[the working directory is now .]"
    );
    let output = desk.call(json!({"command": "pwd", "workdir": "sub dir"})).await;
    assert_eq!(output.text, sub);
    assert_eq!(desk.said("pwd").await, sub);
    // A folder that is gone.
    assert_eq!(desk.said("rmdir \"$PWD\"").await, "[no output]");
    assert_eq!(desk.said("pwd").await, root.join("ws").display().to_string());
    // Another session has a folder of its own.
    desk.said("mkdir deep && cd deep").await;
    let other = Desk {
        context: context(&desk.context.workspace),
        terminal: Arc::clone(&desk.terminal),
        folder: tempfile::tempdir().unwrap(),
    };
    assert_eq!(other.said("basename \"$PWD\"").await, "ws");
}

#[tokio::test]
async fn what_a_command_says_of_its_folder_is_not_trusted() {
    let desk = desk();
    for lie in [
        "rm -f $TMPDIR/.folder; mkfifo $TMPDIR/.folder; trap - EXIT",
        "ln -sf /etc/passwd $TMPDIR/.folder; trap - EXIT",
        "printf '/no/such/folder\\n' > $TMPDIR/.folder; trap - EXIT",
        "head -c 100000 /dev/zero > $TMPDIR/.folder; trap - EXIT",
        "mkdir $TMPDIR/.folder; trap - EXIT",
    ] {
        desk.said(&lie.replace("$TMPDIR", "\"$TMPDIR\"")).await;
        assert_eq!(desk.said("basename \"$PWD\"").await, "ws", "{lie}");
    }
}

#[tokio::test]
async fn it_writes_in_the_workspace_and_in_its_scratch_folder_only() {
    let desk = desk();
    desk.said("echo kept > \"$TMPDIR/note\" && echo x > file").await;
    assert_eq!(desk.said("cat \"$TMPDIR/note\"").await, "kept");
    assert_eq!(
        std::fs::read_to_string(desk.context.workspace.join("file")).unwrap(),
        "x\n"
    );
    for forbidden in [
        "echo x > ../outside",
        "ls \"../ho'me \\$x/\" && echo x > \"../ho'me \\$x/new\"",
    ] {
        let text = desk.said(forbidden).await;
        assert!(text.contains("Permission denied"), "{forbidden}: {text}");
    }
    for (arguments, reason) in [
        (json!({"command": "pwd", "workdir": ".."}), "outside the workspace"),
        (json!({"command": "pwd", "workdir": "file"}), "not a folder"),
        (json!({"command": "pwd", "workdir": "none"}), "not a folder"),
        (json!({}), "command"),
        (json!({"command": "pwd", "background": true}), "background"),
    ] {
        let said = desk.refused(arguments).await;
        assert!(said.contains(reason), "{said}");
    }
}

#[tokio::test]
async fn what_takes_too_long_is_ended_and_keeps_its_output() {
    let desk = desk();
    let output = desk
        .call(json!({"command": "echo begun; sleep 600", "timeout": "1"}))
        .await;
    assert!(output.is_error);
    assert!(
        output.text.starts_with("begun\n[ended after 1 s, the time that it had"),
        "{}",
        output.text
    );
    let text = desk.said("sleep 600 & echo done").await;
    assert_eq!(text, "done\n[what it left running in the background was ended]");
}

#[tokio::test]
async fn a_cancelled_command_keeps_its_output() {
    let desk = desk();
    let cancel = desk.context.cancel.clone();
    let fifo = desk.context.workspace.join("begun");
    let arguments = json!({"command": "mkfifo begun; echo on; echo x > begun; sleep 600"});
    let call = desk.call(arguments);
    let stop = async {
        let began = tokio::task::spawn_blocking(move || {
            while !fifo.exists() {
                std::thread::yield_now();
            }
            std::fs::read(fifo)
        });
        began.await.unwrap().unwrap();
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(call, stop);
    assert!(output.is_error);
    assert_eq!(
        output.text,
        "on\n[cancelled by the user: what it had done by then stays done]"
    );
}

#[tokio::test]
async fn a_long_output_keeps_its_beginning_and_its_end() {
    let desk = desk();
    let text = desk.said("seq 1000000").await;
    assert!(
        text.starts_with("1\n2\n3\n") && text.ends_with("\n999999\n1000000"),
        "{}",
        text.len()
    );
    let chars = text.chars().count();
    assert!((49_900..50_200).contains(&chars), "{chars}");
    assert!(text.contains("characters left out here"));
}
