-- Schema version 1. STRICT rowid tables only (SQLite 3.37 or newer reads them; some readers need rowids).
-- Views are in views.sql. Times are ISO-8601 UTC text, or integer nanoseconds since 1970 if the name ends in _ns.

PRAGMA application_id = 2003661936;  -- "wmtp"

-- One row per run, from its start. The long texts come last so that listing runs does not read them.
CREATE TABLE runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused, because run folders contain it
  name TEXT NOT NULL,
  pipeline TEXT NOT NULL,
  adapter TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'failed', 'interrupted')),
  exit_code INTEGER,
  started_at TEXT NOT NULL,
  ended_at TEXT,
  heartbeat_at TEXT NOT NULL,            -- every 10 s; the views show a running run as lost after 60 s without one
  config_hash TEXT NOT NULL,
  seed INTEGER NOT NULL,
  world_size INTEGER NOT NULL,
  strategy TEXT NOT NULL,
  precision TEXT NOT NULL,
  device TEXT NOT NULL,
  git_commit TEXT NOT NULL,
  host TEXT NOT NULL,
  version TEXT NOT NULL,
  parent_run INTEGER REFERENCES runs (id) ON DELETE SET NULL,       -- the run that this one resumed
  log_incomplete INTEGER NOT NULL DEFAULT 0 CHECK (log_incomplete IN (0, 1)),
  experiment_toml TEXT NOT NULL,
  resolved_toml TEXT NOT NULL
) STRICT;
CREATE INDEX runs_by_config ON runs (config_hash);
CREATE INDEX runs_by_name ON runs (name);
CREATE INDEX runs_by_parent ON runs (parent_run);

-- The resolved experiment, key by key: "pipeline.keep". value_num is NULL for text.
CREATE TABLE run_params (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value_text TEXT NOT NULL,
  value_num REAL,
  PRIMARY KEY (run_id, key)
) STRICT;

CREATE TABLE run_plugins (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY (run_id, kind, name)
) STRICT;

-- Read these two tables through the view `metrics`. A name takes one byte here instead of twenty.
CREATE TABLE metric_names (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE metric_values (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  name_id INTEGER NOT NULL REFERENCES metric_names (id),
  step INTEGER NOT NULL,
  value REAL,
  kind TEXT CHECK (kind IN ('nan', 'inf', '-inf')),  -- set, with value NULL, if the number is not finite
  time_ns INTEGER NOT NULL,
  CHECK ((value IS NULL) = (kind IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX metric_values_by_name ON metric_values (run_id, name_id, step);

CREATE TABLE memory (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  rank INTEGER NOT NULL,
  step INTEGER NOT NULL,
  phase TEXT NOT NULL,      -- 'peak', or a phase of a step
  category TEXT NOT NULL,   -- 'resident' is the whole process; the others are parts of it
  bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX memory_by_category ON memory (run_id, category);

CREATE TABLE checkpoints (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  path TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('kept', 'deleted', 'damaged')),
  time_ns INTEGER NOT NULL, -- of the last change of state
  PRIMARY KEY (run_id, path)
) STRICT;

CREATE TABLE events (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  time_ns INTEGER NOT NULL,
  rank INTEGER,             -- NULL: reported by the launcher
  level TEXT NOT NULL,      -- 'info', 'warning', 'error'
  kind TEXT NOT NULL,
  step INTEGER,
  message TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_run ON events (run_id, time_ns);

-- One row per token and head of the few sampled sequences, so a heat map is a plain SELECT.
CREATE TABLE samples (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  position INTEGER NOT NULL,
  head INTEGER NOT NULL,    -- 1: the next token
  token_id INTEGER NOT NULL,
  text TEXT NOT NULL,
  weight REAL,
  loss REAL,
  reference_loss REAL,      -- NULL without a reference model
  PRIMARY KEY (run_id, step, sequence, position, head)
) STRICT;
