"""Where things lie: the tree, the build under test (WMTP_BUILD, set by ctest), the test plugins."""
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("WMTP_BUILD", ROOT / "build"))
HOST = BUILD / "bin/wmtp-host"
TEST_PLUGINS = BUILD / "tests/plugins"
SOAK = os.environ.get("WMTP_SOAK") == "1"


def count(short, long):
    """How often a random trial is made: few in `make test`, many in `make soak`."""
    return long if SOAK else short
