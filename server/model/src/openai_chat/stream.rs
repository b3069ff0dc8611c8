//! Reads an answer, whatever shape the provider gives it. Pure: bytes in, events out, the same for any split of the bytes.

use serde_json::Value;
use talaria_domain::model::ModelEvent;
use talaria_openapi::messages::{FinishReason, Usage};

use super::calls::Calls;
use super::json::{error_of, error_status, error_value_text, parse};
use super::thoughts::Thoughts;
use crate::error::Kind;

/// Longest answer.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

type Events = Vec<Result<ModelEvent, Kind>>;

/// The state of one answer.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Bytes of a line that isn't whole yet.
    line: Vec<u8>,
    /// Whether the last byte was a carriage return: a line feed after it ends the same line.
    is_after_return: bool,
    /// What the event that isn't whole yet is called.
    name: String,
    /// The `data:` lines of an event that isn't whole yet.
    data: String,
    /// Whether any line of an event stream was seen; else the body may be one JSON document.
    is_stream: bool,
    body: Vec<u8>,
    total: usize,
    calls: Calls,
    thoughts: Thoughts,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    is_done: bool,
}

impl Decoder {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Events {
        let mut events = Vec::new();
        self.total += bytes.len();
        if self.total > MAX_ANSWER_BYTES && !self.is_done {
            let what = format!("it has more than {MAX_ANSWER_BYTES} bytes");
            self.fail(Kind::Malformed(what), &mut events);
        }
        for byte in bytes {
            if self.is_done {
                break;
            }
            let is_second_half = std::mem::replace(&mut self.is_after_return, *byte == b'\r') && *byte == b'\n';
            if is_second_half {
                continue;
            }
            if *byte == b'\n' || *byte == b'\r' {
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, &mut events);
            } else {
                self.line.push(*byte);
            }
        }
        events
    }

    /// Whether the provider has said why it stopped: what comes after that can only be the bill.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The bytes are over.
    pub fn finish(&mut self) -> Events {
        let mut events = Vec::new();
        if self.is_done {
            return events;
        }
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, &mut events);
        self.end_event(&mut events);
        if !self.is_stream && !self.is_done {
            let body = std::mem::take(&mut self.body);
            self.take_json(&String::from_utf8_lossy(&body), &mut events);
        }
        if !self.is_done {
            self.end(&mut events);
        }
        events
    }

    fn take_line(&mut self, line: &[u8], events: &mut Events) {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if line.is_empty() {
            return self.end_event(events);
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (
                line.get(..at).unwrap_or_default(),
                line.get(at + 1..).unwrap_or_default(),
            ),
            None => (line, &[][..]),
        };
        match field {
            b"data" => {
                self.is_stream = true;
                let value = value.strip_prefix(b" ").unwrap_or(value);
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(&String::from_utf8_lossy(value));
            }
            b"event" => {
                self.is_stream = true;
                self.name = String::from_utf8_lossy(value).trim().to_owned();
            }
            b"" | b"id" | b"retry" => self.is_stream = true,
            _ => {
                self.body.extend_from_slice(line);
                self.body.push(b'\n');
            }
        }
    }

    fn end_event(&mut self, events: &mut Events) {
        let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        match (data.trim(), name.as_str()) {
            ("", _) => {}
            ("[DONE]", _) => self.end(events),
            (data, "error") => self.take_error(&parse(data).unwrap_or_else(|| data.into()), events),
            (json, _) => self.take_json(json, events),
        }
    }

    fn take_json(&mut self, json: &str, events: &mut Events) {
        if json.trim().is_empty() {
            return;
        }
        let shown: String = json.chars().take(80).collect();
        match parse(json) {
            Some(value) if value.is_object() => self.take_chunk(&value, events),
            // Nothing of an answer is bare text: it can only be what went wrong.
            Some(value) if value.is_string() => self.take_error(&value, events),
            Some(_) => self.fail(Kind::Malformed(format!("a piece is no object: {shown}")), events),
            None => self.fail(Kind::Malformed(format!("a piece is no JSON: {shown}")), events),
        }
    }

    /// Ends the answer with an error, after all that was said before it.
    fn fail(&mut self, kind: Kind, events: &mut Events) {
        self.is_done = true;
        events.extend(self.thoughts.finish().map(Ok));
        events.push(Err(kind));
    }

    /// An error, as `{"error": …}` or bare.
    fn take_error(&mut self, value: &Value, events: &mut Events) {
        let error = error_of(value).unwrap_or(value);
        let kind = Kind::Answered {
            status: error_status(error),
            body: error_value_text(error),
        };
        self.fail(kind, events);
    }

    fn take_chunk(&mut self, chunk: &Value, events: &mut Events) {
        if error_of(chunk).is_some() || chunk.get("object").is_some_and(|object| object == "error") {
            return self.take_error(chunk, events);
        }
        self.take_usage(chunk);
        let Some(choice) = chunk
            .get("choices")
            .and_then(Value::as_array)
            .and_then(|choices| choices.first())
        else {
            return;
        };
        self.take_usage(choice);
        let delta = choice.get("delta").filter(|delta| delta.is_object());
        if let Some(delta) = delta.or_else(|| choice.get("message")) {
            self.take_delta(delta, events);
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(read_finish(reason));
        }
    }

    /// The bill stands beside the choices, or in one.
    fn take_usage(&mut self, value: &Value) {
        if let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(read_usage(usage));
        }
    }

    fn take_delta(&mut self, delta: &Value, events: &mut Events) {
        let reasoning = ["reasoning_content", "reasoning"]
            .iter()
            .find_map(|name| delta.get(name)?.as_str().filter(|text| !text.is_empty()));
        if let Some(text) = reasoning {
            events.push(Ok(ModelEvent::Reasoning(text.to_owned())));
        }
        let text = match delta.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
            _ => String::new(),
        };
        events.extend(self.thoughts.take(&text).into_iter().map(Ok));
        let calls = delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        let older = delta.get("function_call").filter(|call| call.is_object());
        for call in calls.chain(older) {
            // What was said before the call comes before it.
            events.extend(self.thoughts.finish().map(Ok));
            events.extend(self.calls.take(call).into_iter().map(Ok));
        }
    }

    fn end(&mut self, events: &mut Events) {
        let Some(finish) = self.finish else {
            return self.fail(Kind::Malformed("it ended without saying why".to_owned()), events);
        };
        if self.calls.any_nameless() {
            return self.fail(Kind::Malformed("it calls a tool without naming it".to_owned()), events);
        }
        self.is_done = true;
        events.extend(self.thoughts.finish().map(Ok));
        if let Some(usage) = self.usage {
            events.push(Ok(ModelEvent::Usage(usage)));
        }
        let has_calls = self.calls.any();
        let finish = match finish {
            FinishReason::Stop if has_calls => FinishReason::ToolCalls,
            FinishReason::ToolCalls if !has_calls => FinishReason::Stop,
            other => other,
        };
        events.push(Ok(ModelEvent::Finished(finish)));
    }
}

fn read_finish(reason: &str) -> FinishReason {
    match reason {
        "length" | "max_tokens" => FinishReason::Length,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Stop,
    }
}

fn read_usage(usage: &Value) -> Usage {
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let cached = number("/prompt_tokens_details/cached_tokens").or_else(|| number("/prompt_cache_hit_tokens"));
    Usage {
        input_tokens: number("/prompt_tokens").unwrap_or(0),
        output_tokens: number("/completion_tokens").unwrap_or(0),
        cached_tokens: cached.unwrap_or(0),
        cost_usd: usage
            .get("cost")
            .and_then(Value::as_f64)
            .filter(|cost| cost.is_finite() && *cost >= 0.0)
            .unwrap_or(0.0),
    }
}
