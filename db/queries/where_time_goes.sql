-- How did the newest run spend its time? Seconds and shares, mean over ranks, all token heads together.
WITH phases AS (
  SELECT iif(name GLOB 'time/head_*', 'heads', substr(name, 6)) AS phase, sum(value) AS seconds
  FROM v_latest
  WHERE run_id = (SELECT max(id) FROM runs) AND name GLOB 'time/*'
  GROUP BY phase
)
SELECT phase, seconds, seconds / sum(seconds) OVER () AS share
FROM phases
ORDER BY seconds DESC;
