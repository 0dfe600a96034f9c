"""Trains the experiments of a study, each with several seeds, and prints the results as a table.

If the log already has a finished run of the same resolved experiment and program version, it is not trained again, so a
study that was stopped continues where it stopped. Figures are means over the seeds with 95% confidence intervals
(Student's t). The table also shows the per-seed difference from the first member, with its own interval; if that
interval contains 0, the two are not distinguishable. All results are printed, whatever they are.
"""
import argparse
import math
import os
import sqlite3
import statistics
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = ROOT / "experiments"
HOST = Path(os.environ.get("WMTP_BUILD", ROOT / "build")) / "bin/wmtp-host"


@dataclass
class Study:
    about: str
    settings: dict   # of every member, overriding its file
    members: dict    # name: file; the others are compared with the first
    metrics: dict    # title: name of the metric whose last value is used
    lower_is_better: str = ""  # a metric that is also compared after equal time


STUDIES = {
    "arithmetic": Study(
        "arithmetic on polynomials: the share of problems solved to the last digit, and the loss, on problems as "
        "long as the training problems (1-3 operations) and on longer ones (4-5)",
        {"validation.every_steps": 100, "validation.batches": 16},
        {"baseline": "arithmetic.toml", "rho-1": "study/arithmetic_rho1.toml",
         "random 60%": "study/arithmetic_random.toml", "verifiable": "verifiable.toml",
         "shuffled weights": "study/arithmetic_shuffled.toml"},
        {"solved, 1-3": "valid/exact_match/1-3", "solved, 4-5": "valid/exact_match/4-5",
         "loss, 1-3": "valid/ce_head_1/1-3", "loss, 4-5": "valid/ce_head_1/4-5"}),
    "text": Study(
        "the standard library's text: the loss on clean modules that no member trains on",
        {"train.steps": 500, "validation.every_steps": 50},
        {"baseline": "baseline.toml", "rho-1": "rho1.toml", "random 60%": "study/text_random.toml"},
        {"mean of the heads": "valid/loss", "head 1": "valid/ce_head_1"},
        "valid/loss"),
}


class Log:
    def __init__(self, database):
        self.database = database

    def query(self, sql, *arguments):
        if not self.database.exists():
            return []
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=60)
        try:
            return connection.execute(sql, arguments).fetchall()
        finally:
            connection.close()

    def finished(self, resolved, version):
        """The id of the newest finished run of this resolved experiment, or None."""
        rows = self.query("SELECT id, resolved_toml FROM runs WHERE status = 'finished' AND version = ? "
                          "ORDER BY id DESC", version)
        return next((run for run, text in rows if tomllib.loads(text) == resolved), None)

    def curve(self, run, metric):
        """[(step, value)]"""
        return self.query("SELECT step, value FROM metrics WHERE run_id = ? AND name = ? ORDER BY step", run, metric)


def host(*arguments):
    if subprocess.run([HOST, *arguments]).returncode:
        sys.exit("study: stopped because a run did not finish")


def answer(*arguments):
    """The standard output of the program."""
    ended = subprocess.run([HOST, *arguments], text=True, capture_output=True)
    if ended.returncode:
        sys.exit(ended.stderr.rstrip())
    return ended.stdout


def train(log, study, title, member, seed, version):
    """The id of the run of this member and seed, which is trained first if the log has none."""
    settings = {**study.settings, "seed": seed}
    arguments = ["run", EXPERIMENTS / study.members[member], "--db", log.database,
                 "--name", f"{title}-{member}-{seed}".replace(" ", "-").replace("%", "")]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value}"]
    resolved = tomllib.loads(answer(*arguments, "--dry-run"))
    run = log.finished(resolved, version)
    if run is None:
        host(*arguments)
        run = log.finished(resolved, version)
    if run is None:
        sys.exit(f"study: the run of {member}, seed {seed}, finished but is not in {log.database}")
    return run


