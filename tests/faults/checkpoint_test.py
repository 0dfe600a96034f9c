"""Checkpoints that are damaged, belong to another experiment, or were only partly written."""
import json
import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from checkpoint import craft_dtype, flip_bit, model_tensors, seal
from compare import assert_tensors_equal
from paths import count
from places import Place, assert_reported_once
from runlog import step_folders

RUN = {"train__steps": 2000, "checkpoint__every_steps": 3, "checkpoint__keep": 3}


def interrupted(place, at=7, **changes):
    """The folder of a run that a signal stopped after some saves."""
    place.tokens(windows=8000)
    running = place.start(**{**RUN, **changes})
    running.wait_for_step(at)
    running.process.send_signal(signal.SIGTERM)
    running.wait()
    assert running.code == 75, running
    return place.log.folder()


@pytest.fixture(scope="module")
def interrupted_once(program, tmp_path_factory):
    """The folder of a place with such a run."""
    place = Place(tmp_path_factory.mktemp("interrupted"))
    interrupted(place)
    return place.folder


@pytest.fixture
def stopped(place, interrupted_once):
    """The run's folder in this test's copy of that place."""
    shutil.copytree(interrupted_once, place.folder, dirs_exist_ok=True)
    return place.log.folder()


def resume(place, wanted):
    """Without checkpoints, plain --resume would start at step 0."""
    ended = place.host("run", "experiment.toml", "--resume=must", wanted=wanted)
    assert_reported_once(ended)
    return ended


@pytest.mark.soak
def test_one_flipped_bit_anywhere_is_found(place, stopped):
    """Without another checkpoint, resuming is refused: exit 4, and the message names the file."""
    *older, newest = step_folders(stopped)
    for other in older:
        shutil.rmtree(other)
    whole = stopped.rename(place.folder / "whole")
    chance = random.Random(5)
    files = sorted(file.name for file in (whole / newest.name).iterdir() if file.stat().st_size)
    for trial in range(count(len(files), 200)):
        shutil.rmtree(stopped, ignore_errors=True)  # the damaged one was set aside
        shutil.copytree(whole, stopped)
        file = newest / files[trial % len(files)]
        position, bit = chance.randrange(file.stat().st_size), chance.randrange(8)
        flip_bit(file, position, bit)
        ended = resume(place, 4)
        assert file.name in ended.err, f"byte {position} bit {bit} of {file.name}\n{ended}"


def states(place, run):
    """{name: state} of the run's checkpoints in the log."""
    rows = place.log.query("SELECT path, state FROM checkpoints WHERE run_id = ?", run)
    return {Path(row["path"]).name: row["state"] for row in rows}


def test_the_checkpoint_before_a_damaged_one_is_used(place, stopped):
    *_, before, newest = step_folders(stopped)
    run = place.log.newest()["id"]
    shard = max(newest.glob("*.safetensors"), key=lambda file: file.stat().st_size)
    flip_bit(shard, shard.stat().st_size - 5)
    # The newest checkpoint is at the step of the signal; a run up to that step shows where it resumed.
    running = place.start_command("run", "experiment.toml", "--resume")
    running.wait_for_step(int(newest.name[5:]))
    running.process.send_signal(signal.SIGTERM)
    running.wait()
    assert running.code == 75, running
    assert min(place.log.losses()) == int(before.name[5:]) + 1
    assert newest.name in running.err and shard.name in running.err, f"the damaged one is not reported\n{running}"
    assert (states(place, run)[newest.name], states(place, run)[before.name]) == ("damaged", "kept")


