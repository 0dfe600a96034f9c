"""This build against an earlier one, in alternating order (A B B A ...) on the same token ids: `cmake --install` that
one into a folder, and `python tests/bench/before_bench.py FOLDER/bin/wmtp-host [CASE...]`. Speed and peak resident
memory, now : before; medians of the ratios within pairs with their range."""
import argparse
import statistics
import tempfile
from pathlib import Path

import machine
from bench import HOST, MEMORY, SPEED, Case, run_host, write_inputs
from own_bench import in_turn

# Two ranks divide the model and recompute the trunk, one rank has two threads and keeps all.
CASES = {f"{model}-{precision}-{ranks}": Case(model, precision, ranks, batch if ranks == 1 else batch // 2,
                                              strategy="no_shard" if ranks == 1 else "full_shard",
                                              checkpointing="none" if ranks == 1 else "full", steps=steps,
                                              sequence=sequence)
         for model, batch, sequence, steps in (("nano", 12, 64, 300), ("small", 4, 256, 16), ("wide", 2, 256, 8))
         for precision in ("fp32", "bf16") for ranks in (1, 2)}


def measure(name, before, num_pairs):
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as now_folder, tempfile.TemporaryDirectory() as old_folder:
        sides = []
        for host, folder in ((HOST, Path(now_folder)), (before, Path(old_folder))):
            write_inputs(folder, CASES[name])
            sides.append(lambda host=host, folder=folder: run_host(folder, CASES[name], host)[0])
        sides[0](), sides[1]()  # warms up the libraries; not counted
        pairs = in_turn(num_pairs, *sides)
    cells = []
    for figure in (SPEED, MEMORY):
        now, old = (statistics.median(pair[side][figure] for pair in pairs) for side in (0, 1))
        ratios = sorted(pair[0][figure] / pair[1][figure] for pair in pairs)
        cells.append(f"{now:,.0f} : {old:,.0f}, {statistics.median(ratios):.3f} ({ratios[0]:.3f}–{ratios[-1]:.3f})")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, metavar="WMTP-HOST", help="of the earlier build")
    parser.add_argument("case", nargs="*", choices=[[], *CASES], help="default: all")
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.pairs < 1:
        parser.error("wanted at least 1 pair")
    print(f"{machine.processor()}; {arguments.pairs} pairs, now : before\n")
    print(f"| case | {SPEED} | {MEMORY} |\n| --- | --- | --- |", flush=True)
    for name in arguments.case or CASES:
        measure(name, arguments.before.resolve(), arguments.pairs)


if __name__ == "__main__":
    main()
