use serde_json::json;
use talaria_openapi::messages::MessageKind;
use talaria_openapi::time::Timestamp;

use super::*;

fn message(seq: i64, role: Role, parts: Vec<Part>) -> Message {
    Message {
        id: MessageId::new(),
        object: "message".into(),
        session_id: SessionId::new(),
        run_id: None,
        seq,
        role,
        status: MessageStatus::Completed,
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

fn call(id: &str) -> Part {
    Part::ToolCall {
        id: id.to_owned(),
        name: "read_file".to_owned(),
        arguments: json!({}),
    }
}

fn result(id: &str) -> Part {
    Part::ToolResult {
        tool_call_id: id.to_owned(),
        content: Vec::new(),
        is_error: false,
        truncated: false,
        full_output_file_id: None,
        duration_ms: 0,
        effective_arguments: None,
    }
}

fn transcript() -> Vec<Message> {
    let text = || vec![Part::Text { text: "hi".to_owned() }];
    vec![
        message(2, Role::User, text()),
        message(5, Role::Assistant, vec![call("a"), call("b")]),
        message(7, Role::Tool, vec![result("a")]),
        message(9, Role::Tool, vec![result("b")]),
        message(12, Role::Assistant, text()),
    ]
}

#[test]
fn a_fork_never_cuts_between_a_call_and_its_result() {
    let all = transcript();
    let lengths = |seq| kept(&all, ForkPoint::Seq(seq)).ok();
    assert_eq!(lengths(1), Some(0));
    assert_eq!(lengths(4), Some(1), "the last message before the number");
    for inside in 5..9 {
        assert_eq!(lengths(inside), None, "{inside}");
    }
    assert_eq!(lengths(9), Some(4));
    assert_eq!(lengths(i64::MAX), Some(5));
    let by_message = |at: usize| kept(&all, ForkPoint::Message(all[at].id));
    assert!(matches!(by_message(1), Err(Error::InvalidPoint)));
    assert!(matches!(by_message(2), Err(Error::InvalidPoint)));
    assert_eq!(by_message(3).unwrap(), 4);
    assert!(matches!(
        kept(&all, ForkPoint::Message(MessageId::new())),
        Err(Error::NotFound)
    ));
}

#[test]
fn without_a_place_the_calls_that_are_open_are_left_out() {
    let all = transcript();
    for (length, expected) in [(0, 0), (1, 1), (2, 1), (3, 1), (4, 4), (5, 5)] {
        assert_eq!(kept(&all[..length], ForkPoint::Latest).unwrap(), expected, "{length}");
    }
}