@pytest.mark.parametrize("damage", ["truncated", "empty", "missing"])
def test_a_shard_that_is_not_whole_is_refused(place, stopped, damage):
    for step in step_folders(stopped):
        shard = max(step.glob("*.safetensors"), key=lambda file: file.stat().st_size)
        if damage == "missing":
            shard.unlink()
        else:
            os.truncate(shard, 0 if damage == "empty" else shard.stat().st_size // 2)
    ended = resume(place, 4)
    assert shard.name in ended.err, ended


@pytest.mark.parametrize("dtype, name", [("float16", "F16"), ("float64", "F64")])
def test_a_crafted_part_of_another_dtype_is_refused_though_every_sum_is_right(place, stopped, dtype, name):
    *older, newest = step_folders(stopped)
    for step in older:
        shutil.rmtree(step)
    file, tensor = craft_dtype(newest, dtype)
    for ended in (place.host("checkpoint", "verify", newest, wanted=4), resume(place, 4)):
        assert f'{file}: tensor "{tensor}" is {name}; wanted F32' in ended.err, ended


def test_a_crafted_state_is_refused_by_its_key_though_the_manifest_s_sum_is_right(place, stopped):
    *older, newest = step_folders(stopped)
    for step in older:
        shutil.rmtree(step)
    manifest = json.loads((newest / "manifest.json").read_text())
    manifest["state"]["tokens"] = -1
    seal(newest, manifest)
    for ended in (place.host("checkpoint", "verify", newest, wanted=4), resume(place, 4)):
        assert "manifest.json: state tokens is -1; wanted" in ended.err, ended


@pytest.mark.parametrize("change, message", [
    ({"step": 2001}, "it was saved at step 2001, but the run ends after 2,000 steps"),
    ({"state": {"guard_window": [1.5] * 1001}}, "state: guard_window has 1,001 losses; wanted at most"),
    ({"state": {"loss_scale": {"scale": 4, "finite_steps": 0, "overflows_left": 1}}}, "state has a loss_scale")],
    ids=["step", "guard_window", "loss_scale"])
def test_a_crafted_state_that_is_sound_but_does_not_fit_the_run_is_refused(place, stopped, change, message):
    *older, newest = step_folders(stopped)
    for step in older:
        shutil.rmtree(step)
    manifest = json.loads((newest / "manifest.json").read_text())
    manifest["state"] |= change.get("state", {})
    manifest["step"] = change.get("step", manifest["step"])
    newest = newest.rename(newest.with_name(f"step-{manifest['step']:06}"))
    seal(newest, manifest)
    place.host("checkpoint", "verify", newest)
    ended = resume(place, 4)
    assert message in ended.err, ended


def test_a_checkpoint_of_another_experiment_is_refused(place, stopped):
    other = interrupted(place, optimizer__lr=2e-3)
    for step in step_folders(stopped):
        shutil.rmtree(step)
    for step in step_folders(other):
        shutil.copytree(step, stopped / step.name)
    place.write(**RUN)
    ended = resume(place, 4)
    assert "another experiment" in ended.err, ended


def test_a_checkpoint_loads_at_another_world_size(place, stopped):
    last = int(step_folders(stopped)[-1].name[5:])
    running = place.start_command("run", "experiment.toml", "--resume", "--nproc", 1)
    running.wait_for_step(last + 2)
    running.process.send_signal(signal.SIGTERM)
    running.wait()
    assert running.code == 75, running
    assert re.search(r"each step now reads (\d+) sequences, another number than before the checkpoint, .*; "
                     r"--nproc 2 and the parallel.sequence, ", running.err), running
    row = place.log.newest()
    assert row["world_size"] == 1 and min(place.log.losses()) == last + 1


STEPS = count(70, 500)


@pytest.fixture(scope="module")
def undisturbed(program, tmp_path_factory):
    """Losses and model of a run of STEPS steps that nobody kills."""
    place = Place(tmp_path_factory.mktemp("undisturbed"))
    place.tokens(windows=STEPS * 4)
    place.run(train__steps=STEPS, timeout=300)
    return place.log.losses(), model_tensors(place.log.folder())


def assert_ended_as_undisturbed(place, undisturbed, first):
    """The newest run, which resumed at step `first`, and the losses of the runs before it."""
    wanted_losses, wanted_model = undisturbed
    for run in place.log.runs():
        losses = place.log.losses(run["id"])
        assert losses == {step: wanted_losses[step] for step in losses}, f"run {run['id']}"
    assert list(place.log.losses()) == list(range(first, STEPS + 1))
    assert_tensors_equal(model_tensors(place.log.folder()), wanted_model)


EVERY = 3  # steps between two saves
# Points on each rank before its file is announced to rank 0; points on rank 0 alone, before and after the rename.
EACH_RANK = ["copied", "half_a_file", "file_written", "file_synced"]
BEFORE = ["draft_made", "files_complete", "manifest_written", "folder_synced"]
AFTER = ["renamed", "published", "set_for_deletion", "deleted"]


def test_the_points_of_a_save_are_those_tried_here(place):
    ended = place.run(wanted=2, env={"WMTP_KILL_AT_SAVE": "nowhere"}, checkpoint__every_steps=EVERY)
    known = re.search(r"wanted one of ([\w, ]+)", ended.err)
    assert known and set(known[1].split(", ")) == {*EACH_RANK, *BEFORE, *AFTER}, ended


def test_a_kill_at_any_point_of_a_save_costs_no_whole_checkpoint(place, undisturbed):
    """A training is killed at one point after the other, each time in a run's second save, when an older checkpoint
    exists: it resumes from the new one if it was renamed already, else from the older one, and ends as without
    kills."""
    place.tokens(windows=STEPS * 4)
    changes = {"train__steps": STEPS, "checkpoint__every_steps": EVERY, "checkpoint__keep": 1}
    newest, arguments = 0, []
    for point, rank in [*((point, rank) for point in EACH_RANK for rank in (0, 1)),
                        *((point, 0) for point in [*BEFORE, *AFTER])]:
        time_of_it = 1 if point == "set_for_deletion" else 2
        ended = place.run(*arguments, wanted=6, env={"WMTP_KILL_AT_SAVE": f"{point}:{rank}:{time_of_it}"}, **changes)
        assert f"rank {rank} was killed by SIGKILL" in ended.err, ended
        newest += 2 * EVERY if point in AFTER else EVERY  # as it resumed from the newest of the run before
        assert step_folders(place.log.folder())[-1].name == f"step-{newest:06}", f"{point}\n{ended}"
        assert max(place.log.losses()) >= newest, f"{point}: the log lacks steps that no resumed run repeats"
        kept = [name for name, state in states(place, place.log.newest()["id"]).items() if state == "kept"]
        assert sorted(kept) == [folder.name for folder in step_folders(place.log.folder())], point
        arguments = ["--resume"]
    place.run("--resume", timeout=300, **changes)
    assert_ended_as_undisturbed(place, undisturbed, newest + 1)
    assert not list(place.folder.glob("runs/*/*.tmp-*")), "half a checkpoint is left"


@pytest.fixture
def run_with_one_save_blocked(place):
    """A function that runs three saves, of which the one at a given step finds its name taken."""
    def run(step):
        running = place.start(train__steps=150, data={"kind": "random"}, checkpoint__every_steps=50,
                              checkpoint__keep=1)
        running.wait_for_step(1)
        (place.log.folder() / f"step-{step:06}").write_text("in the way")
        running.wait()
        return running
    return run


def test_a_checkpoint_that_cannot_be_written_is_reported_and_ends_the_run_only_if_it_is_the_last(
        place, run_with_one_save_blocked):
    ended = run_with_one_save_blocked(100)
    folder = place.log.folder()
    assert ended.code == 0 and ended.err.count("checkpoint not written") == 1 and "step-000100" in ended.err, ended
    assert (folder / "step-000150").is_dir() and (folder / "step-000100").is_file()
    assert [event["kind"] for event in place.log.events()] == ["checkpoint_failed"]

    ended = run_with_one_save_blocked(150)
    assert ended.code == 7 and "step-000150" in ended.err, ended


def test_a_run_that_a_guard_ends_keeps_the_save_in_flight(place):
    ended = place.run(wanted=5, guard__grad_norm=1e-9, guard__max_in_a_row=3, checkpoint__every_steps=1,
                      checkpoint__keep=9)
    assert ended.err.count("skipped steps do not train on their data (guard.grad_norm = 0") == 1, ended
    assert [step.name for step in step_folders(place.log.folder())] == ["step-000001", "step-000002"]
    assert not list(place.log.folder().glob("*.tmp-*"))
    kept = place.log.query("SELECT step FROM checkpoints WHERE state = 'kept' ORDER BY step")
    assert [row["step"] for row in kept] == [1, 2], "the log has not heard of it"


def test_saves_by_the_clock(place):
    """Saves every 0.6 seconds and every 300 steps: no other save within the 0.6 seconds before a timed one."""
    running = place.start(train__steps=1_000_000, data={"kind": "random"}, checkpoint__every_minutes=0.01,
                          checkpoint__every_steps=300, checkpoint__keep=100)
    running.wait_for_step(310)
    running.process.send_signal(signal.SIGTERM)
    running.wait()
    assert running.code == 75, running
    *steps, _ = [int(step.name[5:]) for step in step_folders(place.log.folder())]
    assert 300 in steps, steps
    by_clock = [step for step in steps if step % 300]
    assert by_clock, f"none by the clock: {steps}"
    made = {row["step"]: row["time_ns"] / 1e9 for row in
            place.log.query("SELECT step, time_ns FROM metrics WHERE name = 'train/loss'")}
    for before, after in zip(steps, steps[1:]):
        if after % 300:
            assert made[after] - made[before] > 0.59, f"saves at {before} and {after}"
    stalls = place.log.metric("perf/checkpoint_stall_seconds")
    assert set(steps) <= set(stalls) and all(0 <= stall < 5 for stall in stalls.values())


@pytest.mark.soak
def test_kills_at_random_times_never_cost_more_than_the_steps_since_the_last_save(place, undisturbed):
    """A rank is killed repeatedly; each time the run resumes from a complete checkpoint, and the final result equals
    that of an undisturbed run."""
    changes = {"train__steps": STEPS, "checkpoint__every_steps": 2, "checkpoint__keep": 2}
    place.tokens(windows=STEPS * 4)
    place.write(**changes)

    chance = random.Random(9)
    arguments = ["run", "experiment.toml"]
    reached = 4  # the first checkpoint is complete by then
    for _ in range(count(3, 60)):
        reached += chance.randrange(2, 12)
        if reached >= STEPS:
            break
        running = place.start_command(*arguments)
        running.wait_for_step(reached)
        victim = chance.choice(sorted(running.ranks().values()))
        time.sleep(chance.random() * 0.05)
        os.kill(victim, signal.SIGKILL)
        running.wait()
        assert running.code == 6, running
        reached = place.log.last_step()
        for step in step_folders(place.log.folder()):
            assert (step / "manifest.json").is_file(), f"{step} is not whole"
        arguments = ["run", "experiment.toml", "--resume"]
    place.host(*arguments, timeout=300)
    assert_ended_as_undisturbed(place, undisturbed, min(place.log.losses()))
