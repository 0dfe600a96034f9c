-- rho-1: how far apart are the losses of selected and unselected tokens, every hundred steps?
SELECT run_id, step / 100 * 100 AS from_step,
  avg(value) FILTER (WHERE name = 'rho1/selection_ratio') AS selection_ratio,
  avg(value) FILTER (WHERE name = 'rho1/ce_selected') AS ce_selected,
  avg(value) FILTER (WHERE name = 'rho1/ce_unselected') AS ce_unselected
FROM metrics
WHERE name IN ('rho1/selection_ratio', 'rho1/ce_selected', 'rho1/ce_unselected')
GROUP BY run_id, from_step
ORDER BY run_id, from_step;
