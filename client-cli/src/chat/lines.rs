//! Where a conversation's lines come from: a person with a line editor, or a pipe.

use std::borrow::Cow;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::IsTerminal as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use reedline::{
    Color, EditCommand, FileBackedHistory, Highlighter, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal,
    StyledText, ValidationResult, Validator,
};

use crate::error::{Error, Result};
use crate::render;

const MAX_HISTORY: usize = 1_000;
/// What a message that goes on ends its line with.
const GOES_ON: char = '\\';

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A message.
    Text(String),
    /// Ctrl+C: what was typed is dropped.
    Interrupted,
    /// Ctrl+D, or the end of the pipe.
    End,
}

/// Reads messages.
pub(super) enum Lines {
    Person(Box<Reedline>),
    Pipe(std::io::Stdin),
}

impl Lines {
    pub(super) fn open(home: &Path) -> Result<Self> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Ok(Self::Pipe(std::io::stdin()));
        }
        let failed = |error: String| Error::Local(format!("the history in {} can't be kept: {error}", home.display()));
        let path = private_file(home).map_err(|error| failed(error.to_string()))?;
        let history = FileBackedHistory::with_file(MAX_HISTORY, path).map_err(|error| failed(error.to_string()))?;
        let editor = Reedline::create()
            .with_history(Box::new(history))
            .with_validator(Box::new(Backslash))
            .with_highlighter(Box::new(Unstyled))
            .with_ansi_colors(render::is_coloured())
            .use_bracketed_paste(true);
        Ok(Self::Person(Box::new(editor)))
    }

    /// The next message; a person finds `begun` typed already.
    pub(super) fn next(&mut self, begun: &str) -> Result<Read> {
        match self {
            Self::Person(editor) => ask(editor, begun),
            Self::Pipe(input) => read_pipe(input),
        }
    }
}

fn ask(editor: &mut Reedline, begun: &str) -> Result<Read> {
    if !begun.is_empty() {
        editor.run_edit_commands(&[EditCommand::InsertString(begun.to_owned())]);
    }
    let signal = editor
        .read_line(&Mark)
        .map_err(|error| Error::Local(error.to_string()))?;
    // At once, so that a killed terminal loses no history. A full disk is no reason to stop talking.
    drop(editor.sync_history());
    Ok(match signal {
        Signal::Success(text) => Read::Text(text.replace(&format!("{GOES_ON}\n"), "\n")),
        Signal::CtrlC => Read::Interrupted,
        _ => Read::End,
    })
}

fn read_pipe(input: &std::io::Stdin) -> Result<Read> {
    let mut text = String::new();
    loop {
        let mut line = String::new();
        let length = input
            .read_line(&mut line)
            .map_err(|error| Error::Local(error.to_string()))?;
        if length == 0 && text.is_empty() {
            return Ok(Read::End);
        }
        let line = line.trim_end_matches(['\n', '\r']);
        let Some(begun) = line.strip_suffix(GOES_ON).filter(|_| length > 0) else {
            text.push_str(line);
            return Ok(Read::Text(text));
        };
        text.push_str(begun);
        text.push('\n');
    }
}

/// The history's file, which nobody else can read.
fn private_file(home: &Path) -> std::io::Result<PathBuf> {
    let path = home.join("history");
    DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
    // One of an earlier version may be open to others.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(path)
}

/// A line that ends with a backslash goes on in the next one.
struct Backslash;

impl Validator for Backslash {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.ends_with(GOES_ON) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Complete
        }
    }
}

/// What is typed has the terminal's own colour: the editor's would be unreadable on some backgrounds.
struct Unstyled;

impl Highlighter for Unstyled {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut text = StyledText::new();
        text.push((Default::default(), line.to_owned()));
        text
    }
}

/// The mark before what a person types.
struct Mark;

impl Prompt for Mark {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        render::PROMPT.into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "  ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("(history: {}) ", search.term).into()
    }

    fn get_indicator_color(&self) -> Color {
        Color::Green
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let path = private_file(&home).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        private_file(&home).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&home)), (0o600, 0o700));
    }

    #[test]
    fn a_backslash_is_more_to_come() {
        assert!(matches!(Backslash.validate("one\\"), ValidationResult::Incomplete));
        assert!(matches!(Backslash.validate("one\\\ntwo"), ValidationResult::Complete));
    }
}
