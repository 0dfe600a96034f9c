"""For every Python test: the shared helpers in tests/support can be imported by name."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.dont_write_bytecode = True

pytest_plugins = ["places"]
