"""[sweep]: one file that stands for many runs."""
import json
import os
import re
import signal

from experiment import experiment
from paths import TEST_PLUGINS

SWEEP = {"seed": [1, 2], "optimizer": {"lr": [1e-3, 1e-2]}}


def write(place, steps=3, **changes):
    return place.write({**experiment(train__steps=steps, data={"kind": "random"}, **changes), "sweep": SWEEP})


def names(place):
    return [(row["name"], row["seed"], row["status"]) for row in
            place.log.query("SELECT name, seed, status FROM runs ORDER BY id")]


def test_members_run_one_after_another_and_stand_in_one_table(place):
    ended = place.host("run", write(place), timeout=120)
    slow, fast = "trial-lr-0.001", "trial-lr-0.01"
    assert names(place) == [(slow, 1, "finished"), (fast, 1, "finished"), (slow, 2, "finished"), (fast, 2, "finished")]
    assert re.search(rf"{slow} +1 +1 +finished", ended.out) and re.search(rf"{fast} +2 +±?", ended.out)
    assert "means over seeds" in ended.out
    compared = json.loads(place.host("runs", "compare", slow, fast, "--json").out)
    assert compared["metrics"]["train/loss"]["difference_from_first"][1]["count"] == 2


def test_what_is_finished_does_not_run_again(place):
    file = write(place)
    place.host("run", file, "--set", "optimizer.lr=0.01", "--set", "seed=1", timeout=120)
    assert len(names(place)) == 4, "what a sweep names is the sweep's to say"
    again = place.host("run", file, timeout=120)
    assert len(names(place)) == 4 and again.err.count("of the log is it") == 4
    told = place.host("run", file, "--dry-run", "--set", "train.steps=4")
    assert told.err.count("would run") == 4 and len(names(place)) == 4


def test_what_was_begun_goes_on_with_resume(place):
    file = write(place, steps=100)
    running = place.start_command("run", file)
    running.wait_for_step(4)
    os.kill(running.process.pid, signal.SIGTERM)
    assert running.wait().code == 75
    assert names(place) == [("trial-lr-0.001", 1, "interrupted")], "what comes after is left alone"
    place.host("run", file, "--resume", "--set", "log.every_steps=100", timeout=300)
    parents = place.log.query("SELECT parent_run FROM runs ORDER BY id")
    assert [row["parent_run"] for row in parents] == [None, 1, None, None, None]


def test_a_member_that_cannot_be_is_told_before_any_runs(place):
    for sweep, words in (({"model": {"heads": [4, 5]}}, ["model.heads=5", "found 5 heads"]),
                         ({"optimzer": {"lr": [1]}}, ["optimzer.lr=1", "optimizer"]),
                         ({"seed": 3}, ["wanted a list"])):
        refused = place.host("run", place.write({**experiment(train__steps=1), "sweep": sweep}), wanted=2)
        for word in words:
            assert word in refused.err, refused
    assert not (place.folder / "runs").exists()


def test_a_member_that_fails_does_not_end_the_others(place):
    file = place.write(train__steps=2)
    with open(file, "a") as text:
        text.write('[[sweep.members]]\npipeline = {plugin = "faulty", fault = "exception", step = 1}\n'
                   '[[sweep.members]]\npipeline = {plugin = "baseline"}\n'
                   '[[sweep.members]]\npipeline = {plugin = "faulty", fault = "exception", step = 2}\n')
    ended = place.host("run", file, wanted=3, env={"WMTP_PLUGIN_PATH": TEST_PLUGINS}, timeout=120)
    assert "member 1 of 3" in ended.err and "ended with exit code 3" in ended.err
    assert [status for _, _, status in names(place)] == ["failed", "finished", "failed"]
