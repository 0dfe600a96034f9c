"""The time of a step against the speed of the link between two hosts, for no_shard, full_shard and hybrid_shard by
host, and for two sections of the model, one on each host, under shard_grad_op.

The hosts are network namespaces of this machine (support/hosts.py), by default with two ranks of one thread each, so
they share its cores: a step computes as long at every speed, and the rest is communication. `tc` limits what each host
sends; the table shows the median step of all rounds. Without the right to make namespaces, or without a limiting queue
in this kernel, nothing is measured, and the reason is printed.
"""
import argparse
import dataclasses
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import pytest
from bench import CASES, experiment, free_port, write_inputs
from experiment import write
from host import users_environment
from hosts import Hosts, ended
from paths import HOST
from runlog import RunLog

SECTIONS = "pipeline"
STRATEGIES = ("no_shard", "full_shard", SECTIONS, "hybrid_shard")
HOSTS = 2
NOT_COUNTED = 2  # steps, of each run
NO_LIMIT = 1000  # Gbit/s, for `plan`


def limit(hosts, gigabits):
    """None: no limit. Up to a second's worth of packets wait, so that none is lost."""
    for name in hosts.names:
        queue = ["tc", "-n", name, "qdisc"]
        subprocess.run([*queue, "delete", "dev", "net", "root"], capture_output=True)
        if gigabits is None:
            continue
        rate = ["rate", f"{gigabits * 1000:.0f}mbit"]
        burst = max(64 << 10, int(gigabits * 1e9 / 8 / 1000))  # what arrives in a millisecond
        refusals = []
        for kind in (["tbf", *rate, "burst", str(burst), "latency", "1s"], ["netem", *rate, "limit", "100000"]):
            done = subprocess.run([*queue, "add", "dev", "net", "root", *kind], capture_output=True, text=True)
            if done.returncode == 0:
                break
            refusals.append(done.stderr.strip())
        else:
            pytest.skip(f"this kernel limits no link: {'; '.join(refusals)}")


def run(hosts, number, folder, file):
    """The median step of a run on this number of hosts, and the run's id."""
    port = free_port()
    launchers = [hosts.start(node, "run", file, "-q", "--nodes", number, "--node-rank", node, "--rendezvous",
                             f"{hosts.addresses[0]}:{port}", cwd=folder, env={"OMP_NUM_THREADS": 1})
                 for node in range(number)]
    for code, text in [ended(launcher, limit=600) for launcher in launchers]:
        if code:
            raise SystemExit(f"wmtp-host ended with exit code {code}\n{text}")
    log = RunLog(folder / "runs/wmtp.db")
    steps = list(log.metric("perf/step_seconds").values())
    return statistics.median(steps[NOT_COUNTED:]), log.newest()["id"]


def planned(folder, like, speed):
    """{strategy: seconds} of `plan` from a run on one host, and of one section on each host."""
    done = subprocess.run([HOST, "plan", folder / "full_shard.toml", "--json", "--nodes", str(HOSTS), "--like",
                           str(like), "--network", str(speed or NO_LIMIT)], cwd=folder, env=users_environment(),
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"wmtp-host plan ended with exit code {done.returncode}\n{done.stderr}")
    cluster = json.loads(done.stdout)["cluster"]
    seconds = {one["strategy"]: one["time"]["seconds"] for one in cluster["strategies"]}
    return seconds | {SECTIONS: one["time"]["seconds"] for one in cluster["divided"] if one["pipeline"] == HOSTS}


def case_of(strategy, ranks):
    return dataclasses.replace(CASES["small-fp32"], ranks=ranks, batch=1, strategy=strategy, checkpointing="none",
                               steps=6)


def write_cases(folder, strategies, ranks):
    write_inputs(folder, case_of("no_shard", ranks))
    for strategy in strategies:
        tables = experiment(case_of("shard_grad_op" if strategy == SECTIONS else strategy, ranks))
        if strategy == SECTIONS:  # as many micro-batches as leave the tokens of a step
            tables["parallel"]["pipeline"] = tables["train"]["gradient_accumulation"] = HOSTS
        if strategy == "hybrid_shard":
            tables["parallel"]["shard_group_size"] = "host"
        write(folder, tables, f"{strategy}.toml")


def measure(hosts, folder, strategies, speeds):
    """{(speed, strategy): (measured, planned) seconds}; a speed in Gbit/s, None without a limit."""
    found = {}
    _, like = run(hosts, 1, folder, folder / "full_shard.toml")
    for speed in speeds:
        limit(hosts, speed)
        plan = planned(folder, like, speed)
        for strategy in strategies:
            found[speed, strategy] = run(hosts, HOSTS, folder, folder / f"{strategy}.toml")[0], plan[strategy]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--speeds", type=float, nargs="+", default=[0.1, 1, 10], help="in Gbit/s")
    parser.add_argument("--ranks", type=int, default=4, help="on both hosts")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.ranks < HOSTS or arguments.ranks % HOSTS != 0:
        parser.error("wanted at least 1 round, and as many ranks on one host as on the other")
    strategies = STRATEGIES if arguments.ranks > HOSTS else STRATEGIES[:3]  # groups of one rank shard nothing
    speeds = [*arguments.speeds, None]
    with Hosts(HOSTS) as hosts, tempfile.TemporaryDirectory(prefix="wmtp-bench-") as folder:
        write_cases(Path(folder), strategies, arguments.ranks)
        rounds = [measure(hosts, Path(folder), strategies, speeds) for _ in range(arguments.rounds)]
    print(f"{'link':>12}" + "".join(f"{strategy:>14} {'planned':>8} {'ratio':>6}" for strategy in strategies))
    for speed in speeds:
        line = f"{speed:g} Gbit/s" if speed else "no limit"
        line = f"{line:>12}"
        for strategy in strategies:
            pairs = [found[speed, strategy] for found in rounds]
            seconds, plan = (statistics.median(side) for side in zip(*pairs))
            line += f"{seconds:>14.2f} {plan:>8.2f} {statistics.median(p / m for m, p in pairs):>6.2f}"
        print(line)


if __name__ == "__main__":
    try:
        main()
    except pytest.skip.Exception as reason:
        print(f"not measured: {reason}")
