"""`make install`: the manual pages, the completions and the pages of the documentation in the places where man, the
shells and a reader look for them. (contract.installed_template builds a plugin with an installation and runs it.)"""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from commands_test import offered_by
from examples_test import commands_of, help_of
from paths import BUILD, ROOT

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def prefix(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed") / "prefix"
    subprocess.run(["cmake", "--install", BUILD, "--prefix", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def commands(words=()):
    """Every command of the help: (), ("run",), ("runs", "list")."""
    yield words
    for name in commands_of(help_of(words)):
        yield from commands((*words, name))


def shown(page):
    """What man shows; its warnings are failures."""
    if not shutil.which("man"):
        pytest.skip("no man: `apt-get install man-db` to run this")
    ended = subprocess.run(["man", "--warnings", "--no-hyphenation", "--no-justification", "-l", page],
                           capture_output=True, text=True, timeout=30,
                           env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""})
    assert ended.returncode == 0 and ended.stderr == "", f"{page}: {ended.stderr}"
    return ended.stdout


def test_every_command_has_a_manual_page(prefix):
    wanted = {"-".join(("wmtp-host", *words)) + ".1" for words in commands()}
    assert {file.name for file in (prefix / "share/man/man1").iterdir()} == wanted and "wmtp-host-runs-list.1" in wanted


def test_a_manual_page_shows_every_word_of_the_help(prefix):
    for words in commands():
        page = shown(prefix / f"share/man/man1/{'-'.join(('wmtp-host', *words))}.1")
        assert page.splitlines()[0].startswith("-".join(("wmtp-host", *words)) + "(1)")
        found = set(page.split())
        help_text = re.sub(r"^(Usage:|[A-Za-z ]*options:|Options.*:|Positionals:|Commands:|examples?:)", "",
                           help_of(words), flags=re.MULTILINE)
        missing = [word for word in help_text.split() if word not in found and f"{word}(1)" not in found]
        missing = [word for word in missing
                   if not any(one.endswith(f"-{word}(1)") for one in found)]  # a list of commands
        assert not missing, (words, missing)


def test_the_lines_of_an_example_stay_apart(prefix):
    page = shown(prefix / "share/man/man1/wmtp-host-sql.1")
    lines = [line.strip() for line in page[page.index("\nEXAMPLES\n"):].splitlines()]
    examples = re.search(r"^examples?:\n((?:  .*\n)+)", help_of(["sql"]), re.MULTILINE)[1].splitlines()
    assert set(line.strip() for line in examples) <= set(lines)


def test_zsh_and_fish_find_the_completions(prefix, tmp_path):
    share = prefix / "share"
    assert offered_by("zsh", "wmtp-host ru", tmp_path, script=share / "zsh/site-functions") == ["run", "runs"]
    assert offered_by("bash", "wmtp-host ru", tmp_path,
                      script=share / "bash-completion/completions/wmtp-host") == ["run", "runs"]
    fish = subprocess.run(["fish", "-c", "complete -C 'wmtp-host ru'"], capture_output=True, text=True, timeout=30,
                          check=True, env={
                              **os.environ, "XDG_DATA_DIRS": str(share), "HOME": str(tmp_path), "TERM": "xterm",
                              "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}"})
    assert sorted(fish.stdout.split()) == ["run", "runs"], fish


def test_every_link_of_the_installed_pages_leads_to_a_file(prefix):
    folder = prefix / "share/doc/wmtp-host"
    pages = {file.relative_to(folder) for file in folder.rglob("*.md")}
    assert {Path("README.md"), Path("docs/running.md"), Path("docs/decisions/0014-exports.md"),
            Path("db/README.md")} <= pages
    broken = [(str(page), link) for page in pages for link in LINK.findall((folder / page).read_text())
              if not link.startswith("http") and not (folder / page).parent.joinpath(link).exists()]
    assert not broken
    assert (folder / "docs/cli.md").read_text() == (ROOT / "docs/cli.md").read_text()


@pytest.mark.parametrize("of", ["build", "installation"])
def test_no_run_path_contains_the_current_folder(prefix, of):
    """An empty part of a run path means the current folder: a library of that folder would be loaded as ours."""
    paths = {}
    for folder in ("bin", "lib"):
        for file in ((prefix if of == "installation" else BUILD) / folder).rglob("*"):
            if file.is_file() and not file.is_symlink() and file.open("rb").read(4) == b"\x7fELF":
                said = subprocess.run(["readelf", "-d", "-W", file], capture_output=True, text=True, check=True).stdout
                paths[file.name] = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", said)
    assert {"wmtp-host", "wmtp-engine", "libwmtp_core.so", "libwmtp_engine.so", "rho1.so"} <= paths.keys()
    for name, found in paths.items():
        assert all(part.startswith(("/", "$ORIGIN")) for path in found for part in path.split(":")), (name, found)
