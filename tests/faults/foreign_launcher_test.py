"""Under a foreign launcher (with torchrun's environment variables) each process is one rank of a job."""
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from experiment import experiment
from host import LIMIT, children_of, clean_environment, file_of
from launchers import free_port, words
from paths import HOST
from places import Place

SOON = 40  # seconds, on cores that other tests use too; parallel.timeout_seconds is 120
RANDOM = {"train__epochs": None, "data__kind": "random", "data__file": None, "data__dtype": None, "data__order": None}


def start_job(place, world, port, **changes):
    file = place.write(**{"parallel__processes": world, **changes})
    return [place.start_command("run", file, env=words(rank, world, port)) for rank in range(world)]


@pytest.fixture(scope="module")
def losses_of_our_launcher(program, tmp_path_factory):
    """The losses of the three steps that other launchers' ranks repeat here."""
    place = Place(tmp_path_factory.mktemp("ours"))
    place.tokens()
    place.run(train__steps=3)
    return place.log.losses()


def test_two_processes_are_two_ranks_of_one_run_with_the_numbers_of_our_launcher(place, losses_of_our_launcher):
    for running in start_job(place, 2, free_port(), train__steps=3):
        running.wait()
        assert running.code == 0, running
    rows = place.log.runs()
    assert len(rows) == 1 and rows[0]["world_size"] == 2 and rows[0]["status"] == "finished", rows
    assert place.log.losses() == losses_of_our_launcher and set(losses_of_our_launcher) == {1, 2, 3}


def test_ranks_that_do_not_see_each_others_processes_exchange_through_sockets_bitwise_identically(
        place, losses_of_our_launcher):
    """As in two containers of one host, where ranks cannot share memory."""
    container = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*container, "true"], capture_output=True).returncode:
        pytest.skip("this user may make no process namespace")
    file, port = place.write(parallel__processes=2, train__steps=3), free_port()
    ranks = [subprocess.Popen([*(container if rank else []), HOST, "run", file, "-q"], cwd=place.folder,
                              env=clean_environment(words(rank, 2, port)), stdin=subprocess.DEVNULL)
             for rank in range(2)]
    assert [rank.wait(LIMIT) for rank in ranks] == [0, 0]
    assert place.log.losses() == losses_of_our_launcher


def test_slurms_variables_are_understood(place):
    file = place.write(train__steps=2)
    job = {"SLURM_NTASKS": 2, "SLURM_JOB_ID": 4242, "SLURM_STEP_NODELIST": "localhost"}
    started = [place.start_command("run", file, env={**job, "SLURM_PROCID": rank, "SLURM_LOCALID": rank})
               for rank in range(2)]
    for running in started:
        running.wait()
        assert running.code == 0, running
    assert len(place.log.runs()) == 1


ONE_TASK = {"SLURM_JOB_ID": 7, "SLURM_PROCID": 0, "SLURM_LOCALID": 0, "SLURM_STEP_NODELIST": "localhost",
            "SLURM_STEP_NUM_TASKS": 1}
SHELLS = {"srun --pty bash": {**ONE_TASK, "SLURM_NTASKS": 1, "SLURM_STEP_ID": 0},
          "salloc": {**ONE_TASK, "SLURM_NTASKS": 4, "SLURM_STEP_ID": 4294967290},
          "mpirun -n 1": {"OMPI_COMM_WORLD_RANK": 0, "OMPI_COMM_WORLD_SIZE": 1},
          "mpiexec -n 1": {"PMI_RANK": 0, "PMI_SIZE": 1}}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_only_process_of_a_launcher_starts_ranks_itself(place, shell, losses_of_our_launcher):
    """As if there were no launcher: with all of them, with --on-end, and as a sweep."""
    env, file = SHELLS[shell], place.write(train__steps=3)
    (place.folder / "told.sh").write_text("#!/bin/sh\ntouch told\n")
    (place.folder / "told.sh").chmod(0o755)
    ended = place.host("run", file, "--nproc", 2, "--on-end", "./told.sh", env=env)
    assert (place.folder / "told").exists() and place.log.newest()["world_size"] == 2, ended
    assert place.log.losses() == losses_of_our_launcher
    sweep = place.write(experiment(train__steps=1, parallel__processes=1, sweep={"seed": [1, 2]}), "sweep.toml")
    place.host("run", sweep, env=env)
    assert len(place.log.runs()) == 3


