"""`data convert`: tables of other programs become JSON lines that `data inspect` and `run` read."""
import datetime
import json
import os
import sys
from pathlib import Path

import pytest
from places import assert_nothing_half_written

pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow in .venv: `make setup` installs it")
import pyarrow.ipc  # noqa: E402
import pyarrow.parquet  # noqa: E402

PYTHON = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # which has pyarrow
ROWS = [{"messages": [{"role": "user", "content": f"é {i}"}, {"role": "assistant", "content": "\n"}], "score": i / 2,
         "at": datetime.datetime(2024, 5, i % 28 + 1)} for i in range(2500)]
PLAIN = [{**row, "at": row["at"].isoformat()} for row in ROWS]
TABLE = pyarrow.Table.from_pylist(ROWS)


def convert(place, *arguments):
    target = place.folder / "out.jsonl"
    place.host("data", "convert", *arguments, "--to", target, "--force", env=PYTHON)
    return [json.loads(line) for line in target.read_text().splitlines()]


def refuse(place, message, *arguments, code=4, env=PYTHON):
    place.refuse_command(code, message, command=["data", "convert", *arguments, "--to", place.folder / "none.jsonl"], env=env)
    assert not (place.folder / "none.jsonl").exists()
    assert_nothing_half_written(place.folder)


def write_arrow(file, table, open_writer):
    file.parent.mkdir(parents=True, exist_ok=True)
    with open_writer(str(file), table.schema) as writer:
        writer.write_table(table)


def test_tables_become_the_same_rows(place):
    pyarrow.parquet.write_table(TABLE, place.folder / "a.parquet", row_group_size=700)
    write_arrow(place.folder / "a.feather", TABLE, pyarrow.ipc.new_file)
    write_arrow(place.folder / "a.arrow", TABLE, pyarrow.ipc.new_stream)
    (place.folder / "a.json").write_text(json.dumps(PLAIN, indent=1))
    for name in ("a.parquet", "a.feather", "a.arrow", "a.json"):
        assert convert(place, name) == PLAIN, name
    assert convert(place, "a.parquet", "a.json") == PLAIN + PLAIN
    assert convert(place, "a.arrow", "--columns", "score") == [{"score": row["score"]} for row in PLAIN]
    convert(place, "a.parquet")
    found = json.loads(place.host("data", "inspect", "out.jsonl", "--json").out)
    assert (found[0]["format"], found[0]["records"]) == ("messages", len(ROWS))


def test_folders_of_data_sets_are_read_split_by_split(place):
    train, test = TABLE.slice(0, 1500), TABLE.slice(1500)
    hub = place.folder / "hub/data"
    hub.mkdir(parents=True)
    for name, part in (("train-00000-of-00002", train.slice(0, 700)), ("train-00001-of-00002", train.slice(700)), ("test-00000-of-00001", test)):
        pyarrow.parquet.write_table(part, hub / f"{name}.parquet")
    saved = place.folder / "saved"
    for split, part in (("train", train), ("test", test)):
        write_arrow(saved / split / "data-00000-of-00001.arrow", part, pyarrow.ipc.new_stream)
        (saved / split / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (saved / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    for folder in ("hub", "saved"):
        assert convert(place, folder, "--split", "train") == PLAIN[:1500], folder
        refuse(place, "has the splits test, train; choose one with --split", folder)
        refuse(place, "has no split dev, only test, train", folder, "--split", "dev")
    assert convert(place, "saved/test") == PLAIN[1500:]


def test_what_cannot_be_converted_is_refused(place):
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"], "image": [b"\x00"], "nan": [float("nan")]}), place.folder / "a.parquet")
    refuse(place, "column image has values of type bytes, which JSON lacks; choose others with --columns", "a.parquet")
    assert convert(place, "a.parquet", "--columns", "text,nan") == [{"text": "a", "nan": None}]
    refuse(place, "has no column txt, only text, image, nan", "a.parquet", "--columns", "txt")
    data = (place.folder / "a.parquet").read_bytes()
    (place.folder / "cut.parquet").write_bytes(data[:-20])
    refuse(place, "ArrowInvalid", "cut.parquet")
    (place.folder / "text").write_text("text")
    refuse(place, "found neither Parquet, Arrow nor a JSON list", "text")
    refuse(place, "absent does not exist", "absent")
    (place.folder / "empty").mkdir()
    refuse(place, "contains no .parquet or .arrow file", "empty")
    place.refuse_command(2, "already exists", command=["data", "convert", "a.parquet", "--to", "text"], env=PYTHON)
    (place.folder / "pyarrow").mkdir()
    (place.folder / "pyarrow/__init__.py").write_text("raise ImportError")
    refuse(place, r"has no pyarrow.*pip install pyarrow", "a.parquet", code=2, env=PYTHON | {"PYTHONPATH": place.folder})


def test_files_that_must_be_converted_name_the_command(place):
    pyarrow.parquet.write_table(TABLE, place.folder / "a.parquet")
    (place.folder / "a.json").write_text(json.dumps(PLAIN))
    for name in ("a.parquet", "a.json"):
        place.refuse_command(4, f"wmtp-host data convert .*{name} --to .*a.jsonl", command=["data", "inspect", name, "--kind", "records"])
