//! Markdown inside a line: bold, italic, struck, code, links.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::safe::safe;
use super::style::{Span, Style};

/// The styled pieces of one line of Markdown, whose block marks are taken off already.
pub(crate) fn inline(text: &str, base: Style) -> Vec<Span> {
    // An escaped full stop in front makes any line a paragraph: what looks like a block's mark is text here. It is
    // punctuation, so that it changes nothing of how the marks behind it are read.
    let guarded = format!("\\.{text}");
    let mut line = Inline {
        spans: Vec::new(),
        styles: vec![base],
        links: Vec::new(),
    };
    for event in Parser::new_ext(&guarded, Options::ENABLE_STRIKETHROUGH) {
        line.take(event);
    }
    line.drop_guard();
    line.spans
}

struct Inline {
    spans: Vec<Span>,
    /// The style of the text, innermost last; never empty.
    styles: Vec<Style>,
    /// Where open links go, and where their text begins among the spans.
    links: Vec<(String, usize)>,
}

impl Inline {
    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.open(tag),
            Event::End(tag) => self.close(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.push(&text, self.style()),
            Event::Code(text) => {
                let style = Style {
                    colour: Style::CODE.colour,
                    ..self.style()
                };
                self.push(&text, style);
            }
            Event::SoftBreak | Event::HardBreak => self.push(" ", self.style()),
            // Extensions that are off.
            _ => {}
        }
    }

    fn push(&mut self, text: &str, style: Style) {
        // What was written as an entity (`&#27;`) is a letter only now.
        let text = safe(text);
        match self.spans.last_mut() {
            Some(span) if span.style == style => span.text.push_str(&text),
            _ => self.spans.push(Span::new(text, style)),
        }
    }

    fn open(&mut self, tag: Tag<'_>) {
        let mut style = self.style();
        match tag {
            Tag::Strong => style.bold = true,
            Tag::Emphasis => style.italic = true,
            Tag::Strikethrough => style.strike = true,
            Tag::Link { dest_url, .. } => {
                style.underline = true;
                self.begin_link(&dest_url);
            }
            Tag::Image { dest_url, .. } => self.begin_link(&dest_url),
            _ => return,
        }
        self.styles.push(style);
    }

    fn begin_link(&mut self, address: &str) {
        // The link's text is a span of its own, so that it can be told from what stands before it.
        self.links.push((address.to_owned(), self.spans.len()));
        self.spans.push(Span::new("", Style::PLAIN));
    }

    fn close(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                self.end_link();
            }
            _ => {}
        }
    }

    /// Where a link goes is always seen: its text may claim something else.
    fn end_link(&mut self) {
        let Some((address, from)) = self.links.pop() else {
            return;
        };
        let text: String = self.spans.iter().skip(from).map(|span| span.text.as_str()).collect();
        if !address.is_empty() && text != address && format!("mailto:{text}") != address {
            self.push(&format!(" ({address})"), Style::DIM);
        }
    }

    fn drop_guard(&mut self) {
        if let Some(span) = self.spans.iter_mut().find(|span| !span.text.is_empty()) {
            span.text = span.text.strip_prefix('.').unwrap_or(&span.text).to_owned();
        }
        self.spans.retain(|span| !span.text.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::style::ansi;

    fn shown(text: &str) -> String {
        ansi(&inline(text, Style::PLAIN))
    }

    #[test]
    fn marks_become_styles() {
        assert_eq!(
            shown("a **b** *c* ~~d~~"),
            "a \x1b[1mb\x1b[0m \x1b[3mc\x1b[0m \x1b[9md\x1b[0m"
        );
        assert_eq!(shown("**\"a\"** ***b***"), "\x1b[1m\"a\"\x1b[0m \x1b[1;3mb\x1b[0m");
        assert_eq!(
            shown("use `a **b**`, not 2 * 3 * 4"),
            "use \x1b[36ma **b**\x1b[0m, not 2 * 3 * 4"
        );
        assert_eq!(shown("snake_case_name"), "snake_case_name");
    }

    #[test]
    fn marks_that_are_open_are_text() {
        assert_eq!(shown("**bold and `code"), "**bold and `code");
    }

    #[test]
    fn marks_of_blocks_are_text() {
        for text in [
            "# x",
            "- x",
            "1. x",
            "> x",
            "---",
            "[a]: http://b",
            "<div>",
            "```",
            "    x",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn links_show_where_they_go() {
        assert_eq!(
            shown("[docs](https://a.example/)"),
            "\x1b[4mdocs\x1b[0m\x1b[2m (https://a.example/)\x1b[0m"
        );
        assert_eq!(shown("<https://a.example/>"), "\x1b[4mhttps://a.example/\x1b[0m");
        assert_eq!(shown("![cat](cat.png)"), "cat\x1b[2m (cat.png)\x1b[0m");
    }

    #[test]
    fn entities_make_no_escape_sequences() {
        assert_eq!(shown("&#27;[2J &amp; &#x202e;x"), "[2J & x");
    }
}
