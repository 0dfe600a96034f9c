"""Writes the rows of tables to stdout, one JSON object a line: of Parquet and Arrow files, of folders of them (as on
the Hugging Face Hub, or written by datasets' save_to_disk), and of JSON lists. The first argument is JSON: {"columns"
(all if empty), "split" (may be empty)}, the others are the inputs. Ends with 2 if pyarrow is missing, and with 4 for
unsuitable data; the reason is all of stderr. A number that is not finite becomes null; times are written as ISO 8601."""
import datetime
import json
import math
import os
import re
import sys
from pathlib import Path

ROWS = 1000  # that are in memory at a time
SHARD = re.compile(r"(.+?)-\d{5}-of-\d{5}(-[0-9a-f]+)?\.(parquet|arrow)")


class Refused(Exception):
    pass


def pyarrow():
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        sys.exit(missing(sys.executable))
    return pyarrow


def missing(python):
    sys.stderr.write(f"{python} has no pyarrow, which reads these files: install it (pip install pyarrow), or put "
                     "another Python first in PATH")
    return 2


def of_one_split(found, folder, split):
    """found: {split: anything}"""
    if split in found or len(found) == 1 and not split:
        return found[split or next(iter(found))]
    names = ", ".join(sorted(found))
    raise Refused(f"{folder} has no split {split}, only {names}" if split else
                  f"{folder} has the splits {names}; choose one with --split")


def files_of(path, split):
    if not path.is_dir():
        return [path]
    if (path / "dataset_dict.json").is_file():
        splits = json.loads((path / "dataset_dict.json").read_bytes())["splits"]
        return files_of(path / of_one_split({name: name for name in splits}, path, split), "")
    if (path / "state.json").is_file():
        state = json.loads((path / "state.json").read_bytes())
        if state.get("_indices_files") or state.get("_indices_data_files"):
            raise Refused(f"{path} selects rows by indices; write it again: "
                          "datasets.load_from_disk(...).flatten_indices().save_to_disk(...)")
        return [path / Path(one["filename"]).name for one in state["_data_files"]]
    found = sorted(file for ending in ("parquet", "arrow") for file in path.rglob(f"*.{ending}"))
    if not found:
        raise Refused(f"{path} contains no .parquet or .arrow file")
    splits = {}
    for file in found:
        named = SHARD.fullmatch(file.name)
        name = named[1] if named else file.stem if file.stem in ("train", "validation", "test") else ""
        splits.setdefault(name, []).append(file)
    return found if list(splits) == [""] and not split else of_one_split(splits, path, split)


def batches_of(file, columns):
    """Lists of rows."""
    with open(file, "rb") as opened:
        start = opened.read(4096)
    if start.startswith(b"PAR1"):
        table = pyarrow().parquet.ParquetFile(pyarrow().OSFile(os.fsencode(file)))
        check_columns(file, columns, table.schema_arrow.names)
        for batch in table.iter_batches(ROWS, columns=columns or None):
            yield batch.to_pylist()
    elif start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        ipc, source = pyarrow().ipc, pyarrow().memory_map(os.fsencode(file))
        if start.startswith(b"ARROW1"):
            reader = ipc.open_file(source)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            batches = reader = ipc.open_stream(source)
        check_columns(file, columns, reader.schema.names)
        for batch in batches:
            chosen = batch.select(columns) if columns else batch
            for first in range(0, chosen.num_rows, ROWS):
                yield chosen.slice(first, ROWS).to_pylist()
    elif start.lstrip()[:1] == b"[":
        rows = json.loads(Path(file).read_bytes())
        for row in rows:
            if not isinstance(row, dict):
                raise Refused(f"{file}: found a list of {type(row).__name__}, wanted a list of objects")
            check_columns(file, columns, row)
            yield [{name: row[name] for name in columns} if columns else row]
    else:
        raise Refused(f"{file}: found neither Parquet, Arrow nor a JSON list")


def check_columns(file, wanted, found):
    for name in wanted:
        if name not in found:
            raise Refused(f"{file} has no column {name}, only {', '.join(found)}")


def plain(value, column):
    if isinstance(value, dict):
        return {name: plain(one, column) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one, column) for one in value]
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise Refused(f"column {column} has values of type {type(value).__name__}, which JSON lacks; choose others with "
                  "--columns")


def main(inputs, columns, split):
    rows = 0
    for path in map(Path, inputs):
        for file in files_of(path, split):
            for batch in batches_of(file, columns):
                rows += len(batch)
                for row in batch:
                    text = json.dumps({name: plain(value, name) for name, value in row.items()}, ensure_ascii=False)
                    sys.stdout.buffer.write(text.encode() + b"\n")
    if rows == 0:
        raise Refused("the tables have no row")
    sys.stdout.buffer.flush()


try:
    main(sys.argv[2:], **json.loads(sys.argv[1]))
except Exception as why:  # damaged files raise many types
    sys.stderr.write(str(why) if isinstance(why, Refused) else f"{type(why).__name__}: {why}")
    sys.exit(4)
