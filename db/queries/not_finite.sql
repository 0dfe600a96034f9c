-- Where did a metric stop being a number?
SELECT run_id, name, kind, count(*) AS times, min(step) AS first_step, max(step) AS last_step
FROM metrics
WHERE kind IS NOT NULL
GROUP BY run_id, name, kind
ORDER BY run_id, first_step;
