"""The cost of a rho-1 step relative to a baseline step when the reference's losses are cached: both train in
alternating order (A B B A ...) for two epochs on the same token ids, with the model, batch and ranks of
experiments/rho1.toml. In the second epoch rho-1 reads the losses cached in the first; the median steps of that epoch
are compared, and separately those of the first epoch, which evaluate the reference.

Only ratios within a pair of consecutive runs count; their median is reported.
"""
import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import machine  # noqa: E402
from experiment import write  # noqa: E402
from host import users_environment  # noqa: E402
from paths import HOST  # noqa: E402
from runlog import RunLog  # noqa: E402

EXPERIMENTS = HERE.parent.parent / "experiments"
WANTED = 1.0


def resolved(file):
    """A shipped experiment with all its keys."""
    shown = subprocess.run([HOST, "run", EXPERIMENTS / file, "--dry-run"], text=True, capture_output=True, check=True)
    return tomllib.loads(shown.stdout)


def tables(file, name, vocab_size, train):
    """A shipped experiment, on ids instead of text."""
    found = resolved(file)
    data = {"kind": "tokens", "file": "tokens.bin", "dtype": "uint16", "order": "shuffled"}
    size = {key: found["train"][key] for key in ("batch_size", "sequence_length")}
    return {"name": name, "seed": 0, "pipeline": found["pipeline"],
            "model": {**found["model"], "vocab_size": vocab_size}, "data": data, "train": {**size, **train},
            "optimizer": found["optimizer"], "parallel": {**found["parallel"], "device": "cpu"}}


def step_seconds(folder, name):
    """Median step of the first and the second epoch, without the first two steps, which warm up."""
    ended = subprocess.run([HOST, "run", folder / f"{name}.toml", "-q"], cwd=folder, env=users_environment(),
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"wmtp-host ended with exit code {ended.returncode}\n{ended.stderr}")
    log = RunLog(folder / "runs/wmtp.db")
    seconds = list(log.metric("perf/step_seconds", log.newest()["id"]).values())
    epoch = len(seconds) // 2
    return statistics.median(seconds[2:epoch]), statistics.median(seconds[epoch:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="of one epoch")
    arguments = parser.parse_args()
    if arguments.steps < 5 or arguments.pairs < 1:
        parser.error("wanted at least 5 steps and 1 pair")

    vocab_size = resolved("rho1.toml")["data"]["tokenizer"]["vocab_size"]
    two_epochs = {"epochs": 2}
    rho1 = {**tables("rho1.toml", "rho1", vocab_size, two_epochs), "reference": {"experiment": "reference.toml"}}
    baseline = {**rho1, "name": "baseline", "pipeline": {"plugin": "baseline"}}
    del baseline["reference"]
    shape, train, ranks = rho1["model"], rho1["train"], rho1["parallel"]["processes"]
    print(f"dim {shape['dim']}, {shape['layers']} layers of which {shape['future_tokens']} are heads, vocabulary "
          f"{vocab_size}, sequence {train['sequence_length']}; {ranks} ranks, batch {train['batch_size']}, "
          f"{rho1['parallel']['strategy']}; {arguments.steps} steps an epoch; {machine.processor()}")
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as name:
        folder = Path(name)
        count = arguments.steps * ranks * train["batch_size"] * train["sequence_length"]
        np.random.default_rng(0).integers(0, vocab_size, count).astype("<u2").tofile(folder / "tokens.bin")
        write(folder, tables("reference.toml", "reference", vocab_size, {"steps": 5}), "reference.toml")
        write(folder, rho1, "rho1.toml")
        write(folder, baseline, "baseline.toml")
        step_seconds(folder, "rho1"), step_seconds(folder, "baseline")  # trains the reference; not counted
        evaluated, cached = [], []
        for number in range(arguments.pairs):
            # Without the cache the first epoch evaluates the reference again.
            for signals in folder.rglob("signals"):
                shutil.rmtree(signals)
            order = ("rho1", "baseline") if number % 2 == 0 else ("baseline", "rho1")
            with machine.watched(f"pair {number + 1}"):
                seconds = {side: step_seconds(folder, side) for side in order}
            evaluated.append(seconds["rho1"][0] / seconds["baseline"][0])
            cached.append(seconds["rho1"][1] / seconds["baseline"][1])
            print(f"pair {number + 1}: second epoch, ms a step: rho-1 {1000 * seconds['rho1'][1]:.1f}, baseline "
                  f"{1000 * seconds['baseline'][1]:.1f}, ratio {cached[-1]:.3f}; first epoch {evaluated[-1]:.3f}",
                  flush=True)
    ratio = statistics.median(cached)
    print(f"\na rho-1 step relative to a baseline step: {ratio:.2f} ({min(cached):.2f} to {max(cached):.2f}) with "
          f"cached losses, wanted <= {WANTED} {'yes' if ratio <= WANTED else 'NO'}; {statistics.median(evaluated):.2f} "
          "while the reference is evaluated")


if __name__ == "__main__":
    main()
