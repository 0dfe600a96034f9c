"""This build against an earlier one, in alternating order (A B B A ...) on the same token ids: `cmake --install` that
one into a folder, and `python tests/bench/before_bench.py FOLDER/bin/wmtp-host [CASE...]`. Speed and peak resident
memory, now : before; medians of the ratios within pairs with their range."""
import argparse
import statistics
import tempfile
from pathlib import Path

import machine
from bench import HOST, MEMORY, SPEED, Case, run_host, write_inputs

# Two ranks divide the model and recompute the trunk, one rank has two threads and keeps all.
CASES = {f"{model}-{precision}-{ranks}": Case(model, precision, ranks, batch if ranks == 1 else batch // 2,
                                              strategy="no_shard" if ranks == 1 else "full_shard",
                                              checkpointing="none" if ranks == 1 else "full", steps=steps,
                                              sequence=sequence)
         for model, batch, sequence, steps in (("nano", 12, 64, 300), ("small", 4, 256, 16), ("wide", 2, 256, 8))
         for precision in ("fp32", "bf16") for ranks in (1, 2)}


def measure(name, before, num_pairs):
    pairs = []
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as now_folder, tempfile.TemporaryDirectory() as old_folder:
        sides = {HOST: Path(now_folder), before: Path(old_folder)}
        for folder in sides.values():
            write_inputs(folder, CASES[name])
        for number in range(num_pairs + 1):
            with machine.watched(f"pair {number} of {name}"):
                order = (HOST, before) if number % 2 == 0 else (before, HOST)
                found = {host: run_host(sides[host], CASES[name], host)[0] for host in order}
            pairs.append((found[HOST], found[before]))
    del pairs[0]  # warms up the libraries
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
