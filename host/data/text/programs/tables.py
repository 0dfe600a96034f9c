"""Writes the rows of tables to stdout, one JSON object a line: of Parquet, Arrow, CSV and TSV files, of folders of them
(as on the Hugging Face Hub, or written by datasets' save_to_disk), and of JSON lists. The first argument is JSON:
{"columns" (all if empty), "split" (may be empty)}, the others are the inputs. Ends with 2 if pyarrow is missing or
cannot be loaded, and with 4 for unsuitable data; the reason is all of stderr. Descriptor 3 gets the names of the files
that may be parts of a set, each ended by NUL. A number that is not finite becomes null; times are written as ISO 8601.
Values of CSV and TSV are strings, null if empty."""
import codecs
import collections
import csv
import datetime
import io
import itertools
import json
import math
import os
import re
import stat
import sys
from pathlib import Path

ROWS = 1000  # that are in memory at a time
ENDING = r".*\.(parquet|arrow|feather|csv|tsv)"
TABLE = re.compile(ENDING, re.I | re.S)
UNREAD = re.compile(rf".*\.(jsonl|ndjson)|(.*\.(jsonl?|ndjson)|{ENDING})\.(gz|zst|bz2|xz|zip)", re.I | re.S)
UNFINISHED = re.compile(ENDING + r"\.(incomplete|part|partial|crdownload|aria2|tmp)", re.I | re.S)
SHARD = re.compile(r"(?:(.*?)[-_. ])?(\d+)([-_.])of\3(\d+)(?:[-_. ].*)?", re.S)  # of a name without its ending
HUB_NUMBER = re.compile(r"\d{4}")  # names in the Hub's Parquet branch: CONFIGURATION/SPLIT/0000.parquet
WORD = "(train|training|validation|valid|val|dev|test|testing|eval|evaluation)"
SPLIT_WORD = re.compile(WORD, re.I)
SPLIT = re.compile(rf"(.*[-_. =])?{WORD}([-_. \d].*)?", re.I | re.S)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
NUMBER = re.compile(r"[-+]?[\d.,]*\d(e[-+]?\d+)?", re.I)
NO_TEXT = re.compile("[\0\udc80-\udcff]")  # also bytes that are not UTF-8, as Python's surrogateescape reads them
LONGEST = 1 << 28  # as the longest JSON line
FIRST_SCHEMA = {}  # at 0: the first file and its columns
PARTS = []  # files that may be parts of a set
POINTER = b"version https://git-lfs.github.com/spec/"


class Refused(Exception):
    pass


def pyarrow():
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as why:
        is_missing = isinstance(why, ModuleNotFoundError) and (why.name or "").startswith("pyarrow")
        advice = "install it (pip install pyarrow), or name a Python that has it in WMTP_PYTHON"
        sys.stderr.write(f"{sys.executable} has no pyarrow, which reads these files: {advice}" if is_missing else
                         f"{sys.executable} cannot load pyarrow, which reads these files: {why}")
        sys.exit(2)
    return pyarrow


def listed(names):
    first = list(itertools.islice(names, 11))
    return ", ".join(first[:10]) + (" and more" if len(first) > 10 else "")


def of_one_split(found, folder, split):
    """found: {split: anything}"""
    if split in found if split else len(found) == 1:
        return found[split or next(iter(found))]
    names = ", ".join(sorted(filter(None, found)))
    if not split:
        unnamed = f", and files without a split, such as {found[''][0].file}" if "" in found else ""
        raise Refused(f"{folder} has the splits {names}{unnamed}; choose one with --split, or name the files")
    found_names = f", only {names}" if names else ": no name of a file or folder in it tells one; leave out --split"
    raise Refused(f"{folder} has no split {split}{found_names}")


class Table:
    """A file below a folder, with what the names on its path tell: the revision in the Hub's cache, the split ("" if
    none), the configuration (of files without a split none, so that they stay together), and the shard."""

    def __init__(self, file, top):
        self.file, self.shard = file, shard_of(file)
        folders = file.relative_to(top).parts[:-1]
        stem = file.name.rpartition(".")[0]
        name = self.shard[0][1] if self.shard else re.sub(r"[-_. ]*\d+$", "", stem) if SPLIT.fullmatch(stem) else ""
        of_hub = Path(top.resolve().name, *folders).parts
        after = of_hub.index("snapshots") + 1 if "snapshots" in of_hub else 0
        self.revision = "/".join(of_hub[1:after + 1]) if after else ""
        split_folders = [i for i, folder in enumerate(folders) if SPLIT.fullmatch(folder)]
        if SPLIT.fullmatch(name):
            outer = [folder for folder in folders if SPLIT_WORD.fullmatch(folder) and folder != name]
            self.split = "/".join([*outer, name])
            above = [folder for folder in folders if folder not in (*outer, name)]
        elif split_folders:
            self.split, above = folders[split_folders[-1]], folders[:split_folders[-1]]
        elif HUB_NUMBER.fullmatch(stem) and folders:
            self.split, above = folders[-1], folders[:-1]
        else:
            self.split, above = name, folders if name else [folder for folder in folders if "=" in folder]
        self.configuration = "/".join(above)


