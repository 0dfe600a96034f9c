-- Schema version 4: the stride between the windows of a text, and the bytes that convert a loss to bits per byte. These
-- are separate tables because a reader of an older log can add temporary tables to it, but no columns.

CREATE TABLE text_strides (
  evaluation_id INTEGER PRIMARY KEY REFERENCES text_evaluations (id) ON DELETE CASCADE,
  stride INTEGER NOT NULL      -- tokens from the start of one window to that of the next; no row: the window length
) STRICT;

CREATE TABLE text_bytes (
  evaluation_id INTEGER NOT NULL REFERENCES text_evaluations (id) ON DELETE CASCADE,
  head INTEGER NOT NULL,
  bytes INTEGER NOT NULL,      -- of text encoded by the predicted tokens
  PRIMARY KEY (evaluation_id, head)
) STRICT;
