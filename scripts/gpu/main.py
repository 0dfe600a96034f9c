"""One part of first_gpu.sh: finds the program, runs the part's steps, ends what they left running, prints the table."""
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/gpu"), str(ROOT / "tests/support")]
PARTS = ("brief", "facts", "correct", "speed", "memory", "profile", "switches")


def program_folder(work):
    """The folder with bin/wmtp-host."""
    for folder in (os.environ.get("WMTP_BUILD"), ROOT / "build"):
        if folder and (Path(folder) / "bin/wmtp-host").is_file():
            return Path(folder).resolve()
    wheels = sorted((ROOT / "dist").glob("wmtp_host-*.whl"))
    if not wheels:
        sys.exit("first_gpu: found no program in WMTP_BUILD or build/ and no wheel in dist/; `make gpu-kit` writes a "
                 "folder that has one")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        wheel.extractall(work / "program")
    for file in (work / "program/wmtp_host/bin").iterdir():
        file.chmod(0o755)
    return work / "program/wmtp_host"


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in PARTS:
        sys.exit(f"usage: first_gpu.sh {'|'.join(PARTS)} [OUT]")
    name = sys.argv[1]
    out = Path(sys.argv[2] if len(sys.argv) == 3 else f"runs/first_gpu/{name}").resolve()
    out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="first_gpu_"))
    try:
        os.environ["WMTP_BUILD"] = str(program_folder(work))
        os.environ["XDG_CACHE_HOME"] = str(work / "cache")  # the home may be read-only
        os.environ["WMTP_PYTHON"] = sys.executable
        os.environ.setdefault("LOGNAME", "first_gpu")  # torch asks for a name, which the user of a container may lack
        import parts  # the helpers of the tests read WMTP_BUILD when they are imported
        from part import Part
        part = Part(name, out, work)
        try:
            getattr(parts, name)(part)
        finally:
            part.close()
        return 1 if part.failed else 0
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
