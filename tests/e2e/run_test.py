"""A run from its file to its log: written files and rows, overrides, stages, text."""
import json
import os
import re
import shlex
import signal
import tomllib

import pytest
from checkpoint import model_tensors
from experiment import ONE_RANK, experiment
from host import IN_A_SAVE
from paths import TEST_PLUGINS
from runlog import step_folders

TEXT = {"kind": "text", "files": ["corpus/**/*.py"], "tokenizer": {"kind": "byte"}}


def write_corpus(place):
    folder = place.folder / "corpus"
    folder.mkdir()
    for number in range(24):
        lines = [f"def f{number}_{i}(x):\n    return x + {i}\n\n" for i in range(40)]
        (folder / f"m{number}.py").write_text("".join(lines))


def text_changes(**more):
    return {"data": TEXT, "model__vocab_size": None, "train__steps": 6, **ONE_RANK, **more}


def test_a_run_leaves_its_row_metrics_memory_and_model(place):
    ended = place.run(train__steps=4, pipeline={"plugin": "baseline"})
    row = place.log.newest()
    assert (row["status"], row["exit_code"], row["pipeline"], row["adapter"]) == ("finished", 0, "baseline", "full")
    assert (row["world_size"], row["strategy"], row["precision"], row["seed"]) == (2, "full_shard", "fp32", 7)
    assert row["experiment_toml"] == (place.folder / "experiment.toml").read_text()
    assert tomllib.loads(row["resolved_toml"])["train"]["batch_size"] == 2
    assert len(row["config_hash"]) == 64 and row["started_at"] <= row["ended_at"]
    for name in ("train/loss", "train/ce", "train/ce_head_1", "train/ce_head_4", "train/grad_norm", "train/lr",
                 "train/tokens", "perf/tokens_per_second", "perf/step_seconds"):
        assert set(place.log.metric(name)) == {1, 2, 3, 4}, f"{name}\n{ended}"
    assert place.log.metric("train/tokens")[4] == 4 * 2 * 2 * 64
    speed = 4 * 2 * 2 * 64 / sum(place.log.metric("perf/step_seconds").values())
    assert place.log.query("SELECT tokens_per_second FROM v_runs")[0]["tokens_per_second"] == pytest.approx(speed)
    assert f"  {speed:,.0f} tokens/s" in ended.out
    ranks = place.log.query("SELECT DISTINCT rank FROM memory WHERE category = 'resident' AND phase = 'peak'")
    assert {row["rank"] for row in ranks} == {0, 1}
    params = {row["key"]: row["value_text"] for row in place.log.query("SELECT * FROM run_params")}
    assert params["train.batch_size"] == "2"
    plugins = place.log.query("SELECT kind, name, sha256 FROM run_plugins ORDER BY kind")
    assert [(p["kind"], p["name"]) for p in plugins] == [("adapter", "full"), ("pipeline", "baseline")]
    assert all(len(plugin["sha256"]) == 64 for plugin in plugins)

    tensors = model_tensors(place.log.folder())
    assert tensors["tok_embeddings.weight"].shape == (512, 64) and "extra_heads.2.feed_forward.w3.weight" in tensors
    shape = json.loads((place.log.folder() / "model/params.json").read_text())
    assert (shape["dim"], shape["n_layers"], shape["n_future_tokens"]) == (64, 5, 4)


def test_checkpoints_by_epochs_follow_the_step_that_completes_them(place):
    place.tokens(windows=64)
    place.run(train__steps=None, train__epochs=1.25, checkpoint={"every_epochs": 0.3, "keep": 9}, **ONE_RANK)
    # Every 19.2 sequences, and at the end; a step reads 2.
    assert [int(folder.name[5:]) for folder in step_folders(place.log.folder())] == [10, 20, 29, 39, 40]


