"""Every experiment of docs/methods.md trains."""
import re

import pytest
import records
from paths import ROOT

PAGE = (ROOT / "docs/methods.md").read_text()
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
STEPS = 3


def name_of(block):
    return re.sub(r"\W+", "-", re.search(r"\n(\w.*)", block)[1])[:40]


@pytest.mark.parametrize("block", BLOCKS, ids=name_of)
def test_an_experiment_of_the_page_trains(place, block):
    """Its points are brought forward, so that each is reached."""
    points = sorted({int(step) for step in re.findall(r"step = (\d+)", block)})
    assert len(points) <= STEPS
    block = re.sub(r"step = (\d+)", lambda match: f"step = {1 + points.index(int(match[1]))}", block)
    data = {}
    if re.search(r"data_weight|pass_rate|bytes|correct", block):  # of the data, which only records have
        records.write_records(place.folder, 64, weighted=True)
        data = {"data__kind": "records", "data__file": None, "data__dtype": None, "data__files": ["records.jsonl"],
                "data__template": "plain", "model__vocab_size": None}
    steps = {"train__steps": STEPS}
    if "previous_ce" in block:  # of a run that reads windows again
        place.tokens(windows=4)
        steps = {"train__steps": None, "train__epochs": STEPS * 2 / 4}
    for seed, name in enumerate(re.findall(r'"run:(\w+)"', block), 7):
        place.run("--name", name, train__steps=1, parallel__processes=1, seed=seed, **data)
    place.write(parallel__processes=1, **steps, **data)
    (place.folder / "method.toml").write_text('extends = "experiment.toml"\n' + block)
    place.host("run", "method.toml")
    assert sorted(place.log.losses()) == list(range(1, STEPS + 1))


def test_the_page_has_them():
    assert len(BLOCKS) >= 9


def test_each_reference_that_the_page_names_exists():
    sources = "".join((ROOT / "tests/parity" / f"{file}_test.py").read_text()
                      for file in ("parity", "weightings", "signals", "auxiliary_losses", "contrasts",
                                   "previous_losses"))
    held_to = re.findall(r"^\|.*\| (`[^|]+`) \|$", PAGE, re.MULTILINE)
    names = [name for cell in held_to for name in re.findall(r"`([^`]+)`", cell) if "plugin" not in cell]
    assert len(names) > 8
    for name in names:
        assert f'"{name}"' in sources, name
