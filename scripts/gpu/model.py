"""The models that are trained: the files of experiments/gpu; in a rehearsal on a machine without a GPU small ones."""
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REHEARSAL = os.environ.get("WMTP_REHEARSAL") == "1"
# Keys of a rehearsal's models. Layers and heads stay above the number of future tokens.
SMALL = {"dim": 64, "layers": 6, "heads": 2, "vocab_size": 512, "batch_size": 2, "sequence_length": 64}


def experiments(work):
    """A folder with the experiments."""
    folder = work / "experiments"
    folder.mkdir(exist_ok=True)
    for file in (ROOT / "experiments/gpu").glob("*.toml"):
        text = file.read_text()
        if REHEARSAL:
            for key, value in SMALL.items():
                text = re.sub(rf"^{key} = \d+", f"{key} = {value}", text, flags=re.MULTILINE)
        (folder / file.name).write_text(text)
    return folder


def value_of(file, key):
    return int(re.search(rf"^{key} = (\d+)", file.read_text(), re.MULTILINE)[1])


def variant(file, name, changes):
    """A copy of an experiment in the same folder, with other lines: {pattern of a line: its replacement}."""
    text = file.read_text()
    for pattern, replacement in changes.items():
        text, count = re.subn(rf"^{pattern}$", lambda _: replacement, text, flags=re.MULTILINE)
        assert count == 1, f"{file.name} has {count} lines {pattern}"
    made = file.with_name(f"{name}.toml")
    made.write_text(text)
    return made


def on_repeated_tokens(file, name, ids):
    """On a file of token ids, in many epochs, so that what a reference says of them is kept after the first."""
    tokens = f'kind = "tokens"\nfile = "{ids}"\ndtype = "uint16"'
    return variant(file, name, {r"steps = \d+": "epochs = 10000", 'kind = "random"': tokens})


def on_text(file, name, documents):
    """On text, with the tokenizer of bytes."""
    text = f'kind = "text"\nfiles = ["{documents}"]'
    return variant(file, name, {'kind = "random"': text, r"vocab_size = \d+": ""})
