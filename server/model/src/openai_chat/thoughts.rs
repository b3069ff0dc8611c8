//! Thoughts that a model writes into its text: between tags, at the very beginning of an answer.

use talaria_domain::model::ModelEvent;

/// The tags that models use.
const TAGS: [(&str, &str); 3] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
];

/// White space that is waited through for a tag. An answer that begins with more is text.
const MAX_LEADING_BYTES: usize = 256;

/// Tells thoughts from text while the text comes in pieces. A tag anywhere but at the beginning is text.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    state: State,
    /// What may still be the beginning of a tag.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing but white space came yet.
    #[default]
    Beginning,
    /// Before this closing tag.
    Inside(&'static str),
    /// After the closing tag: white space is left out.
    JustClosed,
    /// Text, to the end.
    Text,
}

impl Thoughts {
    /// Takes more text; gives what of it can be told.
    pub(super) fn take(&mut self, piece: &str) -> Vec<ModelEvent> {
        self.held.push_str(piece);
        let mut events = Vec::new();
        loop {
            let before = self.state;
            events.extend(match self.state {
                State::Beginning => self.begin(),
                State::Inside(close) => self.think(close),
                State::JustClosed => self.skip_white_space(),
                State::Text => self.let_go().map(ModelEvent::Text),
            });
            if self.state == before {
                return events;
            }
        }
    }

    /// No more text follows: a thought that was never closed is one.
    pub(super) fn finish(&mut self) -> Option<ModelEvent> {
        let is_thought = matches!(self.state, State::Inside(_));
        self.let_go().map(if is_thought {
            ModelEvent::Reasoning
        } else {
            ModelEvent::Text
        })
    }

    fn let_go(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.held)).filter(|text| !text.is_empty())
    }

    fn begin(&mut self) -> Option<ModelEvent> {
        let trimmed = self.held.trim_start();
        if self.held.len() - trimmed.len() > MAX_LEADING_BYTES {
            self.state = State::Text;
            return None;
        }
        let opened = TAGS
            .iter()
            .find_map(|(open, close)| Some((trimmed.strip_prefix(open)?, close)));
        if let Some((rest, close)) = opened {
            self.held = rest.to_owned();
            self.state = State::Inside(close);
        } else if !TAGS.iter().any(|(open, _)| open.starts_with(trimmed)) {
            self.state = State::Text;
        }
        None
    }

    fn think(&mut self, close: &'static str) -> Option<ModelEvent> {
        let closed = self
            .held
            .split_once(close)
            .map(|(thought, rest)| (thought.to_owned(), rest.to_owned()));
        let thought = if let Some((thought, rest)) = closed {
            self.held = rest;
            self.state = State::JustClosed;
            thought
        } else {
            let tail = self.held.split_off(self.held.len() - begun(&self.held, close));
            std::mem::replace(&mut self.held, tail)
        };
        Some(thought).filter(|text| !text.is_empty()).map(ModelEvent::Reasoning)
    }

    fn skip_white_space(&mut self) -> Option<ModelEvent> {
        self.held = self.held.trim_start().to_owned();
        if !self.held.is_empty() {
            self.state = State::Text;
        }
        None
    }
}

/// How many bytes at the end of a text may be the beginning of a tag.
fn begun(text: &str, tag: &str) -> usize {
    let starts = |length: &usize| tag.get(..*length).is_some_and(|start| text.ends_with(start));
    (1..tag.len()).rev().find(starts).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Thoughts and text of an answer that comes in these pieces.
    fn told<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut thoughts = Thoughts::default();
        let mut events: Vec<ModelEvent> = pieces.into_iter().flat_map(|piece| thoughts.take(piece)).collect();
        events.extend(thoughts.finish());
        let (mut thought, mut text) = (String::new(), String::new());
        for event in events {
            match event {
                ModelEvent::Reasoning(piece) => thought.push_str(&piece),
                ModelEvent::Text(piece) => text.push_str(&piece),
                other => panic!("neither thought nor text: {other:?}"),
            }
        }
        (thought, text)
    }

    #[test]
    fn only_tags_at_the_beginning_count() {
        let far = format!("{}<think>x</think>", " ".repeat(MAX_LEADING_BYTES + 1));
        assert_eq!(told([far.as_str()]), (String::new(), far.clone()));
        let pieces = far.split_inclusive(' ');
        assert_eq!(told(pieces), (String::new(), far.clone()));
        for (answer, thought, text) in [
            (
                "\n<think>é <b> </thin</think>\n\nHi <think>x</think>",
                "é <b> </thin",
                "Hi <think>x</think>",
            ),
            ("<thinking>a</think></thinking>b", "a</think>", "b"),
            ("<reasoning>a</reasoning>", "a", ""),
            ("<this>", "", "<this>"),
            ("a <think>b</think>", "", "a <think>b</think>"),
            ("```\n<think>\n```", "", "```\n<think>\n```"),
            ("<think>never closed </th", "never closed </th", ""),
            (" <", "", " <"),
            ("<think></think>x", "", "x"),
        ] {
            assert_eq!(told([answer]), (thought.to_owned(), text.to_owned()), "{answer}");
        }
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(answer in "[ \n]?<?/?(think|thinking|reasoning)?>?[a<>/é ]{0,9}(</think>|</thinking>)?[a <]{0,5}", cuts: Vec<prop::sample::Index>) {
            let mut places: Vec<usize> = cuts.iter().map(|cut| answer.floor_char_boundary(cut.index(answer.len() + 1))).collect();
            places.extend([0, answer.len()]);
            places.sort_unstable();
            let pieces = places.windows(2).map(|pair| answer.get(pair[0]..pair[1]).unwrap());
            prop_assert_eq!(told(pieces), told([answer.as_str()]));
        }
    }
}
