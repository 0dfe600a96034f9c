#!/usr/bin/env bash
# first_gpu.sh [OUT]: checks and benchmarks this build on the machine's first CUDA device in under ten minutes, and
# writes OUT/first_gpu.md (OUT: runs/first_gpu). Exits with 1 if a step fails.
#
# Uses the program in build/, or else a wheel in dist/ (`make wheel`), so that it runs on a machine without compilers or
# network. Needs Python with torch, numpy, pytest and safetensors. Each step has a time limit; later steps always run.
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-runs/first_gpu}")
mkdir -p "$out"
report=$out/first_gpu.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=.venv/bin/python
[ -x $python ] || python=python3
failed=0

# step NAME SECONDS COMMAND...: adds the exit code, duration and last lines to the report.
step() {
  local name=$1 limit=$2 begun=$SECONDS code=0
  shift 2
  timeout -k 10 "$limit" bash -c '"$@"' _ "$@" >"$out/$name.log" 2>&1 || code=$?
  [ $code -eq 0 ] || failed=1
  { echo "## $name: exit code $code, $((SECONDS - begun)) s"; echo; tail -20 "$out/$name.log" | cut -c1-160 | sed 's/^/    /'; echo; } >>"$report"
  echo "$name: exit code $code, $((SECONDS - begun)) s"
}

# Checks the program's exit code.
wants() {
  local wanted=$1 code=0
  shift
  "$@" || code=$?
  echo "exit code $code, wanted $wanted"
  [ $code -eq "$wanted" ]
}

# trains NAME SECONDS FILE [--set ...]: reports losses and speed of a run, even if its last checkpoint is not written in
# time. Deletes the checkpoints (20 GB).
trains() {
  local name=$1 limit=$2 file=$3 code=0
  shift 3
  timeout -s KILL "$limit" "$host" --db "$work/$name.db" run "$file" --name "$name" "$@" || code=$?
  "$host" --db "$work/$name.db" sql "SELECT name, round(avg(value), 4) AS mean FROM v_metrics WHERE step > 5 AND name IN
    ('perf/mfu', 'perf/multiplication_share', 'perf/tokens_per_second', 'perf/step_seconds', 'train/loss')
    AND run = '$name' GROUP BY name" || code=$?
  rm -rf "$work"/*-"$name" "$work"/*-reference-1b3
  return $code
}

peer() {
  $python - "$work/ids.bin" <<'EOF'
import sys
import numpy as np
np.random.default_rng(1).integers(0, 32000, 25 * 8 * 2048).astype("<u2").tofile(sys.argv[1])
EOF
  $python tests/bench/peer.py --tokens "$work/ids.bin" --device cuda --bf16 --checkpointing "$@" --steps 15 --batch 8 \
    --sequence 2048 --dim 2048 --layers 24 --heads 16 --ffn-dim 5632 --vocab 32000 | tee "$work/peer.json"
  $python - "$work/peer.json" "$out/baseline.log" <<'EOF'
import json, re, statistics, sys
result = json.load(open(sys.argv[1]))
rate = 8 * 2048 / statistics.median(result["step_seconds"][5:])
ours = dict(re.findall(r"perf/(mfu|tokens_per_second)\W+([\d.]+)", open(sys.argv[2]).read()))
share = f", MFU {float(ours['mfu']) * rate / float(ours['tokens_per_second']):.3f}" if len(ours) == 2 else ""
print(f"{rate:,.0f} tokens/s, {result['peak_bytes'] / 2**30:.1f} GiB{share}")
EOF
}

export WMTP_BUILD=${WMTP_BUILD:-$PWD/build}
if [ ! -x "$WMTP_BUILD/bin/wmtp-host" ]; then
  $python -m pip install -q --no-index --no-deps --target "$work/site" dist/*.whl || exit 1
  WMTP_BUILD=$work/site/wmtp_host
  chmod +x "$WMTP_BUILD"/bin/*
fi
host=$WMTP_BUILD/bin/wmtp-host
export host out work python
export -f wants trains peer  # for the bash started by timeout

echo "# wmtp-host on a CUDA device, $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)" >"$report"
step facts 15 nvidia-smi
step doctor 45 "$host" doctor --device cuda
step parity 100 $python -B -m pytest -q tests/parity/cuda_test.py
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    step $tool 30 compute-sanitizer --tool $tool --kernel-regex kns=wmtp --target-processes all --error-exitcode 9 \
      "$host" doctor --device cuda
  done
fi
step baseline 65 trains baseline 60 experiments/gpu/baseline-1b3.toml
step not-deterministic 60 trains fast 55 experiments/gpu/baseline-1b3.toml --set parallel.deterministic=false
step rho1 80 trains rho1 75 experiments/gpu/rho1-1b3.toml
step full-device 30 wants 8 "$host" --db "$work/full.db" run experiments/gpu/baseline-1b3.toml --set train.batch_size=1024
step peer 60 peer
step peer-compiled 80 peer --compile
echo "$report"
exit $failed
