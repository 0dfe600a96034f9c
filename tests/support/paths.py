"""Where things lie: the tree, the build under test (WMTP_BUILD, set by ctest), the test plugins."""
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED_DATA = ROOT.parent / "shared/data"  # published files that lie beside the tree, or do not
BUILD = Path(os.environ.get("WMTP_BUILD", ROOT / "build"))
HOST = BUILD / "bin/wmtp-host"
TEST_PLUGINS = BUILD / "tests/plugins"
SOAK = os.environ.get("WMTP_SOAK") == "1"


def cases(short, long_only):
    """Cases of a parametrised test: all of them only in `make soak`."""
    return [*short, *long_only] if SOAK else list(short)


def count(short, long):
    """How often a random trial is made: few in `make test`, many in `make soak`."""
    return long if SOAK else short
