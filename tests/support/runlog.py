"""Reads the run log with read-only SQL, as a user would; and finds the checkpoints in a run's folder."""
import sqlite3
from pathlib import Path


def step_folders(run_folder):
    """Complete training checkpoints, oldest first."""
    return sorted(f for f in run_folder.glob("step-*") if f.name[5:].isdigit())


class RunLog:
    def __init__(self, database):
        self.database = Path(database)

    def query(self, sql, *arguments):
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(sql, arguments)]
        finally:
            connection.close()

    def runs(self):
        return self.query("SELECT * FROM runs ORDER BY id") if self.database.exists() else []

    def newest(self, name=None):
        runs = [run for run in self.runs() if name in (None, run["name"])]
        assert runs, f"{self.database} holds no run" + (f" named {name}" if name else "")
        return runs[-1]

    def metric(self, name, run=None):
        """{step: value}, by default of the newest run."""
        run = run or self.newest()["id"]
        rows = self.query("SELECT step, value FROM metrics WHERE run_id = ? AND name = ? ORDER BY step", run, name)
        return {row["step"]: row["value"] for row in rows}

    def losses(self, run=None):
        return self.metric("train/loss", run)

    def _maybe(self, sql, *arguments):
        """No rows while there is no database, or its tables are being created."""
        try:
            return self.query(sql, *arguments) if self.database.exists() else []
        except sqlite3.Error:
            return []

    def newest_id(self):
        rows = self._maybe("SELECT max(id) AS id FROM runs")
        return rows[0]["id"] or 0 if rows else 0

    def rows_after(self, run):
        """The runs after that one."""
        return self._maybe("SELECT * FROM runs WHERE id > ? ORDER BY id", run)

    def last_step(self, after=0):
        """The last logged step of the newest run after that one; 0 while there is none."""
        rows = self._maybe("SELECT max(step) AS step FROM metrics WHERE name = 'train/loss' "
                           "AND run_id = (SELECT max(id) FROM runs WHERE id > ?)", after)
        return rows[0]["step"] or 0 if rows else 0

    def folder(self, run=None):
        """The run's folder."""
        row = self.newest() if run is None else next(r for r in self.runs() if r["id"] == run)
        return self.database.parent / f"{row['id']}-{row['name']}"

    def events(self, run=None):
        run = run or self.newest()["id"]
        return self.query("SELECT * FROM events WHERE run_id = ? ORDER BY time_ns", run)
