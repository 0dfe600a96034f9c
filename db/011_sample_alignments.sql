-- Schema version 11: with [log] heads_every_steps, how a head's gradient at the trunk's output aligns with head 1's
-- (docs/heads.md), at the position from which the head predicts the token of the row of `samples` with the same key.

CREATE TABLE sample_alignments (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  position INTEGER NOT NULL,
  head INTEGER NOT NULL,
  product REAL NOT NULL,    -- inner product of the two gradients there
  cosine REAL NOT NULL,     -- of the angle between them; 0 where one of them is 0
  PRIMARY KEY (run_id, step, sequence, position, head)
) STRICT;
