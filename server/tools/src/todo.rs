//! `todo`: the agent's list of what it has to do, kept for the session while the server runs.

use std::collections::{HashMap, HashSet};

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
const MAX_ID_CHARS: usize = 64;
/// Sessions whose lists are kept; the one used longest ago goes first.
const MAX_SESSIONS: usize = 1_024;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    #[default]
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Item {
    id: String,
    content: String,
    status: Status,
}

/// An item as a call names it: what is left out of one that is merged stays as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    id: String,
    content: Option<String>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    todos: Option<Vec<Named>>,
    merge: Option<bool>,
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
                "content": {"type": "string", "description": "Needed for a new item."},
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"]}
            },
            "required": ["id"],
            "additionalProperties": false
        });
        let spec = ToolSpec {
            name: "todo",
            description: "Your list of steps for work of three steps or more. Without `todos` it is shown; with them it is \
                          replaced, or with `merge` updated by id (what you leave out stays). Have one item in progress \
                          at most, and tick off what is done at once.",
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
            let before = if wanted.merge.unwrap_or_default() {
                list.as_slice()
            } else {
                &[]
            };
            // A list that isn't in order is refused whole: the one before stays.
            *list = merged(before, todos).map_err(ToolError::Respond)?;
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

/// The list with the named items put into it: known ones changed in their places, new ones behind.
fn merged(before: &[Item], named: Vec<Named>) -> Result<Vec<Item>, String> {
    let mut items = before.to_vec();
    let mut seen = HashSet::new();
    for Named { id, content, status } in named {
        let id = id.trim().to_owned();
        if id.is_empty() || id.chars().count() > MAX_ID_CHARS {
            return Err(format!(
                "an id has 1 to {MAX_ID_CHARS} characters, such as `1`: `{id}` has not"
            ));
        }
        if !seen.insert(id.clone()) {
            return Err(format!("the id `{id}` stands there twice: give each item its own"));
        }
        match items.iter_mut().find(|item| item.id == id) {
            Some(item) => {
                item.content = content.unwrap_or_else(|| std::mem::take(&mut item.content));
                item.status = status.unwrap_or(item.status);
            }
            None => items.push(Item {
                content: content.ok_or_else(|| format!("the item `{id}` is new: say its `content`"))?,
                status: status.unwrap_or_default(),
                id,
            }),
        }
    }
    check(&items)?;
    Ok(items)
}

fn check(items: &[Item]) -> Result<(), String> {
    if items.len() > MAX_ITEMS {
        return Err(format!("at most {MAX_ITEMS} items: join some"));
    }
    for Item { id, content, .. } in items {
        if content.trim().is_empty() {
            return Err(format!("the item `{id}` has no content: say what is to be done"));
        }
        if content.chars().count() > MAX_CONTENT_CHARS {
            return Err(format!(
                "the item `{id}` has more than {MAX_CONTENT_CHARS} characters: say it shorter"
            ));
        }
    }
    let in_progress: Vec<&str> = items
        .iter()
        .filter(|item| item.status == Status::InProgress)
        .map(|item| item.id.as_str())
        .collect();
    if in_progress.len() > 1 {
        return Err(format!(
            "one item at most is in progress, not {}: finish the others or put them back to `pending`",
            in_progress.join(", ")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_used_longest_ago_goes_first() {
        let mut lists = Lists::default();
        let first = SessionId::new();
        let second = SessionId::new();
        let item = Item {
            id: "1".to_owned(),
            content: "look".to_owned(),
            status: Status::Pending,
        };
        lists.of(first).push(item.clone());
        lists.of(second).push(item);
        for _ in 2..MAX_SESSIONS {
            lists.of(SessionId::new());
        }
        assert_eq!(lists.of(first).len(), 1, "used again");
        lists.of(SessionId::new());
        assert_eq!(lists.of_session.len(), MAX_SESSIONS);
        assert!(lists.of_session.contains_key(&first) && !lists.of_session.contains_key(&second));
    }
}
