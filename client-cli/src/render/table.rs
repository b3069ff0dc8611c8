//! Tables: aligned columns where they fit, else one line a cell.

use super::inline::inline;
use super::style::{Line, Span, Style};
use super::wrap::{Margin, line_width, wrap};

const BETWEEN: &str = "  ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Middle,
    Right,
}

struct Table {
    alignments: Vec<Align>,
    /// The heads first; every row has as many cells as there are heads.
    rows: Vec<Vec<Line>>,
    widths: Vec<usize>,
}

/// The rows of a terminal that show these lines; `None` when they are no table.
pub(crate) fn rows(lines: &[String], columns: usize) -> Option<Vec<Line>> {
    let table = Table::read(lines)?;
    let width = table.widths.iter().sum::<usize>() + BETWEEN.len() * table.widths.len().saturating_sub(1);
    Some(if width <= columns {
        table.aligned()
    } else {
        table.listed(columns)
    })
}

impl Table {
    fn read(lines: &[String]) -> Option<Self> {
        let (heads, rest) = lines.split_first()?;
        let (rule, body) = rest.split_first()?;
        let heads = cells(heads);
        let alignments: Vec<Align> = cells(rule).iter().map(|cell| alignment(cell)).collect::<Option<_>>()?;
        if alignments.len() != heads.len() {
            return None;
        }
        let styled = |row: Vec<String>, style| row.iter().map(|cell| inline(cell, style)).collect::<Vec<_>>();
        let mut rows = vec![styled(heads, Style::BOLD)];
        for line in body {
            let mut row = cells(line);
            // A row with more cells than heads keeps them all, in its last cell.
            let extra = row.split_off(row.len().min(alignments.len()));
            if let Some(last) = row.last_mut() {
                extra.iter().for_each(|cell| *last = joined(last, cell));
            }
            row.resize(alignments.len(), String::new());
            rows.push(styled(row, Style::PLAIN));
        }
        let widest = |index: usize| {
            rows.iter()
                .filter_map(|row| row.get(index))
                .map(|cell| line_width(cell))
                .max()
        };
        let widths = (0..alignments.len()).map(|index| widest(index).unwrap_or(0)).collect();
        Some(Self {
            alignments,
            rows,
            widths,
        })
    }

    fn aligned(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = self.rows.iter().map(|row| self.aligned_row(row)).collect();
        let rule = self.widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>();
        lines.insert(1, vec![Span::new(rule.join(BETWEEN), Style::DIM)]);
        lines
    }

    fn aligned_row(&self, row: &[Line]) -> Line {
        let mut line = Line::new();
        for ((cell, width), align) in row.iter().zip(&self.widths).zip(&self.alignments) {
            let missing = width - line_width(cell).min(*width);
            let before = match align {
                Align::Left => 0,
                Align::Middle => missing / 2,
                Align::Right => missing,
            };
            if !line.is_empty() {
                line.push(Span::new(BETWEEN, Style::PLAIN));
            }
            line.push(Span::new(" ".repeat(before), Style::PLAIN));
            line.extend(cell.iter().cloned());
            line.push(Span::new(" ".repeat(missing - before), Style::PLAIN));
        }
        while line.last().is_some_and(|span| span.text.trim().is_empty()) {
            line.pop();
        }
        line
    }

    /// For narrow terminals: each row as `head: cell` lines, rows apart.
    fn listed(&self, columns: usize) -> Vec<Line> {
        let Some((heads, body)) = self.rows.split_first() else {
            return Vec::new();
        };
        if body.is_empty() {
            let mut all = Line::new();
            for head in heads {
                all.extend(head.iter().cloned());
                all.push(Span::new(BETWEEN, Style::PLAIN));
            }
            return wrap(&all, &Margin::default(), columns);
        }
        let hanging = Margin {
            first: Line::new(),
            rest: Line::new(),
        };
        let mut lines = Vec::new();
        for (index, row) in body.iter().enumerate() {
            if index > 0 {
                lines.push(Line::new());
            }
            for (head, cell) in heads.iter().zip(row) {
                let mut line = head.clone();
                line.push(Span::new(": ", Style::PLAIN));
                line.extend(cell.iter().cloned());
                lines.extend(wrap(&line, &hanging, columns));
            }
        }
        lines
    }
}

fn joined(left: &str, right: &str) -> String {
    format!("{left} | {right}")
}

/// The cells of `| a | b |`; a pipe behind a backslash is a letter.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut is_escaped = false;
    for letter in line.chars() {
        match (letter, cells.last_mut()) {
            ('|', _) if !is_escaped => cells.push(String::new()),
            ('|', Some(cell)) => {
                cell.pop();
                cell.push('|');
            }
            (letter, Some(cell)) => cell.push(letter),
            (_, None) => {}
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    if cells.len() > 1 && cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// What `:--`, `:-:` and `--:` say; `None` for anything else.
fn alignment(cell: &str) -> Option<Align> {
    let dashes = cell.trim_start_matches(':').trim_end_matches(':');
    if dashes.is_empty() || !dashes.chars().all(|letter| letter == '-') {
        return None;
    }
    Some(match (cell.starts_with(':'), cell.ends_with(':')) {
        (true, true) => Align::Middle,
        (false, true) => Align::Right,
        _ => Align::Left,
    })
}
