//! Reads an answer, whatever shape the provider gives it. Pure: bytes in, events out, the same for any split of the bytes.

use serde_json::Value;
use talaria_domain::model::ModelEvent;
use talaria_openapi::messages::{FinishReason, Usage};

use crate::error::Kind;

/// Longest answer.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

type Events = Vec<Result<ModelEvent, Kind>>;

/// The state of one answer.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Bytes of a line that isn't whole yet.
    line: Vec<u8>,
    /// The `data:` lines of an event that isn't whole yet.
    data: String,
    /// Whether any line of an event stream was seen; else the body may be one JSON document.
    is_stream: bool,
    body: Vec<u8>,
    total: usize,
    calls: Vec<Call>,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    is_done: bool,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    is_started: bool,
    /// The arguments so far.
    json: String,
}

impl Decoder {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Events {
        let mut events = Vec::new();
        self.total += bytes.len();
        if self.total > MAX_ANSWER_BYTES && !self.is_done {
            self.is_done = true;
            events.push(Err(Kind::Malformed(format!(
                "it has more than {MAX_ANSWER_BYTES} bytes"
            ))));
        }
        for byte in bytes {
            if self.is_done {
                break;
            }
            if *byte == b'\n' || *byte == b'\r' {
                // An empty line ends an event; of CRLF the second half is one too, and ends nothing any more.
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
            b"" | b"event" | b"id" | b"retry" => self.is_stream = true,
            _ => {
                self.body.extend_from_slice(line);
                self.body.push(b'\n');
            }
        }
    }

    fn end_event(&mut self, events: &mut Events) {
        let data = std::mem::take(&mut self.data);
        match data.trim() {
            "" => {}
            "[DONE]" => self.end(events),
            json => self.take_json(json, events),
        }
    }

    fn take_json(&mut self, json: &str, events: &mut Events) {
        if json.trim().is_empty() {
            return;
        }
        match parse(json) {
            Some(value) => self.take_chunk(&value, events),
            None => self.fail(
                Kind::Malformed(format!(
                    "a piece is no JSON: {}",
                    json.chars().take(80).collect::<String>()
                )),
                events,
            ),
        }
    }

    fn fail(&mut self, kind: Kind, events: &mut Events) {
        self.is_done = true;
        events.push(Err(kind));
    }

