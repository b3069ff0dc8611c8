-- The spine: chains and their event logs, sessions, messages, runs, inputs, search, keys.
-- Ids are text, times are integer milliseconds since 1970 (UTC), documents are JSON text.
-- Every table that holds a person's data carries profile_id.

CREATE TABLE profiles (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
);

-- One row a chain: a session and all its continuations.
CREATE TABLE chains (
    root_id TEXT NOT NULL PRIMARY KEY,
    profile_id TEXT NOT NULL REFERENCES profiles (id),
    tip_id TEXT NOT NULL,
    head_seq INTEGER NOT NULL,
    title TEXT,
    metadata TEXT NOT NULL,
    model TEXT NOT NULL,
    usage TEXT NOT NULL,
    archived_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX chains_newest ON chains (profile_id, updated_at, root_id);
CREATE INDEX chains_oldest ON chains (profile_id, created_at, root_id);

CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    root_id TEXT NOT NULL REFERENCES chains (root_id) ON DELETE CASCADE,
    profile_id TEXT NOT NULL,
    parent_session_id TEXT,
    forked_from TEXT,
    source TEXT NOT NULL,
    workspace TEXT NOT NULL,
    prompt TEXT NOT NULL,
    request_sha256 TEXT NOT NULL,
    ended_at INTEGER,
    end_reason TEXT,
    created_at INTEGER NOT NULL
);
CREATE INDEX sessions_of_chain ON sessions (root_id, created_at);

CREATE TABLE messages (
    id TEXT NOT NULL PRIMARY KEY,
    root_id TEXT NOT NULL REFERENCES chains (root_id) ON DELETE CASCADE,
    session_id TEXT NOT NULL,
    profile_id TEXT NOT NULL,
    run_id TEXT,
    seq INTEGER NOT NULL,
    role TEXT NOT NULL,
    status TEXT NOT NULL,
    doc TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX messages_of_session ON messages (session_id, seq);
CREATE INDEX messages_open ON messages (root_id) WHERE status = 'in_progress';

CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    root_id TEXT NOT NULL REFERENCES chains (root_id) ON DELETE CASCADE,
    session_id TEXT NOT NULL,
    profile_id TEXT NOT NULL,
    status TEXT NOT NULL,
    fence INTEGER NOT NULL,
    options TEXT NOT NULL,
    input_id TEXT NOT NULL,
    queued_seq INTEGER NOT NULL,
    doc TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
-- At most one run of a chain is active.
CREATE UNIQUE INDEX runs_one_active ON runs (root_id) WHERE status IN ('running', 'requires_action', 'cancelling');
CREATE INDEX runs_waiting ON runs (root_id, queued_seq) WHERE status = 'queued';
CREATE INDEX runs_live ON runs (status) WHERE status IN ('queued', 'running', 'requires_action', 'cancelling');
CREATE INDEX runs_newest ON runs (profile_id, created_at, id);
CREATE INDEX runs_of_session ON runs (session_id, created_at, id);

-- The log. `payload` is the JSON that streams send, stored as sent.
CREATE TABLE events (
    root_id TEXT NOT NULL REFERENCES chains (root_id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    run_id TEXT,
    type TEXT NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (root_id, seq)
) WITHOUT ROWID;

CREATE TABLE inputs (
    id TEXT NOT NULL PRIMARY KEY,
    root_id TEXT NOT NULL REFERENCES chains (root_id) ON DELETE CASCADE,
    profile_id TEXT NOT NULL,
    status TEXT NOT NULL,
    doc TEXT NOT NULL
);

-- Calls that have begun: what recovery decides by.
CREATE TABLE tool_calls (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    call_id TEXT NOT NULL,
    root_id TEXT NOT NULL REFERENCES chains (root_id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    read_only INTEGER NOT NULL,
    PRIMARY KEY (run_id, call_id)
);

-- What is left of a deleted chain, for 24 hours.
CREATE TABLE tombstones (
    root_id TEXT NOT NULL PRIMARY KEY,
    profile_id TEXT NOT NULL,
    head_seq INTEGER NOT NULL,
    deleted_by TEXT NOT NULL,
    deleted_at INTEGER NOT NULL
);

-- Ranges of a log that were lost with an unclean stop of the machine: cursors inside are reset.
CREATE TABLE log_fences (
    root_id TEXT NOT NULL REFERENCES chains (root_id) ON DELETE CASCADE,
    after_seq INTEGER NOT NULL,
    until_seq INTEGER NOT NULL,
    PRIMARY KEY (root_id, after_seq)
);

-- One row: on which boot the server last served, and whether it stopped cleanly.
CREATE TABLE server_state (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    boot_id TEXT NOT NULL,
    stopped_cleanly INTEGER NOT NULL
);

CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    profile_id TEXT NOT NULL,
    secret_sha256 TEXT NOT NULL,
    previous_sha256 TEXT,
    previous_until INTEGER,
    revoked_at INTEGER,
    doc TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

-- What can be found by search: a chunk of a message an entry. The index holds bags of encoded tokens
-- (see `text::search_tokens`) under the entry's rowid, so the order of rowids is the order of time.
CREATE TABLE search_entries (
    rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    root_id TEXT NOT NULL,
    profile_id TEXT NOT NULL,
    message_id TEXT NOT NULL
);
CREATE INDEX search_entries_of_chain ON search_entries (root_id);
CREATE VIRTUAL TABLE search_index USING fts5 (
    tokens,
    content = '',
    contentless_delete = 1,
    tokenize = 'ascii',
    detail = 'none'
);
