"""Paths and names that are not UTF-8, as of an archive of an older system: they work, or are refused before anything is
written, with exit code 2 and the name of the argument. JSON and TOML cannot contain them."""
import os
import shutil
import sys
from pathlib import Path

import pytest
from experiment import ONE_RANK
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
    pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow in .venv: `make setup` installs it")
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
