"""The shipped experiments: each is accepted unchanged, and every shipped pipeline and adapter has one."""
import json
import subprocess
import tomllib

import pytest
from paths import HOST, ROOT

FILES = sorted((ROOT / "experiments").rglob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT / "experiments")))
def test_is_accepted(file):
    ended = subprocess.run([HOST, "run", file, "--dry-run"], cwd=ROOT, text=True, capture_output=True)
    assert ended.returncode == 0, ended.stderr


def shipped(kind):
    listed = subprocess.run([HOST, "plugins", "list", "--json"], text=True, capture_output=True, check=True).stdout
    return {plugin["name"] for plugin in json.loads(listed) if plugin["kind"] == kind}


def named(table):
    """The plugins that experiments name in this table, including the default."""
    found = set()
    for file in FILES:
        tables = tomllib.loads(file.read_text())
        found.add(tables.get(table, {"plugin": "full"})["plugin"])
    return found


@pytest.mark.parametrize("kind", ["pipeline", "adapter"])
def test_every_plugin_has_an_experiment(kind):
    assert shipped(kind), "no plugins found"
    assert shipped(kind) <= named(kind)
