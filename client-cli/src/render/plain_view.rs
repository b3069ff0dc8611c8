//! A run as plain lines: the answer to standard output, everything else to standard error.

use std::io::IsTerminal as _;

use talaria_text::cut::one_line;

use super::{View, notice, print, size, tool_line};
use crate::error::Result;
use crate::progress::{Call, Ending, Step, duration};

/// Shows a run where nothing may move.
#[derive(Debug, Default)]
pub(crate) struct PlainView {
    /// Whether the answer stands in a line that hasn't ended.
    is_in_line: bool,
    /// Whether it was said that the run is about to stop.
    is_stopping: bool,
    is_lost: bool,
}

impl View for PlainView {
    fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Say(text) => {
                self.is_in_line = !text.ends_with('\n');
                print(&text)
            }
            Step::EndOfMessage => self.end_line(),
            Step::ToolStarted(call) => self.aside(&format!("… {} {}", call.name, call.preview)),
            Step::ToolEnded(call, ending) => self.aside(&ended(&call, &ending)),
            Step::Notice(text) | Step::Sum(text) => self.aside(&text),
            Step::Waiting(_) => Ok(()),
            Step::Stopping if std::mem::replace(&mut self.is_stopping, true) => Ok(()),
            Step::Stopping => self.aside("stopping; Ctrl+C again leaves"),
            Step::Complaint(text) => {
                self.make_room()?;
                super::complain(&text);
                Ok(())
            }
        }
    }

    fn tick(&mut self) -> Result<()> {
        Ok(())
    }

    fn connection(&mut self, is_lost: bool) -> Result<()> {
        match (std::mem::replace(&mut self.is_lost, is_lost), is_lost) {
            (false, true) => self.aside("the connection is lost; trying again"),
            (true, false) => self.aside("connected again"),
            _ => Ok(()),
        }
    }

    fn typed(&mut self, _text: &str) -> Result<()> {
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.end_line()
    }
}

impl PlainView {
    fn end_line(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_in_line) {
            return print("\n");
        }
        Ok(())
    }

    /// Where both outputs go to one terminal, a notice doesn't begin in the middle of the answer. Elsewhere the answer must
    /// not be changed by it.
    fn make_room(&mut self) -> Result<()> {
        if std::io::stdout().is_terminal() {
            return self.end_line();
        }
        Ok(())
    }

    fn aside(&mut self, text: &str) -> Result<()> {
        self.make_room()?;
        notice(&one_line(text, size().0));
        Ok(())
    }
}

fn ended(call: &Call, ending: &Ending) -> String {
    let took = duration(ending.duration_ms);
    let words = tool_line::outcome_words(ending.status);
    let outcome = [words, ending.result.as_deref()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    let mut line = format!("{} {} ({took})", tool_line::mark(ending.status), call.name);
    if !outcome.is_empty() {
        line.push_str(&format!(" {}", outcome.join(": ")));
    }
    line
}
