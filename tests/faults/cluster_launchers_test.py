"""The real srun, sbatch, scancel and mpirun, and the pods of the guide's manifest, over the two hosts of
support/hosts.py."""
import re
import shutil
import time

import pytest
import yaml
from hosts import Hosts, ended
from launchers import free_port
from paths import HOST, ROOT
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


def submitted(hosts, slurm, place, file, *arguments):
    """The id of a batch job of one host that runs this experiment."""
    script = place.folder / "job.sh"
    script.write_text(f"#!/bin/sh\nexec srun '{HOST}' run '{file}' {' '.join(arguments)}\n")
    code, text = ended(hosts.start(0, "--parsable", "--nodes", 1, "--ntasks", 2, "--output", "job.txt", script,
                                   program="sbatch", cwd=place.folder, env=slurm.environment))
    assert code == 0, text
    return text.strip()


def wait_until(place, happens):
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end, (place.folder / "job.txt").read_text()
        time.sleep(0.05)


def test_a_batch_job_that_scancel_stops_continues_bitwise_in_another_job(hosts, place, tmp_path_factory):
    changes = {"train__steps": 200, "train__batch_size": 1}
    place.tokens(windows=400)
    place.run(**changes)
    wanted, file = place.log.losses(), place.folder / "experiment.toml"
    with Slurm(hosts, tmp_path_factory.mktemp("slurm")) as slurm:
        job = submitted(hosts, slurm, place, file)
        wait_until(place, lambda: place.log.last_step(after=1) >= 3)
        code, text = ended(hosts.start(0, job, program="scancel", cwd=place.folder, env=slurm.environment))
        assert code == 0, text
        wait_until(place, lambda: place.log.newest()["status"] != "running")
        stopped = place.log.newest()
        assert (stopped["status"], stopped["exit_code"]) == ("interrupted", 75)
        submitted(hosts, slurm, place, file, "--resume")
        wait_until(place, lambda: place.log.newest()["id"] == 3 and place.log.newest()["status"] != "running")
    resumed = place.log.losses()
    assert place.log.newest()["status"] == "finished" and place.log.newest()["parent_run"] == stopped["id"]
    assert min(resumed) > 1 and resumed == {step: loss for step, loss in wanted.items() if step >= min(resumed)}


def test_mpirun_over_two_hosts_trains_bitwise_as_our_launcher(hosts, place, losses_of_our_launcher):
    """Instead of ssh, a script starts Open MPI's daemon on host 1."""
    if not shutil.which("mpirun"):
        pytest.skip("not installed: mpirun (CONTRIBUTING.md)")
    agent = place.folder / "agent.sh"
    command = " ".join(f"'{word}'" for word in hosts.command(1, "sh", "-c", cwd=place.folder))
    agent.write_text(f'#!/bin/sh\nshift\nexec {command} "$*"\n')
    agent.chmod(0o755)
    process = hosts.start(0, "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", agent, "--host",
                          "host-0:2,host-1:2", "-np", 4, "-x", "MASTER_ADDR=host-0", HOST, "run",
                          place.write(**CHANGES), program="mpirun", cwd=place.folder, env={})
    assert_ran(place, process, losses_of_our_launcher)


def test_the_pods_of_the_guides_manifest_train_bitwise_as_our_launcher(hosts, place, losses_of_our_launcher):
    """Without Kubernetes: the name of pod 0 is replaced by that of host 0, and eight GPUs by two ranks on the CPU."""
    manifest = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/clusters.md").read_text(), re.DOTALL)[1]
    service, job = yaml.safe_load_all(manifest)
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (service["kind"], job["kind"], spec["completionMode"]) == ("Service", "Job", "Indexed")
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert spec["completions"] == spec["parallelism"] == len(hosts.names)
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    (shell, option), (script,) = container["command"], container["args"]
    for theirs, ours in ((f"{job['metadata']['name']}-0.{pod['subdomain']}:29500", f"host-0:{free_port()}"),
                         ("wmtp-host", f"'{HOST}'"), ("FILE", f"'{place.write(**CHANGES)}'"),
                         ("--nproc 16", "--nproc 4"), ("device=cuda", "device=cpu")):
        assert theirs in script
        script = script.replace(theirs, ours)
    pods = [hosts.start(index, option, script, program=shell, cwd=place.folder, env={"JOB_COMPLETION_INDEX": index})
            for index in range(spec["completions"])]
    code, text = ended(pods[1])
    assert code == 0, text
    assert_ran(place, pods[0], losses_of_our_launcher)
