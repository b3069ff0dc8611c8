//! Answers as providers send them, and what is understood of them.

use proptest::prelude::*;
use talaria_domain::model::ModelEvent;
use talaria_openapi::messages::{FinishReason, Usage};

use super::super::Decoder;
use crate::error::Kind;

fn decode(pieces: &[&[u8]]) -> Vec<Result<ModelEvent, Kind>> {
    let mut decoder = Decoder::default();
    let mut events: Vec<_> = pieces.iter().flat_map(|piece| decoder.push(piece)).collect();
    events.extend(decoder.finish());
    events
}

/// Events in a form that doesn't depend on how text was cut or what id was made up.
fn told(events: Vec<Result<ModelEvent, Kind>>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for event in events {
        let (kind, text) = match event {
            Ok(ModelEvent::Text(text)) => ("text ", text),
            Ok(ModelEvent::Reasoning(text)) => ("reasoning ", text),
            Ok(ModelEvent::CallArguments { index, json }) => (["args0 ", "args1 ", "args2 "][index], json),
            Ok(ModelEvent::CallStarted { index, id, name }) => {
                let id = if id.starts_with("call_01") {
                    "made-up".to_owned()
                } else {
                    id
                };
                told.push(format!("call{index} {id} {name}"));
                continue;
            }
            other => {
                told.push(format!("{other:?}"));
                continue;
            }
        };
        match told.last_mut() {
            Some(last) if last.starts_with(kind) => last.push_str(&text),
            _ => told.push(format!("{kind}{text}")),
        }
    }
    told
}

fn chunk(delta: &str, finish: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
}