def test_a_validation_reads_the_same_sequences_on_any_number_of_ranks(place):
    write_corpus(place)
    losses = []
    for ranks, accumulation in ((1, 1), (2, 1), (1, 2)):
        place.run(**text_changes(validation={"share": 0.1, "batches": 3}, train__gradient_accumulation=accumulation)
                  | {"parallel__processes": ranks})
        losses.append(place.log.metric("valid/loss")[0])
    assert losses[1:] == pytest.approx([losses[0]] * 2, rel=1e-6)


def test_validations_by_epochs_follow_the_step_that_completes_them(place):
    write_corpus(place)
    ended = place.run(**text_changes(train={"epochs": 1, "batch_size": 2, "sequence_length": 64},
                                     validation={"share": 0.1, "batches": 1, "every_epochs": 0.25}))
    steps = sorted(place.log.metric("valid/loss"))
    last = place.log.last_step()
    assert f"trial: {last} steps of 2 sequences x 64 tokens = 128" in ended.err
    assert len(steps) == 5 and steps[0] == 0 and steps[-1] == last
    assert all(abs(step - last * k / 4) <= 1 for k, step in enumerate(steps)), steps


def test_a_run_has_the_command_that_started_it_and_a_shell_understands_it(place):
    place.write(**ONE_RANK)
    place.host("train", "experiment.toml", "--set", "name='quoted'", "--set", "train.steps=1")
    command = place.log.query("SELECT command FROM run_commands WHERE run_id = 1")[0]["command"]
    assert shlex.split(command) == ["wmtp-host", "run", "experiment.toml", "--set", "name='quoted'",
                                    "--set", "train.steps=1"]
    assert f"  command    {command}\n" in place.host("runs", "show", "quoted").out


def test_the_log_contains_memory_by_category_and_phase(place):
    # So many logits that they determine a head's peak.
    place.run(train__steps=16, train__batch_size=8, checkpoint__every_steps=8, model__future_tokens=2,
              model__vocab_size=4096, data={"kind": "random"})
    log = place.log
    rows = log.query("SELECT * FROM memory WHERE run_id = 1")
    assert {row["rank"] for row in rows} == {0, 1}
    phases = {row["phase"] for row in rows}
    assert {"start", "forward", "head_1", "head_2", "backward", "optimizer", "checkpoint", "live", "peak",
            "process"} <= phases
    moments = {}
    for row in rows:
        if row["phase"] not in ("live", "peak", "process"):
            moments.setdefault((row["rank"], row["step"], row["phase"]), {})[row["category"]] = row["bytes"]
    for place_, parts in moments.items():
        assert sum(parts.values()) == 2 * parts["allocated"], place_
    peaks = {row["category"]: row for row in log.query("SELECT * FROM v_memory_peak WHERE rank = 0")}
    elements = sum(t.numel() for t in model_tensors(log.folder()).values())
    assert 8 * elements / 2 <= peaks["optimizer"]["bytes"] < 1.02 * 8 * elements / 2  # half of two moments
    assert peaks["logits"]["phase"].startswith("head_") and peaks["logits"]["step"] >= 1
    most = max(parts["allocated"] for (rank, _, _), parts in moments.items() if rank == 0)
    assert peaks["allocated"]["bytes"] == most <= peaks["resident"]["bytes"]
    # The time of Gloo's copies varies, so a phase may still grow a few times after the first step.
    assert len({row["step"] for row in rows}) <= 12, "a steady run writes few rows, whatever its number of steps"


def test_the_loss_falls_on_data_that_can_be_learnt(place):
    place.tokens(windows=400)
    place.run(**ONE_RANK, train__steps=100, train__batch_size=4, optimizer__lr=3e-3)
    losses = place.log.losses()
    assert losses[100] < losses[1] - 1.0, losses


def test_overrides_and_names_reach_the_log(place):
    place.run("--set", "train.steps=2", "--set", "optimizer.lr=0.002", "--name", "other", "--nproc", 1)
    row = place.log.newest()
    assert row["name"] == "other" and row["world_size"] == 1
    assert place.log.metric("train/lr") == {1: pytest.approx(0.002), 2: pytest.approx(0.002)}


