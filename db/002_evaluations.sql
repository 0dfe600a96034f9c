-- Schema version 2: answers to suites of programming problems, judged by running their tests (`wmtp-host eval RUN`).

CREATE TABLE evaluations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  time_ns INTEGER NOT NULL,   -- when it was written
  suite TEXT NOT NULL,        -- path of its file
  suite_sha256 TEXT NOT NULL,
  max_tokens INTEGER NOT NULL,
  temperature REAL NOT NULL,  -- 0: greedy
  top_p REAL NOT NULL,
  seed INTEGER NOT NULL
) STRICT;
CREATE INDEX evaluations_by_run ON evaluations (run_id);

CREATE TABLE evaluation_answers (
  evaluation_id INTEGER NOT NULL REFERENCES evaluations (id) ON DELETE CASCADE,
  task_id TEXT NOT NULL,
  sample INTEGER NOT NULL,    -- 1, 2, … for each problem
  verdict TEXT NOT NULL CHECK (verdict IN ('passed', 'failed', 'timed_out')),
  seconds REAL NOT NULL,      -- run time of its program
  told TEXT NOT NULL,         -- last output of a program that did not pass
  answer TEXT NOT NULL,
  PRIMARY KEY (evaluation_id, task_id, sample)
) STRICT;