    fn take_chunk(&mut self, chunk: &Value, events: &mut Events) {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let status = ["status", "code"]
                .iter()
                .find_map(|name| error.get(name)?.as_u64())
                .and_then(|code| u16::try_from(code).ok());
            return self.fail(
                Kind::Answered {
                    status: status.filter(|status| *status >= 400),
                    body: error_value_text(error),
                },
                events,
            );
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(read_usage(usage));
        }
        let Some(choice) = chunk
            .get("choices")
            .and_then(Value::as_array)
            .and_then(|choices| choices.first())
        else {
            return;
        };
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.take_delta(delta, events);
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(read_finish(reason));
        }
    }

    fn take_delta(&mut self, delta: &Value, events: &mut Events) {
        let reasoning = ["reasoning_content", "reasoning"]
            .iter()
            .find_map(|name| delta.get(name)?.as_str());
        if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
            events.push(Ok(ModelEvent::Reasoning(text.to_owned())));
        }
        let text = match delta.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
            _ => String::new(),
        };
        if !text.is_empty() {
            events.push(Ok(ModelEvent::Text(text)));
        }
        for piece in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let function = piece.get("function").unwrap_or(&Value::Null);
            self.take_call(
                piece.get("index").and_then(Value::as_u64),
                piece.get("id").and_then(Value::as_str),
                function,
                events,
            );
        }
        if let Some(function) = delta.get("function_call").filter(|function| function.is_object()) {
            self.take_call(Some(0), None, function, events);
        }
    }

    fn take_call(&mut self, index: Option<u64>, id: Option<&str>, function: &Value, events: &mut Events) {
        let id = id.filter(|id| !id.is_empty());
        let name = function
            .get("name")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty());
        let at = self.call_of(index, id, name);
        let Some(call) = self.calls.get_mut(at) else { return };
        if let Some(name) = name.filter(|_| call.name.is_empty()) {
            name.clone_into(&mut call.name);
        }
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(value) => value.to_string(),
        };
        call.json.push_str(&arguments);
        if call.name.is_empty() {
            return;
        }
        let mut json = arguments;
        if !call.is_started {
            call.is_started = true;
            // With what came before the name.
            json.clone_from(&call.json);
            events.push(Ok(ModelEvent::CallStarted {
                index: at,
                id: call.id.clone(),
                name: call.name.clone(),
            }));
        }
        if !json.is_empty() {
            events.push(Ok(ModelEvent::CallArguments { index: at, json }));
        }
    }

    /// Which call a piece belongs to. Some providers number all calls 0: a new id, or without ids a new name, is a new call.
    /// Others repeat the name in every piece: it is the same call until its arguments are whole.
    fn call_of(&mut self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> usize {
        let same_index = |call: &Call| index.is_none() || call.index.is_none() || call.index == index;
        let known = match (id, index) {
            (Some(id), _) => self.calls.iter().rposition(|call| call.id == id && same_index(call)),
            (None, Some(index)) => self.calls.iter().rposition(|call| call.index == Some(index)),
            (None, None) => self.calls.len().checked_sub(1),
        };
        let goes_on = |call: &Call| {
            let is_whole = serde_json::from_str::<Value>(&call.json).is_ok();
            id.is_some() || !call.is_started || name.is_none_or(|name| name == call.name && !is_whole)
        };
        known
            .filter(|at| self.calls.get(*at).is_some_and(goes_on))
            .unwrap_or_else(|| {
                let made_up = || format!("call_{}", talaria_openapi::ids::MessageId::new().ulid());
                let id = id.map_or_else(made_up, str::to_owned);
                self.calls.push(Call {
                    index,
                    id,
                    name: String::new(),
                    is_started: false,
                    json: String::new(),
                });
                self.calls.len() - 1
            })
    }

    fn end(&mut self, events: &mut Events) {
        let Some(finish) = self.finish else {
            return self.fail(Kind::Malformed("it ended without saying why".to_owned()), events);
        };
        self.is_done = true;
        if let Some(usage) = self.usage {
            events.push(Ok(ModelEvent::Usage(usage)));
        }
        let has_calls = self.calls.iter().any(|call| call.is_started);
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
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input_tokens: number("/prompt_tokens"),
        output_tokens: number("/completion_tokens"),
        cached_tokens: number("/prompt_tokens_details/cached_tokens"),
        cost_usd: usage
            .get("cost")
            .and_then(Value::as_f64)
            .filter(|cost| cost.is_finite() && *cost >= 0.0)
            .unwrap_or(0.0),
    }
}

/// JSON, also where it holds half a surrogate pair, which strict readers refuse: it becomes U+FFFD.
fn parse(json: &str) -> Option<Value> {
    serde_json::from_str(json)
        .ok()
        .or_else(|| serde_json::from_str(&without_lone_surrogates(json)).ok())
}

fn without_lone_surrogates(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let unit = |text: &str| {
            let hex = text.strip_prefix('u').and_then(|text| text.get(..4))?;
            u16::from_str_radix(hex, 16).ok()
        };
        let second = after.get(5..).and_then(|text| text.strip_prefix('\\')).and_then(unit);
        match (unit(after), second) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => {
                out.push('\\');
                out.push_str(after.get(..11).unwrap_or(after));
                rest = after.get(11..).unwrap_or_default();
            }
            (Some(0xd800..=0xdfff), _) => {
                out.push_str("\\ufffd");
                rest = after.get(5..).unwrap_or_default();
            }
            _ => {
                // The escaped letter goes with its backslash: `\\u` is no escape of a unit.
                let letter = after.chars().next();
                out.push('\\');
                out.extend(letter);
                rest = after.get(letter.map_or(0, char::len_utf8)..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

/// What an error says, from a body of any shape.
pub(super) fn error_text(body: &str) -> String {
    match parse(body) {
        Some(value) => error_value_text(value.get("error").unwrap_or(&value)),
        None => body.to_owned(),
    }
}

fn error_value_text(error: &Value) -> String {
    if let Some(text) = error.as_str() {
        return text.to_owned();
    }
    let field = |name: &str| error.get(name).and_then(Value::as_str);
    let mut parts: Vec<&str> = ["type", "code", "message"].into_iter().filter_map(field).collect();
    // OpenRouter hides what the provider behind it says one level deeper.
    parts.extend(error.pointer("/metadata/raw").and_then(Value::as_str));
    if parts.is_empty() {
        error.to_string()
    } else {
        parts.join(": ")
    }
}
