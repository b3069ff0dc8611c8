//! What a call answers: the message that the model gets to see, cut where it is too long, and the file that keeps the whole.

use std::time::Duration;

use talaria_domain::model::ModelCall;
use talaria_openapi::events::ToolStatus;
use talaria_openapi::files::File;
use talaria_openapi::ids::FileId;
use talaria_openapi::messages::{Message, MessageKind, MessageStatus, Part, ResultContent, Role};

use crate::message;
use crate::turn::Turn;

/// Longest result that a model gets to see, in characters (api.md 3, H11).
const MAX_RESULT_CHARS: usize = 100_000;
/// Room in it for the line that says how much was left out.
const NOTE_CHARS: usize = 100;

/// A result, and the file that keeps it whole where it was too long.
pub(crate) struct ToolResult {
    pub(crate) message: Message,
    pub(crate) file: Option<File>,
}

/// The result of a call that ran.
pub(crate) async fn result(
    turn: &Turn,
    call: &ModelCall,
    text: &str,
    status: ToolStatus,
    took: Duration,
) -> ToolResult {
    // Before the cut, which could leave half a secret.
    let text = turn.redactor.redact(text);
    let file = keep_whole(turn, call, &text).await;
    let mut message = result_message(turn, call, &text, status, took);
    if let (
        Some(file),
        Some(Part::ToolResult {
            full_output_file_id, ..
        }),
    ) = (&file, message.parts.first_mut())
    {
        *full_output_file_id = Some(file.id);
    }
    ToolResult { message, file }
}

/// The message that answers a call.
pub(crate) fn result_message(turn: &Turn, call: &ModelCall, text: &str, status: ToolStatus, took: Duration) -> Message {
    let text = talaria_text::sanitize::storable(text).into_owned();
    let truncated = is_too_long(&text);
    let cut = truncated.then(|| {
        talaria_text::cut::head_tail(&text, MAX_RESULT_CHARS - NOTE_CHARS, |left_out| {
            format!("\n[{left_out} characters left out here; ask for a smaller part]\n")
        })
    });
    let content = vec![ResultContent::Text {
        text: cut.flatten().unwrap_or(text),
    }];
    let (message_status, kind) = match status {
        ToolStatus::Completed | ToolStatus::Failed | ToolStatus::Declined => {
            (MessageStatus::Completed, MessageKind::Normal)
        }
        ToolStatus::Cancelled => (MessageStatus::Cancelled, MessageKind::Forged),
        ToolStatus::UnknownOutcome => (MessageStatus::UnknownOutcome, MessageKind::Forged),
    };
    let part = Part::ToolResult {
        tool_call_id: call.id.clone(),
        content,
        is_error: status != ToolStatus::Completed,
        truncated,
        full_output_file_id: None,
        duration_ms: millis(took),
        effective_arguments: None,
    };
    let (session_id, run_id) = (turn.active.session.id, turn.active.run.id);
    Message {
        status: message_status,
        parts: vec![part],
        kind,
        ..message::new(session_id, run_id, Role::Tool, turn.clock.now())
    }
}

/// Writes an output that is too long for the model into a file. Without a place for it the model still gets its part.
async fn keep_whole(turn: &Turn, call: &ModelCall, text: &str) -> Option<File> {
    if !is_too_long(text) {
        return None;
    }
    let mut file = File {
        id: FileId::new(),
        object: "file".into(),
        session_id: turn.active.session.id,
        filename: format!("{}-output.txt", call.name),
        media_type: "text/plain; charset=utf-8".to_owned(),
        size_bytes: 0,
        sha256: String::new(),
        created_at: turn.clock.now(),
    };
    match turn.store.write_blob(file.id, text.as_bytes().to_vec()).await {
        Ok(blob) => {
            (file.size_bytes, file.sha256) = (blob.size_bytes, blob.sha256);
            Some(file)
        }
        Err(error) => {
            tracing::error!(error = %error, "the whole output of a tool could not be kept: {error}");
            None
        }
    }
}

fn is_too_long(text: &str) -> bool {
    text.len() > MAX_RESULT_CHARS && text.chars().nth(MAX_RESULT_CHARS).is_some()
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
