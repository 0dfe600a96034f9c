#!/usr/bin/env python3
"""Data for experiments/study/heads.toml: sums of three numbers, answered by the total after each of them.

    python3 make_totals.py 1 11 12 13 -o ../../../runs/heads

"17+25+38=" has the answer "240080": the totals 42 and 80, three digits each, from the last to the first. For seed 11,
the folder 11 has train.jsonl, PROBLEMS random problems with their answers. valid.jsonl and tuning.jsonl are VALIDATION
others each, for validation and for that of a tuning, and the same for all seeds.

The same arguments write the same files.
"""
import argparse
import json
import random
from pathlib import Path

PROBLEMS = 20000
VALIDATION = 1024
NUMBERS = 3


def reversed_digits(number):
    return f"{number:03}"[::-1]


def record(numbers):
    totals = [sum(numbers[:count]) for count in range(2, len(numbers) + 1)]
    asked = "+".join(f"{number:02}" for number in numbers)
    return {"task_id": asked, "prompt": f"{asked}=", "completion": "".join(map(reversed_digits, totals)),
            "is_correct": True}


def problems(count, taken, rng):
    """Different ones, none of those taken."""
    found = set()
    while len(found) < count:
        found.add(tuple(rng.randrange(100) for _ in range(NUMBERS)))
        found -= taken
    return sorted(found)


def write(path, chosen, rng):
    rng.shuffle(chosen)
    path.write_text("".join(json.dumps(record(numbers)) + "\n" for numbers in chosen))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()

    options.output.mkdir(parents=True, exist_ok=True)
    taken = set()
    for name in ("valid", "tuning"):
        rng = random.Random(name)
        chosen = problems(VALIDATION, taken, rng)
        taken |= set(chosen)
        write(options.output / f"{name}.jsonl", chosen, rng)
    for seed in options.seeds:
        folder = options.output / str(seed)
        folder.mkdir(exist_ok=True)
        rng = random.Random(seed)
        write(folder / "train.jsonl", problems(PROBLEMS, taken, rng), rng)


if __name__ == "__main__":
    main()
