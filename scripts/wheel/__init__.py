"""wmtp-host as a Python package: a program that uses torch's libraries. Only this launcher is Python.

prefix: the folder with bin/, lib/, include/ and share/; use it as CMAKE_PREFIX_PATH to build a plugin:
    cmake -S mine -B mine/build -DCMAKE_PREFIX_PATH="$(python -c 'import wmtp_host; print(wmtp_host.prefix)')"
"""
import importlib.util
import os
import sys

prefix = os.path.dirname(os.path.abspath(__file__))


def _environment():
    """The libraries search for torch next to this package. If it is elsewhere (nested venvs), adds its path."""
    environment = dict(os.environ)
    if os.path.isdir(os.path.join(os.path.dirname(prefix), "torch", "lib")):
        return environment
    torch = importlib.util.find_spec("torch")
    if torch is not None:
        lib = os.path.join(torch.submodule_search_locations[0], "lib")
        known = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{lib}:{known}" if known else lib
    return environment


def main():
    program = os.path.join(prefix, "bin", "wmtp-host")
    os.execve(program, [program, *sys.argv[1:]], _environment())
