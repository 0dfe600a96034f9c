"""The rules of the house, read from the tree: violations(root) lists every line that breaks one.

1. Rooms: a file of host/ROOM includes its own room, rooms on lower floors, and base; the floors are those of
   docs/architecture.md, so the page and the rule cannot differ. Files that lie in host/ itself are the room `main`.
2. The sdk includes the sdk, ATen and the standard library; the rooms that the page names may include the sdk.
3. Plugins (those of tests too) include the sdk, their own folder and shared/ beside it.
4. What is linked into the core or the program includes no LibTorch and no sdk, by whatever way.
5. A source file over 400 lines says why in the comment it begins with ("over 400 lines because ...").
6. No file names a path of a developer's machine.
7. No two headers of the host define types of one name: the linker would take the functions of one for those of both.
"""
import re
import subprocess
from pathlib import Path

SOURCES = {".hpp", ".cpp", ".h", ".cu", ".cuh", ".in"}
LIBTORCH = ("ATen/", "torch/", "c10/")
GENERATED = "wmtp/headers_hash.hpp"  # by sdk/CMakeLists.txt
MAX_LINES = 400
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
TYPE = re.compile(r"^(?:struct|class)\s+(?:\w+\(\w*\)\s+)?(\w+)\s*(?:final\s*)?(?::[^:]|\{|$)")
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
    """The diagram's two lines -> {room: floor} (0 is the lowest), rooms that may include the sdk."""
    floors, sdk_rooms = {}, set()
    for line in (root / "docs/architecture.md").read_text().splitlines():
        if line.startswith("main >"):
            for floor, rooms in enumerate(reversed(line.split(">"))):
                floors.update({room.strip(): floor for room in rooms.split(",")})
        elif line.startswith("plugins > sdk"):
            sdk_rooms = {room.strip() for room in re.search(r"\((.*)\)", line)[1].split(",")}
    if not floors or not sdk_rooms:
        raise SystemExit("docs/architecture.md lacks the lines 'main > ... > base' and 'plugins > sdk < host (...)'")
    return floors, sdk_rooms


def check_rooms(root):
    floors, sdk_rooms = read_floors(root)
    host = root / "host"

    def room_of(file):
        parts = file.relative_to(host).parts
        return parts[0] if len(parts) > 1 else "main"

    for file in source_files(host):
        room = room_of(file)
        if room not in floors:
            yield file, 1, f"room {room} stands on no floor of docs/architecture.md"
            continue
        for include in includes_of(file):
            if include.name.startswith("wmtp/"):
                if room not in sdk_rooms:
                    yield file, include.line, f"room {room} includes the sdk ({include.name})"
            elif include.quoted:
                target = host / include.name
                if not target.is_file():
                    yield file, include.line, f"{include.name} is no file of host/ (includes are relative to host/)"
                    continue
                other = room_of(target)
                if other != room and floors.get(other, 0) >= floors[room]:
                    yield file, include.line, f"room {room} includes {other}, which does not lie below it"


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
    """ATen is enough for the sdk and for plugins; torch/torch.h doubles their build time."""
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


def core_files(root):
    """What host/CMakeLists.txt puts into libwmtp_core, and the program: of a room that the engine shares, the sources
    that are not the engine's (their headers are reached from them); of any other room, all."""
    text = (root / "host/CMakeLists.txt").read_text()
    rooms = re.search(r"add_rooms\(core_files ([^)]*)\)", text)[1].split()
    of_engine = {root / "host" / name for name in re.search(r"set\(engine_files\s([^)]*)\)", text)[1].split()}
    shared = {file.parent for file in of_engine}
    files = [root / "host/main.cpp"]
    for folder in (root / "host" / room for room in [*rooms, "cli"]):
        files += [file for file in source_files(folder) if folder not in shared or file.suffix == ".cpp"]
    return [file for file in files if file not in of_engine and file.is_file()]


def check_core(root):
    seen = {}  # file -> the core file that leads to it
    waiting = [(file, file) for file in core_files(root)]
    while waiting:
        file, origin = waiting.pop()
        if file in seen:
            continue
        seen[file] = origin
        for include in includes_of(file):
            if include.name.startswith((*LIBTORCH, "wmtp/")):
                way = "" if file == origin else f", reached from {origin.relative_to(root)}"
                yield file, include.line, f"the core includes {include.name}{way}"
            elif include.quoted and (root / "host" / include.name).is_file():
                waiting.append((root / "host" / include.name, origin))


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
            if "over 400 lines because" not in " ".join(head):
                yield file, 1, f"{len(lines)} lines; split it, or let its head say 'over 400 lines because ...'"


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


RULES = (check_rooms, check_sdk, check_plugins, check_core, check_sizes, check_machine_paths, check_type_names)


def violations(root, rules=RULES):
    root = Path(root)
    return [f"{file.relative_to(root)}:{line}: {what}" for rule in rules for file, line, what in rule(root)]
