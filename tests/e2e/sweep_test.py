"""[sweep]: one file that describes several runs."""
import json
import os
import re
import shutil
import signal
import time

import pytest
from experiment import ONE_RANK, experiment
from host import IN_A_SAVE
from paths import BUILD, TEST_PLUGINS

SWEEP = {"seed": [1, 2], "optimizer": {"lr": [1e-3, 1e-2]}}


def write(place, steps=3, ranks=1, sweep=SWEEP):
    tables = experiment(train__steps=steps, data={"kind": "random"}, parallel__processes=ranks)
    return place.write({**tables, "sweep": sweep})


def runs_with_steps(place):
    return place.log.query("SELECT DISTINCT run_id FROM metrics")


def losses_by_member(log):
    return {(run["name"], run["seed"]): log.losses(run["id"]) for run in log.runs()}


def names(place):
    return [(row["name"], row["seed"], row["status"]) for row in
            place.log.query("SELECT name, seed, status FROM runs ORDER BY id")]


def test_a_sweep_or_its_file_is_exported_and_reported_as_a_whole(place):
    file = write(place, steps=2)
    place.host("run", file, timeout=120)

    def exported(*words):
        lines = place.host("export", *words, "--to", "csv").out.splitlines()
        return {int(line.split(",")[0]) for line in lines[1:]}

    assert exported(file) == exported("trial") == {1, 2, 3, 4}, "every value and seed"
    assert exported("trial-lr-0.01") == {4}, "a name selects its newest run"
    assert exported("trial-lr-0.01", file) == {1, 2, 3, 4}
    place.host("report", file, "-o", place.folder / "sweep.html")
    text = (place.folder / "sweep.html").read_text()
    assert "trial-lr-0.001" in text and "trial-lr-0.01" in text
    other = place.write({**experiment(), "name": "other", "sweep": {"seed": [1, 2]}}, "other.toml")
    place.refuse_command(2, "none of its members is in the log", command=["export", other, "--to", "csv"])


def test_members_run_in_turn_and_are_shown_in_one_table(place):
    ended = place.host("run", write(place), timeout=120)
    slow, fast = "trial-lr-0.001", "trial-lr-0.01"
    assert names(place) == [(slow, 1, "finished"), (fast, 1, "finished"), (slow, 2, "finished"), (fast, 2, "finished")]
    assert re.search(rf"{slow} +1 +1 +finished", ended.out) and re.search(rf"{fast} +2 +±?", ended.out)
    assert "means over seeds" in ended.out
    compared = json.loads(place.host("runs", "compare", slow, fast, "--json").out)
    assert compared["metrics"]["train/loss"]["difference_from_first"][1]["count"] == 2


def test_lists_given_by_set_make_members_too(place):
    shown = place.host("run", write(place), "--dry-run", "--set", "sweep.seed=[7]")
    assert shown.err.count("would run") == 2 and "seed=7" in shown.err and "seed=1" not in shown.err
    plain = place.write(experiment(**ONE_RANK, train__steps=3, data={"kind": "random"}))
    place.host("run", plain, "--set", "sweep.seed=[1, 2]", timeout=120)
    assert names(place) == [("trial", 1, "finished"), ("trial", 2, "finished")]
    assert "sweep       3 members" in place.host("plan", plain, "--set", "sweep.seed=[1, 2, 3]").out
    refused = place.host("run", plain, "--set", "sweep.seed=3", wanted=2)
    assert "wanted a non-empty list of values" in refused.err, refused


def test_a_file_that_is_edited_while_members_run_changes_none_of_them(place):
    running = place.start_command("run", write(place, steps=20, sweep={"seed": [1, 2]}))
    running.wait_for_step(1)
    (place.folder / "experiment.toml").write_text("half a sentence [")
    running.wait()
    assert running.code == 0, running
    assert len(names(place)) == 2 and {status for _, _, status in names(place)} == {"finished"}


def test_finished_members_do_not_run_again(place):
    file = write(place)
    place.host("run", file, timeout=120)
    assert len(names(place)) == 4
    again = place.host("run", file, timeout=120)
    assert len(names(place)) == 4 and again.err.count("is reused") == 4
    shown = place.host("run", file, "--dry-run", "--set", "train.steps=4")
    assert shown.err.count("would run") == 4 and len(names(place)) == 4


