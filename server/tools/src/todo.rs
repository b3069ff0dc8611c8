//! `todo`: the agent's list of what it has to do, kept for the session while the server runs.

use std::collections::HashMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;
use talaria_domain::tool::{Arguments, Effect, Parallelism, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use talaria_openapi::ids::SessionId;
use talaria_openapi::tools::Risk;
use tokio::sync::Mutex;

use crate::arguments::read;

const MAX_ITEMS: usize = 256;
const MAX_CONTENT_CHARS: usize = 4_000;
/// Sessions whose lists are kept; the one used longest ago goes first.
const MAX_SESSIONS: usize = 1_024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    id: String,
    content: String,
    status: Status,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    todos: Option<Vec<Item>>,
    #[serde(default)]
    merge: bool,
}

#[derive(Default)]
struct Lists {
    of_session: HashMap<SessionId, (u64, Vec<Item>)>,
    uses: u64,
}

pub(crate) struct Todo {
    spec: ToolSpec,
    lists: Mutex<Lists>,
}

impl Todo {
    pub(crate) fn new() -> Self {
        let item = json!({
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "content": {"type": "string"},
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"]}
            },
            "required": ["id", "content", "status"],
            "additionalProperties": false
        });
        let spec = ToolSpec {
            name: "todo",
            description: "Your list of steps for work of three steps or more. Without `todos` it is shown; with them it is \
                          replaced, or updated by id with `merge`. Have one item in progress, and tick off what is done at once.",
            parameters: json!({
                "type": "object",
                "properties": {"todos": {"type": "array", "items": item}, "merge": {"type": "boolean"}},
                "additionalProperties": false
            }),
            toolset: "todo",
            risk: Risk::Low,
            effect: Effect::ReadOnly,
            parallelism: Parallelism::Alone,
        };
        Self {
            spec,
            lists: Mutex::default(),
        }
    }
}

#[async_trait]
impl Tool for Todo {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn preview(&self, arguments: &Arguments) -> String {
        match arguments.get("todos").and_then(serde_json::Value::as_array) {
            Some(todos) => format!("{} items", todos.len()),
            None => "show".to_owned(),
        }
    }

    async fn run(&self, arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let wanted: Wanted = read(arguments)?;
        let mut lists = self.lists.lock().await;
        let list = lists.of(context.session_id);
        if let Some(todos) = wanted.todos {
            let changed = if wanted.merge { merge(list, todos) } else { todos };
            check(&changed)?;
            *list = changed;
        }
        let count = |status| list.iter().filter(|item| item.status == status).count();
        let answer = json!({
            "todos": list,
            "summary": {
                "total": list.len(),
                "pending": count(Status::Pending),
                "in_progress": count(Status::InProgress),
                "completed": count(Status::Completed),
                "cancelled": count(Status::Cancelled)
            }
        });
        Ok(ToolOutput::ok(answer.to_string()))
    }
}

impl Lists {
    fn of(&mut self, session_id: SessionId) -> &mut Vec<Item> {
        self.uses += 1;
        if self.of_session.len() >= MAX_SESSIONS && !self.of_session.contains_key(&session_id) {
            let oldest = self
                .of_session
                .iter()
                .min_by_key(|(_, (used, _))| *used)
                .map(|(id, _)| *id);
            oldest.and_then(|id| self.of_session.remove(&id));
        }
        let entry = self.of_session.entry(session_id).or_default();
        entry.0 = self.uses;
        &mut entry.1
    }
}

fn merge(list: &[Item], changes: Vec<Item>) -> Vec<Item> {
    let mut merged = list.to_vec();
    for change in changes {
        match merged.iter_mut().find(|item| item.id == change.id) {
            Some(item) => *item = change,
            None => merged.push(change),
        }
    }
    merged
}

fn check(items: &[Item]) -> Result<(), ToolError> {
    if items.len() > MAX_ITEMS {
        return Err(ToolError::Respond(format!("at most {MAX_ITEMS} items: join some")));
    }
    if items
        .iter()
        .any(|item| item.content.chars().count() > MAX_CONTENT_CHARS)
    {
        return Err(ToolError::Respond(format!(
            "an item has at most {MAX_CONTENT_CHARS} characters: say it shorter"
        )));
    }
    Ok(())
}
