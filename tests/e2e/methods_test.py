"""Every experiment of docs/methods.md trains."""
import re

import pytest
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
    if "run:base" in block:
        place.run("--name", "base", train__steps=1, parallel__processes=1)
    place.write(train__steps=STEPS, parallel__processes=1)
    (place.folder / "method.toml").write_text('extends = "experiment.toml"\n' + block)
    place.host("run", "method.toml")
    assert sorted(place.log.losses()) == list(range(1, STEPS + 1))


def test_the_page_has_them():
    assert len(BLOCKS) >= 9


def test_each_reference_that_the_page_names_exists():
    sources = "".join((ROOT / "tests/parity" / file).read_text() 
                      for file in ("parity_test.py", "weightings_test.py", "auxiliary_losses_test.py"))
    held_to = re.findall(r"^\|.*\| (`[^|]+`) \|$", PAGE, re.MULTILINE)
    names = [name for cell in held_to for name in re.findall(r"`([^`]+)`", cell) if "plugin" not in cell]
    assert len(names) > 8
    for name in names:
        assert f'"{name}"' in sources, name
