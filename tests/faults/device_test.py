"""Faults of a CUDA device, on a null device: the real program and the real libtorch_cuda over a driver that is replaced
by LD_PRELOAD. Its source lies beside the tree, or does not; then nothing of this is run, and pytest says so."""
import re
import subprocess

import pytest
from host import clean_environment
from paths import BUILD, ROOT, TEST_PLUGINS

SOURCE = ROOT.parent / "shared/device"
BUILT = BUILD / "tests/null_device"
# The compute of a step is done by the CPU's kernels, in the device's memory.
COMPUTES = {"NULL_CUDA_COMPUTES": "1", "OMP_NUM_THREADS": "1", "WMTP_PLUGIN_PATH": TEST_PLUGINS}
ON_DEVICE = {"parallel__device": "cuda", "parallel__processes": 1, "train__steps": 2, "model__layers": 3,
             "model__future_tokens": 2}


@pytest.fixture(scope="module")
def null_device():
    if not (SOURCE / "build.sh").exists():
        pytest.skip(f"no null device: {SOURCE} is not there")
    if BUILD != ROOT / "build" or not (BUILD / "lib/libwmtp_cuda.so").exists():
        pytest.skip("no null device: it is built over build/ alone, with its CUDA backend")
    program = BUILT / "wmtp-host"
    sources = [*SOURCE.iterdir(), *(BUILD / "lib").glob("*.so"), BUILD / "bin/wmtp-host"]
    if not program.exists() or any(file.stat().st_mtime > program.stat().st_mtime for file in sources):
        built = subprocess.run(["bash", SOURCE / "build.sh", ROOT, BUILT], text=True, capture_output=True)
        if built.returncode != 0:
            pytest.skip(f"the null device cannot be built: {built.stderr[-300:]}")
    return program


def refuse(null_device, place, code, *messages, env=None, **changes):
    file = place.write(**{**ON_DEVICE, **changes})
    ended = subprocess.run([null_device, "run", file], text=True, capture_output=True, cwd=place.folder,
                           env=clean_environment({**COMPUTES, **(env or {})}), timeout=120)
    assert ended.returncode == code, (ended.returncode, ended.stderr[-3000:])
    for message in messages:
        assert re.search(message, ended.stderr), (message, ended.stderr[-3000:])
    return ended


def test_a_device_that_is_full_is_told_with_what_to_change(null_device, place):
    """At a step: the weights fit, and what a long batch keeps for its backward pass does not."""
    ended = refuse(null_device, place, 8, r"out of memory on the device: [\d.]+ [KMG]iB requested",
                   r"train\.batch_size", "activation_checkpointing", "cpu_offload", env={"NULL_CUDA_BYTES": 40_000_000},
                   data={"kind": "random"}, train__sequence_length=2048)
    assert "frame #" not in ended.stderr
    run = place.log.newest()
    assert (run["status"], run["exit_code"]) == ("failed", 8)


def test_weights_on_another_device_are_told_with_both(null_device, place):
    refuse(null_device, place, 3, r"plugin faulty: weigh\(\) at step 1: returned values on cpu, wanted cuda:0",
           pipeline={"plugin": "faulty", "fault": "device"})


def test_more_processes_than_devices_are_refused_where_the_device_is_explicit(null_device, place):
    refuse(null_device, place, 2, r"wants CUDA device 1, this host has 1 CUDA device; use fewer processes",
           parallel__processes=2)
