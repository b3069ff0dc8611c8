//! Everything that this program writes. On a terminal, text of others is stripped of whatever could steer it; elsewhere it
//! goes out as it came.

mod inline;
mod live;
mod live_view;
mod markdown;
mod marks;
mod plain_view;
mod safe;
mod style;
mod table;
mod tool_line;
mod wrap;

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};

use talaria_text::cut::width;

use self::markdown::Markdown;
use self::style::{Colour, Line, Span, Style};
use self::wrap::Margin;
use crate::error::{Error, Result};
use crate::progress::Step;

pub(crate) use live_view::LiveView;
pub(crate) use plain_view::PlainView;
pub(crate) use safe::safe;

/// The mark before what a person says.
pub(crate) const PROMPT: &str = "› ";
/// Width where the terminal doesn't tell its own.
const DEFAULT_COLUMNS: usize = 80;
const DEFAULT_ROWS: usize = 24;

/// What shows a run to a person.
pub(crate) trait View {
    /// Shows what happened.
    fn step(&mut self, step: Step) -> Result<()>;
    /// Time has passed, or the terminal has another size.
    fn tick(&mut self) -> Result<()>;
    /// Whether there is no connection at the moment.
    fn connection(&mut self, is_lost: bool) -> Result<()>;
    /// What the person is typing.
    fn typed(&mut self, text: &str) -> Result<()>;
    /// Ends what is open, and gives the terminal back.
    fn close(&mut self) -> Result<()>;
}

/// The view for where standard output goes.
pub(crate) fn view(typing: Option<&'static str>) -> Box<dyn View> {
    if is_lively() {
        Box::new(LiveView::new(typing))
    } else {
        Box::new(PlainView::default())
    }
}

/// Whether colours and moving lines are wanted: all output goes to a terminal, and nobody said no.
pub(crate) fn is_lively() -> bool {
    std::io::stdout().is_terminal() && is_coloured()
}

/// Columns and rows of the terminal.
pub(crate) fn size() -> (usize, usize) {
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns.into(), rows.into()),
        _ => (DEFAULT_COLUMNS, DEFAULT_ROWS),
    }
}

/// Prints text of others to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    let text = if std::io::stdout().is_terminal() {
        safe(text)
    } else {
        Cow::Borrowed(text)
    };
    write_out(text.as_bytes())
}

/// Prints a line of JSON that the server sent.
pub(crate) fn print_json(line: &str) -> Result<()> {
    let line = if std::io::stdout().is_terminal() {
        safe::safe_json(line)
    } else {
        Cow::Borrowed(line)
    };
    write_out(format!("{line}\n").as_bytes())
}

fn write_out(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Error::Output)
}

/// Shows a whole text of Markdown: styled on a terminal that is lively, as it is elsewhere.
pub(crate) fn print_markdown(text: &str) -> Result<()> {
    if !is_lively() {
        return print(&format!("{text}\n"));
    }
    let (mut markdown, columns) = (Markdown::default(), size().0);
    let mut rows = markdown.push(&safe(text), columns);
    rows.extend(markdown.finish(columns));
    print_rows(&rows)
}

/// Shows again what a person said.
pub(crate) fn echo(text: &str) -> Result<()> {
    let text = text.trim_end();
    if !is_lively() {
        return print(&format!("{PROMPT}{}\n", text.replace('\n', "\n  ")));
    }
    let margin = Margin {
        first: vec![Span::new(PROMPT, Style::coloured(Colour::Green))],
        rest: vec![Span::new(" ".repeat(width(PROMPT)), Style::PLAIN)],
    };
    let (mut rows, mut before) = (Vec::new(), margin.clone());
    for line in safe(text).replace('\t', " ").lines() {
        rows.extend(wrap::wrap(&[Span::new(line, Style::PLAIN)], &before, size().0));
        before.first.clone_from(&margin.rest);
    }
    print_rows(&rows)
}

fn print_rows(rows: &[Line]) -> Result<()> {
    let text: String = rows.iter().map(|row| format!("{}\n", style::ansi(row))).collect();
    write_out(text.as_bytes())
}

/// Prints entries with their explanations, in two columns where the terminal is wide enough.
pub(crate) fn print_entries<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>, name_cells: usize) -> Result<()> {
    for (name, text) in entries {
        if !is_lively() {
            print(&format!("{name:<name_cells$} {text}\n"))?;
            continue;
        }
        let room = name_cells.max(width(name)) + 1;
        let columns = size().0;
        let hanging = if room * 2 > columns { 2 } else { room };
        let head = if room * 2 > columns {
            format!("{name} ")
        } else {
            format!("{name:<name_cells$} ")
        };
        let margin = Margin {
            first: Line::new(),
            rest: vec![Span::new(" ".repeat(hanging), Style::PLAIN)],
        };
        let body = [Span::new(head, Style::BOLD), Span::new(safe(text), Style::PLAIN)];
        print_rows(&wrap::wrap(&body, &margin, columns))?;
    }
    Ok(())
}

/// Says something beside the answer.
pub(crate) fn notice(text: &str) {
    aside(vec![Span::new(safe(text), Style::DIM)]);
}

/// Says what went wrong.
pub(crate) fn complain(text: &str) {
    let name = Span::new("talaria: ", Style::coloured(Colour::Red));
    aside(vec![name, Span::new(safe(text), Style::PLAIN)]);
}

/// Prints to standard error, in rows where it is a terminal.
fn aside(mut spans: Line) {
    if !is_coloured() {
        let text: String = spans.into_iter().map(|span| span.text).collect();
        return say(&format!("{text}\n"));
    }
    let mut rows = Vec::new();
    let last = spans.pop().unwrap_or_else(|| Span::new("", Style::PLAIN));
    for line in last.text.replace('\t', " ").lines() {
        let mut row = std::mem::take(&mut spans);
        row.push(Span::new(line, last.style));
        rows.extend(wrap::wrap(&row, &Margin::default(), size().0));
    }
    say(&rows.iter().map(|row| style::ansi(row) + "\n").collect::<String>());
}

fn say(text: &str) {
    // Where standard error is closed, there is nobody to tell.
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

/// Whether standard error takes colours.
pub(crate) fn is_coloured() -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let is_dumb = variable("TERM").is_some_and(|value| value == "dumb");
    std::io::stderr().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

fn variable(name: &str) -> Option<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "NO_COLOR and TERM are conventions of terminals, not configuration of ours"
    )]
    std::env::var(name).ok()
}
