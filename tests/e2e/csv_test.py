"""`data convert` of CSV: what is certain becomes rows of strings, all else is refused with its line. No other command
reads CSV, as text or otherwise."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import HOST
from places import assert_nothing_half_written

PYTHON = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def rows_of(place, name, content, *arguments):
    (place.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    place.host("data", "convert", name, *arguments, "--to", "out.jsonl", "--force", env=PYTHON)
    return [json.loads(line) for line in (place.folder / "out.jsonl").open()]


@pytest.mark.parametrize("name, content, rows", [
    ("a.csv", "text,n\nhello,1\nNA,007\n", [["hello", "1"], ["NA", "007"]]),
    ("a.csv", "\ufefftext,n\r\n\"a \"\"b\"\", c\r\nd\",1\r\n", [['a "b", c\r\nd', "1"]]),
    ("a.csv", "text;n\n1,5;x\n", [["1,5", "x"]]),
    ("a.CSV", "text|n\na, b; c|x\n", [["a, b; c", "x"]]),
    ("a.csv", "text\tn\na, b\tx\n", [["a, b", "x"]]),
    ("a.tsv", 'text\tn\n5" pipe, red\tx\n', [['5" pipe, red', "x"]]),
    ("a.tsv", 'text\tn, in m\na\tx\n', [["a", "x"]]),
    ("a.csv", '"text, long","n;o"\na,x\n', [["a", "x"]]),
    ("a.csv", "\n\ntext,n\n\na,\n\"\",x\n\n", [["a", None], [None, "x"]]),
    ("a.csv", "text,n\ra,x\r", [["a", "x"]]),
    ("a.csv", "text,n\na\u2028b,x", [["a\u2028b", "x"]]),
    ("a.csv", "text,n\n" + "a" * 300_000 + ",x\n", [["a" * 300_000, "x"]]),
    ("a.csv", 'text\n"a, b"\nc\n', [["a, b"], ["c"]]),
])
def test_rows_are_those_of_the_table(place, name, content, rows):
    assert [list(row.values()) for row in rows_of(place, name, content)] == rows


def test_columns_can_be_chosen_by_names_that_need_not_look_like_names(place):
    table = ",text,1990,text 2\n0,a,5,b\n"
    assert rows_of(place, "a.csv", table, "--columns", "text,1990") == [{"text": "a", "1990": "5"}]
    assert rows_of(place, "a.csv", "text,n,n\na,1,2\n", "--columns", "text") == [{"text": "a"}]


@pytest.mark.parametrize("name, content, message", [
    ("a.csv", "a,b\n1,2\n\n3\n", "line 4: the number of values is 1, wanted 2, as in the header"),
    ("a.csv", 'a,b\n1,"x\ny"\nx,y,z\n', "line 4: the number of values is 3, wanted 2, as in the header"),
    ("a.csv", "text\nhello, you\n", "line 2: the number of values is 2, wanted 1"),
    ("a.csv", 'a,b\n1,2\n1,"x "y" z"\n', "line 3: ',' expected after '\"'; in CSV, a quote inside a quoted value is"),
    ("a.csv", 'a,b\n1,"x \\"y\\" z"\n', "line 2: ',' expected after '\"'"),
    ("a.csv", 'a,b\n1,2\n1,"x\n3,4\n', "line 3: unexpected end of data"),
    ("a.tsv", 'a\tb\n1\t"x\n2\ty"\n', "line 2: found a quoted value of several lines with tabs"),
    ("a.csv", "a,b\n1,2\n1,caf\xe9\n".encode("latin-1"), "line 3: found byte 0xe9, wanted text in UTF-8; .*iconv"),
    ("a.csv", "a,b\n1,2\n".encode("utf-16"), "line 1: found byte 0xff, wanted text in UTF-8"),
    ("a.csv", b"a,b\n1,\0\n", "line 2: found byte 0x00, wanted text in UTF-8"),
    ("a.csv", "a,b;c\n1,2\n", "found commas and semicolons in its header, wanted one separator; rename the columns"),
    ("a.tsv", "a,b\n1,2\n", "found commas in its header, wanted tabs, as its name says; rename the file"),
    ("a.csv", ",text\n0,a\n", "found '' in column 1 of its first row, wanted the name of a column"),
    ("a.csv", '"0","word"\n"4","other"\n', "found '0' in column 1 of its first row, wanted the name of a column"),
    ("a.csv", 'a, b\n1, "x, y"\n', "found ' b' in column 2 of its first row, wanted the name of a column"),
    ("a.csv", "a,a\n1,2\n", "has several columns named a, wanted one"),
    ("a.csv", "a,b\n", "found no row, wanted at least one"),
    ("a.csv", "", "found no row, wanted at least one"),
    ("a.csv.gz", b"\x1f\x8b\x08\0", "found a gzip file, wanted Parquet, Arrow, CSV or a JSON list; unpack it first"),
])
def test_what_is_not_certain_is_refused_with_its_line(place, name, content, message):
    (place.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    place.refuse_command(4, message, command=["data", "convert", name, "--to", "none.jsonl"], env=PYTHON)
    assert not (place.folder / "none.jsonl").exists()
    assert_nothing_half_written(place.folder)


def test_a_folder_of_a_competition_is_read_by_split(place):
    for name in ("train", "test", "sample_submission"):
        (place.folder / "set").mkdir(exist_ok=True)
        (place.folder / f"set/{name}.csv").write_text(f"text\n{name}\n")
    command = ["data", "convert", "set", "--to", "out.jsonl"]
    place.refuse_command(4, "has the splits test, train, and files without a split, such as .*sample_submission.csv",
                         command=command, env=PYTHON)
    place.host(*command, "--split", "train", env=PYTHON)
    assert json.loads((place.folder / "out.jsonl").read_text()) == {"text": "train"}


def test_a_converted_table_is_trained_on(place):
    lines = "".join(f'{i},"a dog, a cat, and {i} mice"\n' for i in range(200))
    rows_of(place, "a.csv", "id,text\n" + lines)
    run = {"data": {"kind": "text", "files": ["out.jsonl"]}, "model__vocab_size": None, "train__steps": 1}
    place.run(**run)
    ids, = place.folder.glob("runs/cache/*/train.bin")
    assert ids.read_bytes()[:6] == "a d".encode("utf-16-le")  # bytes are ids


@pytest.mark.parametrize("name", ["reviews.csv", "reviews.TSV"])
def test_no_command_reads_csv_as_text(place, name):
    (place.folder / name).write_text("text,label\ngood,1\n" * 300)
    message = rf"{name}: found a name of CSV, wanted .*; convert it first: wmtp-host data convert .*{name} --to .*jsonl"
    place.refuse(4, message + "; if it is plain text, rename it, or exclude it with data.exclude",
                 data={"kind": "text", "files": [name]}, model__vocab_size=None)
    place.refuse(4, message, data={"kind": "records", "files": [name]}, model__vocab_size=None)
    place.refuse_command(4, message, command=["init", name])
    for kind in ("text", "records"):
        place.refuse_command(4, message, command=["data", "inspect", name, "--kind", kind])


@pytest.mark.parametrize("name, separator, ending", [("reviews.txt", ",", "csv"), ("reviews.md", "\t", "tsv")])
def test_a_table_under_another_name_is_no_text(place, name, separator, ending):
    """For every command; the one that is printed makes JSON lines of it, and `encoding` says that it is text."""
    (place.folder / name).write_text(f"text{separator}label\n" + f"good{separator}1\n" * 300)
    found = f"{name}: found a table that begins with .*, wanted text; convert it first: "
    as_text = {"data": {"kind": "text", "files": [name]}, "model__vocab_size": None, "train__steps": 1}
    said = [place.refuse(4, found, **as_text)]
    inspect = ["data", "inspect", name, "--kind", "text"]
    said += [place.refuse_command(4, found, command=command) for command in (["init", name], inspect)]
    for ended in said:
        command = re.search(r"convert it first: (cp .*); to train on it as it is, set data.encoding", ended.err)[1]
        assert f"reviews.{ending} --to" in command
        subprocess.run(command.replace("wmtp-host", str(HOST)), shell=True, check=True, cwd=place.folder, env=PYTHON)
        assert (place.folder / "reviews.jsonl").read_text() == '{"text": "good", "label": "1"}\n' * 300
        for made in (f"reviews.{ending}", "reviews.jsonl"):
            (place.folder / made).unlink()
    place.run(**as_text | {"data": as_text["data"] | {"encoding": "bytes"}})
