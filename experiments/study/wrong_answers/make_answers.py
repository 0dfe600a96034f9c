#!/usr/bin/env python3
"""Data for experiments/study/wrong_answers.toml: sums, answered several times, of which a share is wrong.

    python3 make_answers.py 1 11 12 13 -o ../../../runs/wrong_answers

A problem is the sum of two numbers of two digits, of which at least one digit carries: "17+25=" has the answer "240",
the three digits of 42 from the last to the first. By a random choice, the same for all seeds, 512 problems are those of
validation (valid.jsonl) and 512 those of a tuning's validation (tuning.jsonl), each with its right answer; "25+17="
goes where "17+25=" goes. pairs.jsonl has those of validation with a right and a wrong answer each, to validate a
critic. For seed 11, the folder 11 has answers-S%.jsonl for each share S of wrong answers: the same PROBLEMS of the
others for each S, with ANSWERS answers each, of which every one is wrong with the probability S, independently of the
others. A wrong answer is, equally often:

    no carry   the sum without carries, "230": always the same one, as of somebody who never learned to carry
    random     another sum from 0 to 198

The same arguments write the same files.
"""
import argparse
import json
import random
from pathlib import Path

SHARES = [30, 60, 90]
PROBLEMS = 4000
ANSWERS = 8
VALIDATION = 256  # pairs of two problems with the same numbers


def reversed_digits(number):
    return f"{number:03}"[::-1]


def without_carries(a, b):
    return 10 * ((a // 10 + b // 10) % 10) + (a + b) % 10


def wrong(a, b, rng):
    if rng.random() < 0.5:
        return without_carries(a, b)
    return rng.choice([number for number in range(199) if number != a + b])


def record(a, b, answer):
    return {"task_id": f"{a:02}+{b:02}", "prompt": f"{a:02}+{b:02}=", "completion": reversed_digits(answer),
            "is_correct": answer == a + b}


def answers(problems, share, rng):
    """ANSWERS to each problem, in random order."""
    found = [record(a, b, wrong(a, b, rng) if rng.random() < share / 100 else a + b)
             for a, b in problems for _ in range(ANSWERS)]
    rng.shuffle(found)
    return found


def both_orders(pairs):
    return [problem for a, b in pairs for problem in ((a, b), (b, a))]


def write(path, records):
    path.write_text("".join(json.dumps(one) + "\n" for one in records))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()

    pairs = [(a, b) for b in range(100) for a in range(b) if without_carries(a, b) != a + b]
    random.Random(0).shuffle(pairs)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in ("valid", "tuning"):
        chosen, pairs = both_orders(pairs[:VALIDATION]), pairs[VALIDATION:]
        write(options.output / f"{name}.jsonl", [record(a, b, a + b) for a, b in chosen])
        if name == "valid":
            rng = random.Random(0)
            write(options.output / "pairs.jsonl", [record(a, b, answer) for a, b in chosen
                                                   for answer in (a + b, wrong(a, b, rng))])
    problems = both_orders(pairs)
    for seed in options.seeds:
        folder = options.output / str(seed)
        folder.mkdir(exist_ok=True)
        chosen = random.Random(seed).sample(problems, PROBLEMS)
        for share in SHARES:
            write(folder / f"answers-{share}%.jsonl", answers(chosen, share, random.Random(f"{seed} {share}")))


if __name__ == "__main__":
    main()
