//! Full-text search (SQLite): bags of encoded tokens find candidates, the query itself verifies them.

use sqlx::Row as _;
use talaria_openapi::ids::{MessageId, ProfileId, SessionId};
use talaria_openapi::messages::{Message, Part, ResultContent, Role};
use talaria_text::search_query::SearchQuery;
use talaria_text::search_tokens::search_tokens;

use crate::rows::from_json;
use crate::writer::Tx;
use crate::{Result, Store};

/// Candidates that are looked at, newest first.
const MAX_CANDIDATES: u32 = 2_000;

/// Where to search.
#[derive(Debug, Clone, Default)]
pub struct SearchScope {
    /// In one session.
    pub session_id: Option<SessionId>,
    /// Of one role.
    pub role: Option<Role>,
    /// Only entries older than this one, for the next page.
    pub before: Option<i64>,
}

/// A page of results.
#[derive(Debug, Clone, Default)]
pub struct SearchPage {
    /// Messages, newest first, with the title of their chain.
    pub hits: Vec<(Message, Option<String>)>,
    /// Where the next page begins; `None` on the last one.
    pub next_before: Option<i64>,
}

impl Store {
    /// Messages of a profile that match, newest first. Any query is legal; an empty one finds nothing.
    pub async fn search(
        &self,
        profile_id: ProfileId,
        query: &SearchQuery,
        scope: &SearchScope,
        limit: usize,
    ) -> Result<SearchPage> {
        let mut terms = query.required_tokens();
        terms.extend(query.required_prefixes().into_iter().map(|prefix| format!("{prefix}*")));
        if terms.is_empty() {
            return Ok(SearchPage::default());
        }
        let rows = sqlx::query(
            "SELECT search_entries.rowid, messages.doc, chains.title FROM search_index \
             JOIN search_entries ON search_entries.rowid = search_index.rowid \
             JOIN messages ON messages.id = search_entries.message_id \
             JOIN chains ON chains.root_id = messages.root_id \
             WHERE search_index MATCH $1 AND search_entries.profile_id = $2 AND ($3 IS NULL OR search_index.rowid < $3) \
             AND ($4 IS NULL OR messages.session_id = $4) \
             ORDER BY search_index.rowid DESC LIMIT $5",
        )
        .bind(terms.join(" AND "))
        .bind(profile_id.to_string())
        .bind(scope.before)
        .bind(scope.session_id.map(|id| id.to_string()))
        .bind(MAX_CANDIDATES)
        .fetch_all(&self.readers)
        .await?;
        let mut page = SearchPage::default();
        let mut last = None;
        for row in &rows {
            let message: Message = from_json(row.get(1), "message")?;
            let is_known = page.hits.iter().any(|(hit, _)| hit.id == message.id);
            if is_known || !matches(query, scope, &message) {
                continue;
            }
            if page.hits.len() == limit {
                page.next_before = last;
                break;
            }
            last = Some(row.get(0));
            page.hits.push((message, row.get(2)));
        }
        Ok(page)
    }
}

fn matches(query: &SearchQuery, scope: &SearchScope, message: &Message) -> bool {
    let is_role = scope.role.is_none_or(|role| role == message.role)
        && query.role().is_none_or(|role| role == role_name(message.role));
    is_role && query.tool().is_none_or(|tool| uses_tool(message, tool)) && query.matches(&searchable_text(message))
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn uses_tool(message: &Message, tool: &str) -> bool {
    message
        .parts
        .iter()
        .any(|part| matches!(part, Part::ToolCall { name, .. } if name == tool))
}

/// The text of a message that people would search for.
#[must_use]
pub fn searchable_text(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::Text { text: more } => push(&mut text, more),
            Part::ToolResult { content, .. } => {
                for ResultContent::Text { text: more } in content {
                    push(&mut text, more);
                }
            }
            Part::ToolCall { name, arguments, .. } => {
                push(&mut text, name);
                push(&mut text, &arguments.to_string());
            }
            Part::Reasoning { .. } | Part::Image { .. } | Part::File { .. } => {}
        }
    }
    text
}

fn push(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

impl Tx {
    /// Makes a message searchable, unless its chain is ephemeral.
    pub(crate) async fn index_message(
        &mut self,
        root_id: SessionId,
        profile_id: ProfileId,
        message: &Message,
    ) -> Result<()> {
        // One bag a message: the words of a query may stand far apart in it. Long outputs of tools are kept as files.
        let text = searchable_text(message);
        let mut tokens = search_tokens(&text);
        tokens.sort_unstable();
        tokens.dedup();
        self.index_bag(root_id, profile_id, message, &tokens).await
    }

    async fn index_bag(
        &mut self,
        root_id: SessionId,
        profile_id: ProfileId,
        message: &Message,
        tokens: &[String],
    ) -> Result<()> {
        if tokens.is_empty() {
            return Ok(());
        }
        let rowid: Option<i64> = sqlx::query_scalar(
            "INSERT INTO search_entries (root_id, profile_id, message_id) \
             SELECT root_id, $2, $3 FROM chains WHERE root_id = $1 AND ephemeral = 0 RETURNING rowid",
        )
        .bind(root_id.to_string())
        .bind(profile_id.to_string())
        .bind(message.id.to_string())
        .fetch_optional(&mut self.connection)
        .await?;
        let Some(rowid) = rowid else { return Ok(()) };
        sqlx::query("INSERT INTO search_index (rowid, tokens) VALUES ($1, $2)")
            .bind(rowid)
            .bind(tokens.join(" "))
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    /// Makes one message unfindable.
    pub(crate) async fn unindex_message(&mut self, root_id: SessionId, message_id: MessageId) -> Result<()> {
        for statement in [
            "DELETE FROM search_index WHERE rowid IN \
             (SELECT rowid FROM search_entries WHERE root_id = $1 AND message_id = $2)",
            "DELETE FROM search_entries WHERE root_id = $1 AND message_id = $2",
        ] {
            sqlx::query(statement)
                .bind(root_id.to_string())
                .bind(message_id.to_string())
                .execute(&mut self.connection)
                .await?;
        }
        Ok(())
    }

    /// Makes a chain's messages unfindable.
    pub(crate) async fn unindex_chain(&mut self, root_id: SessionId) -> Result<()> {
        sqlx::query("DELETE FROM search_index WHERE rowid IN (SELECT rowid FROM search_entries WHERE root_id = $1)")
            .bind(root_id.to_string())
            .execute(&mut self.connection)
            .await?;
        sqlx::query("DELETE FROM search_entries WHERE root_id = $1")
            .bind(root_id.to_string())
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }
}
