#!/usr/bin/env python3
"""Data for experiments/study/path_star.toml: path-star graphs (arXiv 2403.06963).

    python3 make_stars.py 11 12 13 -o ../../../runs/path_star

A graph has ARMS paths of LENGTH nodes, which share only the node where they begin. The prompt lists its edges in random
order, then that node and the end of one path; the answer is this path. "ab,cd,ac/ad" has the answer "acd". Nodes are
NODES letters, drawn for each graph.

For seed 11, the folder 11 has train-forward.jsonl, graphs with their answers, and train-reversed.jsonl, the same
graphs with answers that begin at the end; valid-forward.jsonl and valid-reversed.jsonl are VALIDATION other graphs.

The same arguments write the same files.
"""
import argparse
import random
import string
from pathlib import Path

ARMS = 2
LENGTH = 5
NODES = 20
VALIDATION = 1024


def star(rng):
    """(prompt, path)"""
    nodes = rng.sample(string.ascii_letters[:NODES], 1 + ARMS * (LENGTH - 1))
    start, others = nodes[0], nodes[1:]
    arms = [[start, *others[arm::ARMS]] for arm in range(ARMS)]
    edges = [first + second for arm in arms for first, second in zip(arm, arm[1:])]
    rng.shuffle(edges)
    return f"{','.join(edges)}/{start}{arms[0][-1]}", "".join(arms[0])


def write(folder, name, count, rng):
    with (open(folder / f"{name}-forward.jsonl", "w") as forward,
          open(folder / f"{name}-reversed.jsonl", "w") as backward):
        for _ in range(count):
            prompt, path = star(rng)
            for file, answer in ((forward, path), (backward, path[::-1])):
                file.write(f'{{"prompt": "{prompt}", "completion": "{answer}", "is_correct": true}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--graphs", type=int, default=256000, help="of each seed's training (256000)")
    options = parser.parse_args()

    for seed in options.seeds:
        folder = options.output / str(seed)
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, "train", options.graphs, random.Random(seed))
        write(folder, "valid", VALIDATION, random.Random(f"valid {seed}"))


if __name__ == "__main__":
    main()
