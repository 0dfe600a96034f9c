-- The views for users. The writer replaces views in the log whose text differs from this file, so they can change
-- without a new schema version. A reader whose text differs creates temporary views for its connection.

CREATE VIEW metrics AS
SELECT v.run_id, v.step, n.name, v.value, v.kind, v.time_ns
FROM metric_values AS v JOIN metric_names AS n ON n.id = v.name_id;

-- The steps of a run itself, without those of runs that it resumed: tokens, seconds, and the seconds that the tokens'
-- operations would take as plain matrix multiplication (at the last measured rate, because that rate only improves).
-- Runs of older versions have no perf/run_tokens and perf/run_seconds: their logged steps are summed.
CREATE VIEW v_segments AS
WITH names AS (
  SELECT max(iif(name = 'perf/run_tokens', id, NULL)) AS run_tokens,
         max(iif(name = 'perf/run_seconds', id, NULL)) AS run_seconds,
         max(iif(name = 'perf/tokens_per_second', id, NULL)) AS tokens_per_second,
         max(iif(name = 'perf/step_seconds', id, NULL)) AS step_seconds,
         max(iif(name = 'perf/mfu', id, NULL)) AS mfu
  FROM metric_names
  WHERE name IN ('perf/run_tokens', 'perf/run_seconds', 'perf/tokens_per_second', 'perf/step_seconds', 'perf/mfu')
)
SELECT r.id AS run_id,
  coalesce((SELECT value FROM metric_values WHERE run_id = r.id AND name_id = names.run_tokens
            ORDER BY step DESC LIMIT 1),
           (SELECT sum(rate.value * took.value) FROM metric_values AS took JOIN metric_values AS rate
            ON rate.run_id = took.run_id AND rate.name_id = names.tokens_per_second AND rate.step = took.step
            WHERE took.run_id = r.id AND took.name_id = names.step_seconds)) AS tokens,
  coalesce((SELECT value FROM metric_values WHERE run_id = r.id AND name_id = names.run_seconds
            ORDER BY step DESC LIMIT 1),
           (SELECT sum(value) FROM metric_values WHERE run_id = r.id AND name_id = names.step_seconds)) AS seconds,
  (SELECT share.value / rate.value FROM metric_values AS share JOIN metric_values AS rate
   ON rate.run_id = share.run_id AND rate.name_id = names.tokens_per_second AND rate.step = share.step
   WHERE share.run_id = r.id AND share.name_id = names.mfu ORDER BY share.step DESC LIMIT 1) AS bare_seconds_per_token
FROM runs AS r CROSS JOIN names;

-- A run and the runs that it resumed, its segments. A segment contributes the steps before `before_step`, the first
-- that a later segment logged: steps after the checkpoint were trained again, or, where a run had no checkpoint, all
-- of them with the validation at step 0. A parent is always older. Runs that
-- resumed none stay out of the recursion, which takes ten times as long for a row.
CREATE VIEW v_lineage AS
WITH RECURSIVE lines (run_id, segment, before_step) AS (
  SELECT id, id, 9223372036854775807 FROM runs WHERE parent_run IS NOT NULL
  UNION ALL
  SELECT l.run_id, p.id, min(l.before_step, (SELECT first - (first = 1) FROM (SELECT coalesce(
    (SELECT min(step) FROM metric_values WHERE run_id = l.segment  -- a step without a target has no loss
     AND name_id = (SELECT id FROM metric_names WHERE name = 'train/tokens')),
    (SELECT min(step) FROM metric_values WHERE run_id = l.segment
     AND name_id = (SELECT id FROM metric_names WHERE name = 'train/loss')), l.before_step) AS first)))
  FROM lines AS l JOIN runs AS s ON s.id = l.segment JOIN runs AS p ON p.id = s.parent_run AND p.id < s.id
)
SELECT id AS run_id, id AS segment, 9223372036854775807 AS before_step FROM runs WHERE parent_run IS NULL
UNION ALL SELECT run_id, segment, before_step FROM lines;

