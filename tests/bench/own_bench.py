"""wmtp-host against itself, in alternating order (A B B A ...), with the model `small` of bench.py: the cost of
full_shard compared with no_shard, and the memory of four more heads. Reports medians of the ratios within pairs."""
import argparse
import dataclasses
import statistics
import tempfile
from pathlib import Path

import machine
from bench import CASES, MODELS, experiment, run_host, write_inputs
from experiment import write
from runlog import RunLog

# The working memory of a step. The other categories are parameters and their state, which grow with the heads.
WORKING = ("gathered", "activations", "logits", "communication", "other")


def in_turn(pairs, one, other):
    found = []
    for number in range(pairs):
        order = (one, other) if number % 2 == 0 else (other, one)
        with machine.watched(f"pair {number + 1}"):
            figures = {side: side() for side in order}
        found.append((figures[one], figures[other]))
    return found


def report(about, pairs, unit, limit):
    ratios = sorted(one / other for one, other in pairs)
    ratio = statistics.median(ratios)
    one, other = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    print(f"{about}: {one:.1f} : {other:.1f} {unit}, ratio {ratio:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}), "
          f"wanted <= {limit} {'yes' if ratio <= limit else 'NO'}", flush=True)


def milliseconds_of_step(folder, case):
    run_host(folder, case)
    log = RunLog(folder / "runs/wmtp.db")
    return 1e3 * statistics.median(list(log.metric("perf/step_seconds", log.newest()["id"]).values())[2:])


def working_mib(folder, case):
    """The working memory of a step: the largest sum over the categories' peaks of any rank."""
    run_host(folder, case)
    log = RunLog(folder / "runs/wmtp.db")
    rows = log.query("SELECT rank, sum(bytes) AS bytes FROM memory WHERE run_id = ? AND phase = 'peak' AND category "
                     f"IN {WORKING} GROUP BY rank", log.newest()["id"])
    return max(row["bytes"] for row in rows) / 2**20


def compare_strategies(pairs, precision):
    case = dataclasses.replace(CASES[f"small-{precision}"], checkpointing="none", steps=16)
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as full, tempfile.TemporaryDirectory() as none:
        sides = []
        for folder, strategy in ((full, "full_shard"), (none, "no_shard")):
            of_side = dataclasses.replace(case, strategy=strategy)
            write_inputs(Path(folder), of_side)
            sides.append(lambda folder=Path(folder), of_side=of_side: milliseconds_of_step(folder, of_side))
        sides[0](), sides[1]()  # warms up the libraries; not counted
        report(f"full_shard against no_shard, {precision}, 2 ranks", in_turn(pairs, *sides), "ms a step", 1.05)


def compare_heads():
    case = CASES["small-bf16"]
    found = []
    for heads in (8, 4):
        with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as folder:
            write_inputs(Path(folder), case)
            shape = MODELS[case.model]
            trunk = shape["layers"] - shape["future_tokens"]
            write(Path(folder), experiment(case, model={**shape, "layers": trunk + heads, "future_tokens": heads}),
                  "bench.toml")
            found.append(working_mib(Path(folder), case))
    report("8 heads against 4, memory of a step without the state", [tuple(found)], "MiB", 1.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.pairs < 1:
        parser.error("wanted at least 1 pair")
    print(machine.processor())
    compare_heads()
    for precision in ("fp32", "bf16"):
        compare_strategies(arguments.pairs, precision)


if __name__ == "__main__":
    main()
