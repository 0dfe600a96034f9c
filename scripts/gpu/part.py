"""The steps of a part, each with a time limit, and its table.

No process outlives its step: this process adopts the orphans below it (prctl), and each step ends with SIGKILL for all
that is left, also for processes in sessions of their own."""
import ctypes
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import model
from runlog import RunLog

SECONDS = 460  # of a part; its files and its end take some seconds more
LONGEST_LOG = 15 << 20
LONGEST_STEP_LOG = 2 << 20
PR_SET_CHILD_SUBREAPER = 36


def descendants(ancestor):
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found, added = set(), {ancestor}
    while added:
        added = {child for child, parent in parents.items() if parent in added} - found
        found |= added
    return found


def end_descendants():
    """Kills all processes below this one. Repeated, because a killed process may just have started another one."""
    for _ in range(500):
        left = descendants(os.getpid())
        if not left:
            return
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.02)


@dataclass
class Ended:
    code: int  # None: stopped by us
    text: str
    seconds: float
    timed_out: bool = False

    def last_line(self):
        lines = [line for line in self.text.splitlines() if line.strip()]
        return lines[-1].strip()[:200] if lines else ""


class Part:
    def __init__(self, name, out, work):
        self.name, self.out, self.work = name, out, work
        self.begun = time.monotonic()
        self.failed = False
        self.rows = []
        self.figures = {"part": name, "date": time.strftime("%Y-%m-%d", time.gmtime()),
                        "python": platform.python_version()}
        self.log = open(out / f"{name}.log", "w", errors="replace")
        self.host = Path(os.environ["WMTP_BUILD"]) / "bin/wmtp-host"
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def left(self):
        return SECONDS - (time.monotonic() - self.begun)

    def row(self, what, *cells):
        self.rows.append((what, *map(str, cells)))

    def not_measured(self, what, why):
        self.row(what, "not measured", why)

    def check(self, what, good, *cells):
        self.failed = self.failed or not good
        self.row(what, "ok" if good else "FAILED", *cells)
        return good

    def ended(self, command, seconds, env=None, until=lambda: False):
        """Runs a command until it ends, until() is true, or its seconds are over. None if the part has no time left."""
        limit = min(seconds, self.left())
        if limit < 5:
            return None
        words = " ".join([Path(command[0]).name, *map(str, command[1:])])
        print(f"[{SECONDS - self.left():3.0f} s] {words}"[:118], flush=True)
        begun, file = time.monotonic(), self.work / "step.log"
        environment = {**os.environ, "NO_COLOR": "1", **{key: str(value) for key, value in (env or {}).items()}}
        with open(file, "wb") as output:
            process = subprocess.Popen([str(word) for word in command], cwd=self.work, env=environment,
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            code, stopped = None, False
            while code is None and not stopped and time.monotonic() - begun < limit:
                time.sleep(0.05)
                code, stopped = process.poll(), until()
        timed_out = code is None and not stopped
        end_descendants()
        text = file.read_bytes()[-LONGEST_STEP_LOG:].decode(errors="replace")
        took = time.monotonic() - begun
        if self.log.tell() < LONGEST_LOG - 2 * LONGEST_STEP_LOG:
            self.log.write(f"## {' '.join(map(str, command))}\n## exit code {code}, {took:.1f} s"
                           f"{', time limit' if timed_out else ''}\n{text}\n")
        return Ended(code, text, took, timed_out)

    def text_of(self, what, command, seconds):
        """The output of a command that must end with exit code 0; None, with a row that says why, if it did not."""
        ended = self.ended(command, seconds)
        if ended is not None and ended.code == 0:
            return ended.text
        self.check(what, False, ended.last_line() if ended else "no time left")
        return None

    def step(self, what, command, seconds, wanted=0, env=None, show=None):
        """Runs a command that must end with this exit code; `show` makes the cells of its row from its output."""
        ended = self.ended(command, seconds, env)
        if ended is None:
            self.not_measured(what, "no time left; run this part again")
            return None
        good = ended.code == wanted
        why = f"no end after {seconds} s" if ended.timed_out else f"exit code {ended.code}, wanted {wanted}"
        cells = [show(ended.text)] if good and show else [] if good else [why, ended.last_line()]
        self.check(what, good, f"{ended.seconds:.0f} s", *cells)
        return ended

    def train(self, name, file, *settings, steps=22, skip=6, seconds=55, profile=False):
        """Trains until `steps` steps are in the log, then kills the run and deletes its folder: its last checkpoint
        would take 20 GB. With `profile`, one more step is recorded. Returns medians of the steps after `skip`, the
        memory, and "profile": a file; or None, with a row that says why. All runs share a log, so that a reference is
        trained once. A rehearsal has six steps at most."""
        if model.REHEARSAL:
            steps, skip = min(steps, 6), min(skip, 2)
        log = RunLog(self.work / "runs.db")
        before = log.newest_id()
        last = steps + 1 if profile else 100_000
        chosen = ["log.every_steps=1", *([f"log.profile_step={last}"] if profile else []), *settings]
        if "\nsteps = " in Path(file).read_text():  # else it has epochs
            chosen.append(f"train.steps={last}")
        recorded = lambda: list(self.work.glob(f"*-{name}/profile-0000.json"))  # noqa: E731

        def is_done():
            run = log.rows_after(before)
            return run and run[-1]["name"] == name and log.last_step(before) >= steps and (not profile or recorded())

        ended = self.ended([self.host, "--db", log.database, "run", file, "--name", name,
                            *(word for setting in chosen for word in ("--set", setting))], seconds, until=is_done)
        if ended is None:
            self.not_measured(name, "no time left; run this part again")
            return None
        figures = self._figures(log, before, skip, steps)
        if figures and profile:
            figures["profile"] = recorded()[0].rename(self.work / f"{name}-profile.json") if recorded() else None
        for folder in self.work.glob(f"*-{name}"):
            shutil.rmtree(folder, ignore_errors=True)
        if not figures and ended.code == 8:
            self.not_measured(name, "out of memory on the device")
        elif not figures:
            why = f"no end after {ended.seconds:.0f} s" if ended.timed_out else f"exit code {ended.code}"
            self.check(name, False, why, ended.last_line())
        return figures

    def _figures(self, log, before, skip, steps):
        run = max((row["id"] for row in log.rows_after(before)), default=None)
        of = {name: [value for step, value in log.metric(name, run).items() if skip < step <= steps]
              for name in ("perf/tokens_per_second", "perf/step_seconds", "perf/mfu", "perf/multiplication_share",
                           "perf/gpu_utilization", "train/loss")} if run else {}
        if not of.get("perf/step_seconds"):
            return None
        figures = {name.split("/")[1]: statistics.median(values) for name, values in of.items() if values}
        memory = {}
        for row in log.query("SELECT phase, category, max(bytes) AS bytes FROM memory WHERE run_id = ? "
                             "GROUP BY phase, category", run):
            memory.setdefault(row["phase"], {})[row["category"]] = row["bytes"]
        return figures | {"losses": of["train/loss"], "peak": memory.pop("peak", {}), "phases": memory,
                          "steps": len(of["perf/step_seconds"])}

    def close(self):
        """Writes the files, prints the table."""
        end_descendants()
        self.log.close()
        self.figures |= {"rows": self.rows, "seconds": round(SECONDS - self.left(), 1), "failed": self.failed,
                         "rehearsal": model.REHEARSAL}
        (self.out / f"{self.name}.json").write_text(json.dumps(self.figures, indent=1, default=str) + "\n")
        table = self.table()
        (self.out / f"{self.name}.md").write_text(table)
        print(table, flush=True)

    def table(self):
        most = max([len(row) for row in self.rows], default=1)
        rows = [[*row, *[""] * (most - len(row))] for row in self.rows]
        head = (f"# {self.name}: {'FAILED' if self.failed else 'ok'}, {SECONDS - self.left():.0f} s, "
                f"{self.figures['date']}" + (", rehearsal with small models" if model.REHEARSAL else ""))
        lines = ["| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows]
        return "\n".join([head, "", "| what |" + " |" * (most - 1), "| --- |" + " --- |" * (most - 1), *lines]) + "\n"


def python(*words):
    return [sys.executable, "-B", *words]
