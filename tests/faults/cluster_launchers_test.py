"""The real srun and mpirun, each over the two hosts of support/hosts.py."""
import shutil

import pytest
from hosts import Hosts, ended
from paths import HOST
from places import Place
from slurm import Slurm

CHANGES = {"train__steps": 3, "train__batch_size": 1, "parallel__processes": 4}


@pytest.fixture(scope="module")
def hosts():
    with Hosts() as hosts:
        yield hosts


@pytest.fixture(scope="module")
def losses_of_our_launcher(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("ours"))
    place.tokens()
    place.run(**CHANGES)
    return place.log.losses()


def assert_ran(place, process, wanted):
    code, text = ended(process)
    assert code == 0, text
    rows = place.log.runs()
    assert len(rows) == 1 and rows[0]["world_size"] == 4, rows
    assert place.log.losses() == wanted and len(wanted) == 3


def test_srun_over_two_hosts_trains_bitwise_as_our_launcher(hosts, place, tmp_path_factory, losses_of_our_launcher):
    with Slurm(hosts, tmp_path_factory.mktemp("slurm")) as slurm:
        process = hosts.start(0, "--nodes", 2, "--ntasks-per-node", 2, HOST, "run", place.write(**CHANGES),
                              program="srun", cwd=place.folder, env=slurm.environment)
        assert_ran(place, process, losses_of_our_launcher)


def test_mpirun_over_two_hosts_trains_bitwise_as_our_launcher(hosts, place, losses_of_our_launcher):
    """Instead of ssh, a script starts Open MPI's daemon on host 1."""
    if not shutil.which("mpirun"):
        pytest.skip("not installed: mpirun (CONTRIBUTING.md)")
    agent = place.folder / "agent.sh"
    command = " ".join(f"'{word}'" for word in hosts.command(1, "sh", "-c", cwd=place.folder))
    agent.write_text(f'#!/bin/sh\nshift\nexec {command} "$*"\n')
    agent.chmod(0o755)
    process = hosts.start(0, "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", agent, "--host",
                          "host-0:2,host-1:2", "-np", 4, "-x", "MASTER_ADDR=host-0", HOST, "run", place.write(**CHANGES),
                          program="mpirun", cwd=place.folder, env={})
    assert_ran(place, process, losses_of_our_launcher)
