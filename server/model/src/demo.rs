//! The built-in model `demo/demo`: needs nothing, is always the same, and says that it is a demo.
//!
//! It understands a handful of requests, and works on them by really calling tools. It is the model of first runs, of the
//! documentation, and of load tests.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use talaria_domain::model::{ModelClient, ModelError, ModelEvent, ModelMessage, ModelRequest, ModelStream};
use talaria_openapi::messages::{FinishReason, Usage};

/// Longest passage of a tool's result that is shown in an answer, in lines.
const SHOWN_LINES: usize = 40;
/// Most words of a load test.
const MAX_WORDS: usize = 100_000;
/// Files that say what a project is, the best first.
const ABOUT: &[&str] = &[
    "README.md",
    "README.txt",
    "README",
    "readme.md",
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
];

const INTRODUCTION: &str =
    "I am Talaria's built-in demo model: I can do little, but what I do, I do with the real tools.\n\n";
const HELP: &str = "I don't understand that. I am the built-in demo model, and understand only these:\n\n\
- `list the files here`\n\
- `read README.md`\n\
- `write notes.txt: what to write`\n\
- `find TODO in the files`\n\
- `what did I say about …`\n\n\
To connect a real model, do one of these and restart the server (`talaria server stop`):\n\n\
1. set `model` and `providers` in `config.yaml` of the home folder;\n\
2. put `OPENAI_API_KEY` or `OPENROUTER_API_KEY` into the environment;\n\
3. run Ollama, LM Studio or llama.cpp on this machine.\n";

/// The demo model.
#[derive(Debug, Clone, Copy)]
pub struct Demo {
    token_delay: Duration,
}

impl Demo {
    /// A demo that waits this long before each word.
    #[must_use]
    pub fn new(token_delay: Duration) -> Self {
        Self { token_delay }
    }
}

/// What it does next.
#[derive(Debug, PartialEq)]
enum Move {
    Say(String),
    Call(&'static str, Value),
}

#[async_trait]
impl ModelClient for Demo {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let input_tokens = estimate(&request.system) + request.messages.iter().map(length).sum::<u64>();
        let mut events = Vec::new();
        let (output_tokens, finish) = match decide(&request) {
            Move::Say(text) => {
                let tokens = estimate(&text);
                events.extend(words(&text).map(ModelEvent::Text));
                (tokens, FinishReason::Stop)
            }
            Move::Call(name, arguments) => {
                let (id, json) = (format!("demo_{}", request.messages.len()), arguments.to_string());
                let tokens = estimate(&json);
                events.push(ModelEvent::CallStarted {
                    index: 0,
                    id,
                    name: name.to_owned(),
                });
                events.push(ModelEvent::CallArguments { index: 0, json });
                (tokens, FinishReason::ToolCalls)
            }
        };
        events.push(ModelEvent::Usage(Usage {
            input_tokens,
            output_tokens,
            ..Usage::default()
        }));
        events.push(ModelEvent::Finished(finish));
        let delay = self.token_delay;
        let stream = futures_util::stream::iter(events).then(move |event| async move {
            if delay.is_zero() {
                // Lets others in between, as a model on the network does.
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(delay).await;
            }
            Ok(event)
        });
        Ok(stream.boxed())
    }
}

fn estimate(text: &str) -> u64 {
    text.len() as u64 / 4 + 1
}

fn length(message: &ModelMessage) -> u64 {
    match message {
        ModelMessage::User { text } | ModelMessage::Assistant { text, .. } | ModelMessage::Tool { text, .. } => {
            estimate(text)
        }
    }
}

/// Words with the white space behind them.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_inclusive(' ').map(str::to_owned)
}

