"""The rules of the source tree: violations(root) lists every line that breaks one.

1. Folders: a file of host/FOLDER includes its own folder, folders on lower floors, and other folders of its room (the
   first part of the path) on the same floor, without cycles. The floors are read from the block "```floors" of
   docs/architecture.md, at most ten, so the page and the rule cannot differ.
2. Only folders that link LibTorch include it, the sdk, or one another. Which these are says host/CMakeLists.txt
   (WMTP_TORCH_FOLDERS), which builds the libraries by the same rule.
3. The sdk includes the sdk, ATen and the standard library.
4. Plugins (including those of the tests) include the sdk, their own folder and ../shared.
5. A source file over 600 lines gives the reason in its first comment ("over 600 lines because ...").
6. No file contains a path of a developer's machine.
7. No two headers of the host define types of the same name: the linker would use the functions of one for both.
8. A header that has, with its own .cpp, under 50 lines, and that one other file of the same folder includes, is folded
   into that file. Includes by tests count.
9. A source file that a comment or docs/architecture.md names exists: a path from host/ or sdk/include/, or from the
   comment's folder or the one above it.
10. Only base/environment.cpp reads environment variables, so that an empty one counts as unset everywhere.
11. docs/architecture.md fits on four screens, has a row for each room of host/ and at most 25 rows of "Where to look":
   what the tree does not say.
12. No line of a C++, Python, JavaScript, CSS, SQL, CMake or shell source has more than 120 columns, except those of raw
   strings in C++ tests.
13. A link of a page leads to a file that exists, and to a heading that it has.
14. The host knows plugins by their descriptions: it names none, except the three adapters in experiment/experiment.hpp,
    and those of the experiments that `init` writes. Names that are also words of the host are not looked for.
"""
import re
import subprocess
from pathlib import Path

SOURCES = {".hpp", ".cpp", ".h", ".cu", ".cuh", ".in"}
WRAPPED = SOURCES | {".py", ".js", ".css", ".sql", ".cmake", ".sh"}
LIBTORCH = ("ATen/", "torch/", "c10/")
GENERATED = "wmtp/headers_hash.hpp"  # by sdk/CMakeLists.txt
MAX_FLOORS = 10
MAX_LINES = 600
MAX_COLUMNS = 120
MAX_PAGE = 160  # lines: four screens
MAX_ROWS = 25
MIN_LINES = 50  # of a header with a single user, and its .cpp
ALSO_WORDS = {"critic", "entropy", "frozen", "full", "heads", "random", "shuffled", "truncation"}
NAMES_PLUGINS = {"host/experiment/experiment.hpp", "host/cli/init.cpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
TYPE = re.compile(r"^(?:struct|class)\s+(?:\w+\(\w*\)\s+)?(\w+)\s*(?:final\s*)?(?::[^:]|\{|$)")
COMMENT = re.compile(r"(?:^|\s)//.*")
NAMED_FILE = re.compile(r"(?<![\w/<.*])[a-z0-9_/]+\.(?:hpp|cpp|cu)\b")
READS_ENVIRONMENT = re.compile(r"\b(getenv|secure_getenv|temp_directory_path)\(")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"`[^`]*`|\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]*))?\)")  # of inline code, nothing
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|Users|root|work)/\w")


class Include:
    def __init__(self, file, line, quoted, name):
        self.file, self.line, self.quoted, self.name = file, line, quoted, name


def includes_of(file):
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            yield Include(file, number, match[1] is not None, match[1] or match[2])


def source_files(folder):
    return sorted(f for f in folder.rglob("*") if f.suffix in SOURCES and f.is_file()) if folder.is_dir() else []


def read_floors(root):
    """{folder of host/: floor}, 0 is the lowest."""
    block = re.search(r"^```floors\n(.*?)^```", (root / "docs/architecture.md").read_text(), re.MULTILINE | re.DOTALL)
    if not block:
        raise SystemExit("docs/architecture.md lacks its block of floors (```floors)")
    floors = {}
    for floor, folders in enumerate(reversed(block[1].splitlines())):
        floors.update({folder.strip(): floor for folder in folders.split(",")})
    return floors


