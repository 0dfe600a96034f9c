"""README.md, then each page of docs/, followed as written: every command that they show, in order, in one folder, as
shown or as replaced in SHORTENED. The output must have the form that they show, apart from numbers."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from examples_test import PROBLEM, write_lines, write_tables
from paths import BUILD, ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# A fenced block (commands are its lines after "$ "), or the command in the second column of a table.
SHOWN = re.compile(r"^```(\w*)\n(.*?)^```$|^\|[^|\n]*\| `(wmtp-host [^`\n]*)` \|", re.MULTILINE | re.DOTALL)
ARITHMETIC = "wmtp-host run experiments/arithmetic.toml --set model.layers=7 --set model.future_tokens=4 --set train"
IMPORT = "wmtp-host checkpoint import Llama-3.2-1B --future-tokens 4 -o llama"
ON_GPUS = "wmtp-host run experiments/rho1.toml --nproc 4 --set parallel.device=cuda"
# What is run instead of a command, and why. None: nothing.
SHORTENED = {
    "make run": ("wmtp-host run experiments/rho1.toml", "the program is built already"),
    "make test": (None, "it runs this"),
    "wmtp-host run experiments/rho1.toml --resume": (None, "no run here was stopped; parity.resume stops some"),
    "wmtp-host ui": ("timeout --preserve-status -s INT 2 wmtp-host ui --port 0",
                     "it serves until it is stopped; another may have its port"),
    IMPORT: (f"wmtp-host checkpoint export reference -o Llama-3.2-1B && {IMPORT}", "a model of the same format"),
    ON_GPUS: (f"{ON_GPUS} --dry-run", "no GPU; parity.cuda"),
    f"{ARITHMETIC}.steps=350": (f"{ARITHMETIC}.steps=3", "two minutes"),
}
# Replaced in the experiments, because stages ignore --set.
SHORTER = [(r"^steps = \d+", "steps = 3"), (r"^warmup_steps = \d+", "warmup_steps = 1"),
           (r"^batches = \d+", "batches = 1"), (r"^every_steps = \d+", "every_steps = 1"),
           (r"^problems = \d+", "problems = 400"),
           (r'"/usr/lib/python3.11/\*\*/\*.py"', '"/usr/lib/python3.11/email/*.py"'),
           (r'^  "/usr/lib/python3.11/(?!email|http|json)([a-z]+/.*|\*\.py",)\n', "")]
# Output that a run of three steps does not have, and why.
UNLIKE = {
    "build/bin/wmtp-host run experiments/rho1.toml": "make says it",
    "-11646=66131": "the text of a model that has learnt to do sums", "-66131=11646": "the same", "#66131": "the same",
}


def commands():
    """The commands that the pages show, in order: [(page, command, [lines of its output])]"""
    found = []
    for page in PAGES:
        for language, block, cell in SHOWN.findall(page.read_text()):
            shown = []
            for line in [f"$ {cell}"] if cell else [] if language else block.splitlines():
                if line.startswith("$ "):
                    shown.append((page.name, re.sub(r"\s{2,}#.*", "", line[2:]), []))
                elif shown:
                    shown[-1][2].append(line)
            found += shown
    return found


def form(line):
    """A line without the parts that differ between runs: numbers, units of size and time, words of change."""
    line = re.sub(r"\d[\d,.]*", "#", line)
    line = re.sub(r"# (Ki|Mi|Gi)?B\b", "# B", line)
    line = re.sub(r"(#m )?#s\b", "#s", line)
    line = re.sub(r"\b(fell|rose) by\b", "changed by", line)
    line = re.sub(r"ended by \w+", "ended by -", re.sub(r"\bhead_#", "head", line))
    if line.startswith("  time "):
        line = "  time"  # its parts are sorted by size
    return re.sub(r"\s+", " ", line).strip().replace("# s", "#s")


@pytest.fixture
def folder(program, tmp_path):
    """The tree as after `make build`, with shortened experiments, and the files that the pages name."""
    (tmp_path / "build").symlink_to(BUILD)
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    for file in (tmp_path / "experiments").rglob("*.toml"):
        text = file.read_text()
        for pattern, shorter in SHORTER:
            text = re.sub(pattern, shorter, text, flags=re.MULTILINE)
        file.write_text(text)
    focal = (tmp_path / "experiments/weightings/focal.toml").read_text()
    (tmp_path / "sweep.toml").write_text(f"{focal}\n[sweep]\nseed = [1, 2]\n")
    write_tables(tmp_path)
    write_lines(tmp_path / "HumanEval.jsonl", [PROBLEM])
    write_lines(tmp_path / "samples.jsonl", [{"task_id": PROBLEM["task_id"], "completion": ""}] * 10)
    return tmp_path


def typed(folder, command):
    return subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True,
                          errors="replace", timeout=120, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PATH": f"{BUILD / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1",
                               "OMP_WAIT_POLICY": "passive"})


def test_every_command_of_the_readme_and_docs_does_what_it_shows(folder):
    shown = commands()
    assert len(shown) > 20 and set(SHORTENED) <= {command for _, command, _ in shown}, "a page shows what is shortened"
    assert set(UNLIKE) <= {line for _, _, output in shown for line in output}, "a page shows what is unlike"
    failed = []
    for page, command, output in shown:
        instead, _ = SHORTENED.get(command, (command, ""))
        if instead is None:
            continue
        ended = typed(folder, instead)
        if ended.returncode != 0:
            failed.append(f"{instead}\n  exit code {ended.returncode}: {ended.stderr.strip()[-600:]}")
        found = {form(line) for line in (ended.stdout + ended.stderr).splitlines()}
        for line in output:
            if line and line not in UNLIKE and form(line) not in found:
                failed.append(f"{instead}\n  {page} shows  {form(line)}\n  here there is only  "
                              + "\n                      ".join(sorted(found)))
    assert not failed, "\n".join(failed)


def test_the_weighting_of_the_readme_is_the_one_that_is_shipped():
    shown, = re.findall(r"^```cpp\n(.*?)^```$", PAGES[0].read_text(), re.MULTILINE | re.DOTALL)
    shipped = (ROOT / "plugins/pipelines/focal/focal.cpp").read_text()
    beside = re.compile(r"^(//.*|namespace {|}  // namespace|)\n", re.MULTILINE)
    assert beside.sub("", shown) == beside.sub("", shipped)
