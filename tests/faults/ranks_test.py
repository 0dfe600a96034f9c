"""Ranks that die, hang or are signalled: the others end within seconds, the rank is named, the run's row is closed."""
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from experiment import ONE_RANK
from host import clean_environment
from paths import HOST, cases
from places import assert_reported_once
from runlog import step_folders

TIMEOUT = 3
LONG = {"train__steps": 100_000, "train__epochs": None, "data__kind": "random", "data__file": None,
        "data__dtype": None, "data__order": None, "parallel__timeout_seconds": TIMEOUT}


def start_long(place, **changes):
    running = place.start(**{**LONG, **changes})
    running.wait_for_step(3)
    return running


def ended_with(running, code, within):
    """Seconds until it ended; wait() checks its row in the log."""
    begun = time.monotonic()
    running.wait(within)
    assert running.code == code, f"wanted exit code {code}\n{running}"
    assert_reported_once(running)
    return time.monotonic() - begun


@pytest.mark.soak
@pytest.mark.parametrize("rank", cases([0, 3], [1, 2]))
def test_a_killed_rank_ends_the_run_and_is_named(place, rank):
    running = start_long(place, parallel__processes=4, train__batch_size=1)
    os.kill(running.ranks()[rank], signal.SIGKILL)
    ended_with(running, 6, within=10)
    assert f"rank {rank} was killed by SIGKILL" in running.err, running
    if rank != 0:
        assert f"rank {rank} did not answer" in running.err, f"another one is named too\n{running}"


def test_a_stopped_rank_ends_the_run_within_the_timeout_and_is_named(place):
    running = start_long(place)
    os.kill(running.ranks()[0], signal.SIGPIPE)  # as a write to a lost rank's connection may
    os.kill(running.ranks()[1], signal.SIGSTOP)
    seconds = ended_with(running, 6, within=20)
    assert seconds < TIMEOUT + 12, f"{seconds:.1f} s\n{running}"
    shown = re.search(r"rank 0: step (\d+): (.+) \((all-gather|all-to-all), .+\) failed: rank 1 did not answer",
                      running.err)
    assert shown, f"rank, step, operation and collective are not all named\n{running}"
    head, *record = (place.log.folder() / "flight-0000.txt").read_text().splitlines()
    assert 10 < len(record) <= 256
    late = [line for line in record if "unfinished" in line]
    assert any(f"step {shown[1]}: {shown[2]} ({shown[3]}" in line for line in late), "\n".join([head, *record])


def test_a_killed_launcher_leaves_no_rank_and_the_next_run_removes_its_temporary_folder(place, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    running = start_long(place)
    ranks = running.ranks()
    assert set(ranks) == {0, 1}, running
    running.process.kill()
    running.wait(10)  # fails if a process of its session is left
    left = set(temporary.iterdir())
    assert left, "a killed process removes nothing"
    place.run(wanted=2, parallel__device="tpu")  # refused before anything is created
    assert set(temporary.iterdir()) == left
    place.run(**ONE_RANK, train__steps=1)
    assert list(temporary.iterdir()) == []


def test_a_number_of_threads_that_no_library_takes_is_refused_once_and_before_ranks_are_started(place):
    place.refuse(2, 'OMP_NUM_THREADS is "0", wanted 1 to 1024 threads', env={"OMP_NUM_THREADS": "0"})


def test_ranks_share_the_cores_unless_their_number_of_threads_is_given(place, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        pytest.skip("one core: every rank has one thread")

    def threads(**environment):
        running = place.start(**LONG, env=environment)
        running.wait_for_step(3)
        count = len(list(Path(f"/proc/{running.ranks()[1]}/task").iterdir()))
        running.kill()
        return count

    shared = threads()
    assert shared == threads(OMP_NUM_THREADS=cores // 2)
    assert shared < threads(OMP_NUM_THREADS=cores // 2 + 1)


def listeners_of(pid):
    """[(address, port)] that the process listens on."""
    inodes = {os.readlink(f)[8:-1] for f in Path(f"/proc/{pid}/fd").iterdir() if os.readlink(f).startswith("socket:")}
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[column] for column in (1, 3, 9))
            if state == "0A" and inode in inodes:
                address, port = local.split(":")
                words = [bytes.fromhex(address[i:i + 8])[::-1] for i in range(0, len(address), 8)]
                found.append((socket.inet_ntop(family, b"".join(words)), int(port, 16)))
    return found


def test_ranks_of_one_host_listen_on_the_loopback_alone_and_strangers_cost_them_nothing(place):
    running = start_long(place)
    listeners = [listener for pid in running.ranks().values() for listener in listeners_of(pid)]
    assert listeners and {address for address, _ in listeners} == {"127.0.0.1"}, listeners
    strangers = []
    for port in {port for _, port in listeners}:
        for number in range(100):
            stranger = socket.create_connection(("127.0.0.1", port))
            if number % 2:
                stranger.sendall(b"\xff" * 100)
            strangers.append(stranger)
    running.process.send_signal(signal.SIGINT)
    assert ended_with(running, 75, within=30) < 15
    assert int(step_folders(place.log.folder())[-1].name[5:]) == place.log.last_step(), "the last checkpoint is there"
    for stranger in strangers:
        stranger.close()


def test_a_file_that_may_not_grow_is_an_error_of_storage(place):
    """As under `ulimit -f`, whose signal would kill the writing rank by default."""
    file = place.write(**ONE_RANK, train__steps=2)
    ended = subprocess.run(["prlimit", "--fsize=1000000", HOST, "run", file], cwd=place.folder, env=clean_environment(),
                           capture_output=True, text=True, timeout=60)
    assert ended.returncode == 7 and "File too large" in ended.stderr, ended.stderr
    assert (place.log.newest()["status"], place.log.newest()["exit_code"]) == ("failed", 7)


def test_a_host_without_a_loopback_is_reported_immediately(place):
    alone = ["unshare", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("this user may make no network namespace")
    file = place.write(train__steps=1)
    ended = subprocess.run([*alone, HOST, "run", file], cwd=place.folder, env=clean_environment(), capture_output=True,
                           text=True, timeout=30)
    assert ended.returncode == 6 and "is the loopback interface up?" in ended.stderr, ended.stderr


@pytest.mark.soak
@pytest.mark.parametrize("number, processes", cases([(signal.SIGTERM, 1), (signal.SIGINT, 2)],
                                                    [(signal.SIGTERM, 2), (signal.SIGINT, 1), (signal.SIGTERM, 4)]))
def test_a_signal_saves_on_all_ranks_at_one_step(place, number, processes):
    running = start_long(place, parallel__processes=processes)
    running.process.send_signal(number)
    ended_with(running, 75, within=30)
    newest = step_folders(place.log.folder())[-1]
    assert int(newest.name[5:]) == place.log.last_step(), running
    assert "--resume" in running.out, "the next command is not shown"
    assert "\r" not in running.out + running.err and "\x1b" not in running.out + running.err, \
        f"output to a file contains control sequences\n{running}"


def test_a_signal_to_one_rank_stops_all_at_one_step(place):
    running = start_long(place)
    os.kill(running.ranks()[1], signal.SIGTERM)
    ended_with(running, 75, within=30)
    assert int(step_folders(place.log.folder())[-1].name[5:]) == place.log.last_step()
