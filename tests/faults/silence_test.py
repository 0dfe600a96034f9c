"""Ranks that are stopped and then say nothing: the others end within parallel.timeout_seconds, also where a run waits
for no collective, and name the rank and what they waited for."""
import os
import re
import signal
import time

import pytest
from host import state_of
from launchers import free_port, words
from paths import cases
from ranks_test import ended_with
from runlog import step_folders

TIMEOUT = 1
STEPS = 6
SHORT = {"train__steps": STEPS, "parallel__timeout_seconds": TIMEOUT}
# After the timeout: reporting, the launcher's patience, and a machine that is busy with other tests.
SOON = TIMEOUT + 8


def start(place, launcher, env=None, **changes):
    """The processes of the job: our launcher's, or one for each rank, as under torchrun."""
    file = place.write(**{**SHORT, **changes})
    if launcher == "ours":
        return [place.start_command("run", file, env=env)]
    port = free_port()
    return [place.start_command("run", file, env={**words(rank, 2, port), **(env or {})}) for rank in range(2)]


def pid_of(started, rank):
    return started[0].ranks().get(rank) if len(started) == 1 else started[rank].process.pid


def wait_for(condition, started, limit=40):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end and started[0].code is None, str(started[0])
        time.sleep(0.002)


def assert_ends_soon(started, rank, *said):
    """A stopped rank ends when our launcher kills it; under another launcher that is its task."""
    if len(started) == 1:
        ended_with(started[0], 6, within=SOON)
        reported = started[0]
    else:
        reported = started[1 - rank]
        reported.process.wait(SOON)
        started[rank].kill()
        assert reported.code == 6, reported
    named = {0: "rank 0, which serves the rendezvous, is gone|rank 0 did not answer", 1: "rank 1 did not answer"}[rank]
    for text in (named, *said):
        assert re.search(text, reported.err), f"stderr does not say {text!r}\n{reported}"


BOTH = pytest.mark.parametrize("launcher, rank", cases([("ours", 1), ("another", 0)], [("ours", 0), ("another", 1)]))


@pytest.mark.soak
@BOTH
def test_a_rank_that_is_stopped_in_the_last_save_ends_the_run(place, launcher, rank):
    started = start(place, launcher, env={"WMTP_KILL_AT_SAVE": f"file_written:{rank}:1:stop"})
    wait_for(lambda: pid_of(started, rank) and state_of(pid_of(started, rank)) == b"T", started)
    assert_ends_soon(started, rank, "writing a checkpoint failed")


@pytest.mark.soak
@pytest.mark.parametrize("launcher, rank", cases([("ours", 1)], [("another", 0)]))
def test_a_rank_that_is_stopped_in_the_last_validation_ends_the_run(place, launcher, rank):
    text = {"data": {"kind": "text", "files": ["text.txt"], "tokenizer": {"kind": "byte"}}, "model__vocab_size": None}
    (place.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 6000)
    started = start(place, launcher, **text, validation={"share": 0.5, "batches": 800})
    wait_for(lambda: place.log.last_step() == STEPS, started)
    os.kill(pid_of(started, rank), signal.SIGSTOP)
    assert_ends_soon(started, rank, f"valid|step {STEPS}")


@pytest.mark.soak
@BOTH
def test_a_rank_that_is_stopped_after_the_last_save_ends_the_run(place, launcher, rank):
    """Whether it was about to exchange something, to write the model, or to leave."""
    started = start(place, launcher)
    wait_for(place.log.newest_id, started)
    wait_for(lambda: step_folders(place.log.folder()), started)
    os.kill(pid_of(started, rank), signal.SIGSTOP)
    if launcher == "another" and rank == 0 and started[1].process.wait(SOON) == 0:
        started[0].kill()  # it was about to leave
        return
    assert_ends_soon(started, rank)


def test_work_of_one_rank_that_takes_longer_than_the_timeout_is_waited_for(place):
    """A whole job that is suspended and goes on, too."""
    (place.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 400_000)
    (started,) = start(place, "ours", data={
        "kind": "text", "files": ["text.txt"], "tokenizer": {"kind": "bpe", "vocab_size": 300}}, model__vocab_size=None)
    wait_for(lambda: len(started.ranks()) == 2, [started])
    time.sleep(0.3)
    everyone = [started.process.pid, *started.ranks().values()]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in everyone:
            os.kill(pid, number)
        time.sleep(1.5 if number == signal.SIGSTOP else 0)
    started.wait()
    assert started.code == 0, str(started)
