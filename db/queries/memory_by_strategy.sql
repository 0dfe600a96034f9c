-- How much resident memory does the largest rank take under each strategy?
WITH largest AS (
  SELECT run_id, max(bytes) AS bytes FROM v_memory_peak WHERE category = 'resident' GROUP BY run_id
)
SELECT r.strategy, r.precision, r.world_size, count(*) AS runs, round(max(l.bytes) / 1048576.0, 1) AS peak_mib
FROM largest AS l JOIN runs AS r ON r.id = l.run_id
GROUP BY r.strategy, r.precision, r.world_size
ORDER BY peak_mib;
