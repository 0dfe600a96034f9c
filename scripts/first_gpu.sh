#!/bin/sh
# first_gpu.sh brief|facts|correct|speed|memory|profile|switches [OUT]: checks or measures this program on the machine's
# first CUDA device. `brief` takes about four minutes, each other part at most eight. A part ends in time even if a step
# hangs, can be repeated by itself, prints a table last, and leaves PART.md, PART.json and PART.log in OUT
# (runs/first_gpu/PART); `brief` and `profile` also a trace. Exits with 1 if a step failed.
#
# Needs python3 with torch, numpy, pytest and safetensors; no compiler, git, network, pip, or writable home. Uses the
# program in WMTP_BUILD or build/, or else the wheel in dist/ (`make gpu-kit`), unpacked into a temporary folder.
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
python=python3
[ -x "$root/.venv/bin/python" ] && python=$root/.venv/bin/python
exec "$python" -B "$root/scripts/gpu/main.py" "$@"
