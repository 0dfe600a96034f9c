"""Ways of being stopped: by each sender, in each order, at each moment. A run ends with a checkpoint of its last step,
or its last line says what is left of it."""
import fcntl
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from experiment import ONE_RANK, experiment
from host import IN_A_SAVE, children_of, clean_environment
from launchers import free_port, words
from paths import HOST
from ranks_test import LONG, ended_with, start_long
from runlog import step_folders

ONE_LONG = LONG | {"parallel__processes": 1, "train__batch_size": 2}
F_SETPIPE_SZ = 1031  # fcntl has no name for it before Python 3.10
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


def wait_for_three_steps(place):
    """Of a run that another program starts."""
    end = time.monotonic() + 60
    while place.log.last_step() < 3 and time.monotonic() < end:
        time.sleep(0.05)


def saved_its_last_step(place, run=None):
    folders = step_folders(place.log.folder(run))
    return bool(folders) and int(folders[-1].name[5:]) == max(place.log.losses(run or place.log.newest()["id"]))


@pytest.mark.parametrize("number, ranks, order", [
    (signal.SIGTERM, 2, "launcher first"), (signal.SIGTERM, 2, "ranks first"), (signal.SIGTERM, 1, "launcher first"),
    (signal.SIGINT, 2, "launcher first"), (signal.SIGINT, 1, "ranks first"), (signal.SIGTERM, 2, "each twice"),
    (signal.SIGHUP, 2, "launcher only"), (signal.SIGQUIT, 1, "launcher only"), (signal.SIGUSR1, 2, "ranks first"),
    (signal.SIGUSR2, 1, "launcher only"), (signal.SIGXCPU, 2, "launcher first"),
    (signal.SIGALRM, 2, "launcher only"), (signal.SIGVTALRM, 1, "ranks first")])
