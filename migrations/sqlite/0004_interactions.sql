-- What runs wait for people for, and what people have allowed beyond one call.

CREATE TABLE interactions (
    id TEXT NOT NULL PRIMARY KEY,
    root_id TEXT NOT NULL REFERENCES chains (root_id) ON DELETE CASCADE,
    profile_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    -- The answer of the model that makes the call: ids of calls may come again in later answers.
    message_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    -- What a rule that is made with it remembers.
    kind_of_call TEXT NOT NULL,
    doc TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX interactions_of_run ON interactions (run_id);
CREATE INDEX interactions_newest ON interactions (profile_id, created_at, id);
CREATE INDEX interactions_pending ON interactions (expires_at) WHERE status = 'pending';

CREATE TABLE approval_rules (
    id TEXT NOT NULL PRIMARY KEY,
    profile_id TEXT NOT NULL,
    -- The chain that it holds in; everywhere in the profile when NULL.
    root_id TEXT REFERENCES chains (root_id) ON DELETE CASCADE,
    tool TEXT NOT NULL,
    kind_of_call TEXT NOT NULL,
    doc TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX approval_rules_of_tool ON approval_rules (profile_id, tool, kind_of_call);
