-- Schema version 4: in what windows a text was read, and the bytes by which a loss is bits per byte. Tables of their own,
-- since a reader of an older log adds tables to what it sees and no columns.

CREATE TABLE text_strides (
  evaluation_id INTEGER PRIMARY KEY REFERENCES text_evaluations (id) ON DELETE CASCADE,
  stride INTEGER NOT NULL      -- tokens from one window's beginning to the next one's; no row: the window's length
) STRICT;

CREATE TABLE text_bytes (
  evaluation_id INTEGER NOT NULL REFERENCES text_evaluations (id) ON DELETE CASCADE,
  head INTEGER NOT NULL,
  bytes INTEGER NOT NULL,      -- of text that the predicted tokens stand for
  PRIMARY KEY (evaluation_id, head)
) STRICT;