def test_a_signal_to_launcher_and_ranks_saves(place, number, ranks, order):
    """As by systemd, by Slurm and SGE before the end of a job's time, and by a terminal that closes."""
    running = start_long(place, parallel__processes=ranks, train__batch_size=2 // ranks)
    processes = tree(running.process.pid)
    assert len(processes) >= 1 + ranks
    in_order = {"launcher first": processes, "ranks first": processes[::-1], "each twice": processes * 2,
                "launcher only": processes[:1]}[order]
    signal_all(in_order, number)
    ended_with(running, 75, within=30)
    assert saved_its_last_step(place), running


@pytest.mark.parametrize("ranks, limit", [(1, "-St 3"), (2, "-St 3"), (2, "-t 4")])
def test_a_limit_of_computing_time_saves_and_is_named(place, ranks, limit):
    """The kernel signals a rank that has used up its soft limit, once more in each second of computing, and kills it at
    the hard one."""
    file = place.write(**LONG | {"parallel__processes": ranks, "train__batch_size": 2 // ranks})
    begun = subprocess.run(["bash", "-c", f'ulimit {limit}; exec "$@"', "", HOST, "run", file], cwd=place.folder,
                           env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=300)
    assert begun.returncode == 75 and saved_its_last_step(place), begun.stdout
    assert "SIGXCPU: ulimit -t (seconds of computing) is nearly used up" in begun.stdout, begun.stdout


def test_a_timer_of_the_parent_saves(place):
    """A timer outlives exec: `alarm` in Perl is a common way to limit a command's time."""
    file = place.write(**LONG)
    begun = subprocess.run([sys.executable, "-c", "import os, signal, sys\nsignal.setitimer(signal.ITIMER_REAL, 6, 3)\n"
                            "os.execv(sys.argv[1], sys.argv[1:])", HOST, "run", file], cwd=place.folder,
                           env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=60)
    assert begun.returncode == 75 and saved_its_last_step(place), begun.stdout
    assert "SIGALRM: the ranks save and stop" in begun.stdout, begun.stdout


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_signal_that_the_parent_has_blocked_saves(place, ranks):
    """A mask outlives exec, too: parents block signals around their threads."""
    file = place.write(**LONG | {"parallel__processes": ranks, "train__batch_size": 2 // ranks})
    begun = subprocess.Popen([sys.executable, "-c", "import os, signal, sys\n"
                              "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
                              "os.execv(sys.argv[1], sys.argv[1:])", HOST, "run", file], cwd=place.folder,
                             env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    wait_for_three_steps(place)
    begun.send_signal(signal.SIGTERM)
    said = begun.communicate(timeout=30)[0]
    assert begun.returncode == 75 and saved_its_last_step(place), said


def test_timeout_saves(place):
    """GNU timeout signals its child, then its whole process group."""
    file = place.write(**LONG)
    begun = subprocess.Popen(["timeout", "6", HOST, "run", file], cwd=place.folder, env=clean_environment(),
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             start_new_session=True)
    said = begun.communicate(timeout=60)[0]
    assert begun.returncode == 124 and saved_its_last_step(place), said


@pytest.mark.parametrize("ranks, number", [(1, signal.SIGTERM), (2, signal.SIGTERM), (2, signal.SIGHUP),
                                           (1, signal.SIGQUIT), (1, signal.SIGUSR1)])
def test_ranks_of_a_foreign_launcher_save(place, ranks, number):
    """The launcher forwards the signal that its ranks have received as well."""
    file, port = place.write(**LONG | {"parallel__processes": ranks, "train__batch_size": 2 // ranks}), free_port()
    started = [place.start_command("run", file, env=words(rank, ranks, port)) for rank in range(ranks)]
    started[0].wait_for_step(3)
    signal_all([running.process.pid for running in started] * 2, number)
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
    wait_for_three_steps(place)
    signal_all(tree(begun.pid), signal.SIGTERM)
    said = begun.communicate(timeout=60)[0]
    assert saved_its_last_step(place), said


def test_all_members_of_a_sweep_save(place):
    tables = {"sweep": {"seed": [1, 2]}}
    file = place.write(**ONE_LONG, **tables)
    running = place.start_command("run", file, "--jobs", "2")
    end = time.monotonic() + 60
    while time.monotonic() < end and not (len(runs := place.log.rows_after(0)) == 2 and all(
            place.log.losses(run["id"]) for run in runs)):
        time.sleep(0.1)
    signal_all(tree(running.process.pid) * 2, signal.SIGTERM)
    running.wait(30)
    assert running.code == 75, running
    assert len(place.log.runs()) == 2
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_ranks_start_says_that_nothing_was_saved(place, number):
    running = place.start(**LONG)
    end = time.monotonic() + 30
    while not children_of(running.process.pid) and time.monotonic() < end:  # the process that loads LibTorch
        time.sleep(0.001)
    running.process.send_signal(number)
    running.wait(30)
    assert running.code == 75, running
    assert re.search(UNSAVED, running.err.strip().splitlines()[-1]), running


@pytest.mark.parametrize("own_launcher", [True, False])
def test_a_signal_while_a_host_is_missing_ends_the_run_at_once(place, own_launcher):
    port, changes = free_port(), LONG | {"parallel__timeout_seconds": 60}
    if own_launcher:
        running = place.start("--nodes", 2, "--node-rank", 0, "--rendezvous", f"127.0.0.1:{port}", **changes)
    else:
        running = place.start(env=words(0, 2, port), **changes)
    end = time.monotonic() + 60
    while "is waiting for" not in running.err and running.code is None and time.monotonic() < end:
        time.sleep(0.05)
    running.process.send_signal(signal.SIGTERM)
    running.wait(10)
    assert running.code == 75 and "nothing was saved" in running.err, running


def stop_when_its_rank_is_lost(place, running):
    """Another program has locked the log meanwhile, so that the launcher cannot record the end yet."""
    running.wait_for_step(3)
    log = sqlite3.connect(place.log.database, timeout=30, isolation_level=None)
    log.execute("BEGIN IMMEDIATE")
    os.kill(running.ranks()[0], signal.SIGKILL)
    running.wait_until(lambda: not running.ranks())
    running.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    log.close()
    ended_with(running, 6, within=10)
    assert "rank 0 was killed by SIGKILL" in running.err and len(place.log.runs()) == 1, running


def test_a_request_that_comes_after_a_lost_rank_lets_its_end_be_recorded(place):
    stop_when_its_rank_is_lost(place, place.start("--max-restarts", "1", **ONE_LONG))


def test_a_request_that_comes_after_a_lost_stage_ends_the_sweep(place):
    place.write(**ONE_LONG, name="stage.toml")
    stop_when_its_rank_is_lost(place, place.start(**ONE_LONG, pipeline={"plugin": "rho1"}, sweep={"seed": [1, 2]},
                                                  reference={"experiment": "stage.toml"}))


ENDED_BY_A_SAVE = {"train__steps": 2, "data": {"kind": "random"}, "parallel__processes": 1, "train__batch_size": 2}


def test_a_request_in_the_last_save_of_a_stage_starts_nothing_after_it(place):
    place.write(**ENDED_BY_A_SAVE, name="stage.toml")
    running = place.start(env=IN_A_SAVE, **ENDED_BY_A_SAVE, pipeline={"plugin": "rho1"},
                          reference={"experiment": "stage.toml"}).stop_in_a_save(the_last=True)
    assert [run["status"] for run in place.log.runs()] == ["finished"], running
    assert re.search("reference: stage.toml has finished; stopped before .*experiment.toml was started$",
                     running.err), running


def test_a_request_in_the_last_save_of_a_member_starts_no_other_one(place):
    running = place.start(env=IN_A_SAVE, **ENDED_BY_A_SAVE, sweep={"seed": [1, 2]}).stop_in_a_save(the_last=True)
    assert [run["status"] for run in place.log.runs()] == ["finished"], running


def with_much_text(place):
    (place.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 2_000_000)
    return LONG | {"data": {"kind": "text", "files": ["text.txt"]}, "model__vocab_size": None}


def drafts_of(place, wanted):
    """The drafts in the cache, as soon as there are some, or none."""
    end = time.monotonic() + 30
    while bool(found := list(place.folder.glob("runs/cache/*.tmp-*"))) != wanted and time.monotonic() < end:
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_prepared_data_is_complete_or_absent_after_a_signal(place, number):
    running = place.start_command("data", "prepare", place.write(**with_much_text(place)))
    assert drafts_of(place, wanted=True), running
    running.process.send_signal(number)
    running.wait(30)
    assert running.code == -number, running
    assert not drafts_of(place, wanted=False), running


def test_killed_ranks_leave_no_prepared_data_behind(place):
    running = place.start(**with_much_text(place))
    assert drafts_of(place, wanted=True), running
    running.process.send_signal(signal.SIGTERM)
    running.wait_until(lambda: "repeat to kill them" in running.err)  # one counts a second after this
    time.sleep(1.2)
    running.process.send_signal(signal.SIGTERM)
    running.wait(30)
    assert running.code == 75, running
    assert not list(place.folder.rglob("*.tmp-*")), running


@pytest.mark.parametrize("saves", [False, True])
def test_a_second_request_kills_the_ranks_and_the_last_line_says_what_is_left(place, saves):
    running = start_long(place, checkpoint__every_steps=2 if saves else 0)
    if saves:
        running.wait_for_step(5)
    os.kill(running.ranks()[1], signal.SIGSTOP)  # so that saving cannot finish
    running.process.send_signal(signal.SIGTERM)
    running.wait_until(lambda: "repeat to kill them" in running.err)  # one counts a second after this
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
    wait_for_three_steps(place)
    os.kill(children_of(child)[-1], signal.SIGSTOP)  # a rank, so that saving cannot finish
    os.write(terminal, b"\x03")
    said = b""
    while b"repeat to kill them" not in said:
        said += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:  # the terminal's other end is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 75, said
    assert b"second SIGINT" in said and b"nothing was saved" in said, said


def test_a_sweep_whose_reader_has_stopped_reading_hears_a_request(place):
    """One member has ended, of which the launcher cannot tell; the other one saves."""
    members = [{"train": {"steps": steps}, "seed": steps} for steps in (2, 100_000)]
    file = place.write({**experiment(**ONE_RANK, data={"kind": "random"}), "sweep": {"members": members}})
    reader, writer = os.pipe()
    fcntl.fcntl(writer, F_SETPIPE_SZ, 4096)
    launcher = subprocess.Popen([HOST, "run", file, "--jobs", "2"], cwd=place.folder, env=clean_environment(),
                                stdout=subprocess.DEVNULL, stderr=writer)
    try:
        wait_for_three_steps(place)
        with open(f"/proc/self/fd/{writer}", "wb", buffering=0, opener=lambda path, flags: os.open(
                path, flags | os.O_NONBLOCK)) as filler:
            while filler.write(b"x"):  # a byte at a time, to the last one that fits
                pass
        end = time.monotonic() + 60
        while "finished" not in [run["status"] for run in place.log.runs()]:
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(1)
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(30) == 75
    finally:
        launcher.kill()
        os.close(reader)
        os.close(writer)
    assert sorted(run["status"] for run in place.log.runs()) == ["finished", "interrupted"]
    assert saved_its_last_step(place, next(run["id"] for run in place.log.runs() if run["status"] == "interrupted"))
