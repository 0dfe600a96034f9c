"""Experiments as nested dictionaries, written as TOML, over a small model that trains in about a second."""
import copy
import json

import null_cuda
import numpy as np

SEQUENCE = 64
VOCAB = 512
WINDOWS = 64

BASE = {
    "name": "trial",
    "seed": 7,
    "pipeline": {"plugin": "baseline"},
    "model": {"dim": 64, "layers": 5, "heads": 4, "ffn_dim": 192, "vocab_size": VOCAB, "future_tokens": 4},
    "data": {"kind": "tokens", "file": "tokens.bin", "dtype": "uint16", "order": "sequential"},
    "train": {"steps": 10, "batch_size": 2, "sequence_length": SEQUENCE},
    "optimizer": {"lr": 1e-3},
    "parallel": {"processes": 2, "device": "cuda" if null_cuda.is_used() else "cpu"},
}

# Where nothing depends on the number of ranks: starting one takes half the time of starting two, and it waits for none.
ONE_RANK = {"parallel__processes": 1}


def experiment(**changes):
    """BASE with changed keys: experiment(train__steps=3, pipeline__plugin="rho1", reference__model__layers=2);
    None removes a key."""
    tables = copy.deepcopy(BASE)
    for path, value in changes.items():
        *parents, key = path.split("__")
        table = tables
        for parent in parents:
            table = table.setdefault(parent, {})
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return tables


def to_toml(tables, prefix=""):
    lines = [f"{key} = {_value(value)}" for key, value in tables.items() if not isinstance(value, dict)]
    if prefix:
        lines.insert(0, f"[{prefix}]")
    text = "\n".join(lines) + "\n" if lines else ""
    for key, value in tables.items():
        if isinstance(value, dict):
            text += to_toml(value, f"{prefix}.{key}" if prefix else key)
    return text


def _value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)  # also valid TOML for nan and inf
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value)


def write_tokens(folder, windows=WINDOWS, seed=11, highest=VOCAB):
    """Learnable ids: each is close to the one before."""
    random = np.random.default_rng(seed)
    ids = np.cumsum(random.integers(0, 5, windows * SEQUENCE)) % highest
    ids.astype("<u2").tofile(folder / "tokens.bin")
    return ids


def write(folder, tables, name="experiment.toml"):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(tables if isinstance(tables, str) else to_toml(tables))
    return file


def line_of(file, text):
    """The 1-based number of the first line that contains `text`, which a message must name."""
    lines = file.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)
