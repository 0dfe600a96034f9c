-- Which runs did not finish, how did they end, and what was their last message?
SELECT r.id, r.name, r.status, r.exit_code, r.steps, r.heartbeat_at,
  (SELECT message FROM events WHERE run_id = r.id AND level IN ('warning', 'error') ORDER BY time_ns DESC LIMIT 1)
    AS last_words
FROM v_runs AS r
WHERE r.status IN ('failed', 'interrupted', 'lost')
ORDER BY r.id DESC;
