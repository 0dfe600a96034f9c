"""Text prepared by an experiment that names a tokenizer file, as token ids."""
import numpy as np

TEXT = {"data": {"kind": "text", "files": ["text/*"], "tokenizer": {"kind": "file", "file": "tokenizer.json"}},
        "model__vocab_size": 4096, "parallel__processes": 1}


def prepared(place, text, tokenizer="tokenizer.json"):
    (place.folder / "text").mkdir(exist_ok=True)
    (place.folder / "text/one").write_bytes(text)
    data = TEXT["data"] | {"tokenizer": {"kind": "file", "file": tokenizer}}
    place.host("data", "prepare", place.write(**TEXT | {"data": data}))
    file, = place.folder.glob("runs/cache/*/train.bin")
    return np.fromfile(file, "<u2").tolist()


def first_difference(found, wanted, tokenizer):
    at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
    shown = [repr(tokenizer.decode(ids[max(0, at - 8):at + 8])) for ids in (found, wanted)]
    return f"at {at} of {len(found)} and {len(wanted)}: {shown[0]} and {shown[1]}"
