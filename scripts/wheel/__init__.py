"""wmtp-host as a Python package: a program that uses torch's libraries. Only this launcher is Python.

prefix: the folder with bin/, lib/, include/ and share/; use it as CMAKE_PREFIX_PATH to build a plugin:
    cmake -S mine -B mine/build -DCMAKE_PREFIX_PATH="$(python -c 'import wmtp_host; print(wmtp_host.prefix)')"
"""
import importlib.util
import os
import sys

prefix = os.path.dirname(os.path.abspath(__file__))


def main():
    """The program asks the python3 in PATH for torch, which need not be the one that runs this."""
    torch = importlib.util.find_spec("torch")
    if torch is not None:
        os.environ.setdefault("WMTP_LIBTORCH", torch.submodule_search_locations[0])
    program = os.path.join(prefix, "bin", "wmtp-host")
    os.execv(program, [program, *sys.argv[1:]])
