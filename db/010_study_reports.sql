-- Schema version 10: what the runs of a study show, as `wmtp-host study FILE` last printed it, for the page.

CREATE TABLE study_reports (
  study TEXT PRIMARY KEY,
  hash TEXT NOT NULL,         -- of the definition, as in study_plans
  made_ns INTEGER NOT NULL,
  report TEXT NOT NULL,       -- JSON: as `--json` prints it, without "results"
  curves TEXT NOT NULL,       -- SVG
  differences TEXT NOT NULL   -- SVG
) STRICT;
