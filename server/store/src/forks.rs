//! Forks: a new chain that begins as a copy of what was said in another one. Nothing is shared: the copy has ids, numbers,
//! events and files of its own, and outlives the original.

use std::collections::BTreeMap;

use talaria_openapi::events::EventBody;
use talaria_openapi::files::File;
use talaria_openapi::ids::{FileId, MessageId, ProfileId, SessionId};
use talaria_openapi::messages::{Message, MessageStatus, Part, Role};
use talaria_openapi::sessions::{PromptLayer, Session};

use crate::events::Place;
use crate::sessions::{NewSession, find_repeated, insert_session};
use crate::writer::{Durability, Tx};
use crate::{Error, Result, Store};

/// Up to where a session is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkPoint {
    /// As far as it makes sense: up to before the calls that have no result yet.
    Latest,
    /// Up to and with the message of this number of the log, or the last one before it.
    Seq(i64),
    /// Up to and with this message.
    Message(MessageId),
}

/// A fork to make.
#[derive(Debug, Clone)]
pub struct NewFork {
    /// The id of the new session.
    pub id: SessionId,
    /// The profile of both.
    pub profile_id: ProfileId,
    /// The session to copy.
    pub from: SessionId,
    /// Up to where.
    pub at: ForkPoint,
    /// Its title; the original's when `None`.
    pub title: Option<String>,
    /// SHA-256 of the request, to recognise a repeated one.
    pub request_sha256: String,
}

impl Store {
    /// Copies a session. Refused with [`Error::InvalidPoint`] between a call and its result. A repeated request of the same
    /// content gives the session that exists.
    pub async fn fork_session(&self, fork: NewFork) -> Result<Session> {
        if let Ok(session) = self.get_session(fork.profile_id, fork.id).await {
            // Perhaps a repeated request: nothing is copied for it.
            let (profile_id, request_sha256) = (fork.profile_id, fork.request_sha256);
            let checked = self.writer.write(Durability::Full, move |tx| {
                Box::pin(async move { find_repeated(tx, session.id, profile_id, &request_sha256).await })
            });
            return checked.await?.ok_or(Error::IdConflict);
        }
        let original = self.get_session(fork.profile_id, fork.from).await?;
        let prompt = self.get_prompt(fork.profile_id, original.id).await?;
        let mut messages = self.history(original.id).await?;
        messages.retain(|message| !matches!(message.status, MessageStatus::InProgress));
        let length = kept(&messages, fork.at)?;
        messages.truncate(length);
        let files = self.copy_files(fork.profile_id, fork.id, &mut messages).await?;
        let copied: Vec<FileId> = files.iter().map(|file| file.id).collect();
        let new = copy_of(fork, &original, prompt, messages);
        let forked_from = original.id;
        let created = self.writer.write(Durability::Full, move |tx| {
            Box::pin(tx_fork(tx, forked_from, new, files))
        });
        let created = created.await;
        if created.is_err() {
            self.remove_blobs(copied).await;
        }
        created
    }

    /// Copies the files that results refer to, and lets the copies of the messages refer to them.
    async fn copy_files(
        &self,
        profile_id: ProfileId,
        session_id: SessionId,
        messages: &mut [Message],
    ) -> Result<Vec<File>> {
        let mut copies: BTreeMap<FileId, File> = BTreeMap::new();
        for message in messages.iter_mut() {
            for part in &mut message.parts {
                let Part::ToolResult {
                    full_output_file_id: Some(file_id),
                    ..
                } = part
                else {
                    continue;
                };
                if !copies.contains_key(file_id) {
                    let file = self.get_file(profile_id, *file_id).await?;
                    let copy = File {
                        id: FileId::new(),
                        session_id,
                        ..file
                    };
                    self.copy_blob(*file_id, copy.id).await?;
                    copies.insert(*file_id, copy);
                }
                if let Some(copy) = copies.get(file_id) {
                    *file_id = copy.id;
                }
            }
        }
        Ok(copies.into_values().collect())
    }
}

/// How many messages a copy gets.
fn kept(messages: &[Message], at: ForkPoint) -> Result<usize> {
    let length = match at {
        ForkPoint::Latest => return Ok(last_whole(messages)),
        ForkPoint::Seq(seq) => messages.iter().take_while(|message| message.seq <= seq).count(),
        ForkPoint::Message(id) => {
            let at = messages.iter().position(|message| message.id == id);
            at.ok_or(Error::NotFound)? + 1
        }
    };
    if is_whole(messages.get(..length).unwrap_or_default()) {
        Ok(length)
    } else {
        Err(Error::InvalidPoint)
    }
}

/// The longest beginning in which every call has its result.
fn last_whole(messages: &[Message]) -> usize {
    let is_whole_at = |length: &usize| is_whole(messages.get(..*length).unwrap_or_default());
    (0..=messages.len()).rev().find(is_whole_at).unwrap_or(0)
}

/// Whether every call of a beginning's last answer has its result in it.
pub(crate) fn is_whole(messages: &[Message]) -> bool {
    let is_answer = |message: &Message| {
        message.role == Role::Assistant && !matches!(message.status, MessageStatus::Failed | MessageStatus::InProgress)
    };
    let Some(at) = messages.iter().rposition(is_answer) else {
        return true;
    };
    let Some((answer, after)) = messages.get(at..).and_then(<[Message]>::split_first) else {
        return true;
    };
    let has_result = |call_id: &str| {
        after
            .iter()
            .flat_map(|message| &message.parts)
            .any(|part| matches!(part, Part::ToolResult { tool_call_id, .. } if tool_call_id.as_str() == call_id))
    };
    answer.parts.iter().all(|part| match part {
        Part::ToolCall { id, .. } => has_result(id),
        _ => true,
    })
}

fn copy_of(fork: NewFork, original: &Session, prompt: Vec<PromptLayer>, messages: Vec<Message>) -> NewSession {
    let copy = |message: Message| Message {
        id: MessageId::new(),
        session_id: fork.id,
        // The runs stay with the original.
        run_id: None,
        ..message
    };
    NewSession {
        id: fork.id,
        profile_id: fork.profile_id,
        title: fork.title.or_else(|| original.title.clone()),
        metadata: original.metadata.clone(),
        model: original.model.clone(),
        source: original.source,
        workspace: original.workspace.clone(),
        prompt,
        messages: messages.into_iter().map(copy).collect(),
        is_ephemeral: original.ephemeral,
        request_sha256: fork.request_sha256,
    }
}

async fn tx_fork(tx: &mut Tx, forked_from: SessionId, new: NewSession, files: Vec<File>) -> Result<Session> {
    let (root_id, profile_id) = (new.id, new.profile_id);
    if let Some(known) = find_repeated(tx, root_id, profile_id, &new.request_sha256).await? {
        return Ok(known);
    }
    insert_session(tx, &new, Some(forked_from)).await?;
    let place = Place {
        root_id,
        session_id: root_id,
        run_id: None,
    };
    let seq = tx.next_seq(root_id).await?;
    let session = Box::new(tx.get_session(profile_id, root_id).await?);
    tx.insert_event(place, seq, &EventBody::SessionCreated { session })
        .await?;
    for file in files {
        tx.put_file(root_id, profile_id, &file).await?;
        tx.append(place, &EventBody::FileCreated { file }).await?;
    }
    for message in new.messages {
        tx.put_message(place, profile_id, message).await?;
    }
    tx.get_session(profile_id, root_id).await
}

#[cfg(test)]
mod tests;
