"""Starts the built program, waits with a time limit, and finds its ranks. Each program runs in its own session, so that
a failing test leaves no process behind."""
import os
import select
import signal
import subprocess
import time
from pathlib import Path

import null_cuda
from paths import HOST
from runlog import RunLog

LIMIT = 60
# A launcher's variables, removed from the environment of the tests.
FOREIGN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def users_environment(extra=None):
    kept = {k: v for k, v in os.environ.items()
            if k not in FOREIGN and not k.startswith(("WMTP_", "SLURM_", "OMPI_", "PMI"))}
    return {**kept, "NO_COLOR": "1", **{k: str(v) for k, v in (extra or {}).items()}}


def clean_environment(extra=None):
    """For tests, which run concurrently: spinning threads would take cores from other tests."""
    on_null_device = null_cuda.environment() if null_cuda.is_used() else {}
    return users_environment({"OMP_WAIT_POLICY": "passive", **on_null_device, **(extra or {})})


# Rank 0 stops in its first save, until SIGCONT; training waits before the next save.
IN_A_SAVE = {"WMTP_KILL_AT_SAVE": "published:0:1:stop"}


class Running:
    """A started program, with its exit code and output once it has ended (code, out, err)."""

    def __init__(self, *arguments, cwd, env=None):
        self.cwd = Path(cwd)
        self.files = [open(self.cwd / f"{name}.{time.monotonic_ns()}", "w+") for name in ("stdout", "stderr")]
        self.own_launcher = not any(key in (env or {}) for key in (*FOREIGN, "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"))
        self.stops_between_runs = False
        self.runs_before = self.log.newest_id()
        self.process = subprocess.Popen([str(HOST), *map(str, arguments)], cwd=cwd, env=clean_environment(env),
                                        stdin=subprocess.DEVNULL, stdout=self.files[0], stderr=self.files[1],
                                        start_new_session=True)

    @property
    def log(self):
        return RunLog(self.cwd / "runs/wmtp.db")

    @property
    def code(self):
        return self.process.poll()

    def _text(self, index):
        return Path(self.files[index].name).read_text(errors="replace")

    @property
    def out(self):
        return self._text(0)

    @property
    def err(self):
        return self._text(1)

    def wait(self, timeout=LIMIT):
        if not self._ends_within(timeout):
            self.kill()
            raise AssertionError(f"still running after {timeout} s\n{self}")
        left = self._left_behind()
        if left:
            self.kill()
            raise AssertionError(f"left processes behind: {left}\n{self}")
        self._row_agrees()
        return self

    def _ends_within(self, timeout):
        """subprocess polls, and so notices the end 25 ms late on average, in each of thousands of commands."""
        if self.process.poll() is None:
            process = os.pidfd_open(self.process.pid)
            try:
                if not select.select([process], [], [], timeout)[0]:
                    return False
            finally:
                os.close(process)
            self.process.wait()
        return True

    def _row_agrees(self):
        """A run's row must match the exit code; of concurrent members, any may have started last. (A killed launcher
        writes none.)"""
        rows = self.log.rows_after(self.runs_before)
        if self.code < 0 or not self.own_launcher or not rows:
            return
        status = {0: "finished", 75: "interrupted"}.get(self.code, "failed")
        found = [(row["status"], row["exit_code"]) for row in rows]
        if self.stops_between_runs:
            assert self.code == 75 and set(found) == {("finished", 0)}, f"the log says {found}\n{self}"
            return
        assert (status, self.code) in found, f"the log says {found}, wanted {(status, self.code)}\n{self}"
        for row in rows:
            assert row["ended_at"], f"run {row['id']} has no end\n{self}"

    def _left_behind(self, patience=2.0):
        """Processes of this session that outlive the program."""
        end = time.monotonic() + patience
        while (left := session_of(self.process.pid)) and time.monotonic() < end:
            time.sleep(0.05)
        return left

    def kill(self):
        """Kills the processes of this session, and no others."""
        for process in [self.process.pid, *session_of(self.process.pid)]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def ranks(self):
        """{rank: process id}, from the names that ranks give themselves."""
        found = {}
        for child in children_of(self.process.pid):
            try:
                name = Path(f"/proc/{child}/comm").read_text()
            except OSError:
                continue
            if name.startswith("wmtp rank "):
                found[int(name.removeprefix("wmtp rank "))] = child
        return found

    def wait_for_step(self, step, timeout=LIMIT):
        """Waits until the log has that step of this run, which must not end earlier."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.code is not None:
                raise AssertionError(f"ended before step {step}\n{self}")
            if self.log.last_step(self.runs_before) >= step:
                return self
            time.sleep(0.01)
        self.kill()
        raise AssertionError(f"step {step} not reached in {timeout} s\n{self}")

    def wait_until(self, condition):
        """Waits for a condition, before which the program must not end. Returns what is true of it."""
        end = time.monotonic() + LIMIT
        while not (found := condition()):
            assert self.code is None and time.monotonic() < end, str(self)
            time.sleep(0.01)
        return found

    def stop_in_a_save(self, the_last=False):
        """SIGTERM while rank 0 is stopped in a save, so that the run cannot end before it (`env`: IN_A_SAVE). After
        the last save, the run finishes, and nothing starts after it."""
        self.stops_between_runs = the_last
        stopped = self.wait_until(lambda: [pid for pid in session_of(self.process.pid) if state_of(pid) == b"T"])
        self.process.send_signal(signal.SIGTERM)
        self.wait_until(lambda: not self.own_launcher or "save and stop" in self.err)
        os.kill(stopped[0], signal.SIGCONT)
        self.wait()
        assert self.code == 75, f"wanted exit code 75\n{self}"
        return self

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out[-3000:]}\n--- stderr\n{self.err[-6000:]}"


def children_of(pid):
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return children


def file_of(pid, name):
    """Of a process in /proc; b"" if it is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def state_of(pid):
    """b"T": stopped; b"" of a process that is gone."""
    return file_of(pid, "stat").rpartition(b")")[2].strip()[:1]


def session_of(leader):
    """Living processes of the session of `leader`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, _, session = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state != "Z":
            found.append(int(entry.name))
    return found


def run_host(*arguments, cwd, env=None, timeout=LIMIT, wanted=0):
    """Runs to the end; `wanted` is the expected exit code (None: any)."""
    running = Running(*arguments, cwd=cwd, env=env)
    running.wait(timeout)
    assert wanted is None or running.code == wanted, f"wanted exit code {wanted}\n{running}"
    return running
