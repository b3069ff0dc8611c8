//! Legal history (I5): what a model gets is made from the transcript by one pure function, the same every time.
//!
//! For any transcript: every call has exactly one result, right after it and in the order of the calls; nothing that failed
//! or was never said is sent; people and model take turns. What was sent once is sent again with the same bytes (I6).

use std::collections::BTreeMap;

use serde_json::Value;
use talaria_domain::model::{ModelCall, ModelMessage};
use talaria_openapi::messages::{Message, MessageStatus, Part, ResultContent, Role};

/// Stands for an answer that was never given, so that two questions don't follow each other.
const NO_ANSWER: &str = "(no answer)";
/// Stands for the result of a call that has none.
const NO_RESULT: &str = "[no result: the call was not run]";

/// What the model gets to see of a transcript.
pub(crate) fn repair(transcript: &[Message]) -> Vec<ModelMessage> {
    let mut history = Vec::with_capacity(transcript.len());
    let mut rest = transcript;
    while let Some((message, after)) = rest.split_first() {
        rest = after;
        if matches!(message.status, MessageStatus::Failed | MessageStatus::InProgress) {
            continue;
        }
        match message.role {
            Role::User => push_user(&mut history, message),
            Role::Assistant => push_assistant(&mut history, message, after),
            // Results are taken with their calls; others have no place.
            Role::Tool => {}
        }
    }
    history
}

/// The calls of the transcript's last answer that have no result yet.
pub(crate) fn unanswered(transcript: &[Message]) -> Vec<ModelCall> {
    let last = transcript.iter().rposition(|message| {
        message.role == Role::Assistant && !matches!(message.status, MessageStatus::Failed | MessageStatus::InProgress)
    });
    let Some((message, after)) = last.and_then(|at| transcript.get(at..)?.split_first()) else {
        return Vec::new();
    };
    if after.iter().any(|later| later.role == Role::User) {
        return Vec::new();
    }
    let results = results_in(after);
    calls_of(message)
        .into_iter()
        .filter(|call| !results.contains_key(call.id.as_str()))
        .collect()
}

/// The calls that a message makes, as the model said them.
pub(crate) fn calls_of(message: &Message) -> Vec<ModelCall> {
    let calls = message.parts.iter().filter_map(|part| match part {
        Part::ToolCall { id, name, arguments } => {
            let arguments = match arguments {
                Value::String(raw) => raw.clone(),
                object => object.to_string(),
            };
            Some(ModelCall {
                id: id.clone(),
                name: name.clone(),
                arguments,
            })
        }
        _ => None,
    });
    calls.collect()
}

fn push_user(history: &mut Vec<ModelMessage>, message: &Message) {
    if let Some(ModelMessage::User { .. }) = history.last() {
        history.push(ModelMessage::Assistant {
            text: NO_ANSWER.to_owned(),
            calls: Vec::new(),
        });
    }
    if let Some(ModelMessage::Tool { .. }) = history.last() {
        history.push(ModelMessage::Assistant {
            text: NO_ANSWER.to_owned(),
            calls: Vec::new(),
        });
    }
    history.push(ModelMessage::User { text: message.text() });
}

fn push_assistant(history: &mut Vec<ModelMessage>, message: &Message, after: &[Message]) {
    let (text, calls) = (message.text(), calls_of(message));
    if text.is_empty() && calls.is_empty() {
        return;
    }
    let until = after.iter().position(|later| {
        later.role != Role::Tool && !matches!(later.status, MessageStatus::Failed | MessageStatus::InProgress)
    });
    let results = results_in(after.get(..until.unwrap_or(after.len())).unwrap_or_default());
    let ids: Vec<String> = calls.iter().map(|call| call.id.clone()).collect();
    history.push(ModelMessage::Assistant { text, calls });
    for call_id in ids {
        let text = results
            .get(call_id.as_str())
            .cloned()
            .unwrap_or_else(|| NO_RESULT.to_owned());
        history.push(ModelMessage::Tool { call_id, text });
    }
}

