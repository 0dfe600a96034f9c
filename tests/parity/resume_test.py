"""A run without and a run with an interruption: bitwise the same losses and parameters."""
import re
import signal
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from checkpoint import model_tensors
from compare import assert_tensors_equal
from experiment import ONE_RANK, experiment
from launchers import free_port, words
from paths import cases
from places import Place
from reference import Recipe
from runlog import step_folders
from start import FROZEN, READER, REFERENCE_KEYS, RHO1_KEYS, changes_for, keys_of, write_frozen, write_start


def stopped_and_resumed(place, steps, changes):
    """Starts a run, stops it by SIGTERM, resumes it to the end. Returns {step: loss} of both parts, and the model."""
    place.stopped_run(**changes)
    first = place.log.newest()
    assert (first["status"], first["exit_code"]) == ("interrupted", 75)
    stopped_at = place.log.last_step()
    assert 3 <= stopped_at < steps, f"stopped at step {stopped_at} of {steps}: too late for this test"

    place.host("run", "experiment.toml", "--resume")
    second = place.log.newest()
    assert second["parent_run"] == first["id"] and second["status"] == "finished"
    losses = place.log.losses(first["id"]) | place.log.losses(second["id"])
    assert set(place.log.losses(second["id"])) == set(range(stopped_at + 1, steps + 1))
    return losses, model_tensors(place.log.folder())


# Each has state: running statistics of advantages, or the moments of a value head.
VALUES = {"verifiable": Recipe(pipeline="verifiable", data="records"),
          "joint": Recipe(pipeline="verifiable", data="records", options={"joint": True}),
          "critic": Recipe(pipeline="critic", data="pairs", options={"head": "mlp"})}


@pytest.mark.soak
@pytest.mark.parametrize("pipeline, processes", cases([("baseline", 1), ("rho1", 2), ("lora", 2), ("verifiable", 2),
                                                       ("hybrid", 4), ("fp16", 2), ("chained", 2), ("muon", 2)],
                                                      [("rho1", 1), ("baseline", 2), ("verifiable", 1),
                                                       ("critic", 2), ("joint", 2), ("divided", 2), ("own-heads", 2),
                                                       ("lora-heads", 2), ("contrast", 2), ("tied", 2), ("shared", 2),
                                                       ("sgd", 1)]))
