-- Which steps of the newest run took longest, compared with its mean?
WITH newest AS (SELECT max(id) AS id FROM runs)
SELECT m.step, m.value AS seconds, m.value / avg(m.value) OVER () AS times_the_mean
FROM metrics AS m JOIN newest ON m.run_id = newest.id
WHERE m.name = 'perf/step_seconds'
ORDER BY m.value DESC
LIMIT 10;
