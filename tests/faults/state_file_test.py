"""The optimizer's state on a disk that is missing, full, or fails later."""
import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from host import users_environment
from paths import HOST
from ranks_test import LONG, ended_with
from runlog import step_folders

STATE_ON_A_DISK = {"parallel__optimizer_offload": "nvme", "parallel__processes": 2}


def test_a_missing_folder_for_the_optimizers_state_is_refused_before_a_rank_starts(place):
    for options in ([], ["--dry-run"]):
        place.refuse(7, r"\[parallel\] offload_path: there is no folder \S+/none on this host", arguments=options,
                     parallel__offload_path="none", **STATE_ON_A_DISK)
    assert not (place.folder / "runs").exists()


def test_a_disk_that_cannot_hold_the_optimizers_state_ends_the_run_before_a_step(place):
    """A file system of its own, in a namespace of its own."""
    (place.folder / "small").mkdir()
    file = place.write(parallel__offload_path="small", **STATE_ON_A_DISK)
    shell = f'mount -t tmpfs -o size=64k none small && exec "{HOST}" run "{file}"'
    ended = subprocess.run(["unshare", "-rm", "sh", "-c", shell], cwd=place.folder, capture_output=True, text=True,
                           timeout=60, env=users_environment())
    if "unshare failed" in ended.stderr:
        pytest.skip("no namespaces here")
    assert ended.returncode == 7, ended.stderr
    assert re.search(r"cannot reserve [\d.]+ [KM]iB .*of which [\d.]+ KiB are free, in \S+/small", ended.stderr), ended
    assert place.log.newest()["status"] == "failed" and place.log.losses() == {}


def reserved_file_of(rank):
    """The open file of a process, whose name is gone."""
    for file in Path(f"/proc/{rank}/fd").iterdir():
        try:
            if "wmtp-temporary-" in os.readlink(file):
                return file
        except FileNotFoundError:  # closed meanwhile
            continue
    raise AssertionError(f"process {rank} keeps no state in a file")


def test_a_disk_that_fails_later_ends_the_run_and_leaves_the_last_checkpoint(place):
    options = {**LONG, **STATE_ON_A_DISK, "parallel__offload_path": "disk", "checkpoint__every_steps": 5}
    (place.folder / "disk").mkdir()
    running = place.start(**options)
    running.wait_for_step(12)
    file = reserved_file_of(running.ranks()[1])
    with contextlib.suppress(FileNotFoundError):  # the process has ended
        while True:  # a write of what was read before makes the file whole again
            os.truncate(file, 0)
            time.sleep(0.01)
    ended_with(running, 7, within=20)
    assert re.search(r"\[rank 1\] wmtp-host: cannot read the optimizer's state from a file in \S+/disk: "
                     "Input/output error", running.err), running
    assert place.log.newest()["status"] == "failed"
    saved = int(step_folders(place.log.folder())[-1].name.removeprefix("step-"))
    more = {**options, "train__steps": saved + 3}
    place.run("--resume", **more)
    assert list(place.log.losses(place.log.newest()["id"]))[-1] == saved + 3
