use talaria_openapi::events::Event;

use super::*;

const MESSAGE: &str = "msg_01JDZK8Q0V8M0F3H6S9W2B4C5D";
const HEAD: &str = r#""seq":1,"ts":"2026-12-01T03:40:00.123Z","session_id":"ses_01JDZK8Q0V8M0F3H6S9W2B4C5D","run_id":"run_01JDZK8Q0V8M0F3H6S9W2B4C5D""#;

fn body(fields: &str) -> EventBody {
    Event::parse(&format!("{{{fields},{HEAD}}}")).unwrap().body
}

fn delta(offset: usize, text: &str) -> EventBody {
    body(&format!(
        r#""type":"text.delta","message_id":"{MESSAGE}","part":0,"offset":{offset},"text":"{text}""#
    ))
}

fn message(role: &str, status: &str, part: &str) -> EventBody {
    body(&format!(
        r#""type":"message.completed","message":{{"id":"{MESSAGE}","object":"message","session_id":"ses_01JDZK8Q0V8M0F3H6S9W2B4C5D",
        "run_id":null,"seq":1,"role":"{role}","status":"{status}","parts":[{part}],"model":null,"finish_reason":null,"usage":null,
        "kind":"normal","created_at":"2026-12-01T03:40:00.123Z","completed_at":null}}"#
    ))
}

fn answer(text: &str) -> EventBody {
    message(
        "assistant",
        "completed",
        &format!(r#"{{"type":"text","text":"{text}"}}"#),
    )
}

fn steps(bodies: &[EventBody]) -> Vec<Step> {
    let mut progress = Progress::default();
    bodies.iter().flat_map(|body| progress.take(body)).collect()
}

fn say(text: &str) -> Step {
    Step::Say(text.to_owned())
}

#[test]
fn an_answer_is_said_once_whatever_is_missing_or_repeated() {
    let whole = vec![say("Grüß"), say(" dich"), Step::EndOfMessage];
    assert_eq!(
        steps(&[delta(0, "Grüß"), delta(6, " dich"), answer("Grüß dich")]),
        whole
    );
    assert_eq!(
        steps(&[delta(0, "Grüß"), delta(0, "Grüß dich"), answer("Grüß dich")]),
        whole,
        "merged deltas"
    );
    assert_eq!(
        steps(&[delta(0, "Grüß"), delta(8, "ich"), answer("Grüß dich")]),
        whole,
        "a gap"
    );
    let at_once = [say("Grüß dich"), Step::EndOfMessage];
    assert_eq!(steps(&[answer("Grüß dich")]), at_once, "deltas were compacted away");
    assert_eq!(
        steps(&[answer("Grüß dich"), answer("Grüß dich")]),
        at_once,
        "said again after a reset"
    );
}

#[test]
fn a_tool_ends_with_its_result() {
    let started = body(
        r#""type":"tool.started","tool_call_id":"c1","name":"read_file","arguments":{},"preview":"notes.txt","parallel_group":null"#,
    );
    let completed = body(&format!(
        r#""type":"tool.completed","tool_call_id":"c1","name":"read_file","status":"declined","duration_ms":7,"message_id":"{MESSAGE}""#
    ));
    let result = message(
        "tool",
        "completed",
        r#"{"type":"tool_result","tool_call_id":"c1","content":[{"type":"text","text":"\n  not allowed\nmore"}],"is_error":true,
        "truncated":false,"full_output_file_id":null,"duration_ms":7}"#,
    );
    let call = Call {
        id: "c1".to_owned(),
        name: "read_file".to_owned(),
        preview: "notes.txt".to_owned(),
    };
    let ending = Ending {
        status: ToolStatus::Declined,
        duration_ms: 7,
        result: Some("not allowed".to_owned()),
    };
    assert_eq!(
        steps(&[started, completed, result.clone(), result]),
        [Step::ToolStarted(call.clone()), Step::ToolEnded(call, ending)]
    );
}

#[test]
fn an_answer_that_broke_off_says_so() {
    let broken = message("assistant", "failed", r#"{"type":"text","text":"half"}"#);
    let steps = steps(&[delta(0, "ha"), broken]);
    assert_eq!(
        steps.last(),
        Some(&Step::Notice("the answer broke off here".to_owned()))
    );
}

#[test]
fn durations_are_for_people() {
    assert_eq!(duration(999), "999 ms");
    assert_eq!(duration(1_250), "1.2 s");
    assert_eq!(duration(61_000), "1 min 1 s");
}
