-- Which finished runs reached the lowest validation loss, and at which step?
SELECT r.id, r.name, r.pipeline, min(m.value) AS best_valid_loss, m.step, r.tokens
FROM v_runs AS r JOIN metrics AS m ON m.run_id = r.id AND m.name = 'valid/loss'
WHERE r.status = 'finished'
GROUP BY r.id
ORDER BY best_valid_loss
LIMIT 20;
