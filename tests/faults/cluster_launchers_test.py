"""The real srun, sbatch, scancel and mpirun, and the pods of the guide's manifest, over the two hosts of
support/hosts.py."""
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import yaml
from host import clean_environment
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
        assert time.monotonic() < end, [file.read_text() for file in place.folder.glob("job.txt")]
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


# Starts a process for each of two tasks, with the variables of srun, and ends with the greatest exit code.
SRUN = """#!/bin/bash
while [ "$1" != wmtp-host ]; do shift; done
shift
for rank in 0 1; do
  SLURM_PROCID=$rank SLURM_LOCALID=$rank SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=localhost \\
    '{host}' "$@" &
  echo $! > "rank-$rank"
done
worst=0
for job in $(jobs -p); do wait $job; code=$?; [ $code -gt $worst ] && worst=$code; done
exit $worst
"""


class BatchJob:
    """The guide's script with stand-ins for srun and scontrol, on the CPU."""

    ran = 0  # the newest run of the job's earlier attempts

    def __init__(self, place, file):
        self.place, self.restarts = place, 0
        guide = (ROOT / "docs/clusters.md").read_text()
        (script,) = re.findall(r"```bash\n(#!/bin/bash\n#SBATCH.*?)```", guide, re.DOTALL)
        assert "FILE" in script and "device=cuda" in script and "#SBATCH --requeue" in script
        programs = {"srun": SRUN.format(host=HOST), "scontrol": '#!/bin/sh\necho "$@" >> requeued\n',
                    "run.sh": script.replace("FILE", str(file)).replace("device=cuda", "device=cpu")}
        for name, text in programs.items():
            (place.folder / name).write_text(text)
            (place.folder / name).chmod(0o755)
        self.job = free_port()

    def start(self):
        for rank in range(2):
            (self.place.folder / f"rank-{rank}").unlink(missing_ok=True)
        return subprocess.Popen(["bash", "run.sh"], cwd=self.place.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=clean_environment({
                                    "PATH": f"{self.place.folder}:{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": 1,
                                    "SLURM_JOB_ID": self.job, "SLURM_RESTART_COUNT": self.restarts}))

    def ended(self, process, after_step=None, signals=()):
        """(exit code, output, whether Slurm was asked to requeue the job)."""
        if after_step:
            wait_until(self.place, lambda: self.place.log.last_step(after=self.ran) >= after_step)
        for rank, number in signals:
            os.kill(int((self.place.folder / f"rank-{rank}").read_text()), number)
        text, _ = process.communicate(timeout=60)
        asked = self.place.folder / "requeued"
        requeued = asked.exists() and asked.read_text() == f"requeue {self.job}\n"
        asked.unlink(missing_ok=True)
        self.restarts += requeued
        self.ran = self.place.log.newest_id()
        return process.returncode, text, requeued


def test_the_guides_batch_script_is_requeued_until_the_run_has_finished(place):
    changes = {"train__steps": 200, "train__batch_size": 1, "checkpoint__every_steps": 5}
    place.tokens(windows=400)
    job = BatchJob(place, place.write(**changes))
    code, text, requeued = job.ended(job.start(), after_step=7, signals=[(0, signal.SIGTERM), (1, signal.SIGTERM)])
    assert (code, requeued) == (75, True) and "so it starts at step 0" in text, text
    code, text, requeued = job.ended(job.start(), after_step=30, signals=[(1, signal.SIGKILL)])
    assert code in (6, 137) and requeued and "continues run 1 at step" in text, text
    code, text, requeued = job.ended(job.start())
    assert (code, requeued) == (0, False) and "continues run 2 at step" in text, text
    assert [run["parent_run"] for run in place.log.runs()] == [None, 1, 2]
    code, text, requeued = job.ended(job.start())
    assert (code, requeued) == (0, False) and "run 3 of this configuration" in text and len(place.log.runs()) == 3, text
    curve = place.log.query("SELECT step, value FROM v_curves WHERE run_id = 3 AND name = 'train/loss'")
    place.run(**changes)
    assert {row["step"]: row["value"] for row in curve} == place.log.losses()


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

    def started():
        return [hosts.start(index, option, script, program=shell, cwd=place.folder, env={"JOB_COMPLETION_INDEX": index})
                for index in range(spec["completions"])]

    pods = started()
    code, text = ended(pods[1])
    assert code == 0, text
    assert_ran(place, pods[0], losses_of_our_launcher)
    codes, texts = zip(*map(ended, started()))  # as after the loss of a node
    assert codes == (0, 0) and "run 1 of this configuration" in texts[0] and len(place.log.runs()) == 1, texts
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob" and not {6, 8, 75} & set(rule["onExitCodes"]["values"])
