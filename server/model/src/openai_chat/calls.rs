//! Puts the calls of an answer together, from pieces that providers number and name in their own ways.

use serde_json::Value;
use talaria_domain::model::ModelEvent;

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// The ids of those that were announced, in their order.
    announced: Vec<String>,
}

#[derive(Debug, Default)]
struct Call {
    /// Where the provider says that it is; several calls may claim the same place.
    place: Option<u64>,
    /// What the provider calls it; some say so late, or never.
    given_id: Option<String>,
    name: String,
    /// Its number, once it was announced; it is with its name.
    number: Option<usize>,
    /// The arguments so far.
    json: String,
}

/// A piece of a call, as the provider sent it.
struct Piece<'a> {
    place: Option<u64>,
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
            place: entry.get("index").and_then(Value::as_u64),
            id: text(entry.get("id")),
            name: text(function.get("name")),
            arguments: match function.get("arguments") {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => String::new(),
                Some(value) => value.to_string(),
            },
        }
    }

    fn says_nothing(&self) -> bool {
        self.id.is_none() && self.name.is_none() && self.arguments.is_empty()
    }
}

impl Calls {
    /// Whether any call was announced.
    pub(super) fn any(&self) -> bool {
        !self.announced.is_empty()
    }

    /// Whether the model began a call and never said of what.
    pub(super) fn any_nameless(&self) -> bool {
        self.announced.len() < self.calls.len()
    }

    /// Takes a piece; gives what of the call is new.
    pub(super) fn take(&mut self, entry: &Value) -> Vec<ModelEvent> {
        let piece = Piece::of(entry);
        if piece.says_nothing() {
            return Vec::new();
        }
        let at = self.call_of(&piece).unwrap_or_else(|| {
            self.calls.push(Call {
                place: piece.place,
                ..Call::default()
            });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(at) else {
            return Vec::new();
        };
        call.given_id = call.given_id.take().or_else(|| piece.id.map(str::to_owned));
        if let Some(name) = piece.name.filter(|_| call.name.is_empty()) {
            name.clone_into(&mut call.name);
        }
        call.json.push_str(&piece.arguments);
        let mut events = Vec::new();
        let (index, json) = match call.number {
            Some(number) => (number, piece.arguments),
            None if call.name.is_empty() => return events,
            None => {
                events.push(announce(call, &mut self.announced));
                // With what came before the name.
                (self.announced.len() - 1, call.json.clone())
            }
        };
        if !json.is_empty() {
            events.push(ModelEvent::CallArguments { index, json });
        }
        events
    }

    /// Which call a piece belongs to; `None` begins a new one. Some providers number all calls 0: another id, or another name,
    /// is another call. Others repeat the name in every piece: it is the same call until its arguments are whole.
    fn call_of(&self, piece: &Piece<'_>) -> Option<usize> {
        let fits = |call: &Call| piece.place.is_none() || call.place.is_none() || call.place == piece.place;
        let has_id = |call: &Call| piece.id.is_some() && call.given_id.as_deref() == piece.id;
        let by_id = self.calls.iter().rposition(|call| has_id(call) && fits(call));
        let at = by_id.or_else(|| match piece.place {
            Some(_) => self.calls.iter().rposition(|call| call.place == piece.place),
            None => self.calls.len().checked_sub(1),
        })?;
        let call = self.calls.get(at)?;
        let is_other_id = by_id.is_none() && piece.id.is_some() && call.given_id.is_some();
        let is_other_name = piece
            .name
            .is_some_and(|name| !call.name.is_empty() && name != call.name);
        let is_again = by_id.is_none() && piece.name.is_some() && call.number.is_some() && is_json(&call.json);
        (!is_other_id && !is_other_name && !is_again).then_some(at)
    }
}

/// Gives a call its number and its id: the provider's own, unless it has none or another call has it already.
fn announce(call: &mut Call, announced: &mut Vec<String>) -> ModelEvent {
    let index = announced.len();
    let id = call
        .given_id
        .clone()
        .filter(|id| !announced.contains(id))
        .unwrap_or_else(|| format!("call_{}", talaria_openapi::ids::MessageId::new().ulid()));
    announced.push(id.clone());
    call.number = Some(index);
    ModelEvent::CallStarted {
        index,
        id,
        name: call.name.clone(),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