fn results_in(messages: &[Message]) -> BTreeMap<&str, String> {
    let parts = messages
        .iter()
        .filter(|message| message.role == Role::Tool)
        .flat_map(|message| &message.parts);
    let mut results = BTreeMap::new();
    for part in parts {
        if let Part::ToolResult {
            tool_call_id, content, ..
        } = part
        {
            let texts = content.iter().map(|ResultContent::Text { text }| text.as_str());
            results
                .entry(tool_call_id.as_str())
                .or_insert_with(|| texts.collect::<Vec<_>>().join("\n"));
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use talaria_openapi::ids::{MessageId, SessionId};
    use talaria_openapi::messages::MessageKind;
    use talaria_openapi::time::Timestamp;

    use super::*;

    fn message(role: Role, status: MessageStatus, parts: Vec<Part>) -> Message {
        Message {
            id: MessageId::new(),
            object: "message".into(),
            session_id: SessionId::from_ulid(MessageId::new().ulid()),
            run_id: None,
            seq: 0,
            role,
            status,
            parts,
            model: None,
            finish_reason: None,
            usage: None,
            kind: MessageKind::Normal,
            superseded: false,
            created_at: Timestamp::from_millis(0),
            completed_at: None,
        }
    }

    fn text(text: &str) -> Part {
        Part::Text { text: text.to_owned() }
    }

    fn call(id: &str) -> Part {
        Part::ToolCall {
            id: id.to_owned(),
            name: "read_file".to_owned(),
            arguments: json!({"path": "x"}),
        }
    }

    fn result(id: &str) -> Message {
        let content = vec![ResultContent::Text {
            text: format!("result of {id}"),
        }];
        let part = Part::ToolResult {
            tool_call_id: id.to_owned(),
            content,
            is_error: false,
            truncated: false,
            full_output_file_id: None,
            duration_ms: 1,
            effective_arguments: None,
        };
        message(Role::Tool, MessageStatus::Completed, vec![part])
    }

    fn is_legal(history: &[ModelMessage]) -> bool {
        let mut open: Vec<String> = Vec::new();
        let mut previous_was_user = false;
        for entry in history {
            match entry {
                ModelMessage::Tool { call_id, .. } => {
                    if open.is_empty() || open.remove(0) != *call_id {
                        return false;
                    }
                }
                ModelMessage::User { .. } if previous_was_user || !open.is_empty() => return false,
                ModelMessage::Assistant { .. } if !open.is_empty() => return false,
                ModelMessage::Assistant { calls, .. } => open = calls.iter().map(|call| call.id.clone()).collect(),
                ModelMessage::User { .. } => {}
            }
            previous_was_user = matches!(entry, ModelMessage::User { .. });
        }
        open.is_empty()
    }

    #[test]
    fn inv_i5_any_transcript_becomes_legal_and_keeps_its_prefix() {
        use MessageStatus::{Cancelled, Completed, Failed, InProgress, UnknownOutcome};
        let kinds = || {
            let mut kinds = vec![result("a"), result("b"), result("stranger")];
            for status in [Completed, Cancelled, Failed, InProgress, UnknownOutcome] {
                kinds.push(message(Role::User, status, vec![text("hi")]));
                kinds.push(message(Role::Assistant, status, vec![text("hello")]));
                kinds.push(message(Role::Assistant, status, vec![]));
                kinds.push(message(Role::Assistant, status, vec![call("a"), call("b")]));
            }
            kinds
        };
        for first in kinds() {
            for second in kinds() {
                for third in kinds() {
                    let transcript = [first.clone(), second.clone(), third];
                    assert!(is_legal(&repair(&transcript)), "{transcript:?}");
                }
            }
        }
    }

    #[test]
    fn results_follow_in_the_order_of_the_calls() {
        let transcript = [
            message(Role::User, MessageStatus::Completed, vec![text("go")]),
            message(
                Role::Assistant,
                MessageStatus::Completed,
                vec![call("a"), call("b"), call("c")],
            ),
            result("b"),
            result("a"),
        ];
        let ids: Vec<_> = repair(&transcript)
            .into_iter()
            .filter_map(|entry| match entry {
                ModelMessage::Tool { call_id, text } => Some((call_id, text)),
                _ => None,
            })
            .collect();
        let expected = [("a", "result of a"), ("b", "result of b"), ("c", NO_RESULT)];
        assert_eq!(ids, expected.map(|(id, text)| (id.to_owned(), text.to_owned())));
        assert_eq!(unanswered(&transcript).len(), 1);
    }
}
