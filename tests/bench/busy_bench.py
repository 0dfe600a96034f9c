"""The step of one rank while other processes use the cores, with the default settings and with those that a user might
try: `python tests/bench/busy_bench.py`.

For each load, runs with each setting take turns (A B C C B A ...); printed are the median step with each, and the ratio
of the default to the fastest other one within a round. Wanted: at most 1.1 with every load.
"""
import argparse
import contextlib
import dataclasses
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import machine
from bench import CASES, experiment
from experiment import write
from host import users_environment
from paths import HOST
from runlog import RunLog

SETTINGS = {"default": {}, "one thread": {"OMP_NUM_THREADS": "1"}, "passive": {"OMP_WAIT_POLICY": "passive"}}
LOADS = {"idle": 0, "1 busy process": 1, "2 busy processes": 2, "4 busy processes": 4, "another run": "run"}
NOT_COUNTED = 3  # steps


def started(folder, setting):
    return subprocess.Popen([HOST, "run", "experiment.toml", "-q"], cwd=folder, env=users_environment(setting),
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def milliseconds(folder, setting, load):
    """The median step of a run under this load."""
    with contextlib.ExitStack() as stack:
        if load == "run":
            other = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wmtp-bench-")))
            prepare(other, steps=10_000)
            stack.callback(end, started(other, setting))
        else:
            for _ in range(load):
                stack.callback(end, subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        run = started(folder, setting)
        _, text = run.communicate()
    if run.returncode:
        raise SystemExit(f"wmtp-host ended with exit code {run.returncode}\n{text}")
    log = RunLog(folder / "runs/wmtp.db")
    return 1e3 * statistics.median(list(log.metric("perf/step_seconds", log.newest()["id"]).values())[NOT_COUNTED:])


def end(process):
    process.terminate()
    process.wait()


def prepare(folder, steps):
    tables = experiment(dataclasses.replace(CASES["compiled-small-fp32"], steps=steps))
    tables["data"] = {"kind": "random"}
    write(folder, tables, "experiment.toml")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    arguments = parser.parse_args()
    print(machine.processor())
    print(f"{'':>18}" + "".join(f"{name:>12}" for name in SETTINGS) + "   ms; default : fastest other")
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as name:
        folder = Path(name)
        prepare(folder, arguments.steps)
        for about, load in LOADS.items():
            rounds = []
            for number in range(arguments.rounds):
                order = list(SETTINGS) if number % 2 == 0 else list(SETTINGS)[::-1]
                taken = {setting: milliseconds(folder, SETTINGS[setting], load) for setting in order}
                rounds.append([taken[setting] for setting in SETTINGS])
            medians = [statistics.median(column) for column in zip(*rounds)]
            ratios = sorted(one[0] / min(one[1:]) for one in rounds)
            print(f"{about:>18}" + "".join(f"{value:>12.0f}" for value in medians) +
                  f"   {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


if __name__ == "__main__":
    main()
