//! A text as a tolerant comparison sees it, with the way back to its bytes.

use std::ops::Range;

/// What a comparison doesn't care about; each step also forgives what the ones before it do, but for [`Self::LookAlikes`],
/// which is strict about indentation again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tolerance {
    /// How lines end.
    LineEnds,
    /// White space at the ends of lines.
    Trailing,
    /// How much white space stands between words.
    Runs,
    /// Indentation, of whole lines.
    Indentation,
    /// Letters that look alike: curly quotes, dashes, spaces that don't break.
    LookAlikes,
    /// All of it, of whole lines.
    Everything,
}

impl Tolerance {
    /// The ladder, from the strictest step on.
    pub(super) const LADDER: [Self; 6] = [
        Self::LineEnds,
        Self::Trailing,
        Self::Runs,
        Self::Indentation,
        Self::LookAlikes,
        Self::Everything,
    ];

    /// Whether indentation doesn't count; then only whole lines fit.
    pub(super) fn forgives_indentation(self) -> bool {
        matches!(self, Self::Indentation | Self::Everything)
    }

    fn is_blank(self, letter: char) -> bool {
        letter == ' ' || letter == '\t' || (self >= Self::LookAlikes && letter != '\n' && letter.is_whitespace())
    }

    /// What a letter counts as, where that is not itself.
    fn look_alike(self, letter: char) -> Option<&'static str> {
        if self < Self::LookAlikes {
            return None;
        }
        match letter {
            '\u{2018}'..='\u{201b}' | '\u{2032}' => Some("'"),
            '\u{201c}'..='\u{201f}' | '\u{2033}' => Some("\""),
            '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' => Some("-"),
            '\u{2026}' => Some("..."),
            // They have no width.
            '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => Some(""),
            blank if blank != '\t' && self.is_blank(blank) => Some(" "),
            _ => None,
        }
    }
}

/// A piece of the view and the bytes that it stands for.
#[derive(Debug)]
struct Segment {
    at: usize,
    of: Range<usize>,
    /// Whether it is the bytes themselves, so that a passage may begin and end inside of it.
    is_verbatim: bool,
}

/// The view.
#[derive(Debug)]
pub(super) struct View {
    text: String,
    segments: Vec<Segment>,
    tolerance: Tolerance,
}

