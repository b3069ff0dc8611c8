//! Inputs: what clients sent, and what became of it.

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::ObjectName;
use crate::ids::{InputId, RunId, SessionId};
use crate::messages::{Part, Role};
use crate::time::Timestamp;

/// What became of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum InputStatus {
    /// Stored.
    Accepted,
    /// Waits for its run's turn.
    Queued,
    /// In the transcript.
    Delivered,
    /// Became a run of its own.
    Promoted,
    /// Will never be delivered.
    Cancelled,
}

/// How an input is to reach the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It starts a run at once.
    Run,
    /// It starts a run when the session is idle.
    Queue,
    /// It stops the active run and takes its place.
    Interrupt,
    /// It is told to the active run at its next safe point.
    Steer,
}

/// What becomes of an input that steers when its run ends before it could be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum IfUndelivered {
    /// It becomes a run of its own.
    #[default]
    Queue,
    /// It is cancelled.
    Drop,
}

/// What a client sent to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Input {
    /// Its id.
    pub id: InputId,
    /// Always `input`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub object: ObjectName,
    /// The session that it was sent to.
    pub session_id: SessionId,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// What became of it.
    pub status: InputStatus,
    /// How it is to reach the agent.
    pub delivery: Delivery,
    /// The run that it became.
    pub run_id: Option<RunId>,
    /// What was sent.
    pub content: Vec<Part>,
    /// The chain's sequence number of its acceptance.
    pub accepted_seq: i64,
    /// The chain's sequence number of its delivery.
    pub delivered_seq: Option<i64>,
}

/// Body of `PATCH /v1/sessions/{id}/queue/{input_id}`: what is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct UpdateQueuedRequest {
    /// Other words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<InputBody>,
    /// Its place in the queue, from 1; beyond the end is the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// `queue`: it waits. `interrupt`: the active run stops for it. `steer`: the active run is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<QueuedDelivery>,
}

/// How an input that waits is to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum QueuedDelivery {
    /// When its turn comes.
    Queue,
    /// At once: the active run is stopped.
    Interrupt,
    /// To the active run, at its next safe point.
    Steer,
}

/// What a request says to the agent: plain text, or messages made of parts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum InputBody {
    /// Plain text.
    Text(String),
    /// Messages; only the role `user` is taken.
    Messages(Vec<InputMessage>),
}

/// A message of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct InputMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: InputContent,
}

/// The content of a message of a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum InputContent {
    /// Plain text.
    Text(String),
    /// Parts.
    Parts(Vec<Part>),
}

// Written by hand, since serde's `untagged` would hide where in the body a mistake sits.
macro_rules! text_or_list {
    ($name:ident, $list:ident, $item:ty, $expecting:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct TextOrList;

                impl<'de> Visitor<'de> for TextOrList {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E>(self, text: &str) -> Result<$name, E> {
                        Ok($name::Text(text.to_owned()))
                    }

                    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<$name, A::Error> {
                        Vec::<$item>::deserialize(SeqAccessDeserializer::new(items)).map($name::$list)
                    }
                }

                deserializer.deserialize_any(TextOrList)
            }
        }
    };
}

text_or_list!(InputBody, Messages, InputMessage, "text or a list of messages");
text_or_list!(InputContent, Parts, Part, "text or a list of parts");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_messages_are_both_taken() {
        let text: InputBody = serde_json::from_str(r#""hi""#).unwrap();
        assert_eq!(text, InputBody::Text("hi".to_owned()));
        let messages: InputBody =
            serde_json::from_str(r#"[{"role":"user","content":[{"type":"text","text":"hi"}]}]"#).unwrap();
        let part = Part::Text { text: "hi".to_owned() };
        let message = InputMessage {
            role: Role::User,
            content: InputContent::Parts(vec![part]),
        };
        assert_eq!(messages, InputBody::Messages(vec![message]));
    }
}
