//! The body of a request: equal requests are equal bytes (I6).

use serde_json::{Value, json};
use talaria_domain::model::{ModelCall, ModelMessage, ModelRequest, ModelTool};

/// The JSON that is sent.
pub(super) fn body(request: &ModelRequest) -> String {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    messages.extend(request.messages.iter().map(message));
    let mut body = json!({
        "model": request.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if let Some(fields) = body.as_object_mut() {
        if !request.tools.is_empty() {
            fields.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
        }
        if let Some(tokens) = request.max_output_tokens {
            fields.insert("max_tokens".to_owned(), tokens.into());
        }
    }
    body.to_string()
}

fn message(message: &ModelMessage) -> Value {
    match message {
        ModelMessage::User { text } => json!({"role": "user", "content": text}),
        ModelMessage::Assistant { text, calls } if calls.is_empty() => json!({"role": "assistant", "content": text}),
        ModelMessage::Assistant { text, calls } => {
            let content = if text.is_empty() {
                Value::Null
            } else {
                text.as_str().into()
            };
            json!({"role": "assistant", "content": content, "tool_calls": calls.iter().map(call).collect::<Vec<_>>()})
        }
        ModelMessage::Tool { call_id, text } => json!({"role": "tool", "tool_call_id": call_id, "content": text}),
    }
}

/// Providers refuse a history whose arguments are no JSON object, although a model said them: such a call is sent without
/// arguments, and its result says what was wrong with them.
fn call(call: &ModelCall) -> Value {
    let is_object = serde_json::from_str(&call.arguments).is_ok_and(|value: Value| value.is_object());
    let arguments = if is_object { call.arguments.as_str() } else { "{}" };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

fn tool(tool: &ModelTool) -> Value {
    json!({"type": "function", "function": {
        "name": tool.name, "description": tool.description, "parameters": tool.parameters
    }})
}