def test_a_job_that_the_command_contradicts_is_named_with_its_launchers_variable(place):
    sweep = place.write(experiment(sweep={"seed": [1, 2]}), "sweep.toml")
    file = place.write()
    srun = {**ONE_TASK, "SLURM_NTASKS": 8, "SLURM_STEP_NUM_TASKS": 4}
    for env, launcher in [(srun, "srun (SLURM_STEP_NUM_TASKS is 4)"),
                          ({"OMPI_COMM_WORLD_RANK": 0, "OMPI_COMM_WORLD_SIZE": 4, "OMPI_COMM_WORLD_LOCAL_SIZE": 4,
                            "PMIX_NAMESPACE": "x"}, "mpirun (OMPI_COMM_WORLD_SIZE is 4)")]:
        assert f"{launcher} started 4 processes, but --nproc is 2" in place.host("run", file, "--nproc", 2, env=env,
                                                                                wanted=2).err
        for arguments in [["run", file, "--on-end", "/bin/true"], ["run", sweep]]:
            assert f"but {launcher} started this process" in place.host(*arguments, env=env, wanted=2).err
    assert not (place.folder / "runs").exists()


def test_open_mpis_variables_are_understood(place):
    file = place.write(train__steps=2)
    job = {"OMPI_COMM_WORLD_SIZE": 2, "OMPI_COMM_WORLD_LOCAL_SIZE": 2, "PMIX_NAMESPACE": f"test-{place.folder}"}
    started = [place.start_command("run", file, env={**job, "OMPI_COMM_WORLD_RANK": rank,
                                                     "OMPI_COMM_WORLD_LOCAL_RANK": rank}) for rank in range(2)]
    for running in started:
        running.wait()
        assert running.code == 0, running
    assert len(place.log.runs()) == 1


def test_under_torchrun_the_ranks_find_each_other_through_its_agents_store(place):
    """A second server on the agent's port would fail to bind and report it."""
    place.run(train__steps=2)
    wanted, file = place.log.losses(), place.folder / "experiment.toml"
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python",
                           "--nproc-per-node", "2", str(HOST), "run", str(file)], cwd=place.folder,
                          env=clean_environment({"OMP_NUM_THREADS": 1}), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert "TCPStore" not in done.stderr and "bind" not in done.stderr, done.stderr
    assert len(place.log.runs()) == 2 and place.log.losses() == wanted, "as with our launcher"


def torchrun_agent(place, number, port, file):
    """One of two agents, each of which counts its own restarts."""
    return subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--no-python", "--nnodes", "2",
                             "--nproc-per-node", "1", "--max-restarts", "2", "--rdzv-backend", "c10d",
                             "--rdzv-endpoint", f"localhost:{port}", str(HOST), "run", str(file)], cwd=place.folder,
                            env=clean_environment({"OMP_NUM_THREADS": 1}), stdin=subprocess.DEVNULL,
                            stdout=open(place.folder / f"agent-{number}.txt", "w"), stderr=subprocess.STDOUT,
                            start_new_session=True)


def test_a_rank_that_is_killed_under_torchrun_is_started_again_and_the_run_continues(place):
    changes = {**RANDOM, "train__steps": 60, "checkpoint__every_steps": 2, "parallel__timeout_seconds": 20}
    place.run(**changes)
    wanted, file, port = place.log.losses(), place.folder / "experiment.toml", free_port()
    running = place.start(**changes)
    running.wait_for_step(4)
    running.kill()  # an unfinished run of the same experiment, which this job has not begun
    agents = [torchrun_agent(place, number, port, file) for number in range(2)]
    try:
        end = time.monotonic() + LIMIT
        while place.log.last_step(after=2) < 4 and time.monotonic() < end:
            time.sleep(0.02)
        ranks = [pid for agent in agents for pid in children_of(agent.pid) if b"\0RANK=1\0" in file_of(pid, "environ")]
        assert len(ranks) == 1, ranks
        os.kill(ranks[0], signal.SIGKILL)
        codes = [agent.wait(LIMIT) for agent in agents]
    finally:
        for agent in agents:
            if agent.poll() is None:
                os.killpg(agent.pid, signal.SIGKILL)
    output = "\n".join((place.folder / f"agent-{number}.txt").read_text()[-5000:] for number in range(2))
    assert codes == [0, 0], output
    lost, last = place.log.runs()[2:]
    assert lost["parent_run"] is None and last["parent_run"] == lost["id"], "only what this job has begun is continued"
    assert last["status"] == "finished" and min(place.log.losses()) > 1, output
    assert place.log.losses() == {step: wanted[step] for step in place.log.losses()}


def test_a_rank_that_reaches_a_stranger_at_the_rendezvous_says_so_while_it_waits(place):
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        file = place.write(parallel__processes=2, parallel__timeout_seconds=7)
        begun = time.monotonic()
        ended = place.host("run", file, env=words(1, 2, port), wanted=6)
    assert f"rank 1 is waiting for the rendezvous at 127.0.0.1:{port} (it accepts connections but" in ended.err, ended
    assert time.monotonic() - begun < SOON, ended