def test_a_stopped_run_resumes_as_if_it_had_not_stopped(place, pipeline, processes):
    steps = 12
    changes = {"train__steps": steps, "data__order": "shuffled", "parallel__processes": processes,
               "schedule__name": "cosine", "schedule__warmup_steps": 2}
    place.tokens(windows=steps * 2 * processes)
    if pipeline == "lora":
        changes |= {"adapter__plugin": "lora", "adapter__dropout": 0.1, "adapter__dora": True}
    if pipeline == "lora-heads":
        changes |= {"adapter__plugin": "lora", "adapter__targets": ["layers.*"],
                    "adapter__train": ["extra_heads.*", "norm.weight"]}
    if pipeline == "hybrid":
        changes |= {"parallel__strategy": "hybrid_shard", "parallel__shard_group_size": 2}
    if pipeline == "divided":
        changes |= {"parallel__sequence": 2}
    if pipeline == "tied":
        changes |= {"model__tie_word_embeddings": True, "model__qkv_bias": True,
                    "model__rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    if pipeline == "chained":
        changes |= {"model__future_heads": "chained", "train__head_weights": [
            {"step": 1, "weights": [1.0, 0.3, 0.3, 0.3]}, {"step": steps, "weights": [1.0, 0.1, 0.0, 0.3]}]}
    if pipeline == "shared":
        changes |= {"model__future_heads": "shared"}
    if pipeline == "muon":
        changes |= {"optimizer__name": "muon", "train__ema": 0.9}
    if pipeline == "sgd":
        changes |= {"optimizer__name": "sgd", "optimizer__lr": 0.1, "schedule__name": "linear"}
    if pipeline == "fp16":
        changes |= {"parallel__precision": "fp16"}
    if pipeline == "rho1":
        changes |= RHO1_KEYS | {"pipeline__keep": {"from": 1.0, "to": 0.5, "steps": steps // 2}}
        write_frozen(place.folder)
    if pipeline == "own-heads":
        own = replace(FROZEN, layers=5, future_tokens=4)
        changes |= RHO1_KEYS | keys_of(own, "reference__model") | {"reference__heads": "own"}
        write_frozen(place.folder, shape=own)
    if pipeline == "contrast":
        changes |= REFERENCE_KEYS | {f"references__amateur__{key}": value for key, value in (
            ("weights", "amateur.safetensors"), ("model", {"dim": 96, "layers": 2, "ffn_dim": 192,
                                                           "future_tokens": 1}))}
        changes |= {"pipeline": {"plugin": "formula", "weight": "max(0, amateur_loss - reference_loss)"}}
        write_frozen(place.folder)
        write_frozen(place.folder, shape=replace(FROZEN, dim=96), name="amateur", seed=5)
    if pipeline in VALUES:
        write_start(place.folder, READER, VALUES[pipeline], seed=11)
        changes = changes_for(READER, VALUES[pipeline], processes) | changes
    place.run(**changes)
    wanted_losses, wanted_model = place.log.losses(), model_tensors(place.log.folder())
    wanted_average = model_tensors(place.log.folder(), "model-ema") if changes.get("train__ema") else None
    losses, model = stopped_and_resumed(place, steps, changes)
    assert losses == wanted_losses
    assert_tensors_equal(model, wanted_model)
    if wanted_average:
        assert_tensors_equal(model_tensors(place.log.folder(), "model-ema"), wanted_average)


@pytest.mark.soak
@pytest.mark.parametrize("first, then, precision", cases([("none", "nvme", "fp32"), ("nvme", "none", "bf16")],
                                                         [("none", "nvme", "bf16"), ("nvme", "none", "fp32")]))
def test_a_run_resumes_with_its_state_in_a_file_or_in_memory_as_if_it_had_not_stopped(place, first, then, precision):
    changes = {"train__steps": 12, "parallel__processes": 1, "train__ema": 0.9, "parallel__precision": precision}
    places = {"none": changes, "nvme": changes | {"parallel__optimizer_offload": "nvme", "parallel__offload_path": "."}}
    place.tokens(windows=24)
    place.stopped_run(**places[first])
    place.host("run", place.write(**places[then]), "--resume=must")
    resumed = {name: model_tensors(place.log.folder(), name) for name in ("model", "model-ema")}
    assert place.log.newest()["parent_run"] is not None
    place.run(**changes)
    for name, model in resumed.items():
        assert_tensors_equal(model, model_tensors(place.log.folder(), name))


def validations(place):
    """Losses by step of the newest run and those that it resumed, and the steps of its texts."""
    run = place.log.newest()["id"]
    rows = place.log.query("SELECT step, value FROM v_curves WHERE run_id = ? AND name = 'valid/loss'", run)
    texts = place.log.query("SELECT step, text FROM generations JOIN v_lineage AS l ON l.segment = generations.run_id "
                            "WHERE l.run_id = ? AND step < l.before_step ORDER BY step", run)
    return sorted((row["step"], row["value"]) for row in rows), [(row["step"], row["text"]) for row in texts]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_validation_that_was_due_when_the_run_was_stopped_is_done_when_it_is_resumed(place, processes):
    (place.folder / "text.txt").write_text("Seven quick wizards jump over 42 boxes, and back.\n" * 200)
    changes = {"model__vocab_size": None, "data": {"kind": "text", "files": ["text.txt"]}, "train__steps": 12,
               "parallel__processes": processes, "validation": {"share": 0.1, "batches": 1, "every_steps": 1},
               "log": {"prompts": ["Seven"], "prompt_tokens": 2}}
    place.run(**changes)
    wanted = validations(place)
    assert [step for step, _ in wanted[0]] == [step for step, _ in wanted[1]] == list(range(13))
    place.stopped_run(**changes)
    stopped_at = place.log.last_step()
    assert stopped_at not in place.log.metric("valid/loss"), "a stop is not to wait for a validation"
    place.host("run", "experiment.toml", "--resume")
    assert validations(place) == wanted
    place.host("run", "experiment.toml", "--resume", "--set", "train.steps=14")
    assert min(place.log.metric("valid/loss")) == 13, "that of step 12 is in the log"


@pytest.mark.parametrize("kill", ["file_written:0:2", "deleted:0:3"])
def test_the_log_of_a_killed_and_resumed_run_has_each_value_once(place, kill):
    """Killed after validations that it repeats before it logs a step again, or between its last checkpoint and its
    model."""
    (place.folder / "text.txt").write_text("Seven quick wizards jump over 42 boxes, and back.\n" * 200)
    changes = {"model__vocab_size": None, "data": {"kind": "text", "files": ["text.txt"]}, **ONE_RANK,
               "train__steps": 24, "validation": {"share": 0.1, "batches": 1, "every_steps": 5},
               "log": {"prompts": ["Seven"], "prompt_tokens": 2, "every_steps": 20}, "checkpoint__every_steps": 8}
    place.run(**changes)
    wanted = validations(place)
    assert [step for step, _ in wanted[0]] == [step for step, _ in wanted[1]] == [0, 5, 10, 15, 20, 24]
    place.run(**changes, wanted=6, env={"WMTP_KILL_AT_SAVE": kill})
    place.host("run", "experiment.toml", "--resume")
    assert validations(place) == wanted
    assert not place.log.query("SELECT name, step FROM v_curves WHERE run_id = ? GROUP BY name, step "
                               "HAVING count(*) > 1", place.log.newest()["id"])


def test_resuming_from_a_periodic_checkpoint_after_a_kill(place):
    """All processes are killed at once, as by a power failure; the run resumes from the newest intact checkpoint."""
    changes = {"train__steps": 40, "checkpoint__every_steps": 5, "checkpoint__keep": 2}
    place.tokens(windows=160)
    place.run(**changes)
    wanted_losses, wanted_model = place.log.losses(), model_tensors(place.log.folder())
    running = place.start(**changes, env={"WMTP_KILL_AT_SAVE": "published:0:2:stop"})  # no further than step 15
    running.wait_for_step(10)
    running.kill()
    assert place.log.newest()["status"] == "running", "nobody was left to close the row"
    kept = step_folders(place.log.folder())
    assert 1 <= len(kept) <= 3, [folder.name for folder in kept]
    place.host("run", "experiment.toml", "--resume")
    resumed = place.log.losses()
    assert resumed == {step: loss for step, loss in wanted_losses.items() if step in resumed}
    assert min(resumed) == int(kept[-1].name[5:]) + 1
    assert_tensors_equal(model_tensors(place.log.folder()), wanted_model)


STAGED = {"pipeline": {"plugin": "rho1"}, "reference__experiment": "reference.toml", **ONE_RANK, "train__steps": 3}


def write_stage(place):
    steps = 60
    place.tokens(windows=steps * 2)
    place.write({**experiment(**ONE_RANK, train__steps=steps), "name": "reference"}, "reference.toml")


@pytest.fixture(scope="module")
def undisturbed(program, tmp_path_factory):
    """The model of a stage and the losses of the experiment after it, without an interruption."""
    place = Place(tmp_path_factory.mktemp("undisturbed"))
    write_stage(place)
    place.run(**STAGED)
    return model_tensors(place.log.folder(1)), place.log.losses(2)


@pytest.mark.parametrize("launcher", ["ours", "foreign"])
def test_a_stopped_stage_is_resumed_and_followed_by_the_experiment(place, undisturbed, launcher):
    wanted_stage, wanted = undisturbed
    write_stage(place)
    env = {} if launcher == "ours" else words(0, 1, free_port())
    running = place.start(**STAGED, env=env)
    running.wait_for_step(3)
    running.process.send_signal(signal.SIGTERM)
    running.wait()
    assert running.code == 75, running
    assert "with --resume" in running.out, running
    ended = place.host("run", "experiment.toml", "--resume", env=env)
    rows = place.log.runs()
    assert [(row["name"], row["status"]) for row in rows] == \
        [("reference", "interrupted"), ("reference", "finished"), ("trial", "finished")], ended
    assert rows[1]["parent_run"] == rows[0]["id"]
    assert_tensors_equal(model_tensors(place.log.folder(rows[1]["id"])), wanted_stage)
    assert place.log.losses(rows[2]["id"]) == wanted


def test_a_finished_run_is_extended_as_if_it_had_been_longer(place):
    changes = {**ONE_RANK, "data__order": "shuffled", "pipeline__plugin": "focal",
               "pipeline__gamma": {"from": 0.0, "to": 2.0, "steps": 6}, "train__head_weights": [
                   {"step": 3, "weights": [1.0, 1.0, 1.0, 1.0]}, {"step": 7, "weights": [1.0, 0.1, 0.0, 2.0]}]}
    place.tokens(windows=80)
    place.run(**changes, train__steps=4)
    extend = ("run", "experiment.toml", "--resume=must", "--set", "train.steps=8")
    extended = place.host(*extend)
    assert "run 1 of 4 steps is extended to 8" in extended.err
    assert "experiment.toml: continues run 1 at step 5" in extended.err
    assert "finished after" in extended.out and "in 2 segments: training loss" in extended.out
    assert place.log.newest()["parent_run"] == 1
    losses, model = place.log.losses(), model_tensors(place.log.folder())
    assert "run 2 of this configuration" in place.host(*extend).err, "it is not extended again"
    place.run(**changes, train__steps=8)
    assert losses == {step: loss for step, loss in place.log.losses().items() if step > 4}
    assert_tensors_equal(model, model_tensors(place.log.folder()))


def test_a_run_with_bins_of_difficulty_is_not_extended(place):
    """The order of its records depends on the number of steps."""
    records = {"kind": "records", "template": "plain",
               "arithmetic": {"problems": 400, "operations": ["negate", "add"], "max_operations": 2},
               "difficulty": {"bins": ["1-1", "2-2"], "weights": [1, 0], "end_weights": [0, 1]}}
    place.run(**ONE_RANK, data=records, model__vocab_size=None, train__steps=2)
    ended = place.host("run", "experiment.toml", "--resume", "--set", "train.steps=4")
    assert "run 1 of 2 steps is not extended" in ended.err and "starts at step 0" in ended.err, ended
    assert list(place.log.losses()) == [1, 2, 3, 4]


@pytest.mark.parametrize("before, after", [(1, 2), (2, 1)])
def test_a_run_of_epochs_makes_whole_progress_on_another_number_of_ranks(place, before, after):
    place.tokens(windows=48)
    place.stopped_run(train__steps=None, train__epochs=1, pipeline__plugin="formula", pipeline__weight="progress",
                      train__batch_size=1, parallel__processes=before)
    place.host("run", "experiment.toml", "--resume", "--nproc", after)
    means = list(place.log.metric("weights/mean").values())
    assert means == sorted(means) and means[-1] == 1, means


def test_a_finished_run_whose_steps_read_another_number_of_sequences_is_another_run(place):
    """Without global_batch_size the number of ranks decides that, and the hash does not tell it."""
    place.tokens(windows=80)
    file = place.write(train__steps=2, parallel__processes=None)
    place.host("run", file, "--nproc", 2)
    other = "run 1 counts as another configuration: its steps read 4 sequences, and those of these ranks 2"
    for steps in (2, 4):
        ended = place.host("run", file, "--resume", "--nproc", 1, "--set", f"train.steps={steps}")
        assert other in ended.err, ended
    assert [(run["world_size"], run["parent_run"]) for run in place.log.runs()] == [(2, None), (1, None), (1, 2)]
    assert "run 1 of this configuration" in place.host("run", file, "--resume", "--nproc", 2).err


def test_the_first_lines_say_which_run_is_continued_and_where(place):
    write_stage(place)
    place.run(**STAGED)
    extended = place.host("run", "experiment.toml", "--resume", "--set", "train.steps=5")
    assert [line for line in extended.err.splitlines() if not line.startswith("warning:")][:3] == [
        "run 2 of 3 steps is extended to 5", "experiment.toml: continues run 2 at step 4",
        "reference: run 1 of reference.toml is reused"]


@pytest.mark.parametrize("launcher", ["ours", "foreign"])
def test_the_same_command_starts_a_run_continues_it_and_ends_when_it_is_finished(place, launcher):
    """As a cluster does that starts a job again. A stage runs first."""
    write_stage(place)
    file = place.write(**{**STAGED, "train__steps": 60})

    def env():
        return {} if launcher == "ours" else words(0, 1, free_port())

    running = place.start_command("run", file, "--resume", env=env())
    running.wait_for_step(1)
    while len(place.log.runs()) < 2 or place.log.last_step(after=1) < 2:
        assert running.code is None, running
        time.sleep(0.01)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait().code == 75, running
    assert "has no run of this configuration (hash" in running.err and "so it starts at step 0" in running.err, running
    continued = place.host("run", file, "--resume", env=env())
    assert "experiment.toml: continues run 2 at step" in continued.err, continued
    again = place.host("run", file, "--resume", env=env())
    assert re.fullmatch(r"experiment.toml: run 3 of this configuration \(hash \w{12}\) is finished: nothing is left to "
                        r"do\n", again.err), again
    assert [(run["status"], run["parent_run"]) for run in place.log.runs()] == \
        [("finished", None), ("interrupted", None), ("finished", 2)]


def test_a_finished_run_is_repeated_without_resume_and_a_repetition_that_was_stopped_continues(place):
    changes = {**ONE_RANK, "train__steps": 12}
    place.tokens(windows=24)
    place.run(**changes)
    place.stopped_run(**changes)
    assert "continues run 2 at step" in place.host("run", "experiment.toml", "--resume").err
    assert "run 3 of this configuration" in place.host("run", "experiment.toml", "--resume").err


def test_nothing_to_resume_is_refused_where_something_must_be(place):
    place.tokens(windows=80)
    place.write(**ONE_RANK, train__steps=2)
    ended = place.host("run", "experiment.toml", "--resume=must", wanted=4)
    assert "--resume=must" in ended.err and "no unfinished run" in ended.err
    assert "wanted --resume or --resume=must" in place.host("run", "experiment.toml", "--resume=may", wanted=2).err


def test_nothing_to_resume_is_refused_before_the_stages_run(place):
    place.write({**experiment(train__steps=2), "name": "reference"}, "reference.toml")
    place.refuse(4, "no unfinished run of this experiment", arguments=["--resume=must"], pipeline={"plugin": "rho1"},
                 reference__experiment="reference.toml", train__steps=2)
    assert not place.log.runs()


# Written by the version with sdk 0.2 and schema 4 of the log: two ranks, killed after the checkpoint of step 6.
UNFINISHED = Path(__file__).parent / "data/unfinished_run.tar.xz"
ITS_LOSSES = {7: 3.2569053322076797, 8: 3.2458619493991137, 9: 3.255337990820408}  # when resumed by that version
BETWEEN_PROCESSORS = 1e-5  # other vector units sum in another order; on the same processor nothing differs


def test_a_run_of_an_older_version_is_listed_and_resumed(place):
    with tarfile.open(UNFINISHED) as archive:
        archive.extractall(place.folder)
    assert "old" in place.host("runs", "list").out
    place.host("run", "old.toml", "--resume")
    assert place.log.newest()["parent_run"] == 1
    assert place.log.losses() == pytest.approx(ITS_LOSSES, rel=BETWEEN_PROCESSORS)