def check_folders(root):
    floors = read_floors(root)
    host = root / "host"
    if max(floors.values()) >= MAX_FLOORS:
        yield root / "docs/architecture.md", 1, f"{max(floors.values()) + 1} floors; at most {MAX_FLOORS}"
    neighbours = {}  # folders of one room on one floor: {folder: {included folder: the include}}
    for file in source_files(host):
        folder = file.parent.relative_to(host).as_posix()
        if folder not in floors:
            yield file, 1, f"folder {folder} is on no floor of docs/architecture.md"
            continue
        for include in includes_of(file):
            if not include.quoted:
                continue
            other = Path(include.name).parent.as_posix()
            if not (host / include.name).is_file():
                yield file, include.line, f"{include.name} is no file of host/ (includes are relative to host/)"
            elif other == folder or floors.get(other, 0) < floors[folder]:
                continue
            elif floors[other] == floors[folder] and other.split("/")[0] == folder.split("/")[0]:
                neighbours.setdefault(folder, {})[other] = include
            else:
                yield file, include.line, f"{folder} includes {other}, which is not on a lower floor"
    for folder, others in neighbours.items():
        for other, include in others.items():
            if folder in reachable(other, neighbours):
                yield include.file, include.line, f"{folder} includes {other}, which includes {folder}"


def reachable(folder, neighbours):
    """The folders that this one includes, directly or not."""
    found, waiting = set(), [folder]
    while waiting:
        new = set(neighbours.get(waiting.pop(), ())) - found
        found |= new
        waiting.extend(new)
    return found


def torch_folders(root):
    """Whether a path below host/ lies in a folder that links LibTorch."""
    rule = re.search(r'WMTP_TORCH_FOLDERS "([^"]+)"', (root / "host/CMakeLists.txt").read_text())[1]
    return lambda path: path.startswith("cuda/") or re.search(rule, path) is not None


def check_libtorch(root):
    host = root / "host"
    uses_torch = torch_folders(root)
    for file in source_files(host):
        if uses_torch(file.relative_to(host).as_posix()):
            continue
        for include in includes_of(file):
            if uses_torch(include.name) or include.name.startswith((*LIBTORCH, "wmtp/")):
                yield file, include.line, f"includes {include.name} outside of the folders that link LibTorch"


def check_sdk(root):
    headers = root / "sdk/include"
    for file in source_files(root / "sdk"):
        if "template" in file.relative_to(root / "sdk").parts:
            continue  # a plugin; see check_plugins
        for include in includes_of(file):
            own = include.name == GENERATED or include.name.startswith("wmtp/") and (headers / include.name).is_file()
            if include.quoted or ("/" in include.name and not own and not allowed_libtorch(include.name)):
                yield file, include.line, f"the sdk includes {include.name}"


def allowed_libtorch(name):
    """ATen suffices for the sdk and for plugins; torch/torch.h doubles their build time."""
    return name.startswith(("ATen/", "c10/", "torch/headeronly/"))


def check_plugins(root):
    for folder in (root / "plugins", root / "tests/plugins", root / "sdk/template"):
        for file in source_files(folder):
            for include in includes_of(file):
                if include.quoted:
                    local = include.name.removeprefix("../shared/")  # headers that pipelines share, beside them
                    bad = not (file.parent / include.name).is_file() or ".." in local
                else:
                    bad = "/" in include.name and not include.name.startswith("wmtp/") \
                        and not allowed_libtorch(include.name)
                if bad:
                    yield file, include.line, \
                        f"a plugin includes {include.name}: only the sdk, its own folder and ../shared"


def check_sizes(root):
    for folder in ("host", "sdk", "plugins"):
        for file in source_files(root / folder):
            lines = file.read_text().splitlines()
            if len(lines) <= MAX_LINES:
                continue
            head = []
            for line in lines:
                if not line.startswith("//"):
                    break
                head.append(line.lstrip("/ "))
            if "over 600 lines because" not in " ".join(head):
                yield file, 1, f"{len(lines)} lines; split it, or let its head say 'over 600 lines because ...'"


def check_columns(root):
    for file in tracked_files(root):
        if not (file.suffix in WRAPPED or file.name == "CMakeLists.txt") or not file.is_file():
            continue
        in_cpp_test = file.suffix in SOURCES and file.is_relative_to(root / "tests")
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if len(line) > MAX_COLUMNS and not (in_cpp_test and '"' in line):  # of a raw string, which may be long
                yield file, number, f"{len(line)} columns; at most {MAX_COLUMNS}"


def tracked_files(root):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                            capture_output=True)
    if listed.returncode == 0 and (root / ".git").exists():
        return [root / name for name in listed.stdout.decode().split("\0") if name]
    unbuilt = (f for f in root.rglob("*") if not f.relative_to(root).parts[0].startswith((".venv", "build", "runs")))
    return sorted(unbuilt)


def check_machine_paths(root):
    for file in tracked_files(root):
        if not file.is_file() or file.is_symlink():
            continue
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := MACHINE_PATH.search(line):
                yield file, number, f"names a path of a developer's machine ({match[0]}...)"


def check_type_names(root):
    first = {}
    for file in source_files(root / "host"):
        if file.suffix != ".hpp":
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if (match := TYPE.match(line)) and first.setdefault(match[1], file) != file:
                yield file, number, f"defines {match[1]}, as {first[match[1]].relative_to(root)} does"


