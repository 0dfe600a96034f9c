"""How the time and the memory of a step grow with the size of the model, the heads, the vocabulary, the sequence and
the ranks, one at a time: `python tests/bench/growth_bench.py [AXIS...]`.

Prints, for each value, the median step after the first two, its operations as `plan` counts them, and the peak memory
of the largest rank; then the exponent of each, the slope of its logarithm between the two largest values (of "size":
over the logarithm of the operations). A time whose exponent exceeds that of its operations grows faster than them.
Every axis starts from the same model; all steps of the axes "size", "heads", "vocabulary" and "ranks" have 2,048
tokens, those of "sequence" one sequence. With --report, the runs are also written to a page of the program, whose tab
Parameters plots tokens/s over each changed key.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from experiment import write  # noqa: E402
from host import users_environment  # noqa: E402
from paths import HOST  # noqa: E402
from runlog import RunLog  # noqa: E402

MODEL = {"dim": 256, "layers": 6, "heads": 4, "ffn_dim": 704, "vocab_size": 4096, "future_tokens": 2}
SIZES = {"1M": (96, 4, 256, 2048), "3M": (160, 6, 448, 4096), "10M": (256, 8, 704, 8192), "30M": (384, 12, 1024, 16384),
         "100M": (640, 14, 1728, 32000)}  # dim, layers, ffn_dim, vocab_size
NOT_COUNTED = 2  # steps


def cases():
    """{axis: {value: (changed keys of the model, batch size, sequence length, ranks)}}"""
    size = {name: ({"dim": dim, "layers": layers, "ffn_dim": ffn, "vocab_size": vocabulary}, 8, 256, 1)
            for name, (dim, layers, ffn, vocabulary) in SIZES.items()}
    heads = {heads: ({"future_tokens": heads, "layers": 4 + heads}, 8, 256, 1) for heads in (1, 2, 4, 8, 16)}
    vocabulary = {words: ({"vocab_size": words}, 8, 256, 1) for words in (1024, 4096, 16384, 65536, 262144)}
    sequence = {length: ({}, 1, length, 1) for length in (128, 512, 2048, 8192, 16384)}
    ranks = {ranks: ({}, 8 // ranks, 256, ranks) for ranks in (1, 2, 4, 8)}
    return {"size": size, "heads": heads, "vocabulary": vocabulary, "sequence": sequence, "ranks": ranks}


def measured(folder, name, changes, batch, length, ranks, precision):
    """(seconds of a step, its operations on all ranks, peak resident bytes of the largest rank)"""
    file = write(folder, {
        "name": name, "pipeline": {"plugin": "baseline"}, "model": MODEL | changes, "data": {"kind": "random"},
        "train": {"steps": 8, "batch_size": batch, "sequence_length": length}, "optimizer": {"lr": 1e-3},
        "parallel": {"processes": ranks, "strategy": "full_shard", "precision": precision, "device": "cpu"},
        "log": {"every_steps": 1}})
    done = subprocess.run([HOST, "run", file, "-q"], cwd=folder, env=users_environment(), capture_output=True,
                          text=True)
    if done.returncode:
        raise SystemExit(f"wmtp-host ended with exit code {done.returncode}\n{done.stderr}")
    log = RunLog(folder / "runs/wmtp.db")
    run = log.newest()["id"]
    seconds = statistics.median(list(log.metric("perf/step_seconds").values())[NOT_COUNTED:])
    (row,) = log.query("SELECT max(bytes) AS bytes FROM memory WHERE run_id = ? AND phase = 'peak' "
                       "AND category = 'resident'", run)
    plan = subprocess.run([HOST, "plan", file, "--json", "--like", str(run)], cwd=folder, env=users_environment(),
                          capture_output=True, text=True, check=True)
    operations = json.loads(plan.stdout)["cluster"]["strategies"][0]["operations"] * ranks
    return seconds, operations, row["bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=", ".join(cases()))
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--report", type=Path, metavar="FILE.html")
    arguments = parser.parse_args()
    if unknown := set(arguments.axes) - set(cases()):
        parser.error(f"unknown axes: {', '.join(unknown)}")
    runs = []
    print(f"{'axis':>10} {'value':>7} {'step s':>8} {'GFLOP':>8} {'GFLOP/s':>8} {'MiB':>7}")
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as folder:
        for axis in arguments.axes or cases():
            found = []
            for value, case in cases()[axis].items():
                runs.append(f"{axis}-{value}")
                found.append(measured(Path(folder), runs[-1], *case, arguments.precision))
                seconds, operations, memory = found[-1]
                print(f"{axis:>10} {value:>7} {seconds:>8.3f} {operations / 1e9:>8.1f} "
                      f"{operations / seconds / 1e9:>8.0f} {memory / 2**20:>7.0f}", flush=True)
            before, last = found[-2:]
            grown = [b / a for a, b in zip(before, last)]
            value = grown[1] if axis == "size" else list(cases()[axis])[-1] / list(cases()[axis])[-2]
            time, operations, memory = (math.log(ratio) / math.log(value) for ratio in grown)
            print(f"{axis:>10} exponents: time {time:.2f}, operations {operations:.2f}, memory {memory:.2f}",
                  flush=True)
        if arguments.report:
            subprocess.run([HOST, "report", *runs, "-o", arguments.report.resolve(), "--force"], cwd=folder,
                           env=users_environment(), check=True)


if __name__ == "__main__":
    main()
