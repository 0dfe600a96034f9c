-- Which tokens had the lowest weights in the last samples of the newest run? (the next-token head)
WITH newest AS (SELECT run_id, max(step) AS step FROM samples WHERE run_id = (SELECT max(run_id) FROM samples))
SELECT s.sequence, s.position, s.text, s.weight, s.loss, s.reference_loss, s.loss - s.reference_loss AS excess
FROM samples AS s JOIN newest ON s.run_id = newest.run_id AND s.step = newest.step
WHERE s.head = 1 AND s.weight IS NOT NULL
ORDER BY s.weight, s.loss DESC
LIMIT 20;
