//! A run on a terminal: finished lines go up, and at the bottom moves what isn't finished.

use std::io::Stdout;
use std::time::{Duration, Instant};

use talaria_text::cut::{one_line, width};

use super::live::Live;
use super::markdown::Markdown;
use super::safe::safe;
use super::style::{Colour, Line, Span, Style};
use super::wrap::{Margin, chop, wrap};
use super::{PROMPT, View, size, tool_line};
use crate::error::{Error, Result};
use crate::progress::{Call, Step};

/// Least time between two pictures of a line that grows.
const FRAME: Duration = Duration::from_millis(30);
/// Most rows of calls that work.
const MAX_CALLS: usize = 4;
/// Most rows of what the person is typing.
const MAX_TYPED: usize = 3;

/// Which kind of line came last: different kinds stand apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Prompt,
    Text,
    Aside,
}

/// Shows a run on a terminal.
pub(crate) struct LiveView {
    live: Live<Stdout>,
    markdown: Markdown,
    calls: Vec<(Call, Instant)>,
    typed: String,
    /// Whether the person can write messages meanwhile: then this is a part of a conversation.
    typing: Option<&'static str>,
    is_stopping: bool,
    is_lost: bool,
    /// The place in the session's queue.
    place: Option<u32>,
    began: Instant,
    last: Last,
    columns: usize,
    painted_at: Option<Instant>,
}

impl LiveView {
    pub(crate) fn new(typing: Option<&'static str>) -> Self {
        Self {
            live: Live::new(std::io::stdout()),
            markdown: Markdown::default(),
            calls: Vec::new(),
            typed: String::new(),
            typing,
            is_stopping: false,
            is_lost: false,
            place: None,
            began: Instant::now(),
            // What the person said stands above.
            last: if typing.is_some() { Last::Prompt } else { Last::Nothing },
            columns: size().0,
            painted_at: None,
        }
    }

    fn paint(&mut self, staying: &[Line]) -> Result<()> {
        let (columns, rows) = size();
        if columns != std::mem::replace(&mut self.columns, columns) {
            self.live.invalidate();
        }
        self.painted_at = Some(Instant::now());
        let moving = self.moving(columns, rows);
        self.live.paint(staying, &moving).map_err(Error::Output)
    }

    fn moving(&self, columns: usize, rows: usize) -> Vec<Line> {
        let mut below: Vec<Line> = Vec::new();
        for (call, since) in self.calls.iter().take(MAX_CALLS) {
            below.push(tool_line::working(call, since.elapsed(), columns));
        }
        if let Some(more) = self.calls.len().checked_sub(MAX_CALLS).filter(|more| *more > 0) {
            let text = one_line(&format!("and {more} more"), columns.saturating_sub(2));
            below.push(vec![Span::new(format!("  {text}"), Style::DIM)]);
        }
        below.push(self.status(columns));
        below.extend(self.typing(columns));
        let mut tail = self.markdown.tail(columns);
        if !tail.is_empty() && self.is_apart(Last::Text) {
            tail.insert(0, Line::new());
        }
        // The screen must hold all of it, or its first row can't be reached again.
        let room = rows.saturating_sub(below.len() + 1);
        let mut moving = tail.split_off(tail.len().saturating_sub(room));
        moving.extend(below);
        moving.split_off(moving.len().saturating_sub(rows.saturating_sub(1).max(1)))
    }

    fn status(&self, columns: usize) -> Line {
        let elapsed = self.began.elapsed();
        let hint = match (self.is_lost, self.is_stopping, self.typing) {
            (true, ..) => " · no connection, trying again",
            (_, true, _) => " · stopping, Ctrl+C leaves",
            (.., Some(does)) => &format!(" · Ctrl+C stops, typing {does}"),
            (.., None) => " · Ctrl+C stops",
        };
        let place = self
            .place
            .map_or_else(String::new, |place| format!("waits, place {place} · "));
        let text = one_line(
            &format!("{place}{} s{hint}", elapsed.as_secs()),
            columns.saturating_sub(2),
        );
        vec![
            Span::new(
                format!("{} ", tool_line::spinner(elapsed)),
                Style::coloured(Colour::Cyan),
            ),
            Span::new(text, Style::DIM),
        ]
    }

