//! How a call of a tool looks: in one row, always.

use std::time::Duration;

use talaria_openapi::events::ToolStatus;
use talaria_text::cut::{one_line, width};

use super::safe::safe;
use super::style::{Colour, Line, Span, Style};
use crate::progress::{Call, Ending, duration};

/// One turn of the spinner takes a second.
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME: Duration = Duration::from_millis(100);

/// The spinner's picture after a time.
pub(crate) fn spinner(elapsed: Duration) -> &'static str {
    let index = elapsed.as_millis() / FRAME.as_millis();
    usize::try_from(index)
        .ok()
        .and_then(|index| FRAMES.get(index % FRAMES.len()))
        .unwrap_or(&"·")
}

/// A call that works.
pub(crate) fn working(call: &Call, elapsed: Duration, columns: usize) -> Line {
    let mark = Span::new(spinner(elapsed), Style::coloured(Colour::Cyan));
    // Whole seconds: a number that changes with every frame can't be read.
    let time = format!("{} s", elapsed.as_secs());
    row(mark, &call.name, &call.preview, &time, columns)
}

/// A call that is over.
pub(crate) fn ended(call: &Call, ending: &Ending, columns: usize) -> Line {
    let colour = if ending.status == ToolStatus::Completed {
        Colour::Green
    } else {
        Colour::Red
    };
    let mark = Span::new(mark(ending.status), Style::coloured(colour));
    row(mark, &call.name, &call.preview, &duration(ending.duration_ms), columns)
}

/// What a call gave, below its line; nothing when it gave nothing.
pub(crate) fn outcome(ending: &Ending, columns: usize) -> Option<Line> {
    let text = match (outcome_words(ending.status), &ending.result) {
        (Some(words), Some(result)) => format!("{words}: {result}"),
        (Some(words), None) => words.to_owned(),
        (None, Some(result)) => result.clone(),
        (None, None) => return None,
    };
    let text = one_line(&safe(&text), columns.saturating_sub(2));
    Some(vec![Span::new(format!("  {text}"), Style::DIM)])
}

pub(crate) fn mark(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Completed => "✓",
        ToolStatus::Failed | ToolStatus::Declined | ToolStatus::Cancelled => "✗",
        ToolStatus::UnknownOutcome => "?",
    }
}

/// What became of a call, where its mark doesn't say it.
pub(crate) fn outcome_words(status: ToolStatus) -> Option<&'static str> {
    match status {
        ToolStatus::Completed => None,
        ToolStatus::Failed => Some("failed"),
        ToolStatus::Declined => Some("refused"),
        ToolStatus::Cancelled => Some("stopped"),
        ToolStatus::UnknownOutcome => Some("nobody knows whether it took effect"),
    }
}

/// `mark name preview  time`; the preview gets what room is left.
fn row(mark: Span, name: &str, preview: &str, time: &str, columns: usize) -> Line {
    let name = one_line(&safe(name), columns.saturating_sub(2));
    let taken = width(&mark.text) + 1 + width(&name) + 1 + 2 + width(time);
    let mut line = vec![mark, Span::new(" ", Style::PLAIN), Span::new(name, Style::BOLD)];
    if let Some(room) = columns.checked_sub(taken) {
        let preview = one_line(&safe(preview), room);
        if !preview.is_empty() {
            line.push(Span::new(format!(" {preview}"), Style::PLAIN));
        }
        line.push(Span::new(format!("  {time}"), Style::DIM));
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::render::style::letters;
    use crate::render::wrap::line_width;

    fn call(preview: &str) -> Call {
        Call {
            id: "1".to_owned(),
            name: "read_file".to_owned(),
            preview: preview.to_owned(),
        }
    }

    #[test]
    fn a_call_turns_and_ends() {
        let working = working(&call("notes.txt"), Duration::from_millis(3_250), 40);
        assert_eq!(letters(&working), "⠹ read_file notes.txt  3 s");
        let ending = Ending {
            status: ToolStatus::Failed,
            duration_ms: 12,
            result: Some("no such file\u{1b}[2J".to_owned()),
        };
        assert_eq!(
            letters(&ended(&call("notes.txt"), &ending, 40)),
            "✗ read_file notes.txt  12 ms"
        );
        assert_eq!(letters(&outcome(&ending, 40).unwrap()), "  failed: no such file[2J");
    }

    proptest! {
        #[test]
        fn k2_a_call_is_one_row(preview: String, columns in 3_usize..100) {
            let ending = Ending { status: ToolStatus::Completed, duration_ms: 61_000, result: Some(preview.clone()) };
            prop_assert!(line_width(&working(&call(&preview), Duration::ZERO, columns)) <= columns);
            prop_assert!(line_width(&ended(&call(&preview), &ending, columns)) <= columns);
            prop_assert!(outcome(&ending, columns).is_none_or(|line| line_width(&line) <= columns));
        }
    }
}
