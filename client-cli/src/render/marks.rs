//! The marks at the beginning of a line of Markdown: quotes, indentation, items of lists.

/// A line, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks<'a> {
    /// How many quotes it stands in.
    pub(crate) quotes: usize,
    /// Spaces before the text.
    pub(crate) indent: usize,
    /// The mark of a list's item as it is shown, with its space.
    pub(crate) item: Option<String>,
    /// What is left.
    pub(crate) text: &'a str,
}

impl<'a> Marks<'a> {
    pub(crate) fn read(line: &'a str) -> Self {
        let mut quotes = 0;
        let mut rest = line;
        while let Some(inner) = strip_quotes(rest, 1) {
            quotes += 1;
            rest = inner;
        }
        let text = rest.trim_start_matches(' ');
        let indent = rest.chars().count() - text.chars().count();
        let mut marks = Self {
            quotes,
            indent,
            item: None,
            text,
        };
        if let Some((item, text)) = bullet(text).or_else(|| number(text)).filter(|_| !marks.is_rule()) {
            (marks.item, marks.text) = (Some(item), text);
        }
        marks
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.text.is_empty() && self.quotes == 0 && self.item.is_none()
    }

    pub(crate) fn is_table_row(&self) -> bool {
        self.quotes == 0 && self.item.is_none() && self.text.starts_with('|') && self.text.chars().count() > 1
    }

    /// `---`, `***` or `___`.
    pub(crate) fn is_rule(&self) -> bool {
        let marks: String = self.text.chars().filter(|letter| *letter != ' ').collect();
        let is_all = |mark| marks.chars().all(|letter| letter == mark);
        marks.chars().count() >= 3 && (is_all('-') || is_all('*') || is_all('_'))
    }

    /// The level of a heading, and its text.
    pub(crate) fn heading(&self) -> Option<(usize, &'a str)> {
        let text = self.text.trim_start_matches('#');
        let level = self.text.chars().count() - text.chars().count();
        let is_heading = (1..=6).contains(&level) && (text.is_empty() || text.starts_with(' '));
        // Marks may stand at the end too, behind a space.
        let text = text.trim();
        let title = text.trim_end_matches('#');
        let title = if title.is_empty() || title.ends_with(' ') {
            title.trim_end()
        } else {
            text
        };
        is_heading.then_some((level, title))
    }
}

/// A line without the marks of so many quotes; `None` when it doesn't stand in so many.
pub(crate) fn strip_quotes(line: &str, count: usize) -> Option<&str> {
    let mut rest = line;
    for _ in 0..count {
        let inner = rest.trim_start_matches(' ').strip_prefix('>')?;
        rest = inner.strip_prefix(' ').unwrap_or(inner);
    }
    Some(rest)
}

fn bullet(text: &str) -> Option<(String, &str)> {
    let rest = text.strip_prefix(['-', '*', '+'])?;
    let rest = if rest.is_empty() {
        rest
    } else {
        rest.strip_prefix(' ')?.trim_start()
    };
    for (box_of, shown) in [("[ ] ", "☐ "), ("[x] ", "☑ "), ("[X] ", "☑ ")] {
        if let Some(rest) = rest.strip_prefix(box_of) {
            return Some((shown.to_owned(), rest));
        }
    }
    Some(("• ".to_owned(), rest))
}

fn number(text: &str) -> Option<(String, &str)> {
    let rest = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    let end = rest.chars().next().filter(|end| ['.', ')'].contains(end))?;
    let rest = rest.strip_prefix(end)?.strip_prefix(' ')?.trim_start();
    // Longer ones are no numbers of items (CommonMark has the same limit).
    (1..=9)
        .contains(&digits.len())
        .then(|| (format!("{digits}{end} "), rest))
}
