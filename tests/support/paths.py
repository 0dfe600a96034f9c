"""Paths: the tree, the build under test (WMTP_BUILD, set by ctest), the test plugins."""
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED_DATA = ROOT.parent / "shared/data"  # published files next to the tree; may be missing
BUILD = Path(os.environ.get("WMTP_BUILD", ROOT / "build"))
HOST = BUILD / "bin/wmtp-host"
TEST_PLUGINS = BUILD / "tests/plugins"
CCACHE = shutil.which("ccache")
SOAK = os.environ.get("WMTP_SOAK") == "1"


def cases(short, long_only):
    """Cases of a parametrized test: all of them only in `make soak`."""
    return [*short, *long_only] if SOAK else list(short)


def cases_of(all_cases, short):
    """`short`, and in `make soak` the others of `all_cases` after them."""
    return cases(short, [case for case in all_cases if case not in short])


def count(short, long):
    """Repetitions of a random trial: few in `make test`, many in `make soak`."""
    return long if SOAK else short


def build_cache(folder):
    """Variables for the commands with which an author builds a plugin below this folder. Objects come from ccache where
    it is installed, as in the project's own build: LibTorch's headers take 20 s to compile."""
    return {"CMAKE_CXX_COMPILER_LAUNCHER": CCACHE, "CCACHE_BASEDIR": str(folder)} if CCACHE else {}
