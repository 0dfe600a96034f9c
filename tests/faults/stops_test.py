"""Ways of being stopped: by each sender, in each order, at each moment. A run ends with a checkpoint of its last step,
or its last line says what is left of it."""
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
from host import children_of, clean_environment
from launchers import free_port, words
from paths import HOST
from ranks_test import LONG, ended_with, start_long
from runlog import step_folders

UNSAVED = r"run \d+ was stopped without a new checkpoint: (nothing was saved|--resume continues from step \d+)$|" \
          r"stopped before the run began: nothing was saved$"


def tree(process):
    """A process and all below it, parents first."""
    return [process, *(one for child in children_of(process) for one in tree(child))]


def signal_all(processes, number):
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:  # ended by the signal to its parent
            pass


def saved_its_last_step(place, run=None):
    folders = step_folders(place.log.folder(run))
    return bool(folders) and int(folders[-1].name[5:]) == max(place.log.losses(run or place.log.newest()["id"]))


@pytest.mark.parametrize("number, ranks, order", [
    (signal.SIGTERM, 2, "launcher first"), (signal.SIGTERM, 2, "ranks first"), (signal.SIGTERM, 1, "launcher first"),
    (signal.SIGINT, 2, "launcher first"), (signal.SIGINT, 1, "ranks first"), (signal.SIGTERM, 2, "each twice")])
def test_a_signal_to_launcher_and_ranks_saves(place, number, ranks, order):
    """As by systemd, and by Slurm at the end of a job's time."""
    running = start_long(place, parallel__processes=ranks, train__batch_size=2 // ranks)
    processes = tree(running.process.pid)
    assert len(processes) >= 1 + ranks
    in_order = {"launcher first": processes, "ranks first": processes[::-1], "each twice": processes * 2}[order]
    signal_all(in_order, number)
    ended_with(running, 75, within=30)
    assert saved_its_last_step(place), running


def test_timeout_saves(place):
    """GNU timeout signals its child, then its whole process group."""
    file = place.write(**LONG)
    begun = subprocess.Popen(["timeout", "6", HOST, "run", file], cwd=place.folder, env=clean_environment(),
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             start_new_session=True)
    said = begun.communicate(timeout=60)[0]
    assert begun.returncode == 124 and saved_its_last_step(place), said


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_of_a_foreign_launcher_save(place, ranks):
    """The launcher forwards the signal that its ranks have received as well."""
    file, port = place.write(**LONG | {"parallel__processes": ranks, "train__batch_size": 2 // ranks}), free_port()
    started = [place.start_command("run", file, env=words(rank, ranks, port)) for rank in range(ranks)]
    started[0].wait_for_step(3)
    signal_all([running.process.pid for running in started] * 2, signal.SIGTERM)
    for running in started:
        running.wait(30)
        assert running.code == 75, running
    assert saved_its_last_step(place)


def test_torchrun_and_its_ranks_save(place):
    pytest.importorskip("torch")
    file = place.write(**LONG)
    begun = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", "2",
                              "--master-port", str(free_port()), HOST, "run", file], cwd=place.folder,
                             env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, start_new_session=True)
    end = time.monotonic() + 60
    while place.log.last_step() < 3 and time.monotonic() < end:
        time.sleep(0.1)
    signal_all(tree(begun.pid), signal.SIGTERM)
    said = begun.communicate(timeout=60)[0]
    assert saved_its_last_step(place), said


def test_all_members_of_a_sweep_save(place):
    tables = {"sweep": {"seed": [1, 2]}}
    file = place.write(**LONG | {"parallel__processes": 1, "train__batch_size": 2}, **tables)
    running = place.start_command("run", file, "--jobs", "2")
    end = time.monotonic() + 60
    while time.monotonic() < end and not (len(place.log.runs()) == 2 and all(
            place.log.losses(run["id"]) for run in place.log.runs())):
        time.sleep(0.1)
    signal_all(tree(running.process.pid) * 2, signal.SIGTERM)
    running.wait(30)
    assert running.code == 75, running
    for run in place.log.runs():
        assert run["status"] == "interrupted" and saved_its_last_step(place, run["id"]), running


@pytest.mark.parametrize("moment", ["validation", "save"])
def test_a_signal_during_validation_or_a_save_saves(place, moment):
    """Both take place after every step, so that the signal arrives in one of them or soon before."""
    (place.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 500)
    text = {"data": {"kind": "text", "files": ["text.txt"]}, "model__vocab_size": None, "train__steps": None,
            "train__epochs": 100_000.0, "validation": {"share": 0.3, "batches": 4, "every_steps": 1}}
    running = start_long(place, **{"validation": text, "save": {"checkpoint__every_steps": 1}}[moment])
    signal_all(tree(running.process.pid), signal.SIGTERM)
    ended_with(running, 75, within=30)
    assert saved_its_last_step(place), running


def test_a_signal_during_preparation_saves_or_says_that_nothing_was_saved(place):
    (place.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 400_000)
    running = place.start(**LONG | {"data": {"kind": "text", "files": ["text.txt"]}, "model__vocab_size": None})
    end = time.monotonic() + 30
    while len(running.ranks()) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    signal_all(tree(running.process.pid), signal.SIGTERM)
    running.wait(60)
    assert running.code == 75, running
    said = running.err.strip().splitlines()[-1]
    assert re.search(UNSAVED, said) or saved_its_last_step(place), running


@pytest.mark.parametrize("saves", [False, True])
def test_a_second_request_kills_the_ranks_and_the_last_line_says_what_is_left(place, saves):
    running = start_long(place, checkpoint__every_steps=2 if saves else 0)
    if saves:
        running.wait_for_step(5)
    os.kill(running.ranks()[1], signal.SIGSTOP)  # so that saving cannot finish
    running.process.send_signal(signal.SIGTERM)
    time.sleep(1.2)
    running.process.send_signal(signal.SIGTERM)
    ended_with(running, 75, within=5)
    said = running.err.strip().splitlines()[-1]
    left = re.search("continues from step (\\d+)$" if saves else "nothing was saved$", said)
    assert re.search(UNSAVED, said) and left, running
    if saves:
        assert int(left[1]) == int(step_folders(place.log.folder())[-1].name[5:])


def test_ctrl_c_pressed_twice_at_a_terminal_kills_at_once(place):
    file = place.write(**LONG)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(place.folder)
        os.execve(HOST, [str(HOST), "run", str(file)], clean_environment())
    end = time.monotonic() + 60
    while place.log.last_step() < 3 and time.monotonic() < end:
        time.sleep(0.05)
    os.kill(children_of(child)[-1], signal.SIGSTOP)  # a rank, so that saving cannot finish
    os.write(terminal, b"\x03")
    time.sleep(0.2)
    os.write(terminal, b"\x03")
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:  # the terminal's other end is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 75, said
    assert b"second SIGINT" in said and b"nothing was saved" in said, said
