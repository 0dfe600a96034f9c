-- Schema version 6: the texts that a run generates at its validations (`[log] prompts`).

CREATE TABLE generations (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  number INTEGER NOT NULL,     -- place of the prompt in log.prompts, from 1
  prompt TEXT NOT NULL,
  text TEXT NOT NULL,          -- what the model wrote after the prompt
  PRIMARY KEY (run_id, step, number)
) STRICT;
