"""A Slurm cluster of the two hosts of hosts.py: munge, slurmctld on host 0, and slurmd on each, with files and ports of
its own."""
import os
import pwd
import shutil
import subprocess
import time

import pytest
from launchers import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel")
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


class Slurm:
    """`environment` is for srun and the like, which run on a host of `hosts`."""

    def __init__(self, hosts, folder):
        missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)} (CONTRIBUTING.md)")
        self.hosts, self.folder, self.running = hosts, folder, []
        self.environment = {"SLURM_CONF": folder / "slurm.conf", "PATH": PATH}

    def __enter__(self):
        try:
            self._start_munge()
            self._write_configuration()
            self._start(0, "slurmctld", "-D")
            for host in (0, 1):
                self._start(host, "slurmd", "-D", "-N", f"host-{host}")
            self._wait_until("both nodes are idle", lambda: self._idle_nodes() == 2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.kill()
            process.wait()

    def _start_munge(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.socket = self.folder / "munge.socket"
        files = {name: self.folder / f"munge.{name}" for name in ("pid", "log", "seed")}
        self._start(0, "munged", "--foreground", "--force", "--key-file", key, "--socket", self.socket,
                    *(word for name, file in files.items() for word in (f"--{name}-file", file)))
        self._wait_until("munged listens", self.socket.exists)

    def _write_configuration(self):
        user = pwd.getpwuid(os.getuid()).pw_name
        nodes = "".join(f"NodeName=host-{host} NodeAddr={address} Port={free_port()} CPUs=4\n"
                        for host, address in enumerate(self.hosts.addresses))
        (self.folder / "state").mkdir()
        # slurmd needs a plugin for control groups even if nothing uses it; this one needs no mounted groups.
        (self.folder / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={self.folder}\n")
        (self.folder / "slurm.conf").write_text(f"""\
ClusterName=wmtp
SlurmctldHost=host-0({self.hosts.addresses[0]})
SlurmctldPort={free_port()}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={self.socket}
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool-%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/linear
SlurmdParameters=config_overrides
{nodes}PartitionName=all Nodes=ALL Default=YES State=UP
""")

    def _start(self, host, program, *arguments):
        log = open(self.folder / f"{program}-{host}.txt", "w")
        self.running.append(self.hosts.start(host, *arguments, program=program, cwd=self.folder, env=self.environment,
                                             out=log))

    def _wait_until(self, what, holds):
        end = time.monotonic() + 30
        while not holds():
            logs = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in self.folder.glob("*-[01].txt"))
            assert time.monotonic() < end and all(one.poll() is None for one in self.running), f"not {what}\n{logs}"
            time.sleep(0.1)

    def _idle_nodes(self):
        command = self.hosts.command(0, "sinfo", "--noheader", "--states=idle", "--format=%D", cwd=self.folder)
        shown = subprocess.run(command, env={**os.environ, **{k: str(v) for k, v in self.environment.items()}},
                               capture_output=True, text=True).stdout
        return sum(map(int, shown.split()))