-- The metrics of a run over all its segments: one curve. Totals (time/PHASE, perf/run_tokens, perf/run_seconds) begin
-- at 0 in each segment; here they include the earlier ones, with the steps that were trained again. `row` is the rowid.
CREATE VIEW v_curves AS
SELECT l.run_id, l.segment, n.name, v.step,
  v.value + iif(n.name GLOB 'time/*' OR n.name IN ('perf/run_tokens', 'perf/run_seconds'), coalesce(
    (SELECT sum((SELECT value FROM metric_values WHERE run_id = e.segment AND name_id = n.id
                 ORDER BY step DESC LIMIT 1))
     FROM v_lineage AS e WHERE e.run_id = l.run_id AND e.segment < l.segment), 0), 0) AS value,
  v.kind, v.time_ns, v.rowid AS row
FROM v_lineage AS l CROSS JOIN metric_names AS n  -- in this order, so that a name is looked up before its values
CROSS JOIN metric_values AS v ON v.run_id = l.segment AND v.name_id = n.id AND v.step < l.before_step;

-- All columns cover the run and the runs that it resumed, except status, exit_code and the columns of its own row from
-- ended_at on. Speed is tokens divided by the summed seconds of training steps; mfu is the summed operations divided by
-- those that `mfu_of` would do in the same time: the device's specified peak, or plain matrix multiplication if that is
-- unknown. `seconds` sums the segments, without the pauses between them. Losses of runs with different numbers of heads
-- are compared by the columns of head 1: valid_loss is the mean over heads. `resumed_by`: the newest run that continues
-- this one. `lines` holds the segments of resumed runs only, and the columns of other runs do not use it: a page of a
-- long log needs neither an index over all runs nor a sort of a curve.
CREATE VIEW v_runs AS
WITH names AS (
  SELECT max(iif(name = 'train/loss', id, NULL)) AS train_loss,
         max(iif(name = 'valid/loss', id, NULL)) AS valid_loss,
         max(iif(name = 'valid/ce_head_1', id, NULL)) AS valid_head_1,
         max(iif(name = 'train/tokens', id, NULL)) AS tokens,
         max(iif(name = 'perf/multiplication_share', id, NULL)) AS multiplication_share
  FROM metric_names
  WHERE name IN ('train/loss', 'valid/loss', 'valid/ce_head_1', 'train/tokens', 'perf/multiplication_share')
), lines AS MATERIALIZED (
  SELECT run_id, segment, before_step FROM v_lineage WHERE run_id IN (SELECT id FROM runs WHERE parent_run IS NOT NULL)
)
SELECT r.id, r.name, r.pipeline, r.adapter,
  iif(r.status = 'running' AND r.heartbeat_at < strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-60 seconds'), 'lost', r.status)
    AS status,
  r.exit_code,
  iif(r.parent_run IS NULL,
    (SELECT max(step) FROM metric_values WHERE run_id = r.id AND name_id = names.train_loss),
    (SELECT max((SELECT max(step) FROM metric_values WHERE run_id = l.segment AND name_id = names.train_loss
                 AND step < l.before_step)) FROM lines AS l WHERE l.run_id = r.id)) AS steps,
  iif(r.parent_run IS NULL,
    (SELECT value FROM metric_values WHERE run_id = r.id AND name_id = names.train_loss ORDER BY step DESC LIMIT 1),
    (SELECT v.value FROM lines AS l JOIN metric_values AS v ON v.run_id = l.segment AND v.name_id = names.train_loss
     AND v.step < l.before_step WHERE l.run_id = r.id ORDER BY v.step DESC LIMIT 1)) AS train_loss,
  iif(r.parent_run IS NULL,
    (SELECT value FROM metric_values WHERE run_id = r.id AND name_id = names.valid_loss ORDER BY step DESC LIMIT 1),
    (SELECT v.value FROM lines AS l JOIN metric_values AS v ON v.run_id = l.segment AND v.name_id = names.valid_loss
     AND v.step < l.before_step WHERE l.run_id = r.id ORDER BY v.step DESC LIMIT 1)) AS valid_loss,
  iif(r.parent_run IS NULL,
    (SELECT min(value) FROM metric_values WHERE run_id = r.id AND name_id = names.valid_loss),
    (SELECT min(v.value) FROM lines AS l JOIN metric_values AS v ON v.run_id = l.segment
     AND v.name_id = names.valid_loss AND v.step < l.before_step WHERE l.run_id = r.id)) AS best_valid_loss,
  iif(r.parent_run IS NULL,
    (SELECT value FROM metric_values WHERE run_id = r.id AND name_id = names.valid_head_1 ORDER BY step DESC LIMIT 1),
    (SELECT v.value FROM lines AS l JOIN metric_values AS v ON v.run_id = l.segment AND v.name_id = names.valid_head_1
     AND v.step < l.before_step WHERE l.run_id = r.id ORDER BY v.step DESC LIMIT 1)) AS valid_head_1,
  iif(r.parent_run IS NULL,
    (SELECT min(value) FROM metric_values WHERE run_id = r.id AND name_id = names.valid_head_1),
    (SELECT min(v.value) FROM lines AS l JOIN metric_values AS v ON v.run_id = l.segment
     AND v.name_id = names.valid_head_1 AND v.step < l.before_step WHERE l.run_id = r.id)) AS best_valid_head_1,
  (SELECT sum(tokens) / sum(seconds) FROM v_segments
   WHERE run_id IN (SELECT r.id UNION ALL SELECT segment FROM lines WHERE run_id = r.id)) AS tokens_per_second,
  (SELECT sum(tokens * bare_seconds_per_token) / sum(seconds) FROM v_segments
   WHERE run_id IN (SELECT r.id UNION ALL SELECT segment FROM lines WHERE run_id = r.id)
   AND bare_seconds_per_token IS NOT NULL) AS mfu,
  iif(EXISTS (SELECT 1 FROM metric_values WHERE run_id = r.id AND name_id = names.multiplication_share),
      'the specified peak', 'plain matrix multiplication') AS mfu_of,
  CAST(iif(r.parent_run IS NULL,
    (SELECT value FROM metric_values WHERE run_id = r.id AND name_id = names.tokens ORDER BY step DESC LIMIT 1),
    (SELECT v.value FROM lines AS l JOIN metric_values AS v ON v.run_id = l.segment AND v.name_id = names.tokens
     AND v.step < l.before_step WHERE l.run_id = r.id ORDER BY v.step DESC LIMIT 1)) AS INTEGER) AS tokens,
  (SELECT min(started_at) FROM runs
   WHERE id IN (SELECT r.id UNION ALL SELECT segment FROM lines WHERE run_id = r.id)) AS started_at,
  r.ended_at, r.heartbeat_at,
  (SELECT sum(CAST(strftime('%s', coalesce(ended_at, heartbeat_at)) AS INTEGER)
              - CAST(strftime('%s', started_at) AS INTEGER))
   FROM runs WHERE id IN (SELECT r.id UNION ALL SELECT segment FROM lines WHERE run_id = r.id)) AS seconds,
  r.world_size, r.strategy, r.precision, r.device, r.seed, r.parent_run, r.config_hash, r.git_commit, r.host,
  r.version, r.log_incomplete,
  max(1, (SELECT count(*) FROM lines WHERE run_id = r.id)) AS segments,
  (SELECT max(id) FROM runs WHERE parent_run = r.id) AS resumed_by,
  (SELECT group_concat(tag, ' ') FROM (SELECT tag FROM run_tags WHERE run_id = r.id ORDER BY tag)) AS tags,
  (SELECT note FROM run_notes WHERE run_id = r.id) AS note,
  EXISTS (SELECT 1 FROM archived_runs WHERE run_id = r.id) AS archived
FROM runs AS r CROSS JOIN names;

CREATE VIEW v_metrics AS
SELECT v.run_id, r.name AS run, r.pipeline, v.step, n.name, v.value, v.kind, v.time_ns,
  strftime('%Y-%m-%dT%H:%M:%fZ', v.time_ns / 1e9, 'unixepoch') AS time
FROM metric_values AS v JOIN metric_names AS n ON n.id = v.name_id JOIN runs AS r ON r.id = v.run_id;

-- Over all segments. The step is looked up in each segment, because sorting a curve would read all of it.
CREATE VIEW v_latest AS
SELECT r.id AS run_id, r.name AS run, n.name, c.step, c.value, c.kind,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.time_ns / 1e9, 'unixepoch') AS time
FROM runs AS r CROSS JOIN metric_names AS n CROSS JOIN v_curves AS c ON c.run_id = r.id AND c.name = n.name
  AND c.step = (SELECT max((SELECT max(step) FROM metric_values
                            WHERE run_id = l.segment AND name_id = n.id AND step < l.before_step))
                FROM v_lineage AS l WHERE l.run_id = r.id);

