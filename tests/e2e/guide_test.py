"""docs/first_plugin.md, followed as written: every shell block, in order, in one shell. docs/sdk.md, regenerated."""
import os
import re
import subprocess
import sys

from paths import BUILD, ROOT, build_cache

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def in_a_shell(commands, folder):
    """What an author types, with `wmtp-host` on the path."""
    environment = {**os.environ, **build_cache(folder), "NO_COLOR": "1",
                   "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-euo", "pipefail"], input=commands, cwd=folder, text=True, capture_output=True,
                          timeout=500, env=environment)


def test_the_guide_for_a_first_plugin_works_as_written(program, tmp_path):
    blocks = BLOCK.findall((ROOT / "docs/first_plugin.md").read_text())
    assert len(blocks) == 5
    shell = in_a_shell("".join(blocks), tmp_path)
    assert shell.returncode == 0, shell.stdout[-3000:] + shell.stderr[-3000:]
    assert "reference.loss" in shell.stdout, "inspect shows what the new formula reads"
    assert re.search(r"margin\s+finished", shell.stdout), shell.stdout[-3000:]


def test_the_page_of_the_sdk_is_that_of_its_headers():
    made = subprocess.run([sys.executable, ROOT / "scripts/sdk_reference.py"], capture_output=True, text=True,
                          check=True)
    assert made.stdout == (ROOT / "docs/sdk.md").read_text(), "scripts/sdk_reference.py > docs/sdk.md"


def test_a_new_adapter_builds_and_passes_its_own_test(program, tmp_path):
    shell = in_a_shell("""
wmtp-host plugins new gates --kind adapter
cmake -S gates -B gates/build && cmake --build gates/build
ctest --test-dir gates/build --output-on-failure
""", tmp_path)
    assert shell.returncode == 0, shell.stdout[-3000:] + shell.stderr[-3000:]
