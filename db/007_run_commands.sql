-- Schema version 7: the command that started a run, as typed, with its arguments quoted for a shell.

CREATE TABLE run_commands (
  run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
  command TEXT NOT NULL
) STRICT;
