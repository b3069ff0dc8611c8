//! `terminal`: commands of a shell, one after the other, in the session's workspace.
//!
//! **Invariant:** nothing of a command runs on after its result.

mod folders;
mod shown;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use talaria_domain::tool::{
    Arguments, Assessment, Effect, Parallelism, Tool, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use talaria_openapi::events::OutputStream;
use talaria_openapi::tools::Risk;

use self::folders::Folders;
use self::shown::Shown;
use crate::arguments;
use crate::paths::{self, DeniedPaths};
use crate::sandbox::{Command, End, Limits, Report, Running, Sandbox};

/// How long a command may take when the model doesn't say, and at most, in seconds.
const DEFAULT_SECONDS: usize = 180;
const MAX_SECONDS: usize = 600;
/// How long its processes have to end by themselves after its time is over.
const GRACE: Duration = Duration::from_secs(2);
/// Variables of the server's environment that a command gets; none that can hold a key.
const INHERITED: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TZ", "USER",
];
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The file of the scratch folder that tells where the shell was at its end.
const FOLDER_FILE: &str = ".folder";
/// Runs the first argument; on the way out, tells where the shell is to the file that is the second one.
/// One line, so that the shell counts the command's lines from 1.
const SCRIPT: &str = concat!(
    "__command=$1; __folder_file=$2; set --; ",
    r#"trap '{ pwd -P >"$__folder_file"; } 2>/dev/null' EXIT; eval "$__command""#
);

/// The tools of the terminal.
///
/// `scratch` is a folder of this server's alone, which is emptied now; `environment` is the server's.
#[must_use]
pub fn terminal_tools(
    sandbox: Sandbox,
    denied: Arc<DeniedPaths>,
    scratch: PathBuf,
    environment: &BTreeMap<String, String>,
) -> Vec<Arc<dyn Tool>> {
    let inherited = INHERITED.iter().filter_map(|name| environment.get_key_value(*name));
    let terminal = Terminal {
        spec: spec(),
        sandbox,
        denied,
        folders: Folders::new(scratch),
        environment: inherited.map(|(name, value)| (name.clone(), value.clone())).collect(),
    };
    vec![Arc::new(terminal)]
}

struct Terminal {
    spec: ToolSpec,
    sandbox: Sandbox,
    denied: Arc<DeniedPaths>,
    folders: Folders,
    environment: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    command: String,
    #[serde(default, deserialize_with = "arguments::number")]
    timeout: Option<usize>,
    workdir: Option<String>,
}

#[async_trait]
impl Tool for Terminal {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn preview(&self, arguments: &Arguments) -> String {
        arguments::preview(arguments, "command")
    }

    fn assess(&self, arguments: &Arguments, _context: &ToolContext) -> Assessment {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let (command, folder) = (text("command"), text("workdir"));
        let place = if folder.is_empty() {
            String::new()
        } else {
            format!(" (in {folder})")
        };
        Assessment {
            risk: self.spec.risk,
            // Whoever allows "its like" allows this very command, and no other.
            kind_of_call: format!("{folder}\n{command}"),
            title: "Run a command".to_owned(),
            message: format!("{command}{place}"),
        }
    }

    async fn run(&self, arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let wanted: Wanted = arguments::read(arguments)?;
        let before = self.folder(&wanted, context)?;
        let seconds = wanted.timeout.unwrap_or(DEFAULT_SECONDS).clamp(1, MAX_SECONDS);
        let scratch = self.folders.scratch(context.session_id);
        let scratch = scratch.map_err(|error| ToolError::Fatal(error.into()))?;
        let folder_file = scratch.join(FOLDER_FILE);
        let command = Command {
            argv: shell(wanted.command, &folder_file),
            folder: before.clone(),
            environment: self.environment(&scratch),
            writable: vec![context.workspace.to_path_buf(), scratch],
            limits: Limits::default(),
            timeout: Duration::from_secs(seconds as u64),
            grace: GRACE,
            merge_output: true,
        };
        let running = command.spawn(&self.sandbox).await;
        let running = running.map_err(|error| ToolError::Fatal(error.into()))?;
        let (text, report) = follow(running, context).await;
        let after = folders::told(&folder_file).unwrap_or_else(|| before.clone());
        self.folders.remember(context.session_id, after.clone());
        let mut notes = Vec::new();
        let is_error = notes_of(&report, seconds, &mut notes);
        if after != before {
            let shown = paths::shown(&after, &context.workspace);
            notes.push(format!("the working directory is now {shown}"));
        }
        Ok(ToolOutput {
            text: told(&text, &notes),
            is_error,
        })
    }
}