def shard_of(file):
    """((folder, name before the number), number, total), or None"""
    found = SHARD.fullmatch(file.name.rpartition(".")[0])
    return found and ((file.parent, found[1] or ""), int(found[2]), int(found[4]))


def check_no_copies(files):
    """Refuses the same table twice: a.parquet and a.arrow, or two versions of a shard."""
    known = {}
    for file in files:
        other = known.setdefault(shard_of(file) or (file.parent, file.name.rpartition(".")[0]), file)
        if other.name != file.name:
            raise Refused(f"{file.parent} has {other.name} and {file.name}, the same table twice; remove one")


def kind_of(file):
    """of a file below a folder: that of its reader, "lines" if it has none here, None if it is no data (a README)"""
    ending = file.suffix.lower()
    if TABLE.fullmatch(file.name):
        return {".feather": ".arrow", ".tsv": ".csv"}.get(ending, ending)
    if UNREAD.fullmatch(file.name):
        return "lines"
    if ending != ".json" or not stat.S_ISREG(os.stat(file).st_mode):
        return None
    with open(file, "rb") as source:
        line = source.readline(LONGEST).removeprefix(codecs.BOM_UTF8)
        rest = line + source.read(4096)
    if re.match(rb"\s*\[\s*\{", rest):
        return ".json"
    try:  # others describe data sets
        return "lines" if isinstance(json.loads(line), dict) and rest[len(line):].strip() else None
    except ValueError:
        return None


def check_one_kind(folder, files):
    """JSON beside Parquet may be the same rows again, or another part of them."""
    first = {kind_of(file): file for file in reversed(files)}
    if len(first) > 1:
        names = " and ".join(str(file.relative_to(folder)) for file in sorted(first.values()))
        raise Refused(f"{folder} has {names}, files of several kinds; name the files to read, or remove the others")
    if "lines" in first:
        raise Refused(f"{first['lines']}: JSON lines need no conversion; packed tables must be unpacked first")


def tables_below(top):
    """Sorted. Names that begin with a dot are left out. A folder is read once, however many links lead to it."""
    waiting, seen, found = collections.deque([top]), set(), []
    while waiting:
        folder = waiting.popleft()
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        for entry in os.scandir(folder):
            if entry.name.startswith("."):
                continue
            if entry.is_symlink() and not os.path.exists(entry.path):
                raise Refused(f"{entry.path} is a link to a file or folder that does not exist")
            if UNFINISHED.fullmatch(entry.name):
                raise Refused(f"{entry.path} is a download that is not finished; finish it, or remove the file")
            if not entry.is_dir():
                found += [Path(entry.path)] if kind_of(Path(entry.path)) else []
            elif entry.is_symlink():
                waiting.append(Path(entry.path))  # after the folders themselves, whose names tell more
            else:
                waiting.appendleft(Path(entry.path))
    return sorted(found)


def state_files(folder, split):
    """Those that save_to_disk wrote into folder."""
    state = json_of(folder / "state.json")
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise Refused(f"{folder} selects rows by indices; write it again: "
                      "datasets.load_from_disk(...).flatten_indices().save_to_disk(...)")
    if split and state.get("_split") != split:
        raise Refused(f"{folder} has one split, {state.get('_split') or 'without a name'}; leave out --split")
    return [folder / Path(one["filename"]).name for one in state["_data_files"]]


def files_of(path, split):
    if not path.is_dir():
        if split:
            raise Refused(f"{path} is a file, and --split selects from folders; leave it out")
        return [path]
    if (path / "dataset_dict.json").is_file():
        splits = json_of(path / "dataset_dict.json")["splits"]
        return files_of(path / of_one_split({name: name for name in splits}, path, split), "")
    if (path / "state.json").is_file():
        return state_files(path, split)
    tables = [Table(file, path) for file in tables_below(path)]
    if not tables:
        raise Refused(f"{path} contains no .parquet, .arrow or .csv file and no JSON list")
    revisions = sorted({table.revision for table in tables})
    if len(revisions) > 1:
        raise Refused(f"{path} has the revisions {listed(revisions)}; name the folder of one")
    splits = {}
    for table in tables:
        splits.setdefault(table.split, []).append(table)
    for name, of_split in splits.items():
        configurations = sorted({table.configuration or "." for table in of_split})
        if len(configurations) > 1 and name == (split or name):
            raise Refused(f"{path} has the configurations {listed(configurations)}; name the folder of one")
    chosen = of_one_split(splits, path, split)
    for other in chosen:
        if bool(other.shard) != bool(chosen[0].shard):
            raise Refused(f"{path} has {chosen[0].file.name} and {other.file.name}, shards and files that are none; "
                          "remove one version, or name the files")
    files = [table.file for table in chosen]
    check_no_copies(files)
    check_one_kind(path, files)
    PARTS.extend(files)
    return each_once(files)


