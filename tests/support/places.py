"""Fixtures of tests that run the program: a folder with data and an experiment; its processes are killed at the end."""
import re

import experiment
import null_cuda
import pytest
from host import IN_A_SAVE, Running, run_host
from paths import HOST
from runlog import RunLog


@pytest.fixture(scope="session")
def program():
    assert HOST.is_file(), f"{HOST} is not there: run `make build` first"
    return HOST


def assert_nothing_half_written(folder):
    """After a refused or failed run: no temporary folder, and no row with status 'running'."""
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.tmp-*"))
    assert not left, f"left behind: {left}"
    for run in RunLog(folder / "runs/wmtp.db").runs():
        assert run["status"] != "running", f"the log still holds a running run: {run}"


def assert_reported_once(ended):
    """Ranks that fail with the same error print it once. (Lines that begin with a space quote the experiment.)"""
    lines = [re.sub(r"^(\[rank \d+\] )?((wmtp-host|error|trial): )*", "", line) for line in ended.err.splitlines()]
    twice = {line for line in lines if line and not line.startswith(" ") and lines.count(line) > 1}
    assert not twice, f"printed more than once: {twice}\n{ended}"


class Place:
    """A folder of one test: tokens.bin, experiment.toml, runs/."""

    def __init__(self, folder):
        self.folder = folder
        self.started = []

    @property
    def log(self):
        return RunLog(self.folder / "runs/wmtp.db")

    def tokens(self, **arguments):
        return experiment.write_tokens(self.folder, **arguments)

    def write(self, tables=None, name="experiment.toml", **changes):
        return experiment.write(self.folder, experiment.experiment(**changes) if tables is None else tables, name)

    def host(self, *arguments, **named):
        return run_host(*arguments, cwd=self.folder, **named)

    def run(self, *arguments, wanted=0, env=None, timeout=60, **changes):
        """Writes an experiment with these changes and runs it to its end."""
        return self.host("run", self.write(**changes), *arguments, wanted=wanted, env=env, timeout=timeout)

    def refuse(self, code, *messages, env=None, arguments=(), **changes):
        """Runs an experiment with these changes, which must end with that exit code, print each of `messages` (regular
        expressions) to stderr, and leave nothing half-written."""
        return self.refuse_command(code, *messages, env=env, command=["run", self.write(**changes), *arguments])

    def refuse_everywhere(self, code, *messages, env=None, **changes):
        """Like `refuse`; `run --dry-run` and `plan` must end with the same message."""
        shown = [self.refuse(code, *messages, env=env, **changes)]
        file = self.folder / "experiment.toml"
        shown += [self.refuse_command(code, command=command, env=env)
                  for command in (["run", file, "--dry-run"], ["plan", file])]
        reasons = [re.sub(r"^(wmtp-host|error): ", "", ended.err.strip().splitlines()[-1]) for ended in shown]
        assert len(set(reasons)) == 1, reasons

    def refuse_command(self, code, *messages, command, env=None):
        ended = self.host(*command, wanted=code, env=env)
        for message in messages:
            assert re.search(message, ended.err, re.IGNORECASE), f"stderr does not say {message!r}\n{ended}"
        assert_reported_once(ended)
        assert_nothing_half_written(self.folder)
        return ended

    def start(self, *arguments, env=None, **changes):
        """Writes an experiment and starts it; the fixture kills it if it still runs at the end of the test."""
        return self.start_command("run", self.write(**changes), *arguments, env=env)

    def stopped_run(self, *arguments, env=None, **changes):
        """A run that was stopped with exit code 75 after three to seven steps."""
        return self.start(*arguments, "--set", "checkpoint.every_steps=3", env={**IN_A_SAVE, **(env or {})},
                          **changes).stop_in_a_save()

    def start_command(self, *arguments, env=None):
        running = Running(*arguments, cwd=self.folder, env=env)
        self.started.append(running)
        return running


@pytest.fixture
def place(program, tmp_path):
    """A Place with tokens."""
    made = Place(tmp_path)
    made.tokens()
    yield made
    for running in made.started:
        if running.code is None:
            running.kill()
    null_cuda.assert_no_races(tmp_path)
