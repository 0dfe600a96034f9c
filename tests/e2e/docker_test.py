"""scripts/docker/Dockerfile, checked without a container engine: its files exist, its commands are those of the README
and of the Makefile, and `make setup` needs no more of the tree than is copied before it. That an image is built is not
tested."""
import fnmatch
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

FILE = ROOT / "scripts/docker/Dockerfile"


@pytest.fixture(scope="module")
def steps():
    """[(instruction, arguments)]"""
    lines = re.sub(r"\\\n", " ", FILE.read_text()).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line and not line.startswith("#")]


def arguments_of(steps, instruction):
    return [arguments for name, arguments in steps if name == instruction]


def tracked():
    return subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True,
                          check=True).stdout.splitlines()


def test_it_begins_with_the_tested_system_and_ends_with_the_quick_start(steps):
    readme = (ROOT / "README.md").read_text()
    assert steps[0] == ("FROM", "debian:12") and "On Debian 12 with `git` and `make`" in readme
    installed, = (step for step in arguments_of(steps, "RUN") if "apt-get install" in step)
    assert installed.split()[-2:] == ["git", "make"]
    name, command = steps[-1]
    assert name == "CMD" and f"\n$ {' '.join(json.loads(command))} " in readme


def test_its_other_commands_are_targets_of_the_makefile(steps):
    targets = [step.split() for step in arguments_of(steps, "RUN") if not step.startswith("apt-get")]
    assert targets == [["make", "setup"], ["make", "build"]]
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(f"\nmake {target} " in f"\n{listed}" for _, target in targets)


def test_the_program_is_in_its_path(steps):
    folder, = arguments_of(steps, "WORKDIR")
    assert f"PATH={folder}/build/bin:$PATH" in arguments_of(steps, "ENV")


def test_the_set_up_needs_only_what_is_copied_before_it(steps, tmp_path):
    """`make setup` in a folder with those files only, and a .venv that is complete."""
    before = steps[:steps.index(("RUN", "make setup"))]
    for arguments in arguments_of(before, "COPY"):
        *files, target = arguments.split()
        for file in files:
            place = tmp_path / target / Path(file).name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes((ROOT / file).read_bytes())
    if not any((Path(folder) / "dpkg-query").exists() for folder in os.environ["PATH"].split(":")):
        pytest.skip("no Debian")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    wanted = [line for line in (ROOT / "scripts/requirements.txt").read_text().splitlines(True)
              if not line.startswith("#")]
    (tmp_path / ".venv/wmtp-requirements.txt").write_text("".join(wanted))
    environment = {name: value for name, value in os.environ.items() if name != "LIBTORCH"}
    ended = subprocess.run(["make", "--no-print-directory", "setup"], cwd=tmp_path, capture_output=True, text=True,
                           timeout=60, env=environment)
    assert ended.returncode == 0 and not ended.stdout, ended


def test_the_image_has_the_whole_tree_and_no_build(steps):
    assert arguments_of(steps, "COPY")[-1] == ". ."
    ignored = [line for line in (FILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
               if not line.startswith("#")]
    outside_git = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    assert {pattern.removeprefix("**/") for pattern in ignored} == outside_git
    hidden = [file for file in tracked() for pattern in ignored if fnmatch.fnmatch(file.split("/")[0], pattern)]
    assert not hidden
