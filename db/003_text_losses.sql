-- Schema version 3: the loss of each head on texts (`wmtp-host eval RUN --text FILE`).

CREATE TABLE text_evaluations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  time_ns INTEGER NOT NULL,    -- when it was written
  texts TEXT NOT NULL,         -- paths of the files, one per line
  texts_sha256 TEXT NOT NULL   -- of each file, one per line
) STRICT;
CREATE INDEX text_evaluations_by_run ON text_evaluations (run_id);

CREATE TABLE text_losses (
  evaluation_id INTEGER NOT NULL REFERENCES text_evaluations (id) ON DELETE CASCADE,
  head INTEGER NOT NULL,       -- 1 predicts the next token, 2 the one after it, …
  tokens INTEGER NOT NULL,     -- number of predicted tokens
  loss REAL,                   -- mean cross entropy in nats; NULL if not finite
  PRIMARY KEY (evaluation_id, head)
) STRICT;
