"""Query times of a log with ten million metric rows: `python tests/bench/log_bench.py`.

A thousand runs of a thousand steps and ten metrics. Prints bytes per row (wanted: under 60) and the best of several
times of `runs list` (under 0.2 s), one run's curve by `sql` (under 0.5 s), `runs show` and `runs compare`."""
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from made_log import MadeLog  # noqa: E402
from paths import HOST  # noqa: E402

RUNS, STEPS, TRIALS = 1000, 1000, 5
NAMES = ("train/loss", "train/ce", "train/ce_head_1", "train/ce_head_2", "train/grad_norm", "train/lr", "train/tokens",
         "perf/tokens_per_second", "perf/run_tokens", "perf/run_seconds")


def make(file):
    """Runs written in sequence, so that rows are in the file in the order of a writer."""
    log = MadeLog(file)
    noise = random.Random(3)
    for number in range(RUNS):
        run = log.run(f"run{number % 50}", seed=number // 50, params={"pipeline.keep": 0.6, "train.steps": STEPS})
        for name in NAMES:
            log.metric(run, name, [noise.random() for _ in range(STEPS)])
        if number % 100 == 99:
            print(f"made {number + 1} of {RUNS} runs", file=sys.stderr, flush=True)
    log.execute("PRAGMA optimize")
    log.close()


def best_seconds(folder, *command):
    times = []
    for _ in range(TRIALS):
        begin = time.perf_counter()
        subprocess.run([HOST, *command, "--db", "wmtp.db"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    return min(times)


def report(about, seconds, limit=None):
    wanted = "" if limit is None else f", wanted < {limit} s {'yes' if seconds < limit else 'NO'}"
    print(f"{about}: {seconds:.3f} s{wanted}", flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as name:
        folder = Path(name)
        make(folder / "wmtp.db")
        rows = RUNS * STEPS * len(NAMES)
        bytes_a_row = (folder / "wmtp.db").stat().st_size / rows
        print(f"{rows:,} rows: {bytes_a_row:.1f} bytes each, wanted < 60 {'yes' if bytes_a_row < 60 else 'NO'}")
        report("runs list", best_seconds(folder, "runs", "list"), 0.2)
        report("runs list --json --limit 1000", best_seconds(folder, "runs", "list", "--json", "--limit", "1000"))
        report("one run's curve", best_seconds(
            folder, "sql", "SELECT step, value FROM metrics WHERE run_id = 500 AND name = 'train/loss'", "--csv"), 0.5)
        report("runs show", best_seconds(folder, "runs", "show", "500"))
        report("runs compare of twenty seeds with twenty", best_seconds(folder, "runs", "compare", "run1", "run2"))


if __name__ == "__main__":
    main()
