//! What a run asks its person: how it is put, and what a typed line means as an answer. Pure.

use std::collections::{BTreeMap, VecDeque};

use talaria_openapi::ids::InteractionId;
use talaria_openapi::interactions::{
    ChoiceId, Interaction, InteractionKind, InteractionStatus, Question, ResolveInteractionRequest,
};

/// What waits, first one first, and the answers to its questions so far.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    waiting: VecDeque<Interaction>,
    answers: BTreeMap<String, Vec<String>>,
}

/// What a line led to.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    /// This is the answer.
    Answer(InteractionId, Box<ResolveInteractionRequest>),
    /// There is more to ask, or to say.
    Say(Vec<String>),
}

impl Asked {
    /// Whether a line is an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes what is asked; gives what to show.
    pub(crate) fn ask(&mut self, interaction: &Interaction) -> Vec<String> {
        self.waiting.push_back(interaction.clone());
        if self.waiting.len() == 1 {
            self.put()
        } else {
            Vec::new()
        }
    }

    /// What was answered, here or elsewhere, waits no more; gives what to show.
    pub(crate) fn close(&mut self, interaction: &Interaction) -> Vec<String> {
        let was_first = self.waiting.front().is_some_and(|first| first.id == interaction.id);
        self.waiting.retain(|waiting| waiting.id != interaction.id);
        let mut said = match interaction.status {
            InteractionStatus::Expired => vec!["nobody answered in time: that counts as no".to_owned()],
            _ => Vec::new(),
        };
        if was_first {
            self.answers.clear();
            said.extend(self.put());
        }
        said
    }

    /// How the first one is put to a person.
    fn put(&self) -> Vec<String> {
        let Some(first) = self.waiting.front() else {
            return Vec::new();
        };
        match (first.kind, self.open_question(first)) {
            (InteractionKind::Question, Some(question)) => put_question(question),
            _ => {
                let risk = first
                    .tool
                    .as_ref()
                    .map(|tool| format!(" ({:?} risk)", tool.risk).to_lowercase());
                vec![
                    format!("{}{}: {}", first.title, risk.unwrap_or_default(), first.message),
                    "/approve allows it once, /approve session or /approve always its like, too; /deny [WHY] doesn't"
                        .to_owned(),
                ]
            }
        }
    }

    fn open_question<'a>(&self, interaction: &'a Interaction) -> Option<&'a Question> {
        let mut questions = interaction.questions.iter();
        questions.find(|question| !self.answers.contains_key(&question.id))
    }

    /// What a line means to the first one that waits.
    pub(crate) fn hear(&mut self, line: &str) -> Option<Heard> {
        let first = self.waiting.front()?.clone();
        let line = line.trim();
        Some(match first.kind {
            InteractionKind::Approval => match approval(line) {
                Some(request) => Heard::Answer(first.id, Box::new(request)),
                None => Heard::Say(vec!["answer with /approve or /deny; /stop stops the run".to_owned()]),
            },
            InteractionKind::Question => self.hear_answer(&first, line),
        })
    }

    fn hear_answer(&mut self, first: &Interaction, line: &str) -> Heard {
        if line == "/skip" {
            return Heard::Answer(first.id, Box::new(choice(ChoiceId::Skip)));
        }
        let Some(question) = self.open_question(first) else {
            return Heard::Say(Vec::new());
        };
        match read_answer(question, line) {
            Err(problem) => Heard::Say(vec![problem]),
            Ok(given) => {
                self.answers.insert(question.id.clone(), given);
                if self.open_question(first).is_some() {
                    return Heard::Say(self.put());
                }
                let answers = Some(std::mem::take(&mut self.answers));
                let request = ResolveInteractionRequest {
                    answers,
                    ..ResolveInteractionRequest::default()
                };
                Heard::Answer(first.id, Box::new(request))
            }
        }
    }
}

/// The answer where there is nobody to ask.
pub(crate) fn nobody(interaction: &Interaction) -> ResolveInteractionRequest {
    match interaction.kind {
        InteractionKind::Question => choice(ChoiceId::Skip),
        InteractionKind::Approval => ResolveInteractionRequest {
            message: Some("nobody is there who could be asked".to_owned()),
            ..choice(ChoiceId::Deny)
        },
    }
}

fn choice(id: ChoiceId) -> ResolveInteractionRequest {
    ResolveInteractionRequest {
        choice: Some(id),
        ..ResolveInteractionRequest::default()
    }
}

fn approval(line: &str) -> Option<ResolveInteractionRequest> {
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (command, rest.trim()) {
        ("/approve", "") | ("y" | "yes", "") => Some(choice(ChoiceId::AllowOnce)),
        ("/approve", "session") => Some(choice(ChoiceId::AllowSession)),
        ("/approve", "always") => Some(choice(ChoiceId::AllowAlways)),
        ("/deny", why) => Some(ResolveInteractionRequest {
            message: Some(why.to_owned()).filter(|why| !why.is_empty()),
            ..choice(ChoiceId::Deny)
        }),
        ("n" | "no", "") => Some(choice(ChoiceId::Deny)),
        _ => None,
    }
}

