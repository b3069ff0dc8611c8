//! `clarify`: the agent asks the person something before it goes on.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use talaria_domain::tool::{Arguments, Effect, Parallelism, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use talaria_openapi::interactions::Question;
use talaria_openapi::tools::Risk;

const MAX_QUESTIONS: usize = 4;
const MAX_OPTIONS: usize = 8;
const MAX_CHARS: usize = 1_000;

/// Asks the person.
pub(crate) struct Clarify {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Wanted {
    questions: Vec<WantedQuestion>,
}

#[derive(Deserialize)]
struct WantedQuestion {
    text: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    multiple: bool,
    free_text: Option<bool>,
}

impl Clarify {
    pub(crate) fn new() -> Self {
        Self {
            spec: ToolSpec {
                name: "clarify",
                description: "Asks the user one to four questions and waits for the answers. Use it when something is \
                              unclear, matters, and can't be found out otherwise; never to ask for permission, and never \
                              for what you can decide yourself. Offer options where the answers can be foreseen.",
                parameters: json!({
                    "type": "object",
                    "properties": {
                        "questions": {
                            "type": "array",
                            "minItems": 1,
                            "maxItems": MAX_QUESTIONS,
                            "items": {
                                "type": "object",
                                "properties": {
                                    "text": {"type": "string", "description": "The question."},
                                    "options": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_OPTIONS,
                                        "description": "What can be chosen; none for a free answer."},
                                    "multiple": {"type": "boolean", "description": "More than one option can be chosen."},
                                    "free_text": {"type": "boolean", "description": "An answer of the user's own is taken, too; true when left out."}
                                },
                                "required": ["text"]
                            }
                        }
                    },
                    "required": ["questions"]
                }),
                toolset: "clarify",
                risk: Risk::Low,
                effect: Effect::ReadOnly,
                parallelism: Parallelism::Alone,
            },
        }
    }
}

/// The questions of a call; none when they make no sense, and [`Tool::run`] says why.
fn read(arguments: &Arguments) -> Result<Vec<Question>, String> {
    let wanted: Wanted = serde_json::from_value(Value::Object(arguments.clone()))
        .map_err(|error| format!("the questions can't be read: {error}"))?;
    if !(1..=MAX_QUESTIONS).contains(&wanted.questions.len()) {
        return Err(format!("ask one to {MAX_QUESTIONS} questions"));
    }
    let mut questions = Vec::with_capacity(wanted.questions.len());
    for (index, question) in wanted.questions.into_iter().enumerate() {
        let is_long = |text: &String| text.chars().count() > MAX_CHARS;
        if question.text.trim().is_empty() || is_long(&question.text) || question.options.iter().any(is_long) {
            return Err(format!(
                "a question has 1 to {MAX_CHARS} characters, an option at most as many"
            ));
        }
        if question.options.len() > MAX_OPTIONS {
            return Err(format!("offer at most {MAX_OPTIONS} options"));
        }
        questions.push(Question {
            id: format!("q{}", index + 1),
            text: question.text,
            // Without options only a free answer is possible.
            free_text: question.free_text.unwrap_or(true) || question.options.is_empty(),
            options: question.options,
            multiple: question.multiple,
        });
    }
    Ok(questions)
}

#[async_trait]
impl Tool for Clarify {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn preview(&self, arguments: &Arguments) -> String {
        let first = read(arguments).ok().and_then(|questions| questions.into_iter().next());
        talaria_text::cut::one_line(&first.map(|question| question.text).unwrap_or_default(), 80)
    }

    fn questions(&self, arguments: &Arguments) -> Option<Vec<Question>> {
        read(arguments).ok()
    }

    async fn run(&self, arguments: &Arguments, _context: &ToolContext) -> Result<ToolOutput, ToolError> {
        // Good questions are asked before a call gets here.
        let problem = read(arguments)
            .err()
            .unwrap_or_else(|| "nobody can be asked here".to_owned());
        Err(ToolError::Respond(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions(arguments: Value) -> Result<Vec<Question>, String> {
        let Value::Object(arguments) = arguments else {
            return Err("no object".to_owned());
        };
        read(&arguments)
    }

    #[test]
    fn questions_are_numbered_and_checked() {
        let read = questions(
            json!({"questions": [{"text": "Which?", "options": ["a", "b"], "free_text": false}, {"text": "Why?"}]}),
        );
        let read = read.unwrap();
        assert_eq!(
            (read[0].id.as_str(), read[0].free_text, read[1].free_text),
            ("q1", false, true)
        );
        for wrong in [
            json!({}),
            json!({"questions": []}),
            json!({"questions": [{"text": " "}]}),
            json!({"questions": [{"text": "x".repeat(1_001)}]}),
            json!({"questions": [{"text": "x", "options": ["a", "b", "c", "d", "e", "f", "g", "h", "i"]}]}),
            json!({"questions": [{"text": "1"}, {"text": "2"}, {"text": "3"}, {"text": "4"}, {"text": "5"}]}),
        ] {
            assert!(questions(wrong.clone()).is_err(), "{wrong}");
        }
        // A choice without options would have no answer.
        assert!(questions(json!({"questions": [{"text": "x", "free_text": false}]})).unwrap()[0].free_text);
    }
}
