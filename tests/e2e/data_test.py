"""`data convert`: tables of other programs become JSON lines that `data inspect` and `run` read."""
import datetime
import json
import os
import sys
from pathlib import Path

import pytest
from places import assert_nothing_half_written

pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow in .venv: `make setup-tests` installs it")
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
    place.refuse_command(code, message, command=["data", "convert", *arguments, "--to", place.folder / "none.jsonl"],
                         env=env)
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


def test_a_row_has_no_members_that_only_other_rows_have(place):
    """As the arguments of calls, which would be learned as null."""
    rows = [{"call": {"city": "Paris"}, "more": [{"a": 1, "list": [None]}], "none": None},
            {"call": {"n": 2}, "more": [{"b": "x"}], "none": "y"}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), place.folder / "a.parquet")
    write_arrow(place.folder / "a.arrow", pyarrow.Table.from_pylist(rows), pyarrow.ipc.new_stream)
    for name in ("a.parquet", "a.arrow"):
        assert convert(place, name) == rows, name


def test_folders_of_data_sets_are_read_split_by_split(place):
    train, test = TABLE.slice(0, 1500), TABLE.slice(1500)
    hub = place.folder / "hub/data"
    hub.mkdir(parents=True)
    for name, part in (("train-00000-of-00002", train.slice(0, 700)), ("train-00001-of-00002", train.slice(700)),
                       ("test-00000-of-00001", test)):
        pyarrow.parquet.write_table(part, hub / f"{name}.parquet")
    saved = place.folder / "saved"
    for split, part in (("train", train), ("test", test)):
        write_arrow(saved / split / "data-00000-of-00001.arrow", part, pyarrow.ipc.new_stream)
        (saved / split / "state.json").write_text(
            json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (saved / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    for folder in ("hub", "saved"):
        assert convert(place, folder, "--split", "train") == PLAIN[:1500], folder
        refuse(place, "has the splits test, train; choose one with --split", folder)
        refuse(place, "has no split dev, only test, train", folder, "--split", "dev")
    assert convert(place, "saved/test") == PLAIN[1500:]


def write_tables(folder, files):
    """files: {path: number of rows}; each row tells its file."""
    for name, rows in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.table({"text": [name] * rows}), folder / name)


@pytest.mark.parametrize("name, files, arguments, rows", [
    ("auto", {"default/train/0000.parquet": 10, "default/test/0000.parquet": 4}, ["--split", "train"], 10),
    ("auto", {"default/train/0000.parquet": 10, "default/test/0000.parquet": 4}, ["--split", "test"], 4),
    ("own_names", {"default/law/0000.parquet": 10, "default/art/0000.parquet": 4}, ["--split", "law"], 10),
    ("byfolder", {"data/train/a.parquet": 10, "data/train/more/b.parquet": 1, "data/validation/a.parquet": 4},
     ["--split", "train"], 11),
    ("two", {"main/train-00000-of-00001.parquet": 10, "other/test-00000-of-00001.parquet": 4},
     ["--split", "train"], 10),
    ("loose", {"train_0.parquet": 1, "train_1.parquet": 2, "val.parquet": 4}, ["--split", "train"], 3),
    ("counted", {"data/train-00001-of-00002.parquet": 1, "data/train-00002-of-00002.parquet": 2}, [], 3),
    ("hashes", {"train-00000-of-00002-ab12.parquet": 1, "train-00001-of-00002-cd34.parquet": 2}, [], 3),
    ("no_split", {"a/x.parquet": 1, "b/y.PARQUET": 2}, [], 3),
    ("hidden", {"x.parquet": 1, ".cache/x.parquet": 2, "._y.parquet": 4, "__MACOSX/._x.parquet": 8}, [], 1),
    ("one_revision", {"snapshots/1111/data/train-00000-of-00001.parquet": 3}, ["--split", "train"], 3),
])
def test_a_split_is_the_files_whose_names_or_folders_tell_it(place, name, files, arguments, rows):
    write_tables(place.folder / name, files)
    assert len(convert(place, name, *arguments)) == rows


@pytest.mark.parametrize("files, arguments, message", [
    (["default/train/0000.parquet", "default/test/0000.parquet"], [],
     "has the splits test, train; choose one with --split"),
    (["data/train/a.parquet", "data/validation/a.parquet"], [], "has the splits train, validation;"),
    (["train.parquet", "val.parquet"], [], "has the splits train, val;"),
    (["gsm8k-train.arrow", "gsm8k-test.arrow"], [], "has the splits gsm8k-test, gsm8k-train;"),
    (["train/val.parquet", "train/train.parquet"], [], "has the splits train, train/val;"),
    (["train-00000-of-00001.parquet", "extra.parquet"], [],
     "has the splits train, and files without a split, such as .*extra.parquet;"),
    (["train/a.parquet", "extra/b.parquet"], [],
     "has the splits train, and files without a split, such as .*b.parquet;"),
    (["main/train-00000-of-00001.parquet", "val/x.parquet"], [], "has the splits train, val;"),
    (["a.parquet"], ["--split", "train"],
     "has no split train: no name of a file or folder in it tells one; leave out --split"),
    (["data/train-00000-of-00001.parquet"], ["--split", "dev"], "has no split dev, only train"),
    (["main/train-00000-of-00001.parquet", "socratic/train-00000-of-00001.parquet"], ["--split", "train"],
     "has the configurations main, socratic; name the folder of one"),
    (["main/train-00000-of-00001.parquet", "main/test-00000-of-00001.parquet", "socratic/train-00000-of-00001.parquet"],
     [], "has the configurations main, socratic;"),
    (["de/train/0000.parquet", "en/train/0000.parquet"], [], "has the configurations de, en;"),
    (["data/train-00000-of-00001.parquet", "train-00000-of-00001.parquet"], [], "has the configurations ., data;"),
    (["snapshots/1111/x.parquet", "snapshots/2222/x.parquet"], [],
     "has the revisions snapshots/1111, snapshots/2222; name the folder of one"),
    (["snapshots/1111/train.parquet", "snapshots/2222/train.parquet"], ["--split", "train"], "has the revisions"),
    (["train-00000-of-00003.parquet", "train-00002-of-00003.parquet"], [],
     "train-00001-of-00003.parquet is missing; download it"),
    (["train-00000-of-00100.parquet"], [], "train-00001-of-00100.parquet is missing, and 98 more files; download it"),
    (["data-00000-of-00003.arrow", "data-00002-of-00003.arrow"], [], "data-00001-of-00003.arrow is missing"),
    (["train/0000.parquet", "train/0002.parquet"], [], "0001.parquet is missing"),
    (["train-00000-of-00001.parquet", "train-00000-of-00002.parquet", "train-00001-of-00002.parquet"], [],
     "found files of 00001 and of 00002 beside each other, two versions of a set"),
    (["train-00000-of-00001-ab.parquet", "train-00000-of-00001-cd.parquet"], [], "the same table twice"),
    (["train.parquet", "train.arrow"], [], "has train.arrow and train.parquet, the same table twice; remove one"),
    (["train.parquet", "train-00000-of-00001.parquet"], [], "shards and files that are none"),
    (["x.parquet", "y.parquet.incomplete"], [], "y.parquet.incomplete is a download that is not finished"),
    (["lang=de/x.parquet", "lang=en/x.parquet"], [], "has the configurations lang=de, lang=en; name the folder of one"),
    (["split=test/x.parquet", "split=train/x.parquet"], [], "has the splits split=test, split=train; choose one"),
    (["x.parquet", "x-1.arrow"], [], "has x-1.arrow and x.parquet, files of several kinds; name the files to read"),
])
def test_a_folder_of_several_data_sets_or_parts_of_one_is_refused(place, files, arguments, message):
    write_tables(place.folder / "set", {file: 1 for file in files})
    refuse(place, message, "set", *arguments)


@pytest.mark.parametrize("name, text, is_data", [
    ("rows.jsonl", '{"text": "a"}\n', True), ("rows.ndjson.gz", "", True), ("rows.csv", "text\na\n", True),
    ("rows.json", '{"text": "a"}\n{"text": "b"}\n', True), ("rows_list.json", '\n[ {"text": "a"}]', True),
    ("rows.parquet.zst", "", True), ("dataset_infos.json", '{"default": {"features": {}}}\n', False),
    ("info.json", '{\n "text": "a"\n}\n', False), ("labels.json", '["a", "b"]', False), ("README.txt", "a", False)])
def test_data_of_other_kinds_beside_tables_is_not_left_out(place, name, text, is_data):
    write_tables(place.folder / "set", {"part.parquet": 2})
    (place.folder / "set" / name).write_text(text)
    if is_data:
        refuse(place, rf"has part.parquet and {name}, files of several kinds", "set")
    else:
        assert len(convert(place, "set")) == 2


def test_tables_of_different_columns_are_refused(place):
    for name in ("a", "b"):
        pyarrow.parquet.write_table(pyarrow.table({"text": ["x"], name: [1]}), place.folder / f"{name}.parquet")
    refuse(place, "a.parquet has the columns text, a, but b.parquet text, b; choose common ones with --columns",
           "a.parquet", "b.parquet")
    assert convert(place, "a.parquet", "b.parquet", "--columns", "text") == [{"text": "x"}] * 2


def test_a_gap_in_numbers_without_a_total_is_a_warning(place):
    """Spark writes no file for an empty part."""
    spark = "-11111111-2222-3333-4444-555555555555-c000.snappy"
    for folder, files, missing in (("a", ["part-00000", "part-00002", "part-00004"],
                                    "part-00001.parquet, part-00003.parquet"),
                                   ("b", [f"part-00000{spark}", f"part-00002{spark}"], f"part-00001{spark}.parquet"),
                                   ("c", ["01", "02", "04"], "03.parquet"),
                                   ("d", ["part-00000", "part-00001"], ""), ("e", ["2019", "2021"], "")):
        write_tables(place.folder / folder, {f"{file}.parquet": 1 for file in files})
        ended = place.host("data", "convert", folder, "--to", f"{folder}.jsonl", env=PYTHON)
        warning = f"warning: {folder} has no {missing}, but files with lower and higher numbers"
        assert (warning in ended.err) if missing else "warning" not in ended.err, ended.err
        assert len((place.folder / f"{folder}.jsonl").read_text().splitlines()) == len(files)


def test_shards_that_are_named_must_be_complete_unless_only_one_is_asked_for(place):
    shards = [f"train-0000{number}-of-00003.parquet" for number in range(3)]
    write_tables(place.folder, {file: 1 for file in shards})
    refuse(place, "train-00001-of-00003.parquet is missing", shards[0], shards[2])
    assert len(convert(place, *shards)) == 3
    assert len(convert(place, shards[0])) == 1
    refuse(place, "is a file, and --split selects from folders", shards[0], "--split", "test")


def test_linked_folders_are_read_once(place):
    write_tables(place.folder, {"far/train-00000-of-00001.parquet": 2, "set/b/x.parquet": 3})
    (place.folder / "linked").mkdir()
    (place.folder / "linked/data").symlink_to("../far")
    assert len(convert(place, "linked")) == 2
    for name, target in (("a", "b"), ("again", "b"), ("b/up", "..")):
        (place.folder / "set" / name).symlink_to(target)
    assert convert(place, "set") == [{"text": "set/b/x.parquet"}] * 3
    (place.folder / "set/gone").symlink_to("nowhere")
    refuse(place, "gone is a link to a file or folder that does not exist", "set")


def test_a_saved_split_has_its_name(place):
    write_arrow(place.folder / "saved/data-00000-of-00001.arrow", TABLE, pyarrow.ipc.new_stream)
    (place.folder / "saved/state.json").write_text(
        json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "test"}))
    assert convert(place, "saved", "--split", "test") == PLAIN
    refuse(place, "has one split, test; leave out --split", "saved", "--split", "train")


