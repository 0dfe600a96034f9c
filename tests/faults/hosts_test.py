"""Several hosts: ranks that share a network but not a machine."""
import json
import os
import re
import signal
import time

import pytest
from checkpoint import model_tensors
from compare import assert_tensors_equal
from experiment import experiment
from host import children_of
from hosts import ISOLATED, Hosts, ended
from launchers import free_port
from paths import BUILD, TEST_PLUGINS
from runlog import step_folders


@pytest.fixture(scope="module")
def hosts():
    with Hosts() as hosts:
        yield hosts


@pytest.fixture(scope="module")
def three_hosts():
    with Hosts(3) as hosts:
        yield hosts


def pytorchjob(hosts, rank, world, port):
    """As set by Kubernetes' PyTorchJob, which gives no local ranks."""
    return {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": hosts.addresses[0], "MASTER_PORT": port}


def start_job(hosts, place, world, *arguments, env_of=lambda rank: {}, own=(), **changes):
    file, port = place.write(**{"parallel__processes": world, **changes}), free_port()
    return [hosts.start(rank * len(hosts.names) // world, "run", file, *arguments, cwd=place.folder, own=own,
                        env={**pytorchjob(hosts, rank, world, port), **env_of(rank)}) for rank in range(world)]


def start_on_nodes(hosts, place, *arguments, own=(), env=None, **changes):
    """Our launcher on each host, with two ranks each."""
    nodes = len(hosts.names)
    file, port = place.write(**{"parallel__processes": 2 * nodes, **changes}), free_port()
    return [hosts.start(node, "run", file, "--nodes", nodes, "--node-rank", node, "--rendezvous",
                        f"{hosts.addresses[0]}:{port}", *arguments, cwd=place.folder, env=env or {}, own=own)
            for node in range(nodes)]


def wait_until(launchers, happens):
    end = time.monotonic() + 60
    while not happens() and time.monotonic() < end:
        assert launchers[1].poll() is None, ended(launchers[1])
        time.sleep(0.02)


def stop_at_step(place, launchers, step, runs_before):
    """Stops all ranks through the launcher of host 1."""
    wait_until(launchers, lambda: place.log.last_step(after=runs_before) >= step)
    (launcher,) = children_of(launchers[1].pid)
    os.kill(launcher, signal.SIGTERM)
    for code, text in map(ended, launchers):
        assert code == 75, text


def test_two_ranks_on_each_of_two_hosts_train_bitwise_as_on_one_host(hosts, place):
    changes = {"train__steps": 3, "train__batch_size": 1}
    place.run(parallel__processes=4, **changes)
    wanted = place.log.losses()
    for code, text in map(ended, start_job(hosts, place, 4, **changes)):
        assert code == 0, text
    assert place.log.losses() == wanted and len(wanted) == 3 and len(place.log.runs()) == 2


def test_one_rank_on_each_of_three_hosts_trains_bitwise_as_on_one_host(three_hosts, place):
    place.run(parallel__processes=3, train__steps=3)
    wanted = place.log.losses()
    for code, text in map(ended, start_job(three_hosts, place, 3, train__steps=3)):
        assert code == 0, text
    assert place.log.losses() == wanted and len(wanted) == 3 and len(place.log.runs()) == 2


HYBRID_BY_HOST = {"parallel__strategy": "hybrid_shard", "parallel__shard_group_size": "host"}


def test_shard_groups_of_hosts_train_bitwise_as_groups_of_two_on_one_host(hosts, place):
    changes = {"train__steps": 3, "train__batch_size": 1, **HYBRID_BY_HOST}
    place.run(parallel__processes=4, **{**changes, "parallel__shard_group_size": 2})
    wanted = place.log.losses()
    for code, text in map(ended, start_job(hosts, place, 4, **changes)):
        assert code == 0, text
    assert place.log.losses() == wanted and len(wanted) == 3 and len(place.log.runs()) == 2


def test_our_launcher_on_each_of_three_hosts_trains_shard_groups_of_hosts_bitwise_as_on_one_host(three_hosts, place):
    changes = {"parallel__processes": 6, "train__steps": 3, "train__batch_size": 1, **HYBRID_BY_HOST}
    place.run(**{**changes, "parallel__shard_group_size": 2})
    wanted = place.log.losses()
    for code, text in map(ended, start_on_nodes(three_hosts, place, **changes)):
        assert code == 0, text
    assert place.log.losses() == wanted and len(wanted) == 3 and len(place.log.runs()) == 2


@pytest.mark.parametrize("strategy", [{"parallel__strategy": "full_shard"}, HYBRID_BY_HOST])
def test_as_many_bytes_as_planned_enter_each_host(hosts, place, strategy):
    def entered(steps):
        before = hosts.bytes_received(1, "net")
        for code, text in map(ended, start_job(hosts, place, 4, train__steps=steps, train__batch_size=1, **strategy)):
            assert code == 0, text
        return hosts.bytes_received(1, "net") - before

    found = (entered(9) - entered(3)) / 6
    plan = place.host("plan", "experiment.toml", "--nodes", 2, "--like", "trial", "--network", 1, "--json").out
    wanted = next(2 * one["network_bytes"] for one in json.loads(plan)["cluster"]["strategies"]
                  if one["strategy"] == strategy["parallel__strategy"])
    assert wanted < found < 1.05 * wanted, "the rest is headers and the sums of the step"


def test_shard_groups_of_hosts_with_different_numbers_of_ranks_are_refused_by_name(hosts, place):
    for code, text in map(ended, start_job(hosts, place, 3, **HYBRID_BY_HOST)):
        assert code == 2 and "found 2 ranks on host-0, then 1 rank on host-1" in text, text
        assert 'shard_group_size = "host"' in text, text


def test_our_launcher_on_each_host_trains_stops_and_resumes_bitwise_as_on_one_host(hosts, place):
    """SIGTERM to one host's launcher stops the ranks of both; --resume continues on one host. A stage runs first."""
    place.tokens(windows=100)
    own = {"train__batch_size": 1, "parallel__processes": 4}
    place.write({**experiment(train__steps=2, **own), "name": "reference"}, "reference.toml")
    changes = own | {"train__steps": 25, "pipeline": {"plugin": "rho1"}, "reference__experiment": "reference.toml"}
    stop_at_step(place, start_on_nodes(hosts, place, **changes), 3, runs_before=1)
    place.run("--resume", **changes)
    resumed = place.log.losses()
    place.run(**changes)
    whole = place.log.losses()
    assert [run["name"] for run in place.log.runs()] == ["reference", "trial", "trial", "trial"]
    assert min(resumed) > 1 and resumed == {step: loss for step, loss in whole.items() if step >= min(resumed)}


def test_hosts_without_a_shared_file_system_keep_their_shards_and_resume_together(hosts, place):
    """Each prepares the data, and gets the model of the stage that runs first."""
    (place.folder / "text.txt").write_text("".join(f"{number} and {number + 1}; " for number in range(2000)))
    own = {"train__batch_size": 1, "parallel__processes": 4, "model__vocab_size": None,
           "data": {"kind": "text", "files": ["text.txt"]}}
    place.write({**experiment(train__steps=2, **own), "name": "reference"}, "reference.toml")
    changes = own | {"train__steps": 40, "pipeline": {"plugin": "rho1"}, "reference__experiment": "reference.toml"}
    stop_at_step(place, start_on_nodes(hosts, place, own=["runs"], **changes), 3, runs_before=1)
    files = {name: {file.name for file in (place.folder / name).glob("2-trial/step-*/*")}
             for name in ("runs", "runs-1")}
    assert files == {"runs": {"manifest.json", "params.json", "rank-0000.safetensors", "rank-0001.safetensors"},
                     "runs-1": {"rank-0002.safetensors", "rank-0003.safetensors"}}
    assert list((place.folder / "runs-1/cache").glob("*/train.bin"))

    alone = place.run("--resume", wanted=4, **changes)
    assert re.search("rank-0002.safetensors: no host of this job has it; host host-1 wrote it", alone.err), alone
    for code, text in map(ended, start_on_nodes(hosts, place, "--resume", own=["runs"], **changes)):
        assert code == 0, text
    resumed = place.log.losses()
    place.run(**changes)
    whole = place.log.losses()
    assert min(resumed) > 1 and resumed == {step: loss for step, loss in whole.items() if step >= min(resumed)}


def test_a_link_that_fails_during_training_ends_both_hosts_and_the_run_resumes_bitwise(hosts, place):
    """Neither host is told; packets are lost, until collectives have waited for parallel.timeout_seconds."""
    timeout, to_report = 6, 15
    changes = {"train__steps": 60, "train__batch_size": 1, "checkpoint__every_steps": 5, "parallel__processes": 4,
               "parallel__timeout_seconds": timeout}
    place.tokens(windows=4 * 60)
    place.run(**changes)
    wanted, wanted_model = place.log.losses(), model_tensors(place.log.folder())
    launchers = start_on_nodes(hosts, place, **changes)
    wait_until(launchers, lambda: place.log.rows_after(1) and step_folders(place.log.folder()))
    hosts.set_link(1, "down")
    begun = time.monotonic()
    try:
        codes, texts = zip(*map(ended, launchers))
    finally:
        hosts.set_link(1, "up")
    assert time.monotonic() - begun < timeout + to_report, texts
    assert codes == (6, 6), texts
    assert "ranks 2, 3 on host-1 did not answer" in texts[0], texts
    assert "rank 0 on host-0, which serves the rendezvous, is gone" in texts[1], texts
    lost = place.log.newest()
    assert (lost["status"], lost["exit_code"]) == ("failed", 6)

    for code, text in map(ended, start_on_nodes(hosts, place, "--resume", **changes)):
        assert code == 0, text
    resumed = place.log.losses()
    assert place.log.newest()["parent_run"] == lost["id"] and min(resumed) % 5 == 1 and min(resumed) > 5
    assert place.log.losses(lost["id"]) | resumed == wanted
    assert_tensors_equal(model_tensors(place.log.folder()), wanted_model)


def test_a_rank_that_a_library_ends_with_exit_code_0_is_noticed_by_its_hosts_launcher(hosts, place):
    fault = {"plugin": "faulty", "fault": "exit", "step": 2, "rank": 3}
    codes, texts = zip(*map(ended, start_on_nodes(hosts, place, env={"WMTP_PLUGIN_PATH": TEST_PLUGINS},
                                                  train__steps=5, train__batch_size=1, pipeline=fault)))
    assert codes == (6, 6), texts
    assert "rank 3 ended with exit code 0 before it had finished" in texts[1], texts[1]


def test_a_port_of_the_environment_that_contradicts_the_rendezvous_is_refused(hosts, place):
    for code, text in map(ended, start_on_nodes(hosts, place, env={"MASTER_PORT": 1234})):
        assert code == 2 and "MASTER_PORT is 1234, but --rendezvous names port" in text, text


def test_ranks_that_nodes_cannot_share_equally_are_refused_on_each(hosts, place):
    for code, text in map(ended, start_on_nodes(hosts, place, "--nproc", 3)):
        assert code == 2 and "3 processes (parallel.processes) cannot be divided equally among 2 nodes" in text, text


def test_a_host_that_lacks_the_data_and_has_another_plugin_is_named_with_both(hosts, place):
    focal = (BUILD / "lib/wmtp/plugins/pipelines/focal.so").read_bytes()
    for folder, content in (("plugins", focal), ("plugins-1", focal + b"another build")):
        (place.folder / folder / "pipelines").mkdir(parents=True)
        (place.folder / folder / "pipelines/focal.so").write_bytes(content)
    (place.folder / "data").mkdir()
    (place.folder / "tokens.bin").rename(place.folder / "data/tokens.bin")
    ranks = start_job(hosts, place, 2, "--plugin-dir", "plugins", own=("data", "plugins"), data__file="data/tokens.bin",
                      pipeline={"plugin": "focal"})
    for code, text in map(ended, ranks):
        assert code == 4 and re.search("rank 1 on host-1: data: .*data/tokens.bin", text), text
        assert "rank 1 on host-1: pipeline: found " in text, text


def test_rank_0_whose_own_name_is_its_loopback_uses_the_network_instead(hosts, place):
    """As with Debian's /etc/hosts, or with MASTER_ADDR=localhost, which some operators set for rank 0."""
    for code, text in map(ended, start_job(hosts, place, 2, train__steps=2,
                                           env_of=lambda rank: {} if rank else {"MASTER_ADDR": "localhost"})):
        assert code == 0, text


def test_the_ranks_use_the_interface_that_they_are_told(hosts, place):
    before = hosts.bytes_received(0, "fast")
    env = {"WMTP_INTERFACE": "fast", "GLOO_SOCKET_IFNAME": "absent"}
    for code, text in map(ended, start_job(hosts, place, 2, train__steps=2, env_of=lambda rank: env)):
        assert code == 0, text
    assert hosts.bytes_received(0, "fast") - before > 100_000


@pytest.mark.parametrize("variable, interface, shown", [
    ("WMTP_INTERFACE", "absent", "found no interface 'absent'"),
    ("WMTP_INTERFACE", "unused", "found unused (10.213.10.2), which is down"),
    ("WMTP_INTERFACE", "bare", "found bare, which has no address"),
    ("WMTP_INTERFACE", "isolated", f"cannot communicate from {ISOLATED} (interface isolated)"),
    ("GLOO_SOCKET_IFNAME", "lo", "cannot communicate from 127.0.0.1 (interface lo)")])
def test_an_interface_that_the_other_host_cannot_reach_is_refused_within_seconds(hosts, place, variable, interface,
                                                                                shown):
    begun = time.monotonic()
    codes, texts = zip(*map(ended, start_job(hosts, place, 2, train__steps=2, env_of=lambda rank:
                                             {variable: interface} if rank else {})))
    assert codes == (2, 2) and "rank 1" in texts[0], texts
    for text in texts:
        assert shown in text and variable in text and hosts.addresses[0] in text, text
        assert shown.startswith("cannot") or hosts.addresses[1] in text, text
    assert time.monotonic() - begun < 20


def test_a_rank_that_never_comes_is_named_within_the_timeout(hosts, place):
    file, port = place.write(parallel__processes=2, parallel__timeout_seconds=2), free_port()
    begun = time.monotonic()
    code, text = ended(hosts.start(0, "run", file, cwd=place.folder, env=pytorchjob(hosts, 0, 2, port)))
    assert code == 6 and "rank 1 did not connect to the rendezvous" in text, text
    assert time.monotonic() - begun < 10, text


def test_an_address_that_nobody_answers_is_named_within_the_timeout(hosts, place):
    nobody = hosts.addresses[0].rsplit(".", 1)[0] + ".99"
    file, port = place.write(parallel__processes=2, parallel__timeout_seconds=2), free_port()
    begun = time.monotonic()
    code, text = ended(hosts.start(1, "run", file, cwd=place.folder,
                                   env={**pytorchjob(hosts, 1, 2, port), "MASTER_ADDR": nobody}))
    assert code == 6 and f"{nobody}:{port}" in text and "rank 1" in text, text
    assert time.monotonic() - begun < 12, text
