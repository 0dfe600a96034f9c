"""The matrix products of training and generation, each alone (products_bench.cpp), on one thread and on all."""
import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import machine  # noqa: E402
from host import users_environment  # noqa: E402
from paths import HOST  # noqa: E402


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    for threads in sorted({1, os.cpu_count()}):
        print(f"\n{machine.processor()}; threads: {threads}", flush=True)
        with machine.watched("these products"):
            subprocess.run([HOST.parent / "products_bench"], env=users_environment({"OMP_NUM_THREADS": threads}),
                           check=True)


if __name__ == "__main__":
    main()