def test_another_database_can_be_named(place):
    place.run("--db", "elsewhere/log.db", **ONE_RANK, train__steps=1)
    assert (place.folder / "elsewhere/log.db").exists() and not (place.folder / "runs").exists()
    place.run(**ONE_RANK, train__steps=1, env={"WMTP_DB": "third/log.db"})
    assert (place.folder / "third/log.db").exists() and not (place.folder / "runs").exists()


def test_a_program_is_told_the_end_of_a_run(place):
    told = place.folder / "told.sh"
    told.write_text('#!/bin/sh\necho "$WMTP_RUN_ID $WMTP_RUN_NAME $WMTP_RUN_STATUS $WMTP_RUN_EXIT_CODE" >> told.txt\n')
    told.chmod(0o755)
    place.run("--on-end", "./told.sh", **ONE_RANK, train__steps=2)
    place.run("--on-end", "./told.sh", **ONE_RANK, train__steps=2, optimizer__lr=1e30, train__clip_norm=0.0,
              guard={"max_in_a_row": 1}, wanted=5)
    killed = place.start("--on-end", "./told.sh", train__steps=100_000, data={"kind": "random"})
    killed.wait_for_step(2)
    os.kill(killed.ranks()[0], signal.SIGKILL)
    killed.wait()
    lines = (place.folder / "told.txt").read_text().splitlines()
    assert lines == ["1 trial finished 0", "2 trial failed 5", "3 trial failed 6"], lines
    assert "an executable file" in place.host("run", "experiment.toml", "--on-end", "absent", wanted=2).err


def test_a_dry_run_writes_nothing(place):
    before = sorted(place.folder.iterdir())
    file = place.write()
    ended = place.host("run", file, "--dry-run")
    left = {path.name for path in place.folder.iterdir()} - {path.name for path in before}
    assert {name for name in left if not name.startswith("std")} == {"experiment.toml"}, ended


def test_a_dry_run_says_what_resume_would_continue_and_changes_nothing(place):
    place.stopped_run()
    newest = step_folders(place.log.folder())[-1]
    dry = ("run", place.folder / "experiment.toml", "--dry-run", "--set", "checkpoint.every_steps=3")
    assert f": continues run 1 at step {int(newest.name[5:]) + 1}" in place.host(*dry, "--resume").err
    assert "to continue, so it starts at step 0" in place.host(*dry, "--resume", "--set", "seed=99").err
    assert "no unfinished run" in place.host(*dry, "--resume=must", "--set", "seed=99", wanted=4).err

    max(newest.iterdir(), key=lambda file: file.stat().st_size).write_bytes(b"")
    before = sorted(newest.parent.rglob("*"))
    damaged = f"damaged checkpoint, which a run sets aside: runs/{newest.parent.name}/{newest.name}: "
    assert damaged in place.host(*dry, "--resume").err
    assert sorted(newest.parent.rglob("*")) == before and len(place.log.runs()) == 1


def test_an_experiment_that_extends_files_trains_and_resumes_the_merged_one(place):
    changes = {**ONE_RANK, "train__steps": 12}
    place.tokens(windows=24)
    place.run(**changes)
    (place.folder / "bases").mkdir()
    place.write(name="bases/base.toml", **changes, data__file="../tokens.bin", train__batch_size=4)
    place.write('extends = "bases/base.toml"\n[train]\nbatch_size = 2\n', "own.toml")
    shown = place.host("run", "own.toml", "--dry-run", "--set", "train.clip_norm=1").out
    for line in (f'file = "{place.folder}/tokens.bin"  # bases/base.toml:', "batch_size = 2  # own.toml:3\n",
                 "clip_norm = 1.0  # command line\n", 'normalize = "tokens"  # default\n'):
        assert line in shown
    assert re.search(r"steps +12 of", place.host("plan", "own.toml").out)
    place.start_command("run", "own.toml", "--set", "checkpoint.every_steps=3", env=IN_A_SAVE).stop_in_a_save()
    place.host("run", "own.toml", "--resume")
    plain, first, second = place.log.runs()
    assert plain["config_hash"] == first["config_hash"] == second["config_hash"]
    assert place.log.losses(first["id"]) | place.log.losses(second["id"]) == place.log.losses(plain["id"])