fn put_question(question: &Question) -> Vec<String> {
    let mut said = vec![question.text.clone()];
    let options = question.options.iter().enumerate();
    said.extend(options.map(|(index, option)| format!("{}. {option}", index + 1)));
    let how = match (question.options.is_empty(), question.multiple, question.free_text) {
        (true, ..) => "write your answer; /skip leaves it to the agent",
        (false, true, _) => "write one number or more, such as 1,3; /skip leaves it to the agent",
        (false, false, true) => "write a number, or an answer of your own; /skip leaves it to the agent",
        (false, false, false) => "write a number; /skip leaves it to the agent",
    };
    said.push(how.to_owned());
    said
}

/// Numbers of options, an option itself, or an answer of one's own.
fn read_answer(question: &Question, line: &str) -> Result<Vec<String>, String> {
    if line.is_empty() {
        return Err("write an answer, or /skip".to_owned());
    }
    let by_number = |text: &str| {
        let index: usize = text.trim().parse().ok()?;
        question.options.get(index.checked_sub(1)?).cloned()
    };
    let numbers: Option<Vec<String>> = line.split(',').map(by_number).collect();
    match numbers {
        Some(given) if given.len() == 1 || question.multiple => Ok(given),
        Some(_) => Err("only one can be chosen".to_owned()),
        None if question.options.iter().any(|option| option == line) || question.free_text => Ok(vec![line.to_owned()]),
        None => Err(format!("write a number from 1 to {}", question.options.len())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn interaction(kind: &str, questions: &serde_json::Value) -> Interaction {
        let interaction = json!({
            "id": InteractionId::new(), "object": "interaction", "kind": kind, "status": "pending",
            "session_id": "ses_01JDZK8Q0V8M0F3H6S9W2B4C5D", "run_id": "run_01JDZK8Q0V8M0F3H6S9W2B4C5D", "tool_call_id": "c1",
            "title": "Run a command", "message": "make", "tool": null, "choices": [], "editable": false,
            "questions": questions, "expires_at": "2026-12-01T00:00:00.000Z", "expires_in_ms": 1, "resolution": null
        });
        serde_json::from_value(interaction).unwrap()
    }

    fn answer(heard: Option<Heard>) -> ResolveInteractionRequest {
        match heard {
            Some(Heard::Answer(_, request)) => *request,
            other => panic!("no answer: {other:?}"),
        }
    }

    #[test]
    fn an_approval_needs_clear_words() {
        for (line, expected) in [
            ("/approve", Some(ChoiceId::AllowOnce)),
            ("yes", Some(ChoiceId::AllowOnce)),
            ("/approve session", Some(ChoiceId::AllowSession)),
            ("/approve always", Some(ChoiceId::AllowAlways)),
            ("/deny too dangerous", Some(ChoiceId::Deny)),
            ("no", Some(ChoiceId::Deny)),
            ("ok, but only if", None),
            ("/approve everything", None),
            ("yes please delete it", None),
        ] {
            let mut asked = Asked::default();
            asked.ask(&interaction("approval", &json!([])));
            let given = match asked.hear(line) {
                Some(Heard::Answer(_, request)) => request.choice,
                _ => None,
            };
            assert_eq!(given, expected, "{line}");
        }
        let mut asked = Asked::default();
        asked.ask(&interaction("approval", &json!([])));
        assert_eq!(
            answer(asked.hear("/deny too dangerous")).message.as_deref(),
            Some("too dangerous")
        );
    }

    #[test]
    fn questions_are_asked_one_after_the_other() {
        let questions = json!([
            {"id": "q1", "text": "Which?", "options": ["main", "dev"], "multiple": false, "free_text": false},
            {"id": "q2", "text": "Why?", "options": [], "multiple": false, "free_text": true}
        ]);
        let mut asked = Asked::default();
        let put = asked.ask(&interaction("question", &questions));
        assert_eq!(put[..3], ["Which?", "1. main", "2. dev"]);
        assert!(matches!(asked.hear("3"), Some(Heard::Say(_))));
        assert!(matches!(asked.hear("1,2"), Some(Heard::Say(_))));
        let Some(Heard::Say(next)) = asked.hear("2") else {
            panic!("a second question")
        };
        assert_eq!(next[0], "Why?");
        let given = answer(asked.hear("because")).answers.unwrap();
        assert_eq!(
            given,
            BTreeMap::from([
                ("q1".to_owned(), vec!["dev".to_owned()]),
                ("q2".to_owned(), vec!["because".to_owned()])
            ])
        );
    }

    #[test]
    fn what_was_answered_elsewhere_makes_room_for_the_next() {
        let (first, second) = (interaction("approval", &json!([])), interaction("approval", &json!([])));
        let mut asked = Asked::default();
        assert!(!asked.ask(&first).is_empty());
        assert!(asked.ask(&second).is_empty(), "one at a time");
        assert!(!asked.close(&first).is_empty());
        assert!(asked.is_waiting());
        asked.close(&second);
        assert!(!asked.is_waiting() && asked.hear("yes").is_none());
    }
}
