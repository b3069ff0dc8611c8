//! Everything that this program writes. Text of others is stripped of control characters, so that it can't steer the
//! terminal.

mod inline;
mod markdown;
mod marks;
mod safe;
mod style;
mod table;
mod wrap;

use std::io::{IsTerminal as _, Write as _};

use talaria_openapi::events::{EventBody, ToolStatus};
use talaria_text::cut::one_line;
use talaria_text::sanitize::printable;

/// Longest tool line, in cells, where the terminal's width isn't known.
const LINE_CELLS: usize = 80;

/// Prints text to standard output as it is, but for control characters.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // A closed pipe ends the program by its next signal; there is nobody to tell.
    drop(out.write_all(printable(text).as_bytes()).and_then(|()| out.flush()));
}

/// Prints a line of JSON that the server sent; it holds no control characters by its form.
pub fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// Says something beside the answer.
pub fn notice(text: &str) {
    let mut err = std::io::stderr().lock();
    let line = printable(text);
    drop(if is_coloured() {
        writeln!(err, "\x1b[2m{line}\x1b[0m")
    } else {
        writeln!(err, "{line}")
    });
}

/// Says what went wrong.
pub fn complain(text: &str) {
    let mut err = std::io::stderr().lock();
    let line = printable(text);
    drop(if is_coloured() {
        writeln!(err, "\x1b[31mtalaria:\x1b[0m {line}")
    } else {
        writeln!(err, "talaria: {line}")
    });
}

fn is_coloured() -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "NO_COLOR is a convention of terminals, not configuration of ours"
    )]
    let is_off = std::env::var("NO_COLOR").is_ok_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !is_off
}

/// What a person sees of a run as it goes: text to standard output, everything else to standard error.
#[derive(Debug, Default)]
pub struct Progress {
    /// Whether anything was printed that doesn't end its line.
    is_in_line: bool,
}

impl Progress {
    /// Shows an event.
    pub fn show(&mut self, body: &EventBody) {
        match body {
            EventBody::TextDelta { text, .. } => {
                print(text);
                self.is_in_line = !text.ends_with('\n');
            }
            EventBody::ToolStarted { name, preview, .. } => self.aside(&format!("⏺ {name} {preview}")),
            EventBody::ToolCompleted {
                name,
                status,
                duration_ms,
                ..
            } => match status {
                ToolStatus::Completed => {}
                ToolStatus::Failed => self.aside(&format!(
                    "  {name} failed after {duration_ms} ms; the model is told why"
                )),
                ToolStatus::Declined => self.aside(&format!("  {name} was refused")),
                ToolStatus::Cancelled => self.aside(&format!("  {name} was stopped")),
                ToolStatus::UnknownOutcome => self.aside(&format!("  {name}: nobody knows whether it took effect")),
            },
            EventBody::RunNotice { message, .. } => self.aside(message),
            EventBody::RunFailed { run } => {
                let why = run
                    .error
                    .as_ref()
                    .map(|error| error.message.clone())
                    .unwrap_or_default();
                self.end_line();
                complain(&format!("the run failed: {why}"));
            }
            EventBody::RunCancelled { .. } => self.aside("stopped"),
            EventBody::RunInterrupted { run } => {
                let why = run
                    .stop
                    .as_ref()
                    .and_then(|stop| stop.detail.clone())
                    .unwrap_or_default();
                self.aside(&format!("interrupted: {why}"));
            }
            EventBody::MessageCompleted { .. } => self.end_line(),
            _ => {}
        }
    }

    /// Ends the line that is open.
    pub fn end_line(&mut self) {
        if std::mem::take(&mut self.is_in_line) {
            print("\n");
        }
    }

    fn aside(&mut self, text: &str) {
        self.end_line();
        let cells = crossterm::terminal::size().map_or(LINE_CELLS, |(columns, _)| usize::from(columns).max(10));
        notice(&one_line(text, cells));
    }
}