def test_what_members_set_is_replaced_by_no_option(place):
    file = write(place, sweep={**SWEEP, "name": ["a", "b"], "parallel": {"processes": [1, 2]}})
    for option, word in (("--set=optimizer.lr=0.01", "varies this key"), ("--name=c", "its [sweep] varies name"),
                         ("--nproc=1", "its [sweep] varies parallel.processes")):
        assert word in place.host("run", file, option, wanted=2).err
    assert not (place.folder / "runs").exists()
    assert "sweep       16 members" in place.host("plan", file, "--set", "optimizer.lr=0.01").out, "one of them"


def test_members_that_are_one_experiment_count_once(place):
    file = write(place, steps=2, sweep={"seed": [1, 2], "log": {"every_steps": [1, 2]}, "name": ["trial"]})
    shown = place.host("run", file, "--dry-run").err
    assert shown.count("would run") == 2
    assert re.search(r"member 2 of 4 \(.*every_steps=2.*\): is the experiment of member 1", shown)
    ended = place.host("run", file, "--jobs", "2", "--resume", timeout=120)
    assert len(names(place)) == 2 and "still running" not in ended.err
    assert re.search(r"members 1 \(.*\) and 2 \(.*\) are one experiment.* it counts once", ended.out), ended.out
    ended = place.host("run", file, file, "--set", "sweep.seed=[1]", timeout=120)
    assert "members 1 (" in ended.out and "are one experiment" in ended.out and "means over seeds" not in ended.out


def test_members_whose_steps_read_more_on_more_ranks_are_not_taken_for_one(place):
    ranks = {"parallel": {"processes": [1, 2]}}
    refused = place.host("run", write(place, sweep=ranks), wanted=2).err
    assert re.search(r"members 1 \(.*processes=1\) and 2 \(.*processes=2\) differ only in the number of ranks.*"
                     r"steps read 2 and 4 sequences; set train.global_batch_size", refused), refused
    shown = place.host("run", write(place, sweep=ranks), "--dry-run", "--set", "train.global_batch_size=8").err
    assert "is the experiment of member 1" in shown


def test_a_run_on_other_ranks_is_not_reused_for_a_member_whose_steps_read_more(place):
    seeds = write(place, sweep={"seed": [1]})
    for _ in range(2):
        place.host("run", seeds, timeout=120)
    place.host("run", seeds, "--nproc", 2, timeout=120)
    assert [row["world_size"] for row in place.log.query("SELECT world_size FROM runs ORDER BY id")] == [1, 2]
    shown = place.host("run", seeds, "--dry-run", "--set", "train.global_batch_size=8", "--nproc", 2).err
    assert "would run" in shown, "8 sequences on 2 ranks are other keys"
    place.host("run", seeds, "--set", "train.global_batch_size=8", timeout=120)
    shown = place.host("run", seeds, "--dry-run", "--set", "train.global_batch_size=8", "--nproc", 2).err
    assert "run 3 is reused" in shown


def test_runs_of_a_plugin_that_was_built_again_are_used_with_a_warning(place):
    folder = place.folder / "own/pipelines"
    folder.mkdir(parents=True)
    shutil.copy(BUILD / "lib/wmtp/plugins/pipelines/focal.so", folder)
    file = place.write({**experiment(train__steps=40, data={"kind": "random"}, **ONE_RANK),
                        "pipeline": {"plugin": "focal"}, "checkpoint": {"every_steps": 10}, "sweep": {"seed": [1]}})
    plugins = ("--plugin-dir", folder.parent)
    assert "another file" not in place.host("run", file, *plugins, timeout=120).err
    assert "another file" not in place.host("run", file, *plugins, timeout=120).err
    with open(folder / "focal.so", "ab") as library:
        library.write(b"0")
    again = place.host("run", file, *plugins, timeout=120).err
    assert re.search(r"warning: run 1 is of another file of pipeline focal \S+ than the one here", again), again
    longer = place.host("run", place.write({**experiment(train__steps=50, data={"kind": "random"}, **ONE_RANK),
                                            "pipeline": {"plugin": "focal"}, "checkpoint": {"every_steps": 10},
                                            "seed": 1}), "--resume", *plugins, timeout=120).err
    assert re.search(r"step-000040: it was saved with another file of pipeline focal", longer), longer


