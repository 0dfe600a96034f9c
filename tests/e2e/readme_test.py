"""README.md, followed as it is written: every command that it shows, in order, in one folder, each as it stands there
or as SHORTENED says. What it shows of their output must come out in the same form, numbers aside."""
import os
import re
import shutil
import subprocess

import pytest
from examples_test import PROBLEM, write_lines
from paths import BUILD, ROOT

README = (ROOT / "README.md").read_text()
# What is run in place of a command, and why. None: nothing.
SHORTENED = {
    "make run": ("build/bin/wmtp-host run experiments/rho1.toml", "the build under test stands already"),
    "make test": (None, "it runs this"),
    "build/bin/wmtp-host ui": ("timeout --preserve-status -s INT 2 build/bin/wmtp-host ui --port 0",
                               "it serves until it is stopped; another may have its port"),
    "build/bin/wmtp-host run experiments/arithmetic.toml --set model.layers=7 --set model.future_tokens=4 "
    "--set train.steps=350": ("build/bin/wmtp-host run experiments/arithmetic.toml --set model.layers=7 "
                              "--set model.future_tokens=4 --set train.steps=3", "two minutes"),
}
# In the experiments themselves: stages take no --set.
SHORTER = [(r"^steps = \d+", "steps = 3"), (r"^warmup_steps = \d+", "warmup_steps = 1"),
           (r"^batches = \d+", "batches = 1"), (r"^every_steps = \d+", "every_steps = 1"),
           (r"^problems = \d+", "problems = 400"),
           (r'"/usr/lib/python3.11/\*\*/\*.py"', '"/usr/lib/python3.11/email/*.py"')]
# Output that a run of three steps, or this folder, does not have, and why.
UNLIKE = {
    "build/bin/wmtp-host run experiments/rho1.toml": "make says it",
    "-11646=66131": "the text of a model that has learnt to do sums", "-66131=11646": "the same", "#66131": "the same",
    "  stage       model: baseline.toml would run first, the log has no finished run of it": "the log here has one",
}


def blocks():
    """Blocks that show commands: [[(command, [lines of its output])]]"""
    for block in re.findall(r"^```\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        shown = []
        for line in block.splitlines():
            if line.startswith("$ "):
                shown.append((re.sub(r"\s{2,}#.*", "", line[2:]), []))
            elif shown:
                shown[-1][1].append(line)
        yield from ([shown] if shown else [])


def form(line):
    """A line without what differs from one run to the next: numbers, units of size and time, words of change."""
    line = re.sub(r"\d[\d,.]*", "#", line)
    line = re.sub(r"# (Ki|Mi|Gi)?B\b", "# B", line)
    line = re.sub(r"(#m )?#s\b", "#s", line)
    line = re.sub(r"\b(fell|rose) by\b", "changed by", line)
    line = re.sub(r"ended by \w+", "ended by -", re.sub(r"\bhead_#", "head", line))
    if line.startswith("  time "):
        line = "  time"  # its parts stand in the order of their size
    return re.sub(r"\s+", " ", line).strip().replace("# s", "#s")


@pytest.fixture
def folder(program, tmp_path):
    """The tree as it is after `make build`, with shorter experiments, and the files that README.md names."""
    (tmp_path / "build").symlink_to(BUILD)
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    for file in (tmp_path / "experiments").rglob("*.toml"):
        text = file.read_text()
        for pattern, shorter in SHORTER:
            text = re.sub(pattern, shorter, text, flags=re.MULTILINE)
        file.write_text(text)
    write_lines(tmp_path / "HumanEval.jsonl", [PROBLEM])
    write_lines(tmp_path / "samples.jsonl", [{"task_id": PROBLEM["task_id"], "completion": ""}] * 10)
    return tmp_path


def typed(folder, command):
    return subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True,
                          errors="replace", timeout=120, stdin=subprocess.DEVNULL,
                          env={**os.environ, "NO_COLOR": "1", "OMP_WAIT_POLICY": "passive"})


def test_every_command_of_the_readme_does_what_it_shows(folder):
    commands = [(command, output) for block in blocks() for command, output in block]
    shown = [command for command, _ in commands]
    assert len(shown) > 10 and set(SHORTENED) <= set(shown), "what is shortened stands in README.md"
    lines = [line for _, output in commands for line in output]
    assert set(UNLIKE) <= set(lines), "what is unlike stands in README.md"
    failed = []
    for number, (command, output) in enumerate(commands):
        instead, _ = SHORTENED.get(command, (command, ""))
        if instead is None:
            continue
        if "compare" in command:  # of "rho1" and "baseline"
            assert typed(folder, "build/bin/wmtp-host run experiments/baseline.toml").returncode == 0
        ended = typed(folder, instead)
        if ended.returncode != 0:
            failed.append(f"{instead}\n  exit code {ended.returncode}: {ended.stderr.strip()[-600:]}")
        found = {form(line) for line in (ended.stdout + ended.stderr).splitlines()}
        for line in output:
            if line and line not in UNLIKE and form(line) not in found:
                failed.append(f"{instead}\n  README.md shows    {form(line)}\n  here there is only "
                              + "\n                     ".join(sorted(found)))
    assert not failed, "\n".join(failed)


def test_the_weighting_of_the_readme_is_the_one_that_is_shipped():
    shown, = re.findall(r"^```cpp\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    shipped = (ROOT / "plugins/pipelines/focal/focal.cpp").read_text()
    beside = re.compile(r"^(//.*|namespace {|}  // namespace|)\n", re.MULTILINE)
    assert beside.sub("", shown) == beside.sub("", shipped)
