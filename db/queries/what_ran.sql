-- Which code did each run use? (program, commit, plugins with the start of their checksums)
SELECT r.id, r.name, r.version, r.git_commit, p.kind, p.name AS plugin, p.version AS plugin_version,
  substr(p.sha256, 1, 12) AS sha256
FROM runs AS r LEFT JOIN run_plugins AS p ON p.run_id = r.id
ORDER BY r.id DESC, p.kind;