def test_text_is_read_split_and_validated(place):
    write_corpus(place)
    place.run(**text_changes(validation={"every_steps": 3, "batches": 2, "files": ["corpus/m2*.py"]}))
    valid = place.log.metric("valid/loss")
    assert set(valid) == {0, 3, 6} and valid[6] < valid[0]
    assert set(place.log.metric("valid/ce_head_1")) == {0, 3, 6}


def test_a_stage_runs_first_and_only_once(place):
    write_corpus(place)
    stage = text_changes(model__future_tokens=1, model__layers=2)
    place.write({**experiment(**stage), "name": "reference"}, "reference.toml")
    changes = text_changes(pipeline={"plugin": "rho1", "keep": 0.6}, reference__experiment="reference.toml")
    def names():
        return sorted(row["name"] for row in place.log.runs())

    place.run(**changes)
    assert names() == ["reference", "trial"]
    run = place.log.newest("trial")["id"]
    for ratio in place.log.metric("rho1/selection_ratio", run).values():
        assert ratio == pytest.approx(0.6, abs=0.02)
    for name in ("rho1/selection_ratio", "rho1/excess_mean", "rho1/ce_selected", "rho1/ce_unselected", "weights/mean"):
        assert set(place.log.metric(name, run)) == set(range(1, 7)), name

    place.run(**changes)
    assert names() == ["reference", "trial", "trial"], "the stage ran again"
    assert place.log.losses() == place.log.losses(run), "the same experiment gave other numbers"

    place.run("--set", "optimizer.lr=0.002", **changes)
    assert names().count("reference") == 1, "another policy, the same stage"


def test_a_stage_does_not_train_on_the_files_on_which_the_run_validates_by_default(place):
    write_corpus(place)
    place.write({**experiment(**text_changes(model__future_tokens=1, model__layers=2)), "name": "reference"},
                "reference.toml")
    place.run(**text_changes(pipeline={"plugin": "rho1", "keep": 0.6}, reference__experiment="reference.toml",
                             validation={"batches": 2}))
    excluded = tomllib.loads(place.log.newest("reference")["resolved_toml"])["data"]["exclude"]
    assert len(excluded) == 2, "one file in 20 of 24, rounded up"
    assert all(re.fullmatch(r".*/corpus/m\d+\.py", file) for file in excluded)
    assert tomllib.loads(place.log.newest("trial")["resolved_toml"])["data"]["exclude"] == []


def test_a_share_of_a_single_file_is_held_out_from_the_run_and_its_stage(place):
    lines = [f"line {i} of a file of one's own\n" for i in range(4000)]
    (place.folder / "own.txt").write_text("".join(lines))
    data = {"kind": "text", "files": ["own.txt"], "tokenizer": {"kind": "bpe", "vocab_size": 300}}
    own = {"data": data, "model__vocab_size": None, "train__steps": 4, **ONE_RANK}
    place.write({**experiment(**own), "name": "reference"}, "reference.toml")
    changes = own | {"pipeline": {"plugin": "rho1", "keep": 0.6}, "reference__experiment": "reference.toml",
                     "validation": {"share": 0.1, "batches": 2}}
    ended = place.run(**changes)
    shown = re.search(r"trial: ([\d,]+) tokens to train on, ([\d,]+) for validation \(the last 10% of each file\)",
                      ended.err)
    train, held_out = (int(number.replace(",", "")) for number in shown.groups())
    assert 0.09 < held_out / (train + held_out) < 0.11
    assert f"reference: {shown[1]} tokens to train on, the last 10% of each file is held out" in ended.err
    assert set(place.log.metric("valid/loss", place.log.newest("trial")["id"])) == {0, 4}


