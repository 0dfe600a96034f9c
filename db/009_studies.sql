-- Schema version 9: what studies stated before their runs (`wmtp-host plan STUDY`, or the first `wmtp-host study`).

CREATE TABLE study_plans (
  id INTEGER PRIMARY KEY,
  study TEXT NOT NULL,
  hash TEXT NOT NULL,         -- SHA-256 of the definition
  planned_at TEXT NOT NULL,
  begun_ns INTEGER,           -- when the first run was started by it; NULL: none
  definition TEXT NOT NULL,   -- JSON: what the study's file states, and its members' experiments
  estimate TEXT NOT NULL      -- JSON: hours, memory, the smallest difference; {}: begun without `plan`
) STRICT;