-- With equal bytes, prefers a row of a phase to one of 'peak' or 'live', which does not show when the maximum occurred.
CREATE VIEW v_memory_peak AS
SELECT m.run_id, r.name AS run, m.rank, m.category,
  max(2 * m.bytes + (m.phase NOT IN ('peak', 'live'))) / 2 AS bytes, m.step, m.phase
FROM memory AS m JOIN runs AS r ON r.id = m.run_id
GROUP BY m.run_id, m.rank, m.category;

-- pass@1 over all answers: the mean over problems of the share of answers that passed.
CREATE VIEW v_evaluations AS
SELECT e.id, e.run_id, r.name AS run, e.suite, e.temperature, count(*) AS problems, sum(p.answers) AS answers,
  sum(p.passed) AS passed, avg(1.0 * p.passed / p.answers) AS pass_at_1,
  strftime('%Y-%m-%dT%H:%M:%fZ', e.time_ns / 1e9, 'unixepoch') AS time
FROM evaluations AS e JOIN runs AS r ON r.id = e.run_id
JOIN (SELECT evaluation_id, task_id, count(*) AS answers, sum(verdict = 'passed') AS passed
      FROM evaluation_answers GROUP BY evaluation_id, task_id) AS p ON p.evaluation_id = e.id
GROUP BY e.id;