    fn typing(&self, columns: usize) -> Vec<Line> {
        if self.typed.is_empty() {
            return Vec::new();
        }
        let text = safe(&self.typed).replace('\n', " ⏎ ").replace('\t', " ");
        let body = [
            Span::new(text, Style::PLAIN),
            Span::new(
                " ",
                Style {
                    reverse: true,
                    ..Style::PLAIN
                },
            ),
        ];
        let margin = Margin {
            first: vec![Span::new(PROMPT, Style::coloured(Colour::Green))],
            rest: vec![Span::new(" ".repeat(width(PROMPT)), Style::PLAIN)],
        };
        let mut rows = chop(&body, &margin, columns);
        rows.split_off(rows.len().saturating_sub(MAX_TYPED))
    }

    /// Lines of a kind, apart from those of the other.
    fn apart(&mut self, kind: Last, lines: Vec<Line>) -> Vec<Line> {
        if lines.is_empty() {
            return lines;
        }
        let gap = self.is_apart(kind).then(Line::new);
        self.last = kind;
        gap.into_iter().chain(lines).collect()
    }

    fn is_apart(&self, kind: Last) -> bool {
        self.last != kind && self.last != Last::Nothing
    }

    fn aside(&mut self, text: &str, style: Style) -> Vec<Line> {
        let text = safe(text).replace(['\n', '\t'], " ");
        let rows = wrap(&[Span::new(text, style)], &Margin::default(), self.columns);
        self.apart(Last::Aside, rows)
    }
}

impl View for LiveView {
    fn step(&mut self, step: Step) -> Result<()> {
        let columns = size().0;
        let staying = match step {
            Step::Say(text) => {
                let rows = self.markdown.push(&safe(&text), columns);
                self.apart(Last::Text, rows)
            }
            Step::EndOfMessage => {
                let rows = self.markdown.finish(columns);
                self.apart(Last::Text, rows)
            }
            Step::ToolStarted(call) => {
                self.calls.push((call, Instant::now()));
                Vec::new()
            }
            Step::ToolEnded(call, ending) => {
                self.calls.retain(|(other, _)| other.id != call.id);
                let mut rows = vec![tool_line::ended(&call, &ending, columns)];
                rows.extend(tool_line::outcome(&ending, columns));
                self.apart(Last::Aside, rows)
            }
            Step::Waiting(place) => {
                self.place = place;
                Vec::new()
            }
            Step::Stopping => {
                self.is_stopping = true;
                Vec::new()
            }
            Step::Notice(text) => self.aside(&text, Style::DIM),
            Step::Complaint(text) => self.aside(&text, Style::coloured(Colour::Red)),
            Step::Sum(text) => {
                let mut rows = self.aside(&text, Style::DIM);
                rows.push(Line::new());
                rows
            }
        };
        // The tick shows what is left out here.
        let is_fresh = self.painted_at.is_some_and(|at| at.elapsed() < FRAME);
        if staying.is_empty() && is_fresh {
            return Ok(());
        }
        self.paint(&staying)
    }

    fn tick(&mut self) -> Result<()> {
        self.paint(&[])
    }

    fn connection(&mut self, is_lost: bool) -> Result<()> {
        self.is_lost = is_lost;
        Ok(())
    }

    fn typed(&mut self, text: &str) -> Result<()> {
        text.clone_into(&mut self.typed);
        self.paint(&[])
    }

    fn close(&mut self) -> Result<()> {
        let rows = self.markdown.finish(self.columns);
        let rows = self.apart(Last::Text, rows);
        if !rows.is_empty() {
            self.live.paint(&rows, &[]).map_err(Error::Output)?;
        }
        self.live.close().map_err(Error::Output)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::render::wrap::line_width;

    proptest! {
        #[test]
        fn k2_what_moves_fits_the_screen(
            said in "[a-z你🙂 |`*\n]{0,300}",
            typed in "[a-z你 \n\t]{0,200}",
            calls in 0_usize..8,
            columns in 8_usize..60,
            rows in 2_usize..24,
        ) {
            let mut view = LiveView::new(Some("queues"));
            view.markdown.push(&said, columns);
            view.typed = typed;
            let call = |id: usize| Call { id: id.to_string(), name: "read_file".to_owned(), preview: "你好 ".repeat(20) };
            view.calls = (0..calls).map(|id| (call(id), Instant::now())).collect();
            let moving = view.moving(columns, rows);
            prop_assert!(!moving.is_empty() && moving.len() < rows, "{} of {rows} rows", moving.len());
            prop_assert!(moving.iter().all(|line| line_width(line) <= columns), "{:?}", moving);
        }
    }
}