fn decide(request: &ModelRequest) -> Move {
    let asked = request
        .messages
        .iter()
        .rposition(|message| matches!(message, ModelMessage::User { .. }));
    let Some(ModelMessage::User { text }) = asked.and_then(|at| request.messages.get(at)) else {
        return Move::Say(HELP.to_owned());
    };
    let since = request.messages.get(asked.unwrap_or(0) + 1..).unwrap_or_default();
    let said_before = request
        .messages
        .iter()
        .any(|message| matches!(message, ModelMessage::Assistant { .. }));
    let results: Vec<&str> = since
        .iter()
        .filter_map(|message| match message {
            ModelMessage::Tool { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let next = answer(text, &results, request);
    let can_call = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    match next {
        Move::Call(name, _) if !can_call(name) => {
            Move::Say(format!("I would use the tool `{name}`, but it isn't available here.\n"))
        }
        // The first answer of a conversation says what speaks.
        Move::Say(text)
            if text != HELP
                && !is_load_test(&text)
                && !(said_before && results.is_empty())
                && first_answer(request) =>
        {
            Move::Say(format!("{INTRODUCTION}{text}"))
        }
        other => other,
    }
}

fn first_answer(request: &ModelRequest) -> bool {
    !request
        .messages
        .iter()
        .any(|message| matches!(message, ModelMessage::Assistant { calls, .. } if calls.is_empty()))
}

fn is_load_test(text: &str) -> bool {
    text.starts_with("word1")
}

fn answer(asked: &str, results: &[&str], request: &ModelRequest) -> Move {
    let asked = asked.trim();
    let lower = asked.to_lowercase();
    if let Some(count) = lower
        .strip_prefix("say ")
        .and_then(|rest| rest.strip_suffix(" words"))
        .and_then(|count| count.parse().ok())
    {
        let said: Vec<String> = (1..=usize::min(count, MAX_WORDS))
            .map(|index| format!("word{index}"))
            .collect();
        return Move::Say(said.join(" "));
    }
    if let Some(topic) = after(&lower, "what did i say about ") {
        return Move::Say(recall(topic, request));
    }
    if lower.starts_with("write ") {
        return write(asked, results);
    }
    let wants_list = lower.contains("list the files") || lower.contains("list files") || lower.contains("what files");
    if wants_list {
        return list(&lower, results);
    }
    if let Some(what) = ["read ", "show me ", "show "]
        .iter()
        .find_map(|verb| lower.strip_prefix(verb))
    {
        // Cut from the original: a name keeps its capitals.
        let name = asked.get(asked.len() - what.len()..).unwrap_or(what);
        return read(name.trim().trim_end_matches(['.', '?', '!']), results);
    }
    if let Some(what) = ["find ", "search for ", "search "]
        .iter()
        .find_map(|verb| lower.strip_prefix(verb))
    {
        let named = asked.get(asked.len() - what.len()..).unwrap_or(what);
        return find(named, results);
    }
    Move::Say(HELP.to_owned())
}

fn after<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    text.split_once(phrase)
        .map(|(_, rest)| rest.trim().trim_end_matches(['?', '.', '!']))
        .filter(|rest| !rest.is_empty())
}

fn recall(topic: &str, request: &ModelRequest) -> String {
    let earlier = request
        .messages
        .iter()
        .rev()
        .skip(1)
        .filter_map(|message| match message {
            ModelMessage::User { text } if text.to_lowercase().contains(topic) => Some(text.as_str()),
            _ => None,
        });
    match earlier.take(3).map(|text| format!("> {text}\n")).collect::<String>() {
        quotes if quotes.is_empty() => format!("You said nothing about “{topic}” in this conversation.\n"),
        quotes => format!("About “{topic}” you said:\n\n{quotes}"),
    }
}

/// `write NAME: CONTENT`, or `write CONTENT to NAME`.
fn write(asked: &str, results: &[&str]) -> Move {
    if let Some(result) = results.first() {
        return Move::Say(format!("Done: {result}.\n"));
    }
    let rest = asked.split_once(' ').map_or("", |(_, rest)| rest).trim();
    let (name, content) = match (rest.split_once(": "), rest.rsplit_once(" to ")) {
        (Some((name, content)), _) => (name, content),
        (None, Some((content, name))) => (name, content),
        (None, None) => return Move::Say("Say it like this: `write notes.txt: what to write`.\n".to_owned()),
    };
    Move::Call(
        "write_file",
        json!({"path": name.trim(), "content": format!("{}\n", content.trim())}),
    )
}

fn list(lower: &str, results: &[&str]) -> Move {
    let Some(listing) = results.first() else {
        return Move::Call("search_files", json!({"pattern": "*", "target": "files"}));
    };
    let wants_about = lower.contains("what this") || lower.contains("project");
    let about = ABOUT.iter().find(|name| listing.lines().any(|line| line == **name));
    match (wants_about, about, results.get(1)) {
        (true, Some(name), None) => Move::Call("read_file", json!({"path": name, "limit": 40})),
        (true, Some(name), Some(content)) => Move::Say(format!("{}\n{}", describe(name, content), files(listing))),
        _ => Move::Say(files(listing)),
    }
}

fn files(listing: &str) -> String {
    let names: Vec<&str> = listing.lines().filter(|line| !line.starts_with('(')).collect();
    let shown: String = names
        .iter()
        .take(SHOWN_LINES)
        .map(|name| format!("- `{name}`\n"))
        .collect();
    let rest = if names.len() > SHOWN_LINES || listing.contains("(more") {
        "\nThere are more; I show the first ones.\n"
    } else {
        ""
    };
    format!("These files are here:\n\n{shown}{rest}")
}

/// Heading and first paragraph of a file that was read.
fn describe(name: &str, content: &str) -> String {
    let lines = content
        .lines()
        .map(|line| line.split_once('|').map_or(line, |(_, text)| text).trim());
    let mut heading = None;
    let mut paragraph = Vec::new();
    for line in lines {
        match line {
            "" if !paragraph.is_empty() => break,
            "" => {}
            line if line.starts_with('#') && heading.is_none() => heading = Some(line.trim_start_matches('#').trim()),
            line => paragraph.push(line),
        }
    }
    let heading = heading.map(|heading| format!("**{heading}**: ")).unwrap_or_default();
    format!(
        "What this project is, as `{name}` says it:\n\n{heading}{}\n",
        paragraph.join(" ")
    )
}

fn read(name: &str, results: &[&str]) -> Move {
    match results.first() {
        None => Move::Call("read_file", json!({"path": name.trim_matches('`')})),
        Some(content) => Move::Say(format!("`{name}` says:\n\n{}", quote(content))),
    }
}

fn find(what: &str, results: &[&str]) -> Move {
    let lower = what.to_lowercase();
    let end = [" in the files", " in files", " in this project", " here"]
        .iter()
        .find_map(|end| lower.rfind(end))
        .unwrap_or(what.len());
    let wanted = what
        .get(..end)
        .unwrap_or(what)
        .trim()
        .trim_matches(['"', '`', '“', '”']);
    match results.first() {
        None => Move::Call("search_files", json!({"pattern": wanted})),
        Some(found) => Move::Say(format!("This is where `{wanted}` stands:\n\n{}", quote(found))),
    }
}

fn quote(text: &str) -> String {
    let lines: Vec<&str> = text.lines().take(SHOWN_LINES).collect();
    let rest = if text.lines().count() > SHOWN_LINES {
        "\n…"
    } else {
        ""
    };
    format!("````\n{}{rest}\n````\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use talaria_domain::model::{ModelCall, ModelTool};

    use super::*;

    fn request(messages: Vec<ModelMessage>) -> ModelRequest {
        let tool = |name: &str| ModelTool {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({}),
        };
        let tools = ["read_file", "write_file", "search_files"].map(tool).to_vec();
        ModelRequest {
            model: "demo".to_owned(),
            system: String::new(),
            messages,
            tools,
            max_output_tokens: None,
        }
    }

    fn user(text: &str) -> ModelMessage {
        ModelMessage::User { text: text.to_owned() }
    }

    fn called(name: &str, result: &str) -> [ModelMessage; 2] {
        let call = ModelCall {
            id: "c".to_owned(),
            name: name.to_owned(),
            arguments: "{}".to_owned(),
        };
        let result = ModelMessage::Tool {
            call_id: "c".to_owned(),
            text: result.to_owned(),
        };
        [
            ModelMessage::Assistant {
                text: String::new(),
                calls: vec![call],
            },
            result,
        ]
    }

    #[test]
    fn requests_become_calls() {
        for (asked, expected) in [
            (
                "list the files here",
                Move::Call("search_files", json!({"pattern": "*", "target": "files"})),
            ),
            ("Read README.md.", Move::Call("read_file", json!({"path": "README.md"}))),
            (
                "write a.txt: Hello World",
                Move::Call("write_file", json!({"path": "a.txt", "content": "Hello World\n"})),
            ),
            (
                "Write hello to a.txt",
                Move::Call("write_file", json!({"path": "a.txt", "content": "hello\n"})),
            ),
            (
                "find TODO in the files",
                Move::Call("search_files", json!({"pattern": "TODO"})),
            ),
        ] {
            assert_eq!(decide(&request(vec![user(asked)])), expected, "{asked}");
        }
    }

    #[test]
    fn results_become_answers() {
        let mut messages = vec![user("list the files here and tell me what this project is")];
        messages.extend(called("search_files", "README.md\nsrc/main.rs"));
        assert_eq!(
            decide(&request(messages.clone())),
            Move::Call("read_file", json!({"path": "README.md", "limit": 40}))
        );
        messages.extend(called("read_file", "1|# Thing\n2|\n3|It does\n4|things.\n5|\n6|More."));
        let Move::Say(text) = decide(&request(messages)) else {
            panic!("an answer")
        };
        assert!(
            text.starts_with(INTRODUCTION)
                && text.contains("**Thing**: It does things.")
                && text.contains("- `src/main.rs`"),
            "{text}"
        );
    }

    #[test]
    fn anything_else_is_answered_honestly() {
        assert!(
            matches!(decide(&request(vec![user("write me a poem")])), Move::Say(text) if text.contains("Say it like this"))
        );
        assert_eq!(decide(&request(vec![user("how are you?")])), Move::Say(HELP.to_owned()));
        let mut without_tools = request(vec![user("read x")]);
        without_tools.tools.clear();
        assert!(matches!(decide(&without_tools), Move::Say(text) if text.contains("isn't available")));
    }

    #[test]
    fn it_recalls_what_was_said() {
        let answered = ModelMessage::Assistant {
            text: "ok".to_owned(),
            calls: Vec::new(),
        };
        let messages = vec![user("I like green tea"), answered, user("What did I say about tea?")];
        assert!(matches!(decide(&request(messages)), Move::Say(text) if text.contains("> I like green tea")));
    }

    #[tokio::test]
    async fn it_streams_word_by_word() {
        let stream = Demo::new(Duration::ZERO)
            .stream(request(vec![user("say 3 words")]))
            .await
            .unwrap();
        let events: Vec<ModelEvent> = stream.map(Result::unwrap).collect().await;
        let texts: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                ModelEvent::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(texts, ["word1 ", "word2 ", "word3"]);
        assert_eq!(events.last(), Some(&ModelEvent::Finished(FinishReason::Stop)));
    }
}