def test_unfinished_members_continue_with_resume(place):
    file = write(place, steps=12)
    place.start_command("run", file, "--set", "checkpoint.every_steps=3", env=IN_A_SAVE).stop_in_a_save()
    assert names(place) == [("trial-lr-0.001", 1, "interrupted")], "what comes after is left alone"
    place.host("run", file, "--resume", "--set", "log.every_steps=100", timeout=300)
    parents = place.log.query("SELECT parent_run FROM runs ORDER BY id")
    assert [row["parent_run"] for row in parents] == [None, 1, None, None, None]
    refused = place.host("run", file, "--resume=must", "--set", "log.every_steps=100", wanted=4)
    assert "contains no unfinished run of any member" in refused.err
    again = place.host("run", file, "--resume", "--set", "log.every_steps=100")
    assert again.err.count("is reused") == 4 and len(names(place)) == 5


def test_an_invalid_member_is_refused_before_any_runs(place):
    for sweep, words in (({"model": {"heads": [4, 5]}}, ["model.heads=5", "found 5 heads"]),
                         ({"optimzer": {"lr": [1]}}, ["optimzer.lr=1", "optimizer"]),
                         ({"seed": 3}, ["wanted a non-empty list"])):
        refused = place.host("run", place.write({**experiment(train__steps=1), "sweep": sweep}), wanted=2)
        for word in words:
            assert word in refused.err, refused
    assert not (place.folder / "runs").exists()


def test_a_member_that_fails_does_not_end_the_others(place):
    file = place.write(**ONE_RANK, train__steps=2)
    with open(file, "a") as text:
        text.write('[[sweep.members]]\npipeline = {plugin = "faulty", fault = "exception", step = 1}\n'
                   '[[sweep.members]]\npipeline = {plugin = "baseline"}\n'
                   '[[sweep.members]]\npipeline = {plugin = "faulty", fault = "exception", step = 2}\n')
    ended = place.host("run", file, wanted=3, env={"WMTP_PLUGIN_PATH": TEST_PLUGINS}, timeout=120)
    assert "member 1 of 3" in ended.err and "ended with exit code 3" in ended.err
    assert [status for _, _, status in names(place)] == ["failed", "finished", "failed"]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: nothing can run beside anything")
class TestMembersBesideEachOther:
    def test_their_numbers_and_their_table_are_those_of_one_after_another(self, place):
        file = write(place, steps=40)
        place.host("run", file, "--db", "single/log.db", timeout=120)
        ended = place.host("run", file, "--jobs", 2, timeout=120)
        single = type(place.log)(place.folder / "single/log.db")
        assert losses_by_member(place.log) == losses_by_member(single) and len(place.log.runs()) == 4
        assert re.search(r"trial-lr-0.01 +2 +\d+ +finished", ended.out) and "means over seeds" in ended.out
        for line in ended.err.splitlines():
            assert re.match(r"\[member \d\] |member \d of 4 ", line), line
        assert place.host("run", file, "--jobs", 2).err.count("is reused") == 4

    def test_a_stage_that_all_need_is_trained_once_and_first(self, place):
        stage = experiment(train__steps=2, data={"kind": "random"}, parallel__processes=1)
        place.write({**stage, "name": "reference"}, "reference.toml")
        file = place.write({**stage, "pipeline": {"plugin": "rho1", "keep": 0.6},
                            "reference": {"experiment": "reference.toml"}, "sweep": {"seed": [1, 2, 3]}})
        ended = place.host("run", file, "--jobs", 2, "--set", "train.steps=3", timeout=120)
        assert [name for name, _, _ in names(place)] == ["reference", "trial", "trial", "trial"]
        assert ("runs first: no finished run in the log; it trains as its file says, --set does not change it"
                in ended.err)
        assert [max(place.log.losses(run)) for run in (1, 2)] == [2, 3]

    def test_one_that_fails_does_not_end_the_others(self, place):
        file = place.write(train__steps=20, parallel__processes=1)
        with open(file, "a") as text:
            text.write('[[sweep.members]]\npipeline = {plugin = "faulty", fault = "exception", step = 1}\n'
                       '[[sweep.members]]\npipeline = {plugin = "baseline"}\n'
                       '[[sweep.members]]\nseed = 8\n'
                       '[[sweep.members]]\npipeline = {plugin = "faulty", fault = "exception", step = 2}\n')
        place.host("run", file, "--jobs", 2, wanted=3, env={"WMTP_PLUGIN_PATH": TEST_PLUGINS}, timeout=120)
        assert sorted(status for _, _, status in names(place)) == ["failed", "failed", "finished", "finished"]

    def test_a_signal_ends_all_of_them_and_resume_continues_each(self, place):
        file = write(place, steps=5000)
        for arguments, runs in ([], 2), (["--resume"], 4):
            running = place.start_command("run", file, "--jobs", 2, *arguments)
            running.wait_for_step(1)
            while len(runs_with_steps(place)) < runs:  # only concurrent members can get there
                assert running.code is None, running
                time.sleep(0.05)
            os.kill(running.process.pid, signal.SIGINT)
            assert running.wait().code == 75
            assert [status for _, _, status in names(place)] == ["interrupted"] * runs, "no other one was begun"
        assert sorted(row["parent_run"]
                      for row in place.log.query("SELECT parent_run FROM runs WHERE id > 2")) == [1, 2]

    def test_all_are_gone_when_their_parent_is_killed(self, place):
        running = place.start_command("run", write(place, steps=5000), "--jobs", 2)
        running.wait_for_step(4)
        os.kill(running.process.pid, signal.SIGKILL)
        assert running.wait().code == -signal.SIGKILL  # wait() checks that no process is left


