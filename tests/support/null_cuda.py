"""The null CUDA device (tests/null_cuda). With WMTP_NULL_CUDA=1 the Python tests run the program on it: experiments
have device = "cuda" unless a test names another one, and no process may end with a race."""
import json
import os
from pathlib import Path

from paths import BUILD

FOLDER = Path(os.environ.get("WMTP_NULL_CUDA_FOLDER", BUILD / "null_cuda"))
DEVICES = 4
REPORTS = "null_cuda"  # relative to the folder in which the program runs


def is_used():
    return os.environ.get("WMTP_NULL_CUDA") == "1"


def environment(**settings):
    """The environment of a program on the null device; settings as in tests/null_cuda/settings.hpp, in lower case."""
    all_settings = {"devices": DEVICES, "report": REPORTS, **settings}
    return {"LD_PRELOAD": FOLDER / "libnull_cuda.so", "LD_LIBRARY_PATH": FOLDER, "OMP_NUM_THREADS": 1,
            **{f"NULL_CUDA_{name.upper()}": value for name, value in all_settings.items()}}


def reports(folder):
    """The device activity of each process that ran in this folder (tests/null_cuda/activity.hpp), by rank."""
    all_reports = [json.loads(file.read_text()) for file in (folder / REPORTS).glob("*.json")]
    return sorted(all_reports, key=lambda report: report.get("rank", 0))


def assert_no_races(folder):
    for report in reports(folder):
        assert report["num_races"] == 0, report["races"]