def each_once(files):
    """A file to which several names lead, under its own name if that is among them."""
    known = {}
    for file in sorted(files, key=lambda file: (file.resolve() != file.absolute(), file)):
        status = os.stat(file)
        known.setdefault((status.st_dev, status.st_ino), file)
    return sorted(known.values())


def opened(file):
    """A pipe or a device could block, or never end."""
    if not stat.S_ISREG(os.stat(file).st_mode):
        raise Refused(f"{file} is a named pipe or a device, not a regular file; remove it, or name the files to read")
    return open(file, "rb")


def json_of(file):
    with opened(file) as source:
        check_is_data(file, source.read(len(POINTER)))
        source.seek(0)
        return json.loads(source.read(), object_pairs_hook=lambda pairs: object_of(file, pairs))


def object_of(file, pairs):
    """As readers of JSON lines, who cannot tell which of two values is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise Refused(f"{file}: {next(name for name in found if names.count(name) > 1)}: found twice in an object, "
                      "wanted once")
    return found


def check_is_data(file, start):
    if start.startswith(POINTER):
        raise Refused(f"{file} is a pointer of Git LFS, in place of the file; download the file: git lfs pull")


def first_character(file):
    """that is not white space"""
    with opened(file) as source:
        while True:
            start = source.read(4096).removeprefix(codecs.BOM_UTF8)
            if not start or start.strip():
                return start.lstrip()[:1]


def refuse_unknown(file, first):
    if first == b"{":
        raise Refused(f"{file}: found an object, wanted Parquet, Arrow, CSV or a JSON list; JSON lines need no "
                      "conversion, and of a list inside an object jq '.NAME' writes a file of its own")
    raise Refused(f"{file}: found neither Parquet, Arrow nor a JSON list, and no name of CSV (.csv, .tsv); rename it "
                  "if it is CSV, or convert it to one of them first")


def header_of(text):
    """The first lines up to the end of the header; blank ones come first."""
    header = ""
    for line in text:
        header += line
        if header.strip() and header.count('"') % 2 == 0:
            break
    return header


def separator_of(file, header):
    """The one character of the header that can separate names; a comma if there is none, for a single column."""
    outside = re.sub(r'"[^"]*"', "", header)
    found = [one for one in SEPARATORS if one in outside]
    has_tabs = file.suffix.lower() == ".tsv"
    if has_tabs and ("\t" in found or not found):
        return "\t"
    if has_tabs or len(found) > 1:
        raise Refused(f"{file}: found {' and '.join(SEPARATORS[one] for one in found)} in its header, wanted "
                      f"{'tabs, as its name says' if has_tabs else 'one separator'}; rename the "
                      f"{'file' if has_tabs else 'columns'}")
    return found[0] if found else ","


def check_header(file, names):
    """The first row of a table without a header may show that it is none."""
    for number, name in enumerate(names, 1):
        if not name or name != name.strip() or NUMBER.fullmatch(name):
            raise Refused(f"{file}: found {name!r} in column {number} of its first row, wanted the name of a column; "
                          "write the names into a first line of their own, or choose columns with --columns")


def rows_of_csv(file, columns):
    """Lists of one row, as in RFC 4180: a quote in a value is written twice, every row has the header's columns. What a
    file that breaks this means is unknown."""
    csv.field_size_limit(LONGEST)
    names, line = [], 1
    with opened(file) as source, io.TextIOWrapper(source, "utf-8-sig", "surrogateescape", "") as text:
        try:
            header = header_of(text)
            separator = separator_of(file, header)
            rows = csv.reader(itertools.chain(io.StringIO(header, ""), text), delimiter=separator, strict=True)
            for row in rows:
                check_row(file, line, row, names, separator)
                if row and names:
                    found = dict(zip(names, row))
                    yield [{name: found[name] or None for name in columns or names}]
                elif row:
                    names = row
                    check_schema(file, columns, names)
                    if not columns:
                        check_header(file, names)
                line = rows.line_num + 1
        except csv.Error as why:
            raise Refused(f"{file}: line {line}: {why}; in CSV, a quote inside a quoted value is written twice")


def check_row(file, line, row, names, separator):
    where = f"{file}: line {line}"
    for value in row:
        if found := NO_TEXT.search(value):
            raise Refused(f"{where}: found byte 0x{ord(found[0]) & 0xff:02x}, wanted text in UTF-8; convert it first: "
                          "iconv -f ENCODING -t UTF-8, with its encoding, such as LATIN1 or UTF-16")
        if separator == "\t" and "\t" in value and "\n" in value:
            raise Refused(f"{where}: found a quoted value of several lines with tabs, which may be rows of values that "
                          "begin with a quote; double such quotes, and quote their values")
    if row and names and len(row) != len(names):
        raise Refused(f"{where}: the number of values is {len(row)}, wanted {len(names)}, as in the header; quote "
                      "values that contain the separator")


def rows_of_table(batch):
    """A struct of a table has the members of all rows, also those that a row lacks, where they are null."""
    def present(value):
        if isinstance(value, dict):
            return {name: present(one) for name, one in value.items() if one is not None}
        if isinstance(value, list) and any(isinstance(one, (dict, list)) for one in value):
            return [present(one) for one in value]
        return value

    return [{name: present(value) for name, value in row.items()} for row in batch.to_pylist()]


def batches_of(file, columns):
    """Lists of rows."""
    with opened(file) as source:
        start = source.read(4096)
    check_is_data(file, start)
    if start.startswith(b"PAR1"):
        table = pyarrow().parquet.ParquetFile(pyarrow().OSFile(os.fsencode(file)))
        check_schema(file, columns, table.schema_arrow.names)
        for batch in table.iter_batches(ROWS, columns=columns or None):
            yield rows_of_table(batch)
    elif start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        ipc, source = pyarrow().ipc, pyarrow().memory_map(os.fsencode(file))
        if start.startswith(b"ARROW1"):
            reader = ipc.open_file(source)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            batches = reader = ipc.open_stream(source)
        check_schema(file, columns, reader.schema.names)
        for batch in batches:
            chosen = batch.select(columns) if columns else batch
            for first in range(0, chosen.num_rows, ROWS):
                yield rows_of_table(chosen.slice(first, ROWS))
    elif file.suffix.lower() in (".csv", ".tsv"):
        yield from rows_of_csv(file, columns)
    elif (first := first_character(file)) == b"[":
        for row in json_of(file):
            if not isinstance(row, dict):
                raise Refused(f"{file}: found a list of {type(row).__name__}, wanted a list of objects")
            check_columns(file, columns, row)
            yield [{name: row[name] for name in columns} if columns else row]
    else:
        refuse_unknown(file, first)


def readable_batches(file, columns):
    try:
        yield from batches_of(file, columns)
    except Refused:
        raise
    except Exception as why:  # damaged files raise many types
        raise Refused(f"{file}: {type(why).__name__}: {why}".rstrip(": "))


def check_columns(file, wanted, found):
    for name in wanted:
        if name not in found:
            raise Refused(f"{file} has no column {name}, only {', '.join(found)}")


def check_schema(file, wanted, names):
    """Rows are objects, of which two columns of one name would be one."""
    check_columns(file, wanted, names)
    for name in wanted or names:
        if names.count(name) > 1:
            raise Refused(f"{file} has several columns named {name}, wanted one; rename them, or choose others with "
                          "--columns")
    other, known = FIRST_SCHEMA.setdefault(0, (file, names))
    if not wanted and set(known) != set(names):
        raise Refused(f"{other} has the columns {', '.join(known)}, but {file} {', '.join(names)}; choose common ones "
                      "with --columns, or convert one file at a time")


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


def line_of(file, row):
    text = json.dumps({name: plain(value, name) for name, value in row.items()}, ensure_ascii=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError as why:
        raise Refused(f"{file}: found half of a character, {why.object[why.start]!r}, wanted text; write it again")


def main(inputs, columns, split):
    rows, paths = 0, [Path(name) for name in inputs]
    if len(inputs) > 1:  # a single shard is asked for as such
        PARTS.extend(path for path in paths if not path.is_dir())
        check_no_copies(path for path in PARTS if shard_of(path))
    files = [file for path in paths for file in files_of(path, split)]
    with open(3, "wb") as names:
        names.write(b"".join(os.fsencode(file) + b"\0" for file in PARTS))
    for file in files:
        for batch in readable_batches(file, columns):
            rows += len(batch)
            for row in batch:
                sys.stdout.buffer.write(line_of(file, row))
    if rows == 0:
        raise Refused(f"{', '.join(inputs)}: found no row, wanted at least one")
    sys.stdout.buffer.flush()


try:
    main(sys.argv[2:], **json.loads(sys.argv[1]))
except Exception as why:
    sys.stderr.write(str(why) if isinstance(why, Refused) else f"{type(why).__name__}: {why}")
    sys.exit(4)