impl Terminal {
    /// Where the command starts: where it was asked to, else where the last one ended, else in the workspace.
    fn folder(&self, wanted: &Wanted, context: &ToolContext) -> Result<PathBuf, ToolError> {
        let Some(named) = &wanted.workdir else {
            let current = self.folders.current(context.session_id);
            return Ok(current.unwrap_or_else(|| context.workspace.to_path_buf()));
        };
        let folder = paths::resolve(named, &context.workspace, &self.denied)
            .map_err(|error| ToolError::Respond(error.to_string()))?;
        if folder.is_dir() {
            Ok(folder)
        } else {
            Err(ToolError::Respond(format!(
                "`{named}` is not a folder: make it first, or name another `workdir`"
            )))
        }
    }

    fn environment(&self, scratch: &Path) -> BTreeMap<String, String> {
        let mut environment = self.environment.clone();
        environment
            .entry("PATH".to_owned())
            .or_insert_with(|| DEFAULT_PATH.to_owned());
        let scratch = scratch.display().to_string();
        // Nobody is there to answer or to scroll, and only the workspace and the scratch folder can be written.
        for (name, value) in [
            ("TERM", "dumb"),
            ("PAGER", "cat"),
            ("GIT_PAGER", "cat"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("TMPDIR", scratch.as_str()),
            ("XDG_CACHE_HOME", scratch.as_str()),
        ] {
            environment.insert(name.to_owned(), value.to_owned());
        }
        environment
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "terminal",
        description: "Run a command of the shell in the workspace and wait for its end. Folder changes stay for the next \
                      call, variables don't. It can write only in the workspace and in $TMPDIR, gets no input, and \
                      whatever it leaves in the background is ended.",
        parameters: json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "For bash; may have several lines."},
                "timeout": {
                    "type": "integer",
                    "description": "Seconds until it is ended: 180 when left out, at most 600."
                },
                "workdir": {
                    "type": "string",
                    "description": "The folder to start in, relative to the workspace; where the last command ended \
                                    when left out."
                }
            },
            "required": ["command"],
            "additionalProperties": false
        }),
        toolset: "terminal",
        // Commands are not judged one by one: each is taken for dangerous.
        risk: Risk::High,
        effect: Effect::Writes,
        parallelism: Parallelism::Alone,
    }
}

fn shell(command: String, folder_file: &Path) -> Vec<String> {
    let (program, name) = if Path::new("/bin/bash").exists() {
        ("/bin/bash", "bash")
    } else {
        ("/bin/sh", "sh")
    };
    let file = folder_file.display().to_string();
    vec![
        program.to_owned(),
        "-c".to_owned(),
        SCRIPT.to_owned(),
        name.to_owned(),
        command,
        file,
    ]
}

/// Reads the output to its end; ends the command when the run is told to stop.
async fn follow(mut running: Running, context: &ToolContext) -> (String, Report) {
    let mut shown = Shown::default();
    let mut is_cancelled = false;
    loop {
        tokio::select! {
            () = context.cancel.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                running.cancel(context.grace.get()).await;
            }
            piece = running.next() => match piece {
                Some(piece) => {
                    let text = talaria_text::sanitize::storable(&piece.text);
                    shown.push(&text);
                    if let Some(live) = &context.live {
                        live.show(OutputStream::Stdout, &text);
                    }
                }
                None => break,
            },
        }
    }
    let report = running.wait().await;
    (shown.into_text(), report)
}

/// What the model must know beside the output. Whether the command did not come to its own end.
fn notes_of(report: &Report, seconds: usize, notes: &mut Vec<String>) -> bool {
    let note = match &report.end {
        End::Exited(0) => None,
        End::Exited(code) => Some(format!("exit code {code}")),
        End::Signalled(signal) => Some(format!("ended by signal {signal}")),
        End::TimedOut => Some(format!(
            "ended after {seconds} s, the time that it had: set `timeout` (at most {MAX_SECONDS}) if it needs longer"
        )),
        End::Cancelled => Some("cancelled by the user: what it had done by then stays done".to_owned()),
        End::LimitExceeded(limit) => Some(format!("ended, since it took more than it may have: {limit}")),
        End::NotStarted(why) => Some(format!("it could not be started: {why}")),
        End::Lost => Some("its supervisor was killed: what became of it is not known".to_owned()),
    };
    notes.extend(note);
    if report.still_alive > 0 {
        notes.push("some of its processes wait for a device and will be gone when it answers".to_owned());
    }
    if report.left_behind > 0 {
        notes.push("what it left running in the background was ended".to_owned());
    }
    !matches!(report.end, End::Exited(_) | End::Signalled(_))
}

/// Output, then the notes, each on a line of its own.
fn told(output: &str, notes: &[String]) -> String {
    let output = output.trim_end();
    let notes = notes.iter().map(|note| format!("[{note}]"));
    let lines: Vec<String> = Some(output.to_owned())
        .filter(|output| !output.is_empty())
        .into_iter()
        .chain(notes)
        .collect();
    if lines.is_empty() {
        "[no output]".to_owned()
    } else {
        lines.join("\n")
    }
}
