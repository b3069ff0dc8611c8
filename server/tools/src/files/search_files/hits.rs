//! What is found in files, up to a limit.

use std::collections::VecDeque;
use std::path::Path;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use talaria_text::cut::{prefix_chars, suffix_chars};

use super::reader::{BoundedLines, Limits};
use super::{Next, OutputMode};
use crate::files::open_any_size;

const MAX_LINE_CHARS: usize = 500;
/// Letters shown before the hit in a longer line.
const CHARS_BEFORE: usize = 100;

/// The results of one page.
pub(super) struct Found {
    lines: Vec<String>,
    /// Results on this page; lines around them don't count.
    pub(super) count: usize,
    skip: usize,
    limit: usize,
    /// Whether there are more than the page holds.
    pub(super) has_more: bool,
    /// Whether a line was too long to be searched whole.
    pub(super) has_cut: bool,
}

enum Turn {
    NotYet,
    Now,
    NoMore,
}

impl Found {
    pub(super) fn new(skip: usize, limit: usize) -> Self {
        Self {
            lines: Vec::new(),
            count: 0,
            skip,
            limit,
            has_more: false,
            has_cut: false,
        }
    }

    /// Takes a result of one line.
    pub(super) fn row(&mut self, line: String) -> Next {
        match self.turn() {
            Turn::NotYet => Next::GoOn,
            Turn::NoMore => Next::Stop,
            Turn::Now => {
                self.lines.push(line);
                Next::GoOn
            }
        }
    }

    /// Whether the next result is on this page.
    fn turn(&mut self) -> Turn {
        if self.skip > 0 {
            self.skip -= 1;
            return Turn::NotYet;
        }
        if self.count == self.limit {
            self.has_more = true;
            return Turn::NoMore;
        }
        self.count += 1;
        Turn::Now
    }

    pub(super) fn text(&self) -> String {
        if self.lines.is_empty() {
            "nothing found".to_owned()
        } else {
            self.lines.join("\n")
        }
    }
}

/// How files are looked at.
pub(super) struct Look<'a> {
    matcher: &'a RegexMatcher,
    limits: &'a Limits,
    mode: OutputMode,
    context: usize,
}

impl<'a> Look<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, limits: &'a Limits, mode: OutputMode, context: usize) -> Self {
        let context = if mode == OutputMode::Content { context } else { 0 };
        Self {
            matcher,
            limits,
            mode,
            context,
        }
    }

    /// Looks at one file. One that can't be read is one that has nothing to show.
    pub(super) fn at_file(&self, path: &Path, shown: &str, found: &mut Found) -> Next {
        let Ok(file) = open_any_size(path) else {
            return Next::GoOn;
        };
        let mut lines = BoundedLines::new(file, self.limits);
        let mut hits = Hits {
            look: self,
            shown,
            found,
            next: Next::GoOn,
            before: VecDeque::new(),
            shows_after: false,
            last_shown: None,
            matching_lines: 0,
        };
        let searched = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .build()
            .search_reader(self.matcher, &mut lines, &mut hits);
        if let Err(error) = searched {
            tracing::debug!(error = %error, "a file was skipped: {error}");
        }
        let next = hits.end();
        found.has_cut |= lines.has_cut;
        next
    }
}

/// Takes the hits of one file.
struct Hits<'a> {
    look: &'a Look<'a>,
    shown: &'a str,
    found: &'a mut Found,
    next: Next,
    /// Lines before a hit that may be on this page.
    before: VecDeque<(u64, String)>,
    /// Whether the lines that follow stand behind a hit of this page.
    shows_after: bool,
    last_shown: Option<u64>,
    matching_lines: u64,
}

impl Hits<'_> {
    /// A file that counts as a whole.
    fn end(self) -> Next {
        let row = match self.look.mode {
            OutputMode::Content => return self.next,
            _ if self.matching_lines == 0 => return Next::GoOn,
            OutputMode::FilesWithMatches => self.shown.to_owned(),
            OutputMode::Count => format!("{}:{}", self.shown, self.matching_lines),
        };
        self.found.row(row)
    }

    fn show(&mut self, number: u64, line: String) {
        let follows = number
            .checked_sub(1)
            .is_some_and(|before| self.last_shown == Some(before));
        if self.look.context > 0 && !follows && !self.found.lines.is_empty() {
            self.found.lines.push("--".to_owned());
        }
        self.last_shown = Some(number);
        self.found.lines.push(line);
    }

    fn hit(&mut self, number: u64, bytes: &[u8]) -> bool {
        match self.found.turn() {
            Turn::NotYet => {
                self.before.clear();
                self.shows_after = false;
                true
            }
            Turn::NoMore => {
                self.next = Next::Stop;
                false
            }
            Turn::Now => {
                for (number, line) in std::mem::take(&mut self.before) {
                    self.show(number, line);
                }
                let line = excerpt(bytes, self.look.matcher);
                self.show(number, format!("{}:{number}:{line}", self.shown));
                self.shows_after = true;
                true
            }
        }
    }
}

impl Sink for Hits<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.matching_lines += 1;
        Ok(match self.look.mode {
            OutputMode::Content => self.hit(found.line_number().unwrap_or_default(), found.bytes()),
            OutputMode::FilesWithMatches => false,
            OutputMode::Count => true,
        })
    }

    fn context(&mut self, _searcher: &Searcher, around: &SinkContext<'_>) -> Result<bool, Self::Error> {
        let number = around.line_number().unwrap_or_default();
        let text = String::from_utf8_lossy(around.bytes());
        let line = prefix_chars(text.trim_end(), MAX_LINE_CHARS);
        let line = format!("{}-{number}-{line}", self.shown);
        if self.shows_after && *around.kind() == grep_searcher::SinkContextKind::After {
            self.show(number, line);
        } else {
            // Lines behind a hit of an earlier page may stand before one of this page.
            self.before.push_back((number, line));
            if self.before.len() > self.look.context {
                self.before.pop_front();
            }
        }
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, Self::Error> {
        self.before.clear();
        Ok(true)
    }
}

/// A line as it is shown; of a long one the part where the hit is.
fn excerpt(bytes: &[u8], matcher: &RegexMatcher) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.trim_end();
    let shown = prefix_chars(line, MAX_LINE_CHARS);
    if shown.len() == line.len() {
        return line.to_owned();
    }
    let hit = matcher.find(line.as_bytes()).ok().flatten();
    let at = hit.map_or(0, |hit| line.floor_char_boundary(hit.start()));
    let (before, after) = line.split_at(at);
    let lead = suffix_chars(before, CHARS_BEFORE);
    let rest = prefix_chars(after, MAX_LINE_CHARS - lead.chars().count());
    let mark = |is_cut: bool| if is_cut { "…" } else { "" };
    format!(
        "{}{lead}{rest}{}",
        mark(lead.len() < before.len()),
        mark(rest.len() < after.len())
    )
}
