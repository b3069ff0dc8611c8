//! Markdown as it streams in. A terminal shows lines, so a line is the unit: each is shown for good when it ends, and only the
//! one that is still open (or a table) is shown again and again. What was shown therefore never depends on how the text was
//! cut into deltas, and never has to be taken back.
//!
//! The price: marks that begin in one line and end in another stay visible as they were written.

use super::inline::inline;
use super::marks::{Marks, strip_quotes};
use super::style::{Line, Span, Style};
use super::table;
use super::wrap::{Margin, chop, wrap};

/// Cells in front of code.
const CODE_INDENT: &str = "  ";
const TAB: &str = "    ";
const MIN_FENCE: usize = 3;

/// A message that is being said.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    /// The line that has not ended.
    open: String,
    blocks: Blocks,
}

/// What lines that ended have to do with those to come.
#[derive(Debug, Clone, Default)]
struct Blocks {
    fence: Option<Fence>,
    /// Rows of a table whose end was not seen.
    table: Vec<String>,
    /// Whether an empty line is due before the next one: there is none at the beginning, at the end, or after another.
    is_gap_due: bool,
    has_begun: bool,
}

#[derive(Debug, Clone)]
struct Fence {
    mark: char,
    length: usize,
    /// Code behind it is indented as much as the fence is.
    indent: usize,
    quotes: usize,
}

impl Markdown {
    /// Takes a piece; gives the rows that are final.
    pub(crate) fn push(&mut self, text: &str, columns: usize) -> Vec<Line> {
        self.open.push_str(text);
        let Some((ended, open)) = self.open.rsplit_once('\n') else {
            return Vec::new();
        };
        let (ended, open) = (ended.to_owned(), open.to_owned());
        self.open = open;
        ended
            .split('\n')
            .flat_map(|line| self.blocks.line(line, columns))
            .collect()
    }

    /// How what is open looks now.
    pub(crate) fn tail(&self, columns: usize) -> Vec<Line> {
        let mut blocks = self.blocks.clone();
        blocks.rest(&self.open, columns)
    }

    /// The message is over: gives the rows that are left, and is ready for the next one.
    pub(crate) fn finish(&mut self, columns: usize) -> Vec<Line> {
        let rows = self.blocks.rest(&self.open, columns);
        *self = Self::default();
        rows
    }
}

impl Blocks {
    fn rest(&mut self, open: &str, columns: usize) -> Vec<Line> {
        let mut rows = if open.is_empty() {
            Vec::new()
        } else {
            self.line(open, columns)
        };
        rows.extend(self.end_table(columns));
        rows
    }

    fn line(&mut self, text: &str, columns: usize) -> Vec<Line> {
        let text = text.trim_end().replace('\t', TAB);
        if let Some(fence) = self.fence.clone() {
            match strip_quotes(&text, fence.quotes) {
                Some(code) if fence.ends_at(code) => {
                    self.fence = None;
                    return Vec::new();
                }
                Some(code) => return fence.rows(code, columns),
                // The quote that the code stood in is over, and with it the code.
                None => self.fence = None,
            }
        }
        let marks = Marks::read(&text);
        if marks.is_table_row() {
            self.table.push(text);
            return Vec::new();
        }
        let mut rows = self.end_table(columns);
        rows.extend(self.block(&marks, columns));
        rows
    }

    fn block(&mut self, marks: &Marks<'_>, columns: usize) -> Vec<Line> {
        if let Some(fence) = Fence::begins(marks) {
            let language = marks.text.trim_matches(fence.mark).trim().to_owned();
            self.fence = Some(fence);
            let name = vec![Span::new(format!("{CODE_INDENT}{language}"), Style::DIM)];
            let rows = if language.is_empty() { Vec::new() } else { vec![name] };
            return self.after_gap(rows);
        }
        if marks.is_blank() {
            self.is_gap_due = self.has_begun;
            return Vec::new();
        }
        self.after_gap(plain_block(marks, columns))
    }

    fn after_gap(&mut self, rows: Vec<Line>) -> Vec<Line> {
        self.has_begun = true;
        let gap = std::mem::take(&mut self.is_gap_due).then(Line::new);
        gap.into_iter().chain(rows).collect()
    }

    fn end_table(&mut self, columns: usize) -> Vec<Line> {
        let rows = std::mem::take(&mut self.table);
        if rows.is_empty() {
            return Vec::new();
        }
        let shown = table::rows(&rows, columns).unwrap_or_else(|| {
            rows.iter()
                .flat_map(|row| wrap(&inline(row, Style::PLAIN), &Margin::default(), columns))
                .collect()
        });
        self.after_gap(shown)
    }
}

impl Fence {
    fn begins(marks: &Marks<'_>) -> Option<Self> {
        let mark = marks.text.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
        let length = marks.text.chars().take_while(|letter| *letter == mark).count();
        let info = marks.text.trim_start_matches(mark);
        (length >= MIN_FENCE && !info.contains('`') && marks.item.is_none()).then_some(Self {
            mark,
            length,
            indent: marks.indent,
            quotes: marks.quotes,
        })
    }

    fn ends_at(&self, line: &str) -> bool {
        let line = line.trim();
        line.chars().count() >= self.length && line.chars().all(|letter| letter == self.mark)
    }

    fn rows(&self, code: &str, columns: usize) -> Vec<Line> {
        let spaces = code.chars().take_while(|letter| *letter == ' ').count();
        let code: String = code.chars().skip(spaces.min(self.indent)).collect();
        let mut before = quote_bars(self.quotes);
        before.push(Span::new(CODE_INDENT, Style::PLAIN));
        let margin = Margin {
            first: before.clone(),
            rest: before,
        };
        chop(&[Span::new(code, Style::CODE)], &margin, columns)
    }
}

fn quote_bars(quotes: usize) -> Line {
    if quotes == 0 {
        return Line::new();
    }
    vec![Span::new("│ ".repeat(quotes), Style::DIM)]
}

/// Headings, rules, items of lists, and text.
fn plain_block(marks: &Marks<'_>, columns: usize) -> Vec<Line> {
    let bars = quote_bars(marks.quotes);
    let indent = " ".repeat(marks.indent.min(columns / 4));
    let before = |text: String, style| {
        let mut line = bars.clone();
        if !text.is_empty() {
            line.push(Span::new(text, style));
        }
        line
    };
    if marks.is_rule() && marks.item.is_none() {
        let width = columns.saturating_sub(2 * marks.quotes).max(1);
        return vec![before("─".repeat(width), Style::DIM)];
    }
    let (body, margin) = match (&marks.item, marks.heading()) {
        (Some(item), _) => {
            let hanging = " ".repeat(talaria_text::cut::width(item));
            let margin = Margin {
                first: before(format!("{indent}{item}"), Style::PLAIN),
                rest: before(format!("{indent}{hanging}"), Style::PLAIN),
            };
            (inline(marks.text, Style::PLAIN), margin)
        }
        (None, Some((level, text))) => {
            let style = Style {
                underline: level == 1,
                ..Style::BOLD
            };
            (inline(text, style), same(before(indent, Style::PLAIN)))
        }
        (None, None) => (inline(marks.text, Style::PLAIN), same(before(indent, Style::PLAIN))),
    };
    wrap(&body, &margin, columns)
}

fn same(line: Line) -> Margin {
    Margin {
        first: line.clone(),
        rest: line,
    }
}

#[cfg(test)]
mod tests;
