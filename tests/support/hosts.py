"""Simulated hosts: network namespaces of this machine, each with its own host name, joined by a bridge in a namespace
of its own. Ranks on different hosts share files and processors, but neither network nor process ids."""
import json
import os
import subprocess

import pytest
from host import clean_environment
from paths import HOST

NETWORK = "10.213.7."
FAST_NETWORK = "10.213.8."
ISOLATED = "10.213.9.2"


def _ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)


class Hosts:
    """addresses[h] is the address of host h, at its interface "net"; start() starts a rank there. A second network
    joins the interfaces "fast". Host 1 also has "isolated", whose address no other host can reach, "bare" without an
    address, and "unused", which is down."""

    def __init__(self, number=2):
        self.names = [f"wmtp-{os.getpid()}-{number}-{host}" for host in range(number)]
        self.switch = f"wmtp-{os.getpid()}-{number}-switch"
        self.addresses = [f"{NETWORK}{host + 1}" for host in range(number)]
        self.fast_addresses = [f"{FAST_NETWORK}{host + 1}" for host in range(number)]

    def __enter__(self):
        commands = [("netns", "add", name) for name in (*self.names, self.switch)]
        for network, addresses in (("net", self.addresses), ("fast", self.fast_addresses)):
            commands += [("-n", self.switch, "link", "add", network, "type", "bridge"),
                         ("-n", self.switch, "link", "set", network, "up")]
            for host, (name, address) in enumerate(zip(self.names, addresses)):
                port = f"{network}{host}"
                commands += [("link", "add", network, "netns", name, "type", "veth", "peer", "name", port,
                              "netns", self.switch),
                             ("-n", self.switch, "link", "set", port, "master", network, "up"),
                             ("-n", name, "addr", "add", f"{address}/24", "dev", network),
                             ("-n", name, "link", "set", network, "up")]
        commands += [("-n", name, "link", "set", "lo", "up") for name in self.names]
        commands += [("-n", self.names[1], *words.split()) for words in (
            "link add isolated type veth peer name bare", "link set bare addrgenmode none",
            "link set isolated up", "link set bare up", f"addr add {ISOLATED}/24 dev isolated",
            "link add unused type veth peer name other", "addr add 10.213.10.2/24 dev unused")]
        for command in commands:
            done = _ip(*command)
            if done.returncode:
                self.__exit__()
                may_be_missing = command[0] == "netns" or "bridge" in command
                assert may_be_missing, f"ip {' '.join(command)}: {done.stderr}"
                pytest.skip(f"this user may make no network namespaces, or no bridge: {done.stderr.strip()}")
        return self

    def __exit__(self, *_):
        for name in (*self.names, self.switch):
            _ip("netns", "delete", name)

    def set_link(self, host, state):
        """"down" separates the host from the others, "up" joins it again."""
        done = _ip("-n", self.switch, "link", "set", f"net{host}", state)
        assert done.returncode == 0, done.stderr

    def bytes_received(self, host, interface):
        shown = _ip("-n", self.names[host], "-s", "-j", "link", "show", interface).stdout
        return json.loads(shown)[0]["stats64"]["rx"]["bytes"]

    def command(self, host, *command, cwd, own=()):
        """The command on that host, named host-0, host-1 and so on, without a view of processes outside. `own`: folders
        in `cwd` that a host does not share with host 0; on host 1, NAME is the folder NAME-1. Ends with all that it
        started."""
        names = cwd / "hosts"  # the ranks of Slurm and Open MPI find each other by name
        names.write_text("127.0.0.1 localhost\n" +
                         "".join(f"{address} host-{number}\n" for number, address in enumerate(self.addresses)))
        shell = f'mount --bind {names} /etc/hosts && hostname host-{host} && exec "$0" "$@"'
        for name in own if host else ():
            for folder in (cwd / name, cwd / f"{name}-{host}"):
                folder.mkdir(exist_ok=True)
            shell = f"mount --bind {cwd / name}-{host} {cwd / name} && {shell}"
        inside = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", shell]
        return ["ip", "netns", "exec", self.names[host], *inside, *map(str, command)]

    def start(self, host, *arguments, cwd, env, own=(), program=HOST, out=subprocess.PIPE):
        """Starts a program, wmtp-host by default, on that host."""
        return subprocess.Popen(self.command(host, program, *arguments, cwd=cwd, own=own), cwd=cwd,
                                env=clean_environment(env), stdin=subprocess.DEVNULL, stdout=out,
                                stderr=subprocess.STDOUT, text=True)


def ended(process, limit=60):
    """(exit code, what it printed)"""
    try:
        text, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"still running after {limit} s:\n{process.communicate()[0]}") from None
    return process.returncode, text
