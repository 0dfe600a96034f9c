-- Which finished runs reached the lowest validation loss of head 1, and at which step? (valid/loss is a mean over
-- heads, which depends on their number; an objective has only that.)
SELECT r.id, r.name, r.pipeline, min(m.value) AS best, m.step, r.tokens, m.name AS metric
FROM v_runs AS r JOIN v_curves AS m ON m.run_id = r.id
  AND m.name = iif(r.best_valid_head_1 IS NULL, 'valid/loss', 'valid/ce_head_1')
WHERE r.status = 'finished' AND r.resumed_by IS NULL
GROUP BY r.id
ORDER BY metric, best
LIMIT 20;