def test_lists_may_begin_with_a_mark_or_white_space_and_pointers_are_refused(place):
    (place.folder / "mark.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(PLAIN).encode())
    (place.folder / "blank.json").write_text(" \n" * 5000 + json.dumps(PLAIN))
    for name in ("mark.json", "blank.json"):
        assert convert(place, name) == PLAIN, name
    (place.folder / "nan.json").write_text('[{"a": NaN, "b": -Infinity, "c": 1}]')
    assert convert(place, "nan.json") == [{"a": None, "b": None, "c": 1}]
    for name in ("x.parquet", "list.json", "saved/state.json"):
        (place.folder / name).parent.mkdir(exist_ok=True)
        (place.folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        refuse(place, "is a pointer of Git LFS, in place of the file; download the file: git lfs pull",
               name.removesuffix("/state.json"))


def test_what_cannot_be_converted_is_refused(place):
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"], "image": [b"\x00"], "nan": [float("nan")]}),
                                place.folder / "a.parquet")
    refuse(place, "column image has values of type bytes, which JSON lacks; choose others with --columns", "a.parquet")
    assert convert(place, "a.parquet", "--columns", "text,nan") == [{"text": "a", "nan": None}]
    refuse(place, "has no column txt, only text, image, nan", "a.parquet", "--columns", "txt")
    data = (place.folder / "a.parquet").read_bytes()
    (place.folder / "cut.parquet").write_bytes(data[:-20])
    refuse(place, "cut.parquet: ArrowInvalid", "cut.parquet")
    (place.folder / "cut.json").write_text('[{"a": 1},\n {"a": ]')
    refuse(place, "cut.json: JSONDecodeError: Expecting value: line 2 column 8", "cut.json")
    (place.folder / "text").write_text("text")
    refuse(place, "text: found neither Parquet, Arrow nor a JSON list, and no name of CSV", "text")
    refuse(place, "absent does not exist", "absent")
    (place.folder / "empty").mkdir()
    refuse(place, "contains no .parquet, .arrow or .csv file and no JSON list", "empty")
    place.refuse_command(2, "already exists", command=["data", "convert", "a.parquet", "--to", "text"], env=PYTHON)
    (place.folder / "pyarrow").mkdir()
    for error, message in (("ModuleNotFoundError('', name='pyarrow.lib')", r"has no pyarrow.*pip install pyarrow"),
                           ("ImportError('libarrow.so: no such symbol')",
                            "cannot load pyarrow, .*: libarrow.so: no such symbol$")):
        (place.folder / "pyarrow/__init__.py").write_text(f"raise {error}")
        refuse(place, message, "a.parquet", code=2, env=PYTHON | {"PYTHONPATH": place.folder})


def test_what_is_there_twice_is_refused(place):
    """Of equal names, a row of Python keeps the last value only."""
    twice = pyarrow.Table.from_arrays([pyarrow.array(["a"]), pyarrow.array(["b"]), pyarrow.array(["c"])],
                                      names=["text", "text", "other"])
    pyarrow.parquet.write_table(twice, place.folder / "a.parquet")
    write_arrow(place.folder / "a.arrow", twice, pyarrow.ipc.new_stream)
    write_arrow(place.folder / "a.feather", twice, pyarrow.ipc.new_file)
    for name in ("a.parquet", "a.arrow", "a.feather"):
        refuse(place, f"{name} has several columns named text, wanted one; rename them, or choose others", name)
        refuse(place, f"{name} has several columns named text", name, "--columns", "other,text")
        assert convert(place, name, "--columns", "other") == [{"other": "c"}]
    (place.folder / "a.json").write_text('[{"text": "a"}, {"text": "b", "text": "c"}]')
    refuse(place, "a.json: text: found twice in an object, wanted once", "a.json")


def test_refusals_name_the_file_and_what_to_do(place):
    for name, text, message in (("half.json", r'[{"text": "\ud800"}]', r"half.json: .*half of a character"),
                                ("none.json", "[]", "none.json: found no row"),
                                ("a.jsonl", '{"text": "a"}\n', "a.jsonl: found an object.*need no conversion"),
                                ("dict.json", '{"data": [{"text": "a"}]}', r"dict.json: found an object.*jq")):
        (place.folder / name).write_text(text)
        refuse(place, message, name)


@pytest.mark.parametrize("missing", ["train_00001_of_00003", "part.1.of.3", "train-00001-of-00003"])
def test_a_missing_shard_is_named_however_shards_are_written(place, missing):
    (place.folder / "set").mkdir()
    for number in "0", "2":
        name = missing.replace("1", number) + ".parquet"
        pyarrow.parquet.write_table(TABLE.slice(0, 1), place.folder / "set" / name)
    refuse(place, f"set/{missing}.parquet is missing", "set")


def test_pipes_in_a_folder_are_refused_unopened(place):
    pyarrow.parquet.write_table(TABLE, place.folder / "a.parquet")
    for name in ("one", "saved"):
        (place.folder / name).mkdir()
        os.mkfifo(place.folder / name / "b.arrow")
        if name == "saved":
            (place.folder / "saved/state.json").write_text(json.dumps({"_data_files": [{"filename": "b.arrow"}]}))
        refuse(place, f"{name}/b.arrow is a named pipe or a device, not a regular file", name)


def test_a_table_with_several_names_is_read_once(place):
    """As by hand, or in the cache of Hugging Face, where the links lead to blobs/HASH."""
    cache = place.folder / "datasets--x"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots/1").mkdir(parents=True)
    pyarrow.parquet.write_table(TABLE, cache / "blobs/f00")
    for name in ("train-1.parquet", "train-2.parquet"):
        (cache / "snapshots/1" / name).symlink_to("../../blobs/f00")
    assert convert(place, "datasets--x") == PLAIN
    os.link(cache / "blobs/f00", cache / "snapshots/1/train-3.parquet")
    assert convert(place, "datasets--x/snapshots/1") == PLAIN


def test_files_that_must_be_converted_name_the_command(place):
    pyarrow.parquet.write_table(TABLE, place.folder / "a.parquet")
    (place.folder / "a.json").write_text(json.dumps(PLAIN))
    for name in ("a.parquet", "a.json"):
        place.refuse_command(4, f"wmtp-host data convert .*{name} --to .*a.jsonl",
                             command=["data", "inspect", name, "--kind", "records"])
