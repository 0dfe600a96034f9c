"""The shipped experiments: each is accepted unchanged, and every shipped pipeline and adapter has one."""
import json
import subprocess
import tomllib

import pytest
from paths import HOST, ROOT

SHIPPED = sorted((ROOT / "experiments").rglob("*.toml"))
# study_test.py has the studies, and tests of its own what needs a script's data.
SCRIPTED = ("paths", "noise", "wrong_answers", "heads", "path_star")
FILES = [file for file in SHIPPED if "study" not in tomllib.loads(file.read_text())
         and file.parent.name not in SCRIPTED]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT / "experiments")))
def test_is_accepted(file):
    ended = subprocess.run([HOST, "run", file, "--dry-run"], cwd=ROOT, text=True, capture_output=True)
    assert ended.returncode == 0, ended.stderr


def test_all_are_planned(place):
    for file in FILES:
        planned = json.loads(place.host("plan", file, "--json").out)
        assert planned["memory"] and all(one["bytes"]["allocated"] > 0 for one in planned["memory"]), file


def shipped(kind):
    listed = subprocess.run([HOST, "plugins", "list", "--json"], text=True, capture_output=True, check=True).stdout
    return {plugin["name"] for plugin in json.loads(listed) if plugin["kind"] == kind}


def named(table):
    """The plugins that experiments name in this table, including the default."""
    found = set()
    for file in FILES:
        tables = tomllib.loads(file.read_text())
        found.add(tables.get(table, {}).get("plugin", "full"))
    return found


@pytest.mark.parametrize("kind", ["pipeline", "adapter"])
def test_every_plugin_has_an_experiment(kind):
    assert shipped(kind), "no plugins found"
    assert shipped(kind) <= named(kind)


def test_the_command_lists_every_experiment_by_the_first_sentence_of_its_file(place):
    listed = json.loads(place.host("experiments", "--json").out)
    assert [row["experiment"] for row in listed] == [str(file.relative_to(ROOT / "experiments")) for file in SHIPPED]
    described = {row["experiment"]: row["what it trains"] for row in listed}
    assert described["baseline.toml"].startswith("Multi-token prediction with equal token weights: the baseline")
    assert all(described.values())


def test_the_command_copies_all_experiments_so_that_they_run_and_replaces_nothing(place):
    place.host("experiments", "--copy", "mine")
    assert (place.folder / "mine/rho1.toml").read_text() == (ROOT / "experiments/rho1.toml").read_text()
    assert len(list((place.folder / "mine").rglob("*.toml"))) == len(SHIPPED)
    place.host("plan", "mine/weightings/focal.toml")
    refused = place.host("experiments", "--copy", "mine", wanted=2)
    assert "mine already exists" in refused.err
