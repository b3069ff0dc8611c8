-- What people do to a session beside talking: rewind it, copy it, throw it away, and ask for something later.

-- Unlisted, unsearched, purged an hour after its last run.
ALTER TABLE chains ADD COLUMN ephemeral INTEGER NOT NULL DEFAULT 0;
-- The number of the newest rewind: what ended before it can't go on.
ALTER TABLE chains ADD COLUMN rewound_seq INTEGER NOT NULL DEFAULT 0;
CREATE INDEX chains_ephemeral ON chains (created_at) WHERE ephemeral = 1;

-- Messages that a rewind took out of the transcript.
ALTER TABLE messages ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0;

-- Not before this time; only while it waits.
ALTER TABLE runs ADD COLUMN start_after INTEGER;
CREATE INDEX runs_for_later ON runs (start_after) WHERE status = 'queued' AND start_after IS NOT NULL;
