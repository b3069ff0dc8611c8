//! What tools write while they work, as events: without secrets (I11), in pieces that fit into an event.

use std::collections::BTreeMap;
use std::sync::Arc;

use talaria_domain::live::LivePiece;
use talaria_openapi::events::{EventBody, MAX_EVENT_STRING_BYTES, OutputStream};
use talaria_text::redact::{Redactor, StreamRedactor};

/// Longest text of an event, with room for the escapes of JSON.
const MAX_PIECE_BYTES: usize = MAX_EVENT_STRING_BYTES / 2;

/// The outputs of the calls that work.
pub(crate) struct LiveOutput {
    redactor: Arc<Redactor>,
    outputs: BTreeMap<(Arc<str>, u8), Output>,
}

struct Output {
    stream: OutputStream,
    redactor: StreamRedactor,
    /// Bytes that the tool has written so far.
    written: u64,
    /// Bytes that readers were told of: what was shown, and what was left out.
    told: u64,
}

impl LiveOutput {
    pub(crate) fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor,
            outputs: BTreeMap::new(),
        }
    }

    /// The events of a piece. What may still become a secret is held back.
    pub(crate) fn take(&mut self, piece: &LivePiece) -> Vec<EventBody> {
        let redactor = &self.redactor;
        let key = (Arc::clone(&piece.call_id), piece.stream as u8);
        let output = self.outputs.entry(key).or_insert_with(|| Output {
            stream: piece.stream,
            redactor: StreamRedactor::new(Arc::clone(redactor)),
            written: 0,
            told: 0,
        });
        let mut events = Vec::new();
        if piece.offset > output.written {
            // Something was left out: what is held back can't go on across the gap.
            let rest = output.redactor.finish();
            events.extend(output.events(&piece.call_id, &rest));
            output.told += piece.offset - output.written;
        }
        output.written = piece.offset + piece.text.len() as u64;
        let sure = output.redactor.push(&talaria_text::sanitize::storable(&piece.text));
        events.extend(output.events(&piece.call_id, &sure));
        events
    }

    /// The events of what was held back of a call that is over.
    pub(crate) fn end(&mut self, call_id: &str) -> Vec<EventBody> {
        let of_call = |(key, _): &(&(Arc<str>, u8), &mut Output)| *key.0 == *call_id;
        let mut events = Vec::new();
        for (_, output) in self.outputs.iter_mut().filter(of_call) {
            let rest = output.redactor.finish();
            events.extend(output.events(call_id, &rest));
        }
        self.outputs.retain(|key, _| *key.0 != *call_id);
        events
    }
}

impl Output {
    fn events(&mut self, call_id: &str, text: &str) -> Vec<EventBody> {
        let mut events = Vec::new();
        for piece in talaria_text::cut::utf8_pieces(text, MAX_PIECE_BYTES) {
            events.push(EventBody::ToolOutputDelta {
                tool_call_id: call_id.to_owned(),
                stream: self.stream,
                offset: self.told,
                text: piece.to_owned(),
            });
            self.told += piece.len() as u64;
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, text: &str) -> LivePiece {
        LivePiece {
            call_id: "c1".into(),
            stream: OutputStream::Stdout,
            offset,
            text: text.to_owned(),
        }
    }

    fn told(events: &[EventBody]) -> Vec<(u64, String)> {
        let pieces = events.iter().filter_map(|event| match event {
            EventBody::ToolOutputDelta { offset, text, .. } => Some((*offset, text.clone())),
            _ => None,
        });
        pieces.collect()
    }

    #[test]
    fn inv_i11_a_secret_that_comes_in_two_pieces_is_not_shown() {
        let secret = "a-secret-of-this-server-0123456789";
        let (head, tail) = secret.split_at(9);
        let mut live = LiveOutput::new(Arc::new(Redactor::new([secret])));
        let mut events = live.take(&piece(0, &format!("key {head}")));
        events.extend(live.take(&piece(13, &format!("{tail} end\n"))));
        events.extend(live.end("c1"));
        let whole: String = told(&events).into_iter().map(|(_, text)| text).collect();
        assert!(
            whole.starts_with("key [redacted") && whole.ends_with(" end\n"),
            "{whole}"
        );
        assert!(!whole.contains("secret-of-this"), "{whole}");
    }

    #[test]
    fn what_was_left_out_is_counted() {
        let mut live = LiveOutput::new(Arc::new(Redactor::new([""; 0])));
        let mut events = live.take(&piece(0, "one\n"));
        events.extend(live.take(&piece(100, "two\n")));
        events.extend(live.end("c1"));
        let told = told(&events);
        let last = told.last().unwrap();
        assert_eq!((last.0, last.1.trim_end()), (100, "two"), "{told:?}");
        assert!(live.end("c1").is_empty());
    }
}
