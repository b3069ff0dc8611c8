-- Inputs that a client has named are recognised when they come again; inputs that steer an active run wait for its next
-- safe point.

ALTER TABLE inputs ADD COLUMN request_sha256 TEXT;
-- The run id that the client has named for it.
ALTER TABLE inputs ADD COLUMN named_run_id TEXT;
ALTER TABLE inputs ADD COLUMN accepted_seq INTEGER NOT NULL DEFAULT 0;
-- The active run that it is meant for, until it is delivered.
ALTER TABLE inputs ADD COLUMN steers TEXT;
ALTER TABLE inputs ADD COLUMN drop_undelivered INTEGER NOT NULL DEFAULT 0;
CREATE INDEX inputs_of_named_run ON inputs (named_run_id) WHERE named_run_id IS NOT NULL;
CREATE INDEX inputs_that_steer ON inputs (steers, accepted_seq) WHERE steers IS NOT NULL;