def central_share(t, freedom):
    """The probability of Student's t distribution between -t and t: Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle, odd = math.atan(t / math.sqrt(freedom)), freedom % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * math.cos(angle) ** 2
    within = math.sin(angle) * total
    return 2 / math.pi * (angle + within) if odd else within


def t_of(share, freedom):
    """The t for which the interval from -t to t has this probability."""
    low, high = 0.0, 1.0
    while central_share(high, freedom) < share:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if central_share(middle, freedom) < share else (low, middle)
    return high


def with_interval(values, digits):
    """Mean and half the width of its 95% confidence interval; a single value has no interval."""
    mean = f"{statistics.mean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean} ± {t_of(0.95, len(values) - 1) * error:.{digits}f}"


def against(values, base, digits=3):
    differences = [value - other for value, other in zip(values, base)]
    text = with_interval(differences, digits)
    return text if text.startswith("-") else "+" + text


def seconds_until(steps):
    """{step: seconds of training until the end of the step}, from [(step, seconds)]."""
    passed, until = 0.0, {0: 0.0}
    for step, seconds in steps:
        passed += seconds
        until[step] = passed
    return until


def value_at(curve, until, seconds):
    """A metric after this training time, interpolated linearly between two validations."""
    points = [(until[step], value) for step, value in curve]
    for (begin, first), (end, second) in zip(points, points[1:]):
        if begin <= seconds <= end:
            return first + (second - first) * (seconds - begin) / (end - begin)
    return points[-1][1] if seconds > points[-1][0] else points[0][1]


def columns_of(log, study, runs):
    """[(title, {member: [a value per seed]})]"""
    members = list(study.members)
    columns = [(title, {member: [log.curve(run, metric)[-1][1] for run in runs[member]] for member in members})
               for title, metric in study.metrics.items()]
    until = {run: seconds_until(log.curve(run, "perf/step_seconds")) for member in members for run in runs[member]}
    total = {member: [max(until[run].values()) for run in runs[member]] for member in members}
    if study.lower_is_better:
        shortest = [min(of_seed) for of_seed in zip(*total.values())]
        columns.append(("after equal time", {
            member: [value_at(log.curve(run, study.lower_is_better), until[run], seconds)
                     for run, seconds in zip(runs[member], shortest)] for member in members}))
    columns.append(("training, s", total))
    return columns


def table(study, columns):
    """Markdown, one line per member."""
    members = list(study.members)
    first = members[0]
    head, lines = ["member"], {member: [member] for member in members}
    for title, values in columns:
        digits = 1 if title == "training, s" else 3
        head.append(title)
        for member in members:
            lines[member].append(with_interval(values[member], digits))
        if title == "training, s":
            continue
        head.append(f"less {first}")
        for member in members:
            lines[member].append("" if member == first else against(values[member], values[first]))
    return "\n".join(" | ".join(["", *line, ""]).strip() for line in [head, ["---"] * len(head), *lines.values()])


def outcome(log, title, study, seeds):
    """Trains the missing runs of a study and returns its report."""
    version = answer("--version").split()[-1]
    runs = {member: [] for member in study.members}
    for seed in seeds:  # all members of a seed in succession, because machines drift
        for member in study.members:
            runs[member].append(train(log, study, title, member, seed, version))
    figures = table(study, columns_of(log, study, runs))
    interval = "mean and 95% confidence interval (Student's t)"
    return f"\n{title}: {study.about}.\nSeeds {seeds[0]} to {seeds[-1]}, {interval}\n\n{figures}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="*", choices=[[], *STUDIES], help="studies to run (all)")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (3)")
    parser.add_argument("--first-seed", type=int, default=11)
    parser.add_argument("--db", type=Path, default=Path("runs/study/wmtp.db"))
    arguments = parser.parse_args()
    if arguments.seeds < 1:
        parser.error("wanted at least 1 seed")
    log = Log(arguments.db)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    for title in arguments.study or STUDIES:
        print(outcome(log, title, STUDIES[title], seeds), flush=True)


if __name__ == "__main__":
    main()
