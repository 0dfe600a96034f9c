-- What does one option do to the validation loss? (here pipeline.keep; any key of run_params)
SELECT p.value_num AS keep, count(*) AS runs, avg(r.valid_loss) AS mean_valid_loss, min(r.valid_loss) AS lowest,
  max(r.valid_loss) AS highest
FROM run_params AS p JOIN v_runs AS r ON r.id = p.run_id
WHERE p.key = 'pipeline.keep' AND r.status = 'finished'
GROUP BY p.value_num
ORDER BY mean_valid_loss;
