-- Short-lived tokens, files of sessions, and when a key was last used.

-- Private keys are sealed with the master key; `kid` names the public half.
CREATE TABLE signing_keys (
    kid TEXT NOT NULL PRIMARY KEY,
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL
);

ALTER TABLE api_keys ADD COLUMN last_used_at INTEGER;

-- The bytes are in the folder of blobs, under the file's id.
CREATE TABLE files (
    id TEXT NOT NULL PRIMARY KEY,
    root_id TEXT NOT NULL REFERENCES chains (root_id) ON DELETE CASCADE,
    profile_id TEXT NOT NULL,
    doc TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX files_of_chain ON files (root_id);
