//! Styled text: what is shown, and how a terminal is told to show it.

use super::safe::safe;

/// A colour of the terminal's own palette, which the person has chosen to be readable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Colour {
    #[default]
    Own,
    Red,
    Green,
    Cyan,
}

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) bold: bool,
    pub(crate) italic: bool,
    pub(crate) underline: bool,
    pub(crate) strike: bool,
    pub(crate) dim: bool,
    pub(crate) reverse: bool,
    pub(crate) colour: Colour,
}

impl Style {
    pub(crate) const PLAIN: Self = Self {
        bold: false,
        italic: false,
        underline: false,
        strike: false,
        dim: false,
        reverse: false,
        colour: Colour::Own,
    };
    pub(crate) const DIM: Self = Self {
        dim: true,
        ..Self::PLAIN
    };
    pub(crate) const BOLD: Self = Self {
        bold: true,
        ..Self::PLAIN
    };
    pub(crate) const CODE: Self = Self::coloured(Colour::Cyan);

    pub(crate) const fn coloured(colour: Colour) -> Self {
        Self { colour, ..Self::PLAIN }
    }

    /// The parameters of "select graphic rendition".
    fn parameters(self) -> Vec<&'static str> {
        let colour = match self.colour {
            Colour::Own => None,
            Colour::Red => Some("31"),
            Colour::Green => Some("32"),
            Colour::Cyan => Some("36"),
        };
        let flags = [
            (self.bold, "1"),
            (self.dim, "2"),
            (self.italic, "3"),
            (self.underline, "4"),
            (self.reverse, "7"),
            (self.strike, "9"),
        ];
        let set = flags
            .into_iter()
            .filter_map(|(is_on, parameter)| is_on.then_some(parameter));
        set.chain(colour).collect()
    }
}

/// Text of one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) style: Style,
}

impl Span {
    pub(crate) fn new(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }
}

/// One row of a terminal, or less.
pub(crate) type Line = Vec<Span>;

/// The bytes that show a line. Whatever the spans hold, the only control characters in it are the ones made here.
pub(crate) fn ansi(line: &[Span]) -> String {
    let mut bytes = String::new();
    for span in line {
        let text = safe(&span.text).replace(['\n', '\t'], " ");
        let parameters = span.style.parameters();
        if parameters.is_empty() || text.is_empty() {
            bytes.push_str(&text);
        } else {
            bytes.push_str(&format!("\x1b[{}m{text}\x1b[0m", parameters.join(";")));
        }
    }
    bytes
}

/// The letters of a line.
#[cfg(test)]
pub(crate) fn letters(line: &[Span]) -> String {
    line.iter().map(|span| span.text.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_end_where_their_text_ends() {
        let line = [
            Span::new("a", Style::PLAIN),
            Span::new("b", Style::BOLD),
            Span::new("c", Style::CODE),
        ];
        assert_eq!(ansi(&line), "a\x1b[1mb\x1b[0m\x1b[36mc\x1b[0m");
    }

    #[test]
    fn spans_hold_no_control_characters() {
        assert_eq!(ansi(&[Span::new("a\x1b[2J\u{202e}b\nc", Style::PLAIN)]), "a[2Jb c");
    }
}
