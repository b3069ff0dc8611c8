//! Puts the calls of an answer together, from pieces that providers number and name in their own ways.

use serde_json::Value;
use talaria_domain::model::ModelEvent;

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    /// Whether it was announced; it is with its name.
    is_started: bool,
    /// The arguments so far.
    json: String,
}

/// A piece of a call, as the provider sent it.
struct Piece<'a> {
    index: Option<u64>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    arguments: String,
}

impl<'a> Piece<'a> {
    /// An entry of `tool_calls`, or the older `function_call`.
    fn of(entry: &'a Value) -> Self {
        let function = entry
            .get("function")
            .filter(|function| function.is_object())
            .unwrap_or(entry);
        let text = |value: Option<&'a Value>| value.and_then(Value::as_str).filter(|text| !text.is_empty());
        Self {
            index: entry.get("index").and_then(Value::as_u64),
            id: text(entry.get("id")),
            name: text(function.get("name")),
            arguments: match function.get("arguments") {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => String::new(),
                Some(value) => value.to_string(),
            },
        }
    }
}

impl Calls {
    /// Whether any call was announced.
    pub(super) fn any(&self) -> bool {
        self.0.iter().any(|call| call.is_started)
    }

    /// Whether the model began a call and never said of what.
    pub(super) fn any_nameless(&self) -> bool {
        self.0.iter().any(|call| !call.is_started)
    }

    /// Takes a piece; gives what of the call is new.
    pub(super) fn take(&mut self, entry: &Value) -> Vec<ModelEvent> {
        let piece = Piece::of(entry);
        let index = self.call_of(&piece);
        let Some(call) = self.0.get_mut(index) else {
            return Vec::new();
        };
        if let Some(name) = piece.name.filter(|_| call.name.is_empty()) {
            name.clone_into(&mut call.name);
        }
        call.json.push_str(&piece.arguments);
        if call.name.is_empty() {
            return Vec::new();
        }
        let (mut events, mut json) = (Vec::new(), piece.arguments);
        if !call.is_started {
            call.is_started = true;
            // With what came before the name.
            json.clone_from(&call.json);
            let (id, name) = (call.id.clone(), call.name.clone());
            events.push(ModelEvent::CallStarted { index, id, name });
        }
        if !json.is_empty() {
            events.push(ModelEvent::CallArguments { index, json });
        }
        events
    }

    /// Which call a piece belongs to. Some providers number all calls 0: a new id, or without ids a new name, is a new call.
    /// Others repeat the name in every piece: it is the same call until its arguments are whole.
    fn call_of(&mut self, piece: &Piece<'_>) -> usize {
        let Piece { index, id, name, .. } = *piece;
        let same_index = |call: &Call| index.is_none() || call.index.is_none() || call.index == index;
        let known = match (id, index) {
            (Some(id), _) => self.0.iter().rposition(|call| call.id == id && same_index(call)),
            (None, Some(index)) => self.0.iter().rposition(|call| call.index == Some(index)),
            (None, None) => self.0.len().checked_sub(1),
        };
        let goes_on = |call: &Call| {
            let is_whole = serde_json::from_str::<Value>(&call.json).is_ok();
            id.is_some() || !call.is_started || name.is_none_or(|name| name == call.name && !is_whole)
        };
        known
            .filter(|at| self.0.get(*at).is_some_and(goes_on))
            .unwrap_or_else(|| {
                let made_up = || format!("call_{}", talaria_openapi::ids::MessageId::new().ulid());
                self.0.push(Call {
                    index,
                    id: id.map_or_else(made_up, str::to_owned),
                    name: String::new(),
                    is_started: false,
                    json: String::new(),
                });
                self.0.len() - 1
            })
    }
}