def check_environment(root):
    for file in source_files(root / "host"):
        if file.relative_to(root / "host").as_posix() == "base/environment.cpp":
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if match := READS_ENVIRONMENT.search(line):
                yield file, number, f"calls {match[1]}; use environment_value() of base/environment.hpp"


def check_small_headers(root):
    host = root / "host"
    includers = {}
    for file in source_files(host) + source_files(root / "tests"):
        for include in includes_of(file):
            includers.setdefault(host / include.name, set()).add(file)
    for header, users in includers.items():
        users = users - {header.with_suffix(".cpp")}
        if header.suffix != ".hpp" or len(users) != 1 or not header.is_file():
            continue
        (user,) = users
        lines = sum(len(part.read_text().splitlines())
                    for part in (header, header.with_suffix(".cpp")) if part.is_file())
        if lines < MIN_LINES and user.parent == header.parent:
            yield header, 1, f"{lines} lines for one user; fold it into {user.relative_to(root)}"


def check_named_files(root):
    comments = [(file, number, match[0]) for file in source_files(root / "host")
                for number, line in enumerate(file.read_text().splitlines(), 1) if (match := COMMENT.search(line))]
    page = root / "docs/architecture.md"
    lines = [(page, number, line) for number, line in enumerate(page.read_text().splitlines(), 1)]
    for file, number, text in comments + lines:
        folders = (root / "host", root / "sdk/include", root, file.parent, file.parent.parent)
        for name in NAMED_FILE.findall(text):
            if not any((folder / name).is_file() for folder in folders):
                yield file, number, f"names {name}, which does not exist"


def check_tests_are_run(root):
    """Programs of unit tests are made of all files of their folder."""
    lists = "".join(file.read_text() for file in (root / "tests").rglob("CMakeLists.txt"))
    for file in (root / "tests").rglob("*_test.py"):
        if not re.search(rf"\b{file.name}\b", lists):
            yield file, 1, "is in no CMakeLists.txt, so that nothing runs it"


def check_architecture(root):
    page = root / "docs/architecture.md"
    text = page.read_text()
    lines = text.count("\n")
    if lines > MAX_PAGE:
        yield page, 1, f"{lines} lines; at most {MAX_PAGE}"
    rows = text.partition("## Where to look")[2].count("\n| ") - 2  # without its head
    if rows > MAX_ROWS:
        yield page, 1, f"{rows} rows of \"Where to look\"; at most {MAX_ROWS}"
    described = set(re.findall(r"`(\w+)`",
                               "".join(re.findall(r"^\| (`[^|]*`) \|", text.partition("## Rooms")[2], re.M))))
    for room in {folder.split("/")[0] for folder in read_floors(root)} - described:
        yield page, 1, f"has no row for the room {room}"


def check_plugin_names(root):
    names = {folder.name for folder in root.glob("plugins/*/*/") if folder.name != "shared"} - ALSO_WORDS
    for file in source_files(root / "host"):
        if file.relative_to(root).as_posix() in NAMES_PLUGINS:
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            for name in re.findall(r'"(\w+)"', COMMENT.sub("", line)):
                if name in names:
                    yield file, number, f"names the plugin {name}"


def without_blocks(page):
    """The text of a page, with its fenced blocks as empty lines."""
    return FENCED.sub(lambda block: "\n" * block[0].count("\n"), page.read_text())


def anchors_of(page):
    """What a link to a heading of this page names, as GitHub derives it from the heading."""
    found = []
    for heading in re.findall(r"^#+ +(.+?) *$", without_blocks(page), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.append(re.sub(r"[^\w -]", "", shown.lower()).replace(" ", "-"))
    return {name if not (before := found[:i].count(name)) else f"{name}-{before}" for i, name in enumerate(found)}


def check_links(root):
    for page in tracked_files(root):
        if page.suffix != ".md" or not page.is_file():
            continue
        for number, line in enumerate(without_blocks(page).splitlines(), 1):
            for link in LINK.finditer(line):
                file, heading = link[1], link[2]
                if file is None:
                    continue
                target = (page.parent / file).resolve() if file else page
                if not target.exists():
                    yield page, number, f"links to {file}, which does not exist"
                elif heading and (target.suffix != ".md" or heading not in anchors_of(target)):
                    yield page, number, f"links to {file}#{heading}, a heading that does not exist"


RULES = (check_folders, check_libtorch, check_sdk, check_plugins, check_sizes, check_machine_paths, check_type_names,
         check_small_headers, check_named_files, check_environment, check_architecture, check_columns,
         check_links, check_plugin_names, check_tests_are_run)


def violations(root, rules=RULES):
    root = Path(root)
    return [f"{file.relative_to(root)}:{line}: {what}" for rule in rules for file, line, what in rule(root)]
