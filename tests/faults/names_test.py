"""Paths and names that are not UTF-8, as of an archive of an older system: they work, or are refused before anything is
written, with exit code 2 and the name of the argument. JSON and TOML cannot contain them. Printed commands quote
paths."""
import gzip
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from experiment import ONE_RANK
from host import clean_environment
from paths import HOST
from places import assert_nothing_half_written

CAFE = os.fsdecode(b"caf\xe9")
PYTHON = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # which has pyarrow


@pytest.fixture
def cafe(place):
    """With a folder that contains all that the working folder contains."""
    place.write(**ONE_RANK, train__steps=1)
    folder = place.folder / CAFE
    folder.mkdir()
    for file in ("tokens.bin", "experiment.toml"):
        shutil.copy(place.folder / file, folder)
    return place


@pytest.mark.parametrize("command, named", [
    (["run", f"{CAFE}/experiment.toml"], "caf�/experiment.toml"),
    (["run", "experiment.toml", "--db", f"{CAFE}/x.db"], "caf�/x.db"),
    (["run", "experiment.toml", "--name", CAFE], "name"),
    (["run", "experiment.toml", "--set", f"name={CAFE}"], "--set name=caf"),
    (["run", "experiment.toml", "--plugin-dir", CAFE], "--plugin-dir"),
    (["data", "convert", "tokens.bin", "--columns", CAFE, "--to", "o.jsonl"], "--columns"),
    (["data", "convert", "tokens.bin", "--split", CAFE, "--to", "o.jsonl"], "--split"),
    (["doctor", "--db", f"{CAFE}/x.db", "--json"], "caf�/x.db"),
    (["plugins", "list", "--plugin-dir", CAFE, "--json"], "--plugin-dir"),
    (["runs", "list", "--db", f"{CAFE}/x.db", "--json"], "caf�/x.db"),
])
def test_arguments_that_are_not_utf8_are_refused_by_name(cafe, command, named):
    ended = cafe.host(*command, wanted=2, env=PYTHON)
    assert named in ended.err, ended
    assert_nothing_half_written(cafe.folder)
    assert not list(cafe.folder.glob("runs/*-*")) and not (cafe.folder / "o.jsonl").exists()


def test_wmtp_db_that_is_not_utf8_is_refused_by_name(cafe):
    assert "WMTP_DB" in cafe.host("run", "experiment.toml", wanted=2, env={"WMTP_DB": f"{CAFE}/x.db"}).err


def test_tables_in_a_folder_whose_name_is_not_utf8_are_converted(cafe):
    pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow in .venv: `make setup-tests` installs it")
    import pyarrow.parquet
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"]}), cafe.folder / "x.parquet")
    shutil.move(cafe.folder / "x.parquet", cafe.folder / CAFE)
    cafe.host("data", "convert", f"{CAFE}/x.parquet", "--to", "o.jsonl", env=PYTHON)
    assert (cafe.folder / "o.jsonl").read_text() == '{"text": "a"}\n'
    ended = cafe.host("data", "convert", f"{CAFE}/tokens.bin", "--to", "p.jsonl", env=PYTHON, wanted=4)
    assert "tokens.bin" in ended.err, ended


def test_models_are_not_imported_into_a_folder_that_no_experiment_can_name(cafe):
    cafe.host("run", "experiment.toml")
    cafe.host("checkpoint", "export", "trial", "-o", "hf")
    ended = cafe.host("checkpoint", "import", "hf", "-o", f"{CAFE}/imported", wanted=2)
    assert "caf�/imported" in ended.err and "UTF-8" in ended.err, ended
    assert_nothing_half_written(cafe.folder)
    assert not (cafe.folder / CAFE / "imported").exists()
    cafe.host("checkpoint", "import", "hf", "-o", "imported")


def test_init_writes_no_file_that_other_commands_refuse(cafe):
    (cafe.folder / CAFE / "text.txt").write_text("the quick brown fox\n" * 500)
    ended = cafe.host("init", f"{CAFE}/text.txt", wanted=2)
    assert "UTF-8" in ended.err and not list(cafe.folder.glob("text*")), ended
    cafe.host("doctor", "--db", f"{CAFE}/x.db", "--json", wanted=None)


def test_the_experiment_of_a_run_in_such_a_folder_is_refused_as_toml_with_its_line(cafe):
    inside = cafe.folder / CAFE
    subprocess.run([HOST, "-q", "run", "experiment.toml"], cwd=inside, check=True, env=clean_environment())
    for command in (["runs", "show", "1", "--toml"], ["plan", "experiment.toml", "--like", "1"]):
        ended = subprocess.run([HOST, *command], cwd=inside, env=clean_environment(), capture_output=True, text=True)
        assert ended.returncode == 2 and ended.stdout == "", ended
        assert re.search("run 1: found byte 0xe9, wanted UTF-8, in file = .*caf\ufffd/tokens.bin", ended.stderr), ended


def pasted(place, command):
    """Runs a printed command in a shell, as a user would."""
    path = f"{HOST.parent}:{PYTHON['PATH']}"
    done = subprocess.run(["bash", "-ec", command], cwd=place.folder, env=clean_environment({"PATH": path}),
                          capture_output=True, text=True)
    assert done.returncode == 0, (command, done)


@pytest.mark.parametrize("folder", ["my data", "it's", "-x", "$HOME `id`", "a\nb"])
def test_printed_commands_can_be_pasted(place, folder):
    inside = place.folder / folder
    inside.mkdir()
    (inside / "a novel.txt").write_text("".join(f"Line {i} of a text.\n" for i in range(600)))
    said = place.host("init", f"./{folder}/a novel.txt", "-o", f"./{folder}/exp").out
    pasted(place, re.search(r"^  (wmtp-host plan .*)#", said, re.MULTILINE | re.DOTALL)[1].split("\n  wmtp-host")[0])

    def hint(name, kind, pattern):
        return re.search(pattern, place.host("data", "inspect", f"./{folder}/{name}", "--kind", kind, wanted=4).err,
                         re.DOTALL)[1].strip()

    (inside / "ids 1.gz").write_bytes(gzip.compress(b"\1\0" * 500))
    pasted(place, hint("ids 1.gz", "tokens", "first: (gunzip .*)"))
    assert (inside / "ids 1").stat().st_size == 1000
    with tarfile.open(inside / "all of it.tar", "w") as archive:
        archive.add(inside / "a novel.txt", arcname="unpacked.txt")
    pasted(place, hint("all of it.tar", "text", "first: (tar .*)"))
    assert (place.folder / "unpacked.txt").exists()
