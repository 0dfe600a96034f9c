-- Schema version 8: what identifies a run in whichever file its row is, because other logs have runs of the same
-- number; and which parts of spools have been added to this log.

CREATE TABLE run_keys (
  run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
  key TEXT NOT NULL UNIQUE   -- drawn at random when the run began
) STRICT;

CREATE TABLE loaded_batches (
  batch TEXT PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE
) STRICT;