def test_a_stage_that_two_tables_name_runs_once_and_gives_both_its_model(place):
    place.write({**experiment(**ONE_RANK, train__steps=3), "name": "base"}, "base.toml")
    changes = {"pipeline": {"plugin": "rho1", "keep": 0.6}, "reference__experiment": "base.toml",
               "model__experiment": "base.toml", "train__steps": 1, "optimizer__lr": 1e-12,
               "optimizer__weight_decay": 0.0, **ONE_RANK}
    ended = place.run(**changes)
    assert sorted(row["name"] for row in place.log.runs()) == ["base", "trial"]
    assert "model and reference: base.toml runs first" in ended.err, ended
    trained = model_tensors(place.log.folder(place.log.newest("trial")["id"]))
    for name, tensor in model_tensors(place.log.folder(place.log.newest("base")["id"])).items():
        assert (trained[name] - tensor).abs().max() < 1e-6, name
    ended = place.run(**changes)
    assert "model and reference: run" in ended.err and "is reused" in ended.err, ended


def test_stages_of_stages_run_deepest_first_each_once(place):
    short = {"train__steps": 1, **ONE_RANK}
    place.write({**experiment(**short), "name": "base"}, "base.toml")
    place.write({**experiment(**short, model__experiment="base.toml"), "name": "middle"}, "middle.toml")
    changes = {"pipeline": {"plugin": "rho1", "keep": 0.6}, "reference__experiment": "middle.toml",
               "model__experiment": "base.toml", **short}
    shown = place.host("run", place.write(**changes), "--dry-run").err
    assert shown.count("base.toml would run first") == 1 and shown.count("middle.toml would run first") == 1, shown
    place.run(**changes)
    assert [row["name"] for row in place.log.runs()] == ["base", "middle", "trial"]


def test_files_that_are_edited_while_a_stage_runs_change_nothing(place):
    """No rank reads the experiment or a pending stage again."""
    place.write({**experiment(train__steps=60, data={"kind": "random"}), "name": "base"}, "base.toml")
    middle = experiment(train__steps=1, model__experiment="base.toml", data={"kind": "random"})
    place.write({**middle, "name": "middle"}, "middle.toml")
    running = place.start(pipeline__plugin="rho1", reference__experiment="middle.toml", train__steps=2,
                          data={"kind": "random"})
    running.wait_for_step(1)
    for file in ("base.toml", "middle.toml", "experiment.toml"):
        (place.folder / file).write_text("half a sentence [")
    running.wait()
    assert running.code == 0, running
    assert [(row["name"], row["status"]) for row in place.log.runs()] == [
        ("base", "finished"), ("middle", "finished"), ("trial", "finished")]
    assert "half" not in place.log.newest("trial")["resolved_toml"]


def test_a_wrapper_changes_the_weights_of_its_inner_weighting(place):
    env = {"WMTP_PLUGIN_PATH": TEST_PLUGINS}
    short = {"train__steps": 1, **ONE_RANK}
    place.run(**short)
    plain = place.log.losses()[1]
    place.run(**short, env=env, pipeline={"plugin": "doubled", "inner": {"plugin": "baseline"}})
    assert place.log.losses()[1] == pytest.approx(2 * plain, rel=1e-6)
    run = place.log.newest()
    plugins = place.log.query(f"SELECT kind, name FROM run_plugins WHERE run_id = {run['id']} ORDER BY kind")
    assert [(p["kind"], p["name"]) for p in plugins] == [("adapter", "full"), ("inner", "baseline"),
                                                         ("pipeline", "doubled")]
    assert tomllib.loads(run["resolved_toml"])["pipeline"]["inner"]["plugin"] == "baseline"
    place.run(**short, env=env, pipeline={"plugin": "doubled", "inner": {"plugin": "chosen", "by": "loss"}})
    place.run(**short, env=env, pipeline={"plugin": "doubled", "inner": {"plugin": "chosen", "by": "nothing"}})
    hashes = {row["config_hash"] for row in place.log.runs()}
    assert len(hashes) == 4, "the inner plugin and its options are part of what a run is"