/// Streams as providers send them, and what they say.
#[expect(clippy::too_many_lines, reason = "a table")]
fn samples() -> Vec<(String, Vec<&'static str>)> {
    let hi = chunk(r#"{"content":"Grüß 🙂"}"#, "null");
    let stop = chunk("{}", r#""stop""#);
    let done = "data: [DONE]\n\n";
    let finished = "Ok(Finished(Stop))";
    let called = "Ok(Finished(ToolCalls))";
    vec![
        (format!("{hi}{stop}{done}"), vec!["text Grüß 🙂", finished]),
        (
            format!("{hi}{stop}").replace('\n', "\r\n"),
            vec!["text Grüß 🙂", finished],
        ),
        (
            format!(": OPENROUTER PROCESSING\n\n:\n\ndata:\n\n{hi}event: x\n{stop}{done}"),
            vec!["text Grüß 🙂", finished],
        ),
        (
            format!(
                "\u{feff}{hi}{stop}data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":2}}}}\n\n{done}"
            ),
            vec![
                "text Grüß 🙂",
                "Ok(Usage(Usage { input_tokens: 3, output_tokens: 2, cached_tokens: 0, cost_usd: 0.0 }))",
                finished,
            ],
        ),
        (
            format!(
                "{}{stop}{done}",
                chunk(r#"{"content":null,"reasoning_content":"hm"}"#, "null")
            ),
            vec!["reasoning hm", finished],
        ),
        // Three calls, all numbered 0, told apart by their ids (fault D6).
        (
            format!(
                "{}{}{stop}{done}",
                chunk(
                    r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}"#,
                    "null"
                ),
                chunk(
                    r#"{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]}"#,
                    "null"
                )
            ),
            vec!["call0 a f", "args0 {\"x\":1}", "call1 b g", "args1 {}", called],
        ),
        // Without ids: told apart by their names.
        (
            format!(
                "{}{stop}{done}",
                chunk(
                    r#"{"tool_calls":[{"function":{"name":"f","arguments":{"x":1}}},{"function":{"name":"g","arguments":null}}]}"#,
                    "null"
                )
            ),
            vec!["call0 made-up f", "args0 {\"x\":1}", "call1 made-up g", called],
        ),
        // The name in every piece, without ids: one call until its arguments are whole.
        (
            format!(
                "{}{}{}{stop}{done}",
                chunk(
                    r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"x\""}}]}"#,
                    "null"
                ),
                chunk(
                    r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":":1}"}}]}"#,
                    "null"
                ),
                chunk(
                    r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}"#,
                    "null"
                )
            ),
            vec![
                "call0 made-up f",
                "args0 {\"x\":1}",
                "call1 made-up f",
                "args1 {}",
                called,
            ],
        ),
        // One id for two indexes: two calls.
        (
            format!(
                "{}{stop}{done}",
                chunk(
                    r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}]}"#,
                    "null"
                )
            ),
            vec!["call0 a f", "args0 {}", "call1 made-up g", "args1 {}", called],
        ),
        // One at a time, id and name only in the first piece.
        (
            format!(
                "{}{}{}{done}",
                chunk(
                    r#"{"tool_calls":[{"index":1,"id":"z","type":"function","function":{"name":"f"}}]}"#,
                    "null"
                ),
                chunk(
                    r#"{"tool_calls":[{"index":1,"id":"","function":{"arguments":"{}"}}]}"#,
                    "null"
                ),
                chunk("{}", r#""tool_calls""#)
            ),
            vec!["call0 z f", "args0 {}", called],
        ),
        (
            format!(
                "{}{stop}{done}",
                chunk(r#"{"function_call":{"name":"f","arguments":"{}"}}"#, "null")
            ),
            vec!["call0 made-up f", "args0 {}", called],
        ),
        (
            format!("{}{stop}{done}", chunk(r#"{"content":"a\ud800b\ud83d\ude42"}"#, "null")),
            vec!["text a\u{fffd}b🙂", finished],
        ),
        (
            r#"{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}"#.to_owned(),
            vec!["text whole", finished],
        ),
        (
            format!("{hi}data: {{\"error\":{{\"message\":\"overloaded\",\"code\":529}}}}\n\n"),
            vec![
                "text Grüß 🙂",
                r#"Err(Answered { status: Some(529), body: "overloaded" })"#,
            ],
        ),
        (
            hi.clone(),
            vec!["text Grüß 🙂", r#"Err(Malformed("it ended without saying why"))"#],
        ),
        (
            format!("{hi}{done}"),
            vec!["text Grüß 🙂", r#"Err(Malformed("it ended without saying why"))"#],
        ),
        (
            format!("{hi}data: {{\"choi\n\n{stop}"),
            vec!["text Grüß 🙂", "Err(Malformed(\"a piece is no JSON: {\\\"choi\"))"],
        ),
        (
            format!(
                "{}{done}",
                chunk(r#"{"content":[{"type":"text","text":"x"}]}"#, r#""length""#)
            ),
            vec!["text x", "Ok(Finished(Length))"],
        ),
        // Thoughts in the text; only at its beginning.
        (
            format!(
                "{}{}{stop}{done}",
                chunk(r#"{"content":"<thi"}"#, "null"),
                chunk(r#"{"content":"nk>hm</think>\n\nSo <think>"}"#, "null")
            ),
            vec!["reasoning hm", "text So <think>", finished],
        ),
        // One event over several lines, with both line ends.
        (
            "data: {\"choices\":[{\"delta\":\r\ndata: {\"content\":\"a\"},\r\ndata: \"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\r\n\r\n".to_owned(),
            vec!["text a", finished],
        ),
        (format!("{hi}{stop}{done}").replace('\n', "\r"), vec!["text Grüß 🙂", finished]),
        // Errors by the name of their event, with and without a field for them, and as bare text.
        (
            format!("{hi}event: error\ndata: {{\"message\":\"out of memory\"}}\n\n"),
            vec!["text Grüß 🙂", r#"Err(Answered { status: None, body: "out of memory" })"#],
        ),
        (
            format!("{hi}event: error\ndata: upstream is gone\n\n"),
            vec!["text Grüß 🙂", r#"Err(Answered { status: None, body: "upstream is gone" })"#],
        ),
        (
            format!("{hi}data: {{\"error\":\"quota\"}}\n\n"),
            vec!["text Grüß 🙂", r#"Err(Answered { status: None, body: "quota" })"#],
        ),
        (
            format!("{hi}data: \"upstream is gone\"\n\n"),
            vec!["text Grüß 🙂", r#"Err(Answered { status: None, body: "upstream is gone" })"#],
        ),
        (
            format!("{hi}data: {{\"object\":\"error\",\"message\":\"no\",\"code\":\"429\"}}\n\n"),
            vec!["text Grüß 🙂", r#"Err(Answered { status: Some(429), body: "429: no" })"#],
        ),
        (format!("{hi}data: [1]\n\n"), vec!["text Grüß 🙂", r#"Err(Malformed("a piece is no object: [1]"))"#]),
        // What may have become a tag was said, also where the answer fails.
        (
            format!("{}data: {{\"error\":\"quota\"}}\n\n", chunk(r#"{"content":"<thi"}"#, "null")),
            vec!["text <thi", r#"Err(Answered { status: None, body: "quota" })"#],
        ),
        // An empty error is none, an empty thought hides none, a bill may stand in the choice.
        (
            format!(
                "{}data: {{\"error\":null,\"choices\":[{{\"delta\":null,\"finish_reason\":\"stop\",\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":1,\"prompt_cache_hit_tokens\":2}}}}]}}\n\ndata: {{\"error\":\"\"}}\n\n{done}",
                chunk(r#"{"content":"","reasoning_content":"","reasoning":"hm"}"#, "null")
            ),
            vec![
                "reasoning hm",
                "Ok(Usage(Usage { input_tokens: 3, output_tokens: 1, cached_tokens: 2, cost_usd: 0.0 }))",
                finished,
            ],
        ),
        // A call that got its id late is one call; a piece of nothing is none.
        (
            format!(
                "{}{}{}{stop}{done}",
                chunk(r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}},{"index":1}]}"#, "null"),
                chunk(r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{\"x\":"}}]}"#, "null"),
                chunk(r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"1}"}}]}"#, "null")
            ),
            vec!["call0 made-up f", "args0 {\"x\":1}", called],
        ),
        // One id for calls of two tools: two calls.
        (
            format!(
                "{}{stop}{done}",
                chunk(
                    r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"a","function":{"name":"g","arguments":"{}"}}]}"#,
                    "null"
                )
            ),
            vec!["call0 a f", "args0 {}", "call1 made-up g", "args1 {}", called],
        ),
        // Numbered as they are announced, not as they are placed.
        (
            format!(
                "{}{}{stop}{done}",
                chunk(
                    r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}"#,
                    "null"
                ),
                chunk(r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}"#, "null")
            ),
            vec!["call0 b g", "args0 {}", "call1 a f", "args1 {}", called],
        ),
        // A call of nothing is not dropped in silence.
        (
            format!(
                "{}{stop}{done}",
                chunk(r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}"#, "null")
            ),
            vec![r#"Err(Malformed("it calls a tool without naming it"))"#],
        ),
    ]
}

#[test]
fn fault_f1_to_f7_providers_take_liberties() {
    for (sample, expected) in samples() {
        assert_eq!(told(decode(&[sample.as_bytes()])), expected, "{sample}");
    }
}

#[test]
fn any_split_in_two_and_bytewise_gives_the_same() {
    for (sample, expected) in samples() {
        let bytes = sample.as_bytes();
        for at in 0..bytes.len() {
            assert_eq!(
                told(decode(&[&bytes[..at], &bytes[at..]])),
                expected,
                "{at} of {sample}"
            );
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(told(decode(&single)), expected, "{sample}");
    }
}

proptest! {
    #[test]
    fn garbage_is_an_error_at_worst(bytes: Vec<u8>, cut in 0_usize..64) {
        let cut = cut.min(bytes.len());
        let events = decode(&[&bytes[..cut], &bytes[cut..]]);
        prop_assert!(events.last().is_some_and(Result::is_err));
    }

    #[test]
    fn a_garbled_stream_ends_once(which in 0..samples().len(), at in 0_usize..400, byte: u8) {
        let (sample, _) = samples().swap_remove(which);
        let mut bytes = sample.into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let events = decode(&[&bytes]);
        let ends = events.iter().filter(|event| matches!(event, Err(_) | Ok(ModelEvent::Finished(_)))).count();
        prop_assert_eq!(ends, 1);
    }

    #[test]
    fn any_cuts_give_the_same(which in 0..samples().len(), cuts: Vec<prop::sample::Index>) {
        let (sample, expected) = samples().swap_remove(which);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(sample.len())).collect();
        places.extend([0, sample.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &sample.as_bytes()[pair[0]..pair[1]]).collect();
        prop_assert_eq!(told(decode(&pieces)), expected);
    }
}

#[test]
fn usage_of_the_cache_is_read() {
    let chunk = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":8},\"cost\":0.5}}\n\n";
    let usage = Usage {
        input_tokens: 9,
        output_tokens: 1,
        cached_tokens: 8,
        cost_usd: 0.5,
    };
    let expected = vec![
        Ok(ModelEvent::Usage(usage)),
        Ok(ModelEvent::Finished(FinishReason::Stop)),
    ];
    assert_eq!(decode(&[chunk.as_bytes()]), expected);
}