-- The same by group: what is before the last '/' of a task_id, '' without one.
CREATE VIEW v_evaluation_groups AS
SELECT e.id, e.run_id, r.name AS run, e.suite, e.temperature, p.name AS "group", count(*) AS problems,
  sum(p.answers) AS answers, sum(p.passed) AS passed, avg(1.0 * p.passed / p.answers) AS pass_at_1
FROM evaluations AS e JOIN runs AS r ON r.id = e.run_id
JOIN (SELECT evaluation_id, task_id, substr(task_id, 1, length(rtrim(task_id, replace(task_id, '/', ''))) - 1) AS name,
        count(*) AS answers, sum(verdict = 'passed') AS passed
      FROM evaluation_answers GROUP BY evaluation_id, task_id) AS p ON p.evaluation_id = e.id
GROUP BY e.id, p.name;

CREATE VIEW v_text_losses AS
SELECT e.id, e.run_id, r.name AS run, e.texts, s.stride, l.head, l.tokens, l.loss, b.bytes,
  l.loss * l.tokens / (0.6931471805599453 * nullif(b.bytes, 0)) AS bits_per_byte,
  strftime('%Y-%m-%dT%H:%M:%fZ', e.time_ns / 1e9, 'unixepoch') AS time
FROM text_evaluations AS e JOIN runs AS r ON r.id = e.run_id JOIN text_losses AS l ON l.evaluation_id = e.id
LEFT JOIN text_strides AS s ON s.evaluation_id = e.id
LEFT JOIN text_bytes AS b ON b.evaluation_id = e.id AND b.head = l.head;