def test_the_log_has_the_padding_of_records_and_the_speed_of_their_answers(place):
    lines = [json.dumps({"instruction": "ab", "output": "cdef"})] * 64
    (place.folder / "a.jsonl").write_text("\n".join(lines))
    records = {"kind": "records", "files": ["a.jsonl"], "template": "none", "tokenizer": {"kind": "byte"}}

    def figures(**data):
        place.run(data={**records, **data}, model__vocab_size=None, train__steps=2, train__sequence_length=32)
        rate, seconds = (place.log.metric(f"perf/{name}")[2] for name in ("targets_per_second", "step_seconds"))
        return place.log.metric("perf/padding")[2], rate * seconds

    # A record has 2 bytes, 4 bytes and an end of text; each of the last five is a target of head 1. Rows end at a
    # multiple of 16 tokens.
    padding, targets = figures()
    assert padding == pytest.approx(1 - 7 / 16) and targets == pytest.approx(4 * 5)
    padding, targets = figures(packing=True)  # four records in 32 tokens
    assert padding == pytest.approx(1 - 28 / 32) and targets == pytest.approx(4 * 4 * 5)


def test_valid_tokens_of_records_are_padded_to_few_numbers_of_rows(place):
    """oneDNN prepares a product for each new number of rows, and keeps it."""
    lines = [json.dumps({"prompt": "", "completion": "ab" * (20 + number % 17)}) for number in range(64)]
    (place.folder / "a.jsonl").write_text("\n".join(lines))
    records = {"kind": "records", "format": "completions", "files": ["a.jsonl"], "tokenizer": {"kind": "byte"}}
    shown = place.run(env={"ONEDNN_VERBOSE": "2"}, data=records, model__vocab_size=None, train__steps=6,
                      train__batch_size=8, train__sequence_length=80, **ONE_RANK).out
    # Rows x vocabulary times vocabulary x width: the gradient of the output layer's input.
    created = re.findall(r"create:cache_miss,cpu,matmul,.*,(\d+)x258:258x64,", shown)
    if not created:
        pytest.skip("this processor's products in fp32 are not oneDNN's")
    assert all(int(rows) % 16 == 0 for rows in created), created


def test_a_finished_run_gives_its_weights_by_name(place):
    place.run(**ONE_RANK, train__steps=2)
    trained = model_tensors(place.log.folder())
    place.run(**ONE_RANK, train__steps=1, model__weights="run:trial", optimizer__lr=1e-12, optimizer__weight_decay=0.0)
    for name, tensor in model_tensors(place.log.folder()).items():
        assert (tensor - trained[name]).abs().max() < 1e-6, name


def test_the_hash_does_not_depend_on_name_layout_or_log(place):
    place.run(train__steps=1)
    place.run("--name", "other", "--nproc", 1, train__steps=1, log__every_steps=1, checkpoint__every_steps=1)
    place.run(**ONE_RANK, train__steps=1, optimizer__lr=2e-3)
    first, second, third = [row["config_hash"] for row in place.log.runs()]
    assert first == second != third


