#!/usr/bin/env python3
"""Data for experiments/study/noise.toml: pieces of Python's library, mixed with noise.

    python3 make_text.py 11 12 13 -o ../../../runs/noise

Half of the library's clean modules (by a random choice, the same for all seeds) are the source of the reference's
pieces (reference.jsonl) and of a text to train a tokenizer on (tokenizer.txt), a tenth of those of validation
(valid.jsonl) and of a tuning's validation (tuning.jsonl), the rest of those to train on. For seed 11, the folder 11 has
mixed-S%.jsonl for each share S of noise: as many pieces for each S, in random order, clean ones with the weight 1 and
noise with the weight 0; and clean-S%.jsonl, the clean part of it. Noise is, in equal numbers:

    base64     of random bytes, a line
    shuffled   the words of clean pieces in random order
    tables     pieces of the tables of the library's encodings
    C          pieces of the C library's headers

A piece is whole lines, of about 100 characters. The same arguments write the same files, given the same library.
"""
import argparse
import base64
import json
import random
from pathlib import Path

CLEAN = ["*.py", "asyncio/*.py", "collections/*.py", "concurrent/**/*.py", "email/**/*.py", "http/*.py",
         "importlib/**/*.py", "json/*.py", "logging/*.py", "multiprocessing/**/*.py", "tomllib/*.py", "unittest/*.py",
         "urllib/*.py", "wsgiref/*.py", "xml/**/*.py"]
SHARES = [0, 25, 50, 75]
PIECES = 4000
LENGTH = 100


def pieces_of(text):
    """Whole lines, joined until they have LENGTH characters."""
    piece = ""
    for line in text.splitlines(keepends=True):
        piece += line
        if len(piece) >= LENGTH:
            if len(piece) <= 2 * LENGTH:
                yield piece
            piece = ""


def pieces_in(files):
    return [piece for file in files for piece in pieces_of(file.read_text(errors="replace"))]


def shuffled(piece, rng):
    words = piece.split()
    rng.shuffle(words)
    return " ".join(words) + "\n"


def encoded(rng):
    """A line: as many tokens as a piece of text."""
    return base64.encodebytes(rng.randbytes(57)).decode()


def record(piece, weight):
    return {"prompt": "", "completion": piece, "weight": weight}


def write(path, records):
    path.write_text("".join(json.dumps(one) + "\n" for one in records))


def mixed(share, clean, tables, headers, rng):
    """PIECES records, this percentage of them noise."""
    noisy = PIECES * share // 100
    makers = [lambda: encoded(rng), lambda: shuffled(rng.choice(clean), rng), lambda: rng.choice(tables),
              lambda: rng.choice(headers)]
    records = [record(piece, 1) for piece in rng.sample(clean, PIECES - noisy)]
    records += [record(makers[i % len(makers)](), 0) for i in range(noisy)]
    rng.shuffle(records)
    return records


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--library", type=Path, default=Path("/usr/lib/python3.11"))
    parser.add_argument("--headers", type=Path, default=Path("/usr/include"))
    options = parser.parse_args()

    files = sorted({file for pattern in CLEAN for file in options.library.glob(pattern)
                    if not file.name.startswith("_") or file.name == "__init__.py"})
    random.Random(0).shuffle(files)
    half, tenth = len(files) // 2, len(files) // 10
    of_reference, of_valid, rest = files[:half], files[half:half + tenth], files[half + tenth:]
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "tokenizer.txt").write_text("".join(file.read_text() for file in of_reference))
    write(options.output / "reference.jsonl", [record(piece, 1) for piece in pieces_in(of_reference)])
    valid = pieces_in(of_valid)
    random.Random(0).shuffle(valid)
    write(options.output / "valid.jsonl", [record(piece, 1) for piece in valid[::2]])
    write(options.output / "tuning.jsonl", [record(piece, 1) for piece in valid[1::2]])

    clean = pieces_in(rest)
    tables = pieces_in(sorted((options.library / "encodings").glob("*.py")))
    headers = pieces_in(sorted(options.headers.glob("*.h")))
    for seed in options.seeds:
        folder = options.output / str(seed)
        folder.mkdir(exist_ok=True)
        for share in SHARES:
            records = mixed(share, clean, tables, headers, random.Random(f"{seed} {share}"))
            write(folder / f"mixed-{share}%.jsonl", records)
            write(folder / f"clean-{share}%.jsonl", [one for one in records if one["weight"] > 0])


if __name__ == "__main__":
    main()
