"""Text prepared by an experiment that names a tokenizer file: its token ids, and the memory that it takes."""
import subprocess
import sys

import numpy as np
from host import clean_environment
from paths import HOST

TEXT = {"data": {"kind": "text", "files": ["text/*"], "encoding": "bytes",
                 "tokenizer": {"kind": "file", "file": "tokenizer.json"}},
        "model__vocab_size": 4096, "parallel__processes": 1}


def written(place, text, tokenizer, **changes):
    """The experiment that prepares the text."""
    (place.folder / "text").mkdir(exist_ok=True)
    (place.folder / "text/one").write_bytes(text)
    data = TEXT["data"] | {"tokenizer": {"kind": "file", "file": tokenizer}}
    return place.write(**TEXT | {"data": data} | changes)


def prepared(place, text, tokenizer="tokenizer.json"):
    place.host("data", "prepare", written(place, text, tokenizer))
    file, = place.folder.glob("runs/cache/*/train.bin")
    return np.fromfile(file, "<u2").tolist()


def peak_bytes(place, text, tokenizer="tokenizer.json", **changes):
    """The most memory that a process of the preparation holds."""
    command = [HOST, "-q", "data", "prepare", written(place, text, tokenizer, **changes)]
    program = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)")
    return int(subprocess.run([sys.executable, "-c", program, *map(str, command)], cwd=place.folder,
                              env=clean_environment(), stdout=subprocess.PIPE, check=True).stdout)


def first_difference(found, wanted, tokenizer):
    at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
    shown = [repr(tokenizer.decode(ids[max(0, at - 8):at + 8])) for ids in (found, wanted)]
    return f"at {at} of {len(found)} and {len(wanted)}: {shown[0]} and {shown[1]}"
