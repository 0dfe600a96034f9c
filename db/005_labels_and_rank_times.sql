-- Schema version 5: the seconds of each rank by phase, and what a user adds to a run (`wmtp-host runs note`, `tag`,
-- `archive`).

CREATE TABLE rank_times (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  rank INTEGER NOT NULL,
  step INTEGER NOT NULL,
  phase TEXT NOT NULL,         -- as in the metrics time/PHASE, which are means over ranks
  seconds REAL NOT NULL,       -- of the rank's training thread since the run began
  PRIMARY KEY (run_id, rank, phase, step)
) STRICT;

CREATE TABLE run_notes (
  run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
  note TEXT NOT NULL
) STRICT;

CREATE TABLE run_tags (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  PRIMARY KEY (run_id, tag)
) STRICT;

CREATE TABLE archived_runs (   -- hidden from lists, otherwise unchanged
  run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE
) STRICT;
