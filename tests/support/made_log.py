"""Synthetic run logs of any size with the shipped schema, for tests of programs that only read a log."""
import itertools
import math
import random
import sqlite3
from datetime import datetime, timedelta, timezone

from paths import ROOT

CURVES = ("train/loss", "train/ce", "train/grad_norm", "train/lr", "train/tokens", "perf/tokens_per_second",
          "perf/run_tokens", "perf/run_seconds")
MIB = 1 << 20
TEXT = ["def", " area", "(", "radius", "):\n", "    ", "return", " 3.14159", " *", " radius", " **", " 2", "\n", "\n",
        "#", " naïve", "\t", "→", " done", "\n"]


class MadeLog:
    """Each method commits, so that readers see its rows immediately."""

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode = WAL")
        steps = sorted((ROOT / "db").glob("[0-9]*.sql"))
        for file in (*steps, ROOT / "db/views.sql"):
            self.connection.executescript(file.read_text())
        self.connection.execute(f"PRAGMA user_version = {int(steps[-1].name[:3])}")
        self.names = {}

    def run(self, name, status="finished", started=None, params=None, **columns):
        started = started or datetime.now(timezone.utc) - timedelta(hours=1)
        text = started.strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = None if status == "running" else (started + timedelta(minutes=40)).strftime("%Y-%m-%dT%H:%M:%SZ")
        row = {"name": name, "pipeline": "rho1", "adapter": "full", "status": status, "started_at": text,
               "exit_code": {"finished": 0, "running": None}.get(status, 5), "ended_at": ended,
               "heartbeat_at":
                   datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") if status == "running" else ended,
               "config_hash": name, "seed": 0, "world_size": 2, "strategy": "full_shard", "precision": "fp32",
               "device": "cpu", "git_commit": "", "host": "made", "version": "0.1.0", "experiment_toml": "",
               "resolved_toml": "", **columns}
        with self.connection:
            run = self.connection.execute(f"INSERT INTO runs ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                                          list(row.values())).lastrowid
            self.connection.executemany("INSERT INTO run_params VALUES (?, ?, ?, ?)", [
                (run, key, str(value), value if isinstance(value, (int, float)) else None)
                for key, value in (params or {}).items()])
        self.started = started.timestamp()
        return run

    def metric(self, run, name, values, first_step=1, seconds_a_step=0.5):
        """Values of consecutive steps; those that are not finite are written as by the host."""
        if name not in self.names:
            with self.connection:
                self.names[name] = self.connection.execute(
                    "INSERT INTO metric_names (name) VALUES (?)", (name,)).lastrowid

        def row(step, value):
            kind = None if math.isfinite(value) else "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
            return (run, self.names[name], step, None if kind else value, kind,
                    int((self.started + step * seconds_a_step) * 1e9))
        with self.connection:
            self.connection.executemany("INSERT INTO metric_values VALUES (?, ?, ?, ?, ?, ?)",
                                        [row(step, value) for step, value in enumerate(values, first_step)])

    def curves(self, run, steps, seed=0, level=3.0):
        """Noisy falling losses, and the metrics that go with them."""
        noise = random.Random(seed)

        def falling(step):
            return level + 5 * math.exp(-6 * step / steps) + 1.5 * math.exp(-40 * step / steps)
        losses = [falling(step) + noise.gauss(0, 0.12) for step in range(1, steps + 1)]
        self.metric(run, "train/loss", losses)
        self.metric(run, "train/ce", [loss * 1.1 for loss in losses])
        self.metric(run, "train/grad_norm", [abs(noise.gauss(1, 0.2)) for _ in losses])
        self.metric(run, "train/lr", [1e-3 * (1 - step / (steps + 1)) for step in range(steps)])
        self.metric(run, "train/tokens", [2048.0 * (step + 1) for step in range(steps)])
        rates = [noise.gauss(5200, 90) for _ in losses]
        self.metric(run, "perf/tokens_per_second", rates)
        self.metric(run, "perf/run_tokens", [2048.0 * (step + 1) for step in range(steps)])
        self.metric(run, "perf/run_seconds", itertools.accumulate(2048 / rate for rate in rates))
        every = max(1, steps // 20)
        for step in range(0, steps + 1, every):
            self.metric(run, "valid/loss", [falling(step) + 0.1], first_step=step)

    def memory(self, run, steps=(1, 2, 50), ranks=2):
        rows = []
        for rank in range(ranks):
            for grown, step in enumerate(steps):
                for place, phase in enumerate(("start", "forward", "weights", "head_1", "head_2", "backward",
                                               "optimizer")):
                    parts = {"parameters": 8, "optimizer": 16, "gathered": 2 * place,
                             "gradients": 2 * max(0, place - 2),
                             "activations": (6 + grown) * (3 if phase.startswith("head") else 2 if place else 0),
                             "logits": 4 if phase.startswith("head") else 0}
                    rows += [(run, rank, step, phase, part, size * MIB) for part, size in parts.items()]
                    rows.append((run, rank, step, phase, "allocated", sum(parts.values()) * MIB))
            rows += [(run, rank, steps[-1], "peak", "allocated", 60 * MIB),
                     (run, rank, steps[-1], "peak", "resident", 310 * MIB),
                     (run, rank, steps[-1], "peak", "activations", 24 * MIB)]
        with self.connection:
            self.connection.executemany("INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?)", rows)

    def event(self, run, kind, message, level="warning", step=None, seconds=10.0, rank=0):
        with self.connection:
            self.connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
                                    (run, int((self.started + seconds) * 1e9), rank, level, kind, step, message))

    def samples(self, run, steps=(50, 100, 150), sequences=2, heads=2, reference=True, text=None):
        rows, noise = [], random.Random(1)
        for step in steps:
            for sequence in range(sequences):
                for position, piece in enumerate((text or TEXT) * (1 if text else 4)):
                    for head in range(1, heads + 1):
                        loss = abs(noise.gauss(3, 1)) * (1 - step / 400)
                        before = abs(noise.gauss(2.2, 1)) if reference else None
                        chosen = before is None or loss > before
                        rows.append((run, step, sequence, position, head, position + 7, piece, float(chosen), loss,
                                     before))
        with self.connection:
            self.connection.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def alignments(self, run):
        """Head 1 with itself; head 2 against it at every other position."""
        self.execute("INSERT INTO sample_alignments SELECT run_id, step, sequence, position, head, "
                     "iif(head = 1, 4e-6, iif(position % 2, -1e-6, 2e-6)), "
                     "iif(head = 1, 1.0, iif(position % 2, -0.25, 0.5)) FROM samples WHERE run_id = ?", run)

    def generations(self, run, prompts, steps=(0, 100), text="text"):
        with self.connection:
            self.connection.executemany("INSERT INTO generations VALUES (?, ?, ?, ?, ?)", [
                (run, step, number, prompt, f"{text} {number} at {step}")
                for step in steps for number, prompt in enumerate(prompts, 1)])

    def execute(self, sql, *arguments):
        with self.connection:
            self.connection.execute(sql, arguments)

    def close(self):
        self.connection.close()