def test_more_jobs_than_the_cores_allow_are_refused(place):
    file = write(place, ranks=2)
    shown = place.host("run", file, "--jobs", len(os.sched_getaffinity(0)), wanted=2).err
    assert "members of 2 processes" in shown and "run fewer at once" in shown
    shown = place.host("run", file, "--jobs", 2, "--nproc", 1, wanted=2, env={"MASTER_PORT": "29512"}).err
    assert "unset MASTER_PORT" in shown
    shown = place.host("run", place.write(train__steps=1), "--jobs", 2, wanted=2).err
    assert "has none: it is one run" in shown
    assert not (place.folder / "runs").exists()


class TestSeveralFilesOnOneLine:
    @staticmethod
    def write(place, **of_the_second):
        data = {"kind": "random"}
        first = place.write(experiment(**ONE_RANK, train__steps=3, data=data, name="first"), "first.toml")
        second = place.write({**experiment(**ONE_RANK, train__steps=3, data=data, name="second"), **of_the_second},
                             "second.toml")
        return first, second

    def test_run_in_turn_and_stand_in_one_table(self, place):
        files = self.write(place, seed=8)
        ended = place.host("run", *files, timeout=120)
        assert names(place) == [("first", 7, "finished"), ("second", 8, "finished")]
        assert re.search(r"first +7 +1 +finished", ended.out) and re.search(r"second +8 +2 +finished", ended.out)
        assert place.host("run", *files).err.count("is reused") == 2
        assert "not comparable" not in ended.out

    def test_say_which_losses_do_not_measure_the_same(self, place):
        files = self.write(place, pipeline={"plugin": "dft"})
        assert ("train/loss is not comparable between all of these runs: the weights or the heads differ"
                in place.host("run", *files, timeout=120).out)

    def test_may_hold_sweeps(self, place):
        shown = place.host("run", *self.write(place, sweep=SWEEP), "--dry-run").err
        assert "member 1 of 5 (first.toml): would run" in shown
        assert "member 2 of 5 (second.toml seed=1 optimizer.lr=0.001): would run" in shown

    def test_are_refused_before_any_runs_where_one_is_wrong(self, place):
        files = self.write(place, log={"database": "other.db"})
        shown = place.host("run", *files, wanted=2).err
        assert "second.toml: it logs to" in shown and "--db" in shown
        assert "--name applies only to a single FILE" in place.host("run", *files, "--name", "x", wanted=2).err
        shown = place.host("run", *self.write(place, optimzer={"lr": 1}), wanted=2).err
        assert re.search(r"second\.toml:\d+:\d+: .*optimzer", shown)
        shown = place.host("run", *files, wanted=2, env={"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0",
                                                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29513"}).err
        assert "run it without a launcher" in shown
        assert not (place.folder / "runs").exists()
