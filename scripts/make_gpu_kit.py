#!/usr/bin/env python3
"""make_gpu_kit.py WHEEL KIT: a folder with all that first_gpu.sh needs on a machine that has a GPU and python3 with
torch, numpy, pytest and safetensors: wheel, script, tests for CUDA with their helpers, the peer, experiments."""
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTENT = ("LICENSE", "docs/gpu.md", "experiments/gpu/*.toml", "scripts/first_gpu.sh", "scripts/gpu/*.py",
           "tests/bench/peer.py", "tests/conftest.py", "tests/parity/*.py", "tests/pytest.ini", "tests/support/*.py")


def main():
    wheel, kit = map(Path, sys.argv[1:])
    shutil.rmtree(kit, ignore_errors=True)
    files = [(file, kit / file.relative_to(ROOT)) for pattern in CONTENT for file in sorted(ROOT.glob(pattern))]
    for file, copy in [*files, (wheel, kit / "dist" / wheel.name)]:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    size = sum(file.stat().st_size for file in kit.rglob("*") if file.is_file())
    print(f"{kit}: {size / 2**20:.1f} MiB; on the machine with a GPU: sh {kit.name}/scripts/first_gpu.sh facts")


if __name__ == "__main__":
    main()