impl View {
    pub(super) fn new(text: &str, tolerance: Tolerance) -> Self {
        let mut view = Self {
            text: String::with_capacity(text.len()),
            segments: Vec::new(),
            tolerance,
        };
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            view.push_line(line, at);
            at += line.len();
        }
        view
    }

    /// What it reads.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn push_line(&mut self, line: &str, at: usize) {
        let whole = line.strip_suffix('\n').unwrap_or(line);
        let has_end = whole.len() < line.len();
        let mut body = if has_end {
            whole.strip_suffix('\r').unwrap_or(whole)
        } else {
            whole
        };
        let end_at = body.len();
        if self.tolerance >= Tolerance::Trailing {
            body = body.trim_end();
        }
        self.push_body(body, at);
        if has_end {
            let end = at + end_at..at + line.len();
            let is_verbatim = end.len() == 1;
            self.push("\n", end, is_verbatim);
        }
    }

    fn push_body(&mut self, body: &str, at: usize) {
        let tolerance = self.tolerance;
        let indented = body.trim_start_matches(|letter| tolerance.is_blank(letter));
        let begin = body.len() - indented.len();
        let mut run: Option<Range<usize>> = None;
        for (offset, letter) in body.char_indices() {
            let of = at + offset..at + offset + letter.len_utf8();
            if offset < begin && tolerance.forgives_indentation() {
                continue;
            }
            if offset >= begin && tolerance >= Tolerance::Runs && tolerance.is_blank(letter) {
                run = Some(run.map_or(of.clone(), |run| run.start..of.end));
                continue;
            }
            self.push_run(run.take(), body, at);
            match tolerance.look_alike(letter) {
                Some(other) => self.push(other, of, false),
                None => self.push(letter.encode_utf8(&mut [0; 4]), of, true),
            }
        }
        self.push_run(run, body, at);
    }

    fn push_run(&mut self, run: Option<Range<usize>>, body: &str, at: usize) {
        if let Some(run) = run {
            let is_space = body.get(run.start - at..run.end - at) == Some(" ");
            self.push(" ", run, is_space);
        }
    }

    fn push(&mut self, text: &str, of: Range<usize>, is_verbatim: bool) {
        match self.segments.last_mut() {
            Some(last) if is_verbatim && last.is_verbatim && last.of.end == of.start => last.of.end = of.end,
            _ => self.segments.push(Segment {
                at: self.text.len(),
                of,
                is_verbatim,
            }),
        }
        self.text.push_str(text);
    }

    /// Where `wanted` (as such a view reads) stands, as ranges of the text's own bytes that don't overlap.
    pub(super) fn places(&self, wanted: &str, original: &str, whole_lines: bool) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        let mut from = 0;
        while let Some(found) = self.text.get(from..).and_then(|rest| rest.find(wanted)) {
            let at = from + found..from + found + wanted.len();
            let place = self.original(&at, original);
            match place.filter(|_| self.fits(&at, whole_lines)) {
                Some(place) => {
                    places.push(place);
                    from = at.end.max(at.start + 1);
                }
                None => from = self.text.ceil_char_boundary(at.start + 1),
            }
        }
        places
    }

    fn fits(&self, at: &Range<usize>, whole_lines: bool) -> bool {
        let is_loose = self.tolerance.forgives_indentation();
        if !whole_lines && !is_loose {
            return true;
        }
        let bytes = self.text.as_bytes();
        let is_end = |index: usize| bytes.get(index).is_none_or(|byte| *byte == b'\n');
        let begins = at.start.checked_sub(1).is_none_or(is_end);
        // A passage may begin with the end of the line before it.
        let begins = begins || (!whole_lines && is_end(at.start));
        begins && (is_end(at.end) || at.end.checked_sub(1).is_some_and(is_end))
    }

    /// The bytes behind a range of the view: with the indentation and the white space at the end that the view left out.
    fn original(&self, at: &Range<usize>, original: &str) -> Option<Range<usize>> {
        let mut start = self.start(at.start)?;
        let mut end = self.end(at.end)?;
        let begins_with_end = self.text.as_bytes().get(at.start) == Some(&b'\n');
        if self.tolerance.forgives_indentation() && !begins_with_end {
            let before = original.get(..start)?;
            start = before.rfind('\n').map_or(0, |newline| newline + 1);
        }
        let ends_line = self.text.as_bytes().get(at.end).is_none_or(|byte| *byte == b'\n');
        let has_end = self.text.get(..at.end)?.ends_with('\n');
        if self.tolerance >= Tolerance::Trailing && ends_line && !has_end {
            let rest = original.get(end..)?;
            let line = rest
                .find('\n')
                .map_or(rest, |newline| rest.get(..newline).unwrap_or(rest));
            let line = if line.len() < rest.len() {
                line.strip_suffix('\r').unwrap_or(line)
            } else {
                line
            };
            end += line.len();
        }
        Some(start..end)
    }

    fn segment(&self, at: usize) -> Option<&Segment> {
        let index = self.segments.partition_point(|segment| segment.at <= at);
        self.segments.get(index.checked_sub(1)?)
    }

    fn start(&self, at: usize) -> Option<usize> {
        // Letters that count as nothing have a segment of their own at the same place: the last one holds the letter.
        let segment = self.segment(at)?;
        match at - segment.at {
            0 => Some(segment.of.start),
            inside if segment.is_verbatim => Some(segment.of.start + inside),
            _ => None,
        }
    }

    fn end(&self, at: usize) -> Option<usize> {
        let segment = self.segment(at.checked_sub(1)?)?;
        let next = self.segments.partition_point(|other| other.at < at);
        let is_whole = self
            .segments
            .get(next)
            .map_or(at == self.text.len(), |other| other.at == at);
        if segment.is_verbatim {
            Some(segment.of.start + (at - segment.at))
        } else {
            is_whole.then_some(segment.of.end)
        }
    }
}