def test_without_bf16_instructions_products_are_computed_in_fp32_and_the_run_says_so(place):
    """oneDNN's variable simulates this on a processor that has them; the shapes suit its newer kernels in fp32."""
    limit = {"DNNL_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    shapes = {"model__dim": 64, "train__batch_size": 16, "train__sequence_length": 64, "train__steps": 1,
              "data__kind": "random", "data__file": None, "data__dtype": None, "data__order": None}
    assert "computed in fp32" not in place.run(env=limit, **ONE_RANK, **shapes).err
    shown = place.run(env=limit, parallel__precision="bf16", **shapes).err
    assert shown.count("bf16 products are computed in fp32") == 1, shown
    events = place.log.query("SELECT level, message FROM events WHERE kind = 'precision'")
    assert len(events) == 1 and events[0]["level"] == "warning", events


def spans(place, rank, category):
    trace = json.loads((place.log.folder() / f"profile-{rank:04d}.json").read_text())
    return [event["name"] for event in trace["traceEvents"] if event.get("cat") == category]


def test_a_profiled_step_has_the_operators_of_all_its_micro_batches_and_changes_no_number(place):
    """Each micro-batch embeds its tokens once on each rank; AdamW belongs to the step."""
    changes = {"train__steps": 3, "train__gradient_accumulation": 3}
    place.run(**changes)
    assert not list(place.log.folder().glob("profile-*"))
    numbers = [place.log.metric(name) for name in ("train/loss", "train/grad_norm")]
    ended = place.run(**changes, log={"profile_step": 2})
    assert "ERROR" not in ended.err, ended
    assert [place.log.metric(name) for name in ("train/loss", "train/grad_norm")] == numbers
    for rank in (0, 1):
        found = spans(place, rank, "cpu_op")
        assert found.count("aten::index_select") == 3 and "aten::mm" in found, sorted(set(found))
        assert "aten::_fused_adamw_" in found, sorted(set(found))
        blocks = 5 * 3  # in each micro-batch
        assert found.count("wmtp::attention") == found.count("wmtp::attention_backward") == blocks
        named = spans(place, rank, "user_annotation")
        assert {"forward", "head_1", "backward", "optimizer"} <= set(named), sorted(set(named))
        assert any(name.startswith("waiting for step 2: reducing the gradient of layers.0 (") for name in named), named
    assert len(list(place.log.folder().glob("profile-*"))) == 2


def test_a_profiled_step_after_the_end_is_refused(place):
    place.refuse_everywhere(2, "found profile_step 4, wanted at most .train. steps = 3", train__steps=3,
                            log={"profile_step": 4})
    place.refuse(2, r"\[log\] profile_step = 90 is after the last step of a run of 32; lower it", train__steps=None,
                 train__epochs=1, log={"profile_step": 90}, **ONE_RANK)


def test_a_warm_up_of_the_whole_run_is_refused(place):
    place.refuse(2, r"\[schedule\] warmup_steps = 32 take all of a run of 32; lower them", train__steps=None,
                 train__epochs=1, schedule={"name": "constant", "warmup_steps": 32}, **ONE_RANK)


def test_a_profile_that_cannot_be_written_does_not_end_the_run(place):
    place.tokens(windows=400)
    running = place.start(train__steps=200, log={"profile_step": 150}, **ONE_RANK)
    running.wait_for_step(1)
    (place.log.folder() / "profile-0000.json").mkdir()
    running.wait()
    assert running.code == 0 and running.err.count("profile not written") == 1, running
    assert [event["kind"] for event in place.log.events()] == ["profile"]


def test_a_pipeline_that_waits_for_half_of_a_step_says_so(place):
    """Two sections of one micro-batch wait for half of each step, of four for a fifth."""
    sections = {"model__layers": 6, "train__steps": 2, "parallel__processes": 2, "parallel__pipeline": 2}
    waiting = place.run(**sections)
    assert "2 sections wait for 50% of each step, because it has 1 micro-batch: raise train.gradient_accumulation" \
        in waiting.err
    assert len(place.log.query("SELECT 1 FROM events WHERE kind = 'pipeline' AND level = 'warning'")) == 1
    assert "sections wait" not in place.run(**sections, train__gradient_accumulation=4).err
