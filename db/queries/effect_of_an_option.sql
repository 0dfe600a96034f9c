-- What does one option do to the validation loss of head 1? (here pipeline.keep; any key of run_params. valid/loss is a
-- mean over heads, which depends on their number; an objective has only that.)
SELECT p.value_num AS keep, count(*) AS runs, avg(coalesce(r.valid_head_1, r.valid_loss)) AS mean_valid_loss,
  min(coalesce(r.valid_head_1, r.valid_loss)) AS lowest, max(coalesce(r.valid_head_1, r.valid_loss)) AS highest
FROM run_params AS p JOIN v_runs AS r ON r.id = p.run_id
WHERE p.key = 'pipeline.keep' AND r.status = 'finished'
GROUP BY p.value_num
ORDER BY mean_valid_loss;