def test_ranks_with_different_tokens_do_not_meet(place):
    file, port = place.write(parallel__processes=2, parallel__timeout_seconds=2), free_port()
    ranks = [place.start_command("run", file, env={**words(rank, 2, port), "WMTP_TOKEN": f"token {rank}"})
             for rank in range(2)]
    for running in ranks:
        running.wait()
        assert running.code == 6, running
    assert "rank 1 did not connect to the rendezvous" in ranks[0].err, ranks[0]
    assert "another" in ranks[1].err or "cannot connect" in ranks[1].err, ranks[1]


def test_a_rank_that_gives_up_before_rank_0_names_the_rank_that_never_came(place):
    file, port = place.write(parallel__processes=3, parallel__timeout_seconds=4), free_port()
    early = place.start_command("run", file, env=words(1, 3, port))
    time.sleep(3)
    late = place.start_command("run", file, env=words(0, 3, port))
    for running in (early, late):
        running.wait()
        assert running.code == 6 and "rank 2 did not connect to the rendezvous" in running.err, running


def test_ranks_that_were_not_started_alike_refuse_soon(place):
    for number, (env, arguments, shown) in enumerate([
            ({}, ["--resume"], "rank 1: --resume is 'yes' here and 'no' on rank 0"),
            ({"WMTP_CHECK_COLLECTIVES": 1}, [], "rank 1: WMTP_CHECK_COLLECTIVES .* is 'yes' here and 'no' on rank 0")]):
        file, port, begun = place.write(parallel__processes=2), free_port(), time.monotonic()
        words_of = [{"WMTP_CHECK_COLLECTIVES": 0, **words(rank, 2, port)} for rank in range(2)]
        ranks = [place.start_command("run", file, env=words_of[0]),
                 place.start_command("run", file, *arguments, env={**words_of[1], **env})]
        for running in ranks:
            running.wait()
            assert running.code == 2 and re.search(shown, running.err), running
        assert time.monotonic() - begun < SOON
    assert not place.log.runs()


@pytest.mark.parametrize("broken", [0, 1])
def test_a_rank_that_cannot_start_tells_the_others(place, broken):
    good, port, begun = place.write(parallel__processes=3), free_port(), time.monotonic()
    ranks = [place.start_command("run", "absent.toml" if rank == broken else good, env=words(rank, 3, port))
             for rank in range(3)]
    for rank, running in enumerate(ranks):
        running.wait()
        assert running.code == 2, running
        assert "absent.toml" in running.err, running
        assert rank == broken or f"rank {broken}: " in running.err, running
    assert time.monotonic() - begun < SOON


def test_another_world_size_than_the_experiment_says_is_refused(place):
    file = place.write(parallel__processes=2)
    ended = place.host("run", file, env=words(0, 3, free_port()), wanted=2)
    assert "3" in ended.err and "2" in ended.err and "WORLD_SIZE" in ended.err, ended
    assert not (place.folder / "runs").exists()


def test_ranks_that_cannot_be_cut_into_groups_are_refused(place):
    groups = {"parallel__strategy": "hybrid_shard", "parallel__shard_group_size": 2, "parallel__processes": None}
    for running in start_job(place, 3, free_port(), **groups):
        running.wait()
        assert running.code == 2, running
        assert "shard_group_size 2 for 3 processes" in running.err, running
    assert not (place.folder / "runs").exists()


@pytest.mark.parametrize("missing", ["WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
def test_half_an_environment_is_refused(place, missing):
    env = words(0, 2, free_port())
    del env[missing]
    ended = place.host("run", place.write(), env=env, wanted=2)
    assert missing in ended.err, ended


def test_a_port_in_use_is_reported(place):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        first, second = start_job(place, 2, port, train__steps=2, parallel__timeout_seconds=5)
        first.wait()
        assert first.code == 2, first
        assert str(port) in first.err and "in use" in first.err, first
        second.kill()  # as its launcher does when a rank has failed; else the holder of the port might still answer it


def test_a_port_in_use_is_reported_before_our_own_launcher_starts_a_rank(place):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = place.host("run", place.write(), env={"MASTER_PORT": port}, wanted=2)
        assert str(port) in ended.err and "in use" in ended.err, ended
    assert not place.log.runs()


def test_ranks_of_different_experiments_do_not_train(place):
    port = free_port()
    files = [place.write(name=f"{rank}.toml", optimizer__lr=1e-3 * (rank + 1)) for rank in range(2)]
    started = [place.start_command("run", file, env=words(rank, 2, port)) for rank, file in enumerate(files)]
    for running in started:
        running.wait()
        assert running.code == 2, running
    assert place.log.last_step() == 0
