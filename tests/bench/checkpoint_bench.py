"""How long a save stalls training, as a share of a step.

One run of a model of about 65M parameters that saves every few steps. Stall: perf/checkpoint_stall_seconds, the time
that the training thread waits for a save. The reference is the median step without a save in flight; steps during a
save are shown too, because copying and writing take cores and memory bandwidth from them.
"""
import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import machine  # noqa: E402
from experiment import write  # noqa: E402
from host import users_environment  # noqa: E402
from paths import HOST  # noqa: E402
from runlog import RunLog  # noqa: E402

WANTED = 0.05  # of a step
EVERY = 6


def experiment(arguments):
    return {
        "name": "bench", "seed": 0,
        "pipeline": {"plugin": "baseline"},
        "model": {"dim": 512, "layers": 12, "heads": 8, "ffn_dim": 1408, "vocab_size": 25600, "future_tokens": 4},
        "data": {"kind": "random"},
        "train": {"steps": 1 + EVERY * (arguments.saves + 1), "batch_size": arguments.batch, "sequence_length": 256},
        "parallel": {"processes": arguments.ranks, "strategy": arguments.strategy, "precision": arguments.precision,
                     "device": "cpu"},
        "checkpoint": {"every_steps": EVERY, "keep": 1},
    }


def parameters(model):
    dim, ffn, vocab = model["dim"], model["ffn_dim"], model["vocab_size"]
    return model["layers"] * (4 * dim * dim + 3 * dim * ffn) + 2 * vocab * dim


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saves", type=int, default=5, help="without the first, which allocates memory")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=2, help="sequences per rank")
    parser.add_argument("--strategy", default="full_shard", choices=["no_shard", "shard_grad_op", "full_shard"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    arguments = parser.parse_args()
    tables = experiment(arguments)
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as name:
        folder = Path(name)
        size = 12 * parameters(tables["model"])
        if shutil.disk_usage(folder).free < 4 * size:
            raise SystemExit(f"{folder} has less room than three checkpoints of {size / 2**20:.0f} MiB need")
        write(folder, tables, "bench.toml")
        subprocess.run([HOST, "run", folder / "bench.toml", "-q"], cwd=folder, env=users_environment(), check=True,
                       stdin=subprocess.DEVNULL)
        log = RunLog(folder / "runs/wmtp.db")
        seconds, stalls = log.metric("perf/step_seconds"), log.metric("perf/checkpoint_stall_seconds")
        writing = log.metric("perf/checkpoint_seconds")
    saved = [step for step in stalls if step % EVERY == 0]
    during = set()
    # A save that starts after step s overlaps s+1 and the following steps until it ends.
    for step in saved:
        left, at = writing[step], step + 1
        while left > 0 and at in seconds:
            during.add(at)
            left, at = left - seconds[at], at + 1
    alone = statistics.median(value for step, value in seconds.items() if step > 2 and step not in during)
    crowded = statistics.median(seconds[step] for step in during)
    print(f"{parameters(tables['model']) / 1e6:.1f}M parameters, {arguments.ranks} ranks, batch {arguments.batch} x "
          f"256, {arguments.strategy}, {arguments.precision}; {machine.processor()}; {size / 2**20:.0f} MiB a save")
    print(f"a step alone {alone:.3f} s, during a save {crowded:.3f} s\n")
    print(f"{'saved at':>9}{'stall, s':>12}{'of a step':>12}{'whole save, s':>16}")
    for step in saved:
        print(f"{step:9}{stalls[step]:12.4f}{stalls[step] / alone:12.1%}{writing[step]:16.2f}"
              + ("   (not counted)" if step == saved[0] else ""))
    share = statistics.median(stalls[step] for step in saved[1:]) / alone
    print(f"\ntraining stalled by a save: {share:.2%} of a step, wanted <= {WANTED:.0%}: "
          f"{'yes' if share <= WANTED else 'NO'}")


if __name__ == "__main__":
    main()
