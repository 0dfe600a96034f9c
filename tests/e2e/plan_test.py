"""`plan`: its estimate of an experiment, compared with the allocator's counts on every rank of a run; and plans of
models too large for this machine."""
import contextlib
import json
import os
import re
import shlex
import sqlite3

import pytest
from checkpoint import adapter_tensors, model_tensors
from experiment import ONE_RANK, experiment
from paths import ROOT, SOAK, cases_of

WITHIN = 0.10  # the promise

# Large enough that unplanned tensors (scalars, metrics, indices) are comparatively small.
SIZES = dict(model__dim=128, model__ffn_dim=352, model__layers=6, model__vocab_size=2048, train__steps=3,
             train__batch_size=4, train__sequence_length=128, data={"kind": "random"})
LORA = {"plugin": "lora", "rank": 8}
ALIGNED = {"plugin": "formula", "weight": "1 + min(0, alignment)"}
PREVIOUS = dict(pipeline={"plugin": "formula", "weight": "1 + clamp(previous_ce - ce, 0, 2)"}, train__steps=None,
                train__epochs=1.5, data={"kind": "tokens", "file": "tokens.bin", "dtype": "uint16"})
CASES = {
    "full_shard": {},
    "one process": dict(parallel__processes=1),
    "shard_optimizer, accumulated": dict(parallel__strategy="shard_optimizer", train__gradient_accumulation=2),
    "shard_grad_op in bf16": dict(parallel__strategy="shard_grad_op", parallel__precision="bf16"),
    "no_shard in bf16": dict(parallel__strategy="no_shard", parallel__precision="bf16"),
    "no_shard": dict(parallel__strategy="no_shard"),
    "checkpointing in bf16": dict(parallel__activation_checkpointing="full", parallel__precision="bf16"),
    "checkpointing of a half": dict(parallel__activation_checkpointing=0.5),
    "checkpointing of a half, offloaded": dict(parallel__activation_checkpointing=0.5,
                                               parallel__activation_offload=True, train__gradient_accumulation=2),
    "checkpointing, one process": dict(parallel__activation_checkpointing="full", parallel__processes=1),
    "lora": dict(adapter=LORA),
    "lora in bf16, shard_grad_op": dict(adapter=LORA, parallel__precision="bf16", parallel__strategy="shard_grad_op"),
    "lora, no_shard": dict(adapter=LORA, parallel__strategy="no_shard"),
    "lora beside trained heads and norms": dict(adapter=LORA | {"targets": ["layers.*"],
                                                                "train": ["extra_heads.*", "*_norm.weight"]}),
    "lora, frozen parameters replicated": dict(adapter=LORA, parallel__replicate_frozen=True),
    "accumulation": dict(train__gradient_accumulation=3),
    "accumulation, no_shard": dict(train__gradient_accumulation=2, parallel__strategy="no_shard"),
    "grouped queries": dict(model__kv_heads=1, model__ffn_dim=512),
    "tied embeddings, biases": dict(model__tie_word_embeddings=True, model__qkv_bias=True, model__kv_heads=2),
    "tied embeddings, biases, lora": dict(model__tie_word_embeddings=True, model__qkv_bias=True, adapter=LORA),
    "tied embeddings in bf16, no_shard": dict(model__tie_word_embeddings=True, parallel__precision="bf16",
                                              parallel__strategy="no_shard", train__gradient_accumulation=2),
    "logits in chunks": dict(model__vocab_size=12000),
    "a window of attention": dict(model__sliding_window=48),
    "hybrid_shard": dict(parallel__processes=4, parallel__strategy="hybrid_shard", parallel__shard_group_size=2),
    "gradients that travel in bf16": dict(parallel__precision="bf16", parallel__reduce="bf16"),
    "hybrid_shard, gradients that travel in bf16": dict(
        parallel__processes=4, parallel__strategy="hybrid_shard", parallel__shard_group_size=2,
        parallel__precision="bf16", parallel__reduce="bf16", train__gradient_accumulation=2),
    "no_shard, gradients that travel in bf16": dict(parallel__strategy="no_shard", parallel__precision="bf16",
                                                    parallel__reduce="bf16"),
    "fp16": dict(parallel__precision="fp16"),
    "saves beside the training": dict(checkpoint__every_steps=1),
    "chained heads": dict(model__future_heads="chained"),
    "chained heads, lora, in bf16": dict(model__future_heads="chained", adapter=LORA, parallel__precision="bf16"),
    "shared heads": dict(model__future_heads="shared"),
    "shared heads, lora, accumulated": dict(model__future_heads="shared", adapter=LORA,
                                            train__gradient_accumulation=2),
    "heads that leap, divided positions": dict(model__future_offsets=[1, 3, 9, 40], parallel__sequence=2),
    "divided positions": dict(parallel__sequence=2),
    "divided positions of one sequence, recomputed in bf16": dict(
        parallel__processes=4, parallel__sequence=4, parallel__activation_checkpointing="full",
        parallel__precision="bf16", train__batch_size=1, train__sequence_length=512),
    "divided positions, lora, chained heads": dict(parallel__sequence=2, parallel__processes=4, adapter=LORA,
                                                   model__future_heads="chained"),
    "divided positions, no_shard, accumulated": dict(parallel__sequence=2, parallel__strategy="no_shard",
                                                     train__gradient_accumulation=2),
    "divided positions, shard_optimizer": dict(parallel__sequence=2, parallel__strategy="shard_optimizer"),
    "divided positions, shard_grad_op in bf16": dict(parallel__sequence=2, parallel__strategy="shard_grad_op",
                                                     parallel__precision="bf16"),
    "divided positions, hybrid_shard": dict(parallel__processes=4, parallel__sequence=2, parallel__shard_group_size=2,
                                            parallel__strategy="hybrid_shard"),
    "divided features": dict(parallel__tensor=2),
    "divided features, lora": dict(parallel__tensor=2, parallel__processes=4, adapter=LORA),
    "divided features and positions, chained heads in bf16": dict(
        parallel__tensor=2, parallel__sequence=2, parallel__processes=4, model__future_heads="chained",
        parallel__precision="bf16"),
    "divided features, no_shard, accumulated": dict(parallel__tensor=2, parallel__strategy="no_shard",
                                                    train__gradient_accumulation=2),
    "divided features, hybrid_shard, muon": dict(parallel__processes=4, parallel__tensor=2,
                                                 parallel__shard_group_size=2, parallel__strategy="hybrid_shard",
                                                 optimizer={"name": "muon"}),
    "muon with a moving average": dict(optimizer={"name": "muon"}, train__ema=0.9),
    "muon in bf16, no_shard": dict(optimizer={"name": "muon"}, parallel__precision="bf16",
                                   parallel__strategy="no_shard"),
    "sgd": dict(optimizer={"name": "sgd"}),
    "state in a file": dict(parallel__optimizer_offload="nvme", parallel__offload_path=".", train__ema=0.9,
                            checkpoint__every_steps=1),
    "state and masters in a file": dict(parallel__optimizer_offload="nvme", parallel__offload_path=".",
                                        parallel__precision="bf16", checkpoint__every_steps=1),
    "only the last blocks": dict(adapter={"plugin": "full", "train_last": 5}),
    "losses first": dict(pipeline={"plugin": "focal"}, train__normalize="weights"),
    "losses of the epoch before": PREVIOUS,
    "losses of the epoch before, accumulated, one process": dict(
        PREVIOUS, parallel__processes=1, train__gradient_accumulation=2),
    "losses of the epoch before, divided positions": dict(PREVIOUS, parallel__sequence=2),
    "weights of divided features": dict(pipeline={"plugin": "focal"}, parallel__tensor=2),
    "compared heads": dict(log={"heads_every_steps": 1}),
    "compared heads in bf16, accumulated, lora": dict(log={"heads_every_steps": 1}, train__gradient_accumulation=2,
                                                      parallel__precision="bf16", adapter=LORA),
    "compared chained heads": dict(log={"heads_every_steps": 1}, model__future_heads="chained"),
    "compared heads of divided positions": dict(log={"heads_every_steps": 1}, parallel__sequence=2),
    "aligned heads": dict(pipeline=ALIGNED),
    "aligned heads in bf16, accumulated, by weights": dict(pipeline=ALIGNED, train__gradient_accumulation=2,
                                                           parallel__precision="bf16", train__normalize="weights"),
    "aligned chained heads": dict(pipeline=ALIGNED, model__future_heads="chained"),
    "aligned heads of divided positions": dict(pipeline=ALIGNED, parallel__sequence=2),
    "aligned heads of divided features": dict(pipeline=ALIGNED, parallel__tensor=2),
}
OF_A_STEP = {"frozen_models", "forward", "alignment", "weights", "value_heads", "backward", "optimizer",
             "head_products", *(f"head_{k}" for k in range(1, 9))}
A_FEW_NUMBERS = 1024  # bytes: numbers of the step, and what other threads hold at that moment
SHORT = ("tied embeddings, biases", "no_shard in bf16", "checkpointing in bf16", "lora beside trained heads and norms",
         "saves beside the training", "muon with a moving average", "chained heads", "state and masters in a file",
         "hybrid_shard, gradients that travel in bf16", "divided positions", "weights of divided features",
         "losses of the epoch before", "compared chained heads", "aligned heads")


def test_heads_that_are_not_compared_take_nothing(place):
    """Where steps are compared, the plan has their memory, and the time of the others."""
    plain = planned(place, place.write(**SIZES))
    compared = planned(place, place.write(**SIZES, log={"heads_every_steps": 10}))
    phases, more = this_one(plain)["phases"], this_one(compared)["phases"]
    assert "head_products" not in phases
    kept = 3 * 4 * 128 * 128 * 4  # of three heads, while the fourth is differentiated
    assert more["head_4"]["allocated"] == phases["head_4"]["allocated"] + kept
    for phase in ("forward", "head_1", "backward"):
        assert more[phase] == phases[phase], phase
    assert {**plain, "memory": 0} == {**compared, "memory": 0}


def planned(place, file, *arguments):
    return json.loads(place.host("plan", file, "--json", *arguments).out)


def this_one(plan):
    return next(variant for variant in plan["memory"] if variant["this_one"])


def measured(log, run=None):
    """Peak bytes by rank."""
    run = run or log.newest()["id"]
    rows = log.query("SELECT rank, max(bytes) AS bytes FROM memory WHERE run_id = ? AND phase = 'peak' "
                     "AND category = 'allocated' GROUP BY rank", run)
    return {row["rank"]: row["bytes"] for row in rows}


def story(log, plan, run=None):
    """Measured and planned bytes by phase, for the message of a failed test."""
    run = run or log.newest()["id"]
    rows = log.query("SELECT phase, category, bytes, max(rowid) FROM memory WHERE run_id = ? AND rank = 0 "
                     "AND phase NOT IN ('peak', 'live') GROUP BY phase, category", run)
    found = {}
    for row in rows:
        found.setdefault(row["phase"], {})[row["category"]] = row["bytes"]
    text = ""
    for phase, bytes_ in sorted(found.items()):
        guess = this_one(plan)["phases"].get(phase) or {}
        text += f"\n{phase}: " + ", ".join(f"{category} {bytes_.get(category, 0) / 2**20:.2f} planned "
                                           f"{guess.get(category, 0) / 2**20:.2f}" for category in sorted(bytes_))
    return text


def expect_within(log, plan, what, run=None):
    most = this_one(plan)["bytes"]["allocated"]
    found = measured(log, run)
    assert 0 in found, what
    for rank, bytes_ in found.items():
        assert abs(most / bytes_ - 1) <= WITHIN, \
            f"{what}: planned {most:,}, rank {rank} took {bytes_:,} ({most / bytes_:.3f}){story(log, plan, run)}"


def expect_equal(log, plan, what):
    """The most that a rank took in each phase of a step, which is logged whenever it has grown by a twentieth: equal
    but for a few numbers."""
    rows = log.query("SELECT phase, max(bytes) AS bytes FROM memory WHERE run_id = ? AND category = 'allocated' "
                     "GROUP BY phase", log.newest()["id"])
    phases = this_one(plan)["phases"]
    found = {row["phase"]: row["bytes"] for row in rows if row["phase"] in OF_A_STEP}
    assert {"forward", "backward", "optimizer"} <= set(found) <= set(phases), f"{what}: {set(found) - set(phases)}"
    off = {phase: (bytes_, phases[phase]["allocated"]) for phase, bytes_ in found.items()
           if abs(bytes_ - phases[phase]["allocated"]) > A_FEW_NUMBERS}
    assert not off, f"{what}: measured and planned differ in {off}{story(log, plan)}"


@pytest.mark.parametrize("changes", [
    dict(parallel__pipeline=2, train__gradient_accumulation=3),
    dict(parallel__pipeline=2, parallel__processes=4, parallel__tensor=2, train__gradient_accumulation=6, adapter=LORA,
         parallel__activation_checkpointing="full"),
    dict(parallel__pipeline=2, train__gradient_accumulation=3, model__tie_word_embeddings=True,
         model__future_heads="chained")],
                         ids=["sections", "sections, divided features, lora", "sections with twins"])
def test_the_plan_of_sections_is_what_the_largest_takes(place, changes):
    """The most of all ranks in each phase, whichever section it is in. The log has it when it has grown by a
    twentieth."""
    changes = {**SIZES, **changes}
    plan = planned(place, place.write(**changes))
    place.run(**changes)
    rows = place.log.query("SELECT phase, max(bytes) AS bytes FROM memory WHERE run_id = ? AND category = 'allocated' "
                           "GROUP BY phase", place.log.newest()["id"])
    phases = this_one(plan)["phases"]
    found = {row["phase"]: row["bytes"] for row in rows if row["phase"] in phases and row["phase"] in OF_A_STEP}
    assert {"forward", "backward", "head_1", "optimizer"} <= set(found)
    for phase, bytes_ in found.items():
        assert bytes_ - A_FEW_NUMBERS <= phases[phase]["allocated"] <= 1.05 * bytes_, phase


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_plan_of_a_random_choice_is_near_what_a_run_takes(place, ranks):
    """How many tokens are chosen is known only on average."""
    changes = {**SIZES, "pipeline": {"plugin": "random"}, "parallel__processes": ranks, "parallel__tensor": ranks}
    plan = planned(place, place.write(**changes))
    place.run(**changes)
    most = this_one(plan)["bytes"]["allocated"]
    assert measured(place.log) == {rank: pytest.approx(most, rel=0.02) for rank in range(ranks)}


@pytest.mark.soak
@pytest.mark.parametrize("case", cases_of(CASES, SHORT))
def test_the_plan_is_what_a_run_takes(place, case):
    changes = {**SIZES, **CASES[case]}
    plan = planned(place, place.write(**changes))
    place.run(**changes)
    expect_within(place.log, plan, case)
    expect_equal(place.log, plan, case)
    tensors = model_tensors(place.log.folder())
    of_adapter = 0
    if (place.log.folder() / "adapter").exists():
        of_adapter = sum(tensor.numel() for name, tensor in adapter_tensors(place.log.folder()).items()
                         if name not in tensors)
    assert plan["parameters"] - of_adapter == sum(tensor.numel() for tensor in tensors.values())
    kept = place.log.query("SELECT bytes FROM checkpoints WHERE state = 'kept'")[-1]["bytes"]
    assert plan["training_state_bytes"] == pytest.approx(kept, rel=0.15), "beside the tensors there is a manifest"


def shipped(place, steps):
    """The experiments of experiments/ with their stages, shortened: fewer steps, and less data to prepare."""
    folder = place.folder / "experiments"
    folder.mkdir()
    for file in (ROOT / "experiments").glob("*.toml"):
        text = file.read_text()
        if steps is not None:
            text = re.sub(r"(?m)^warmup_steps = \d+", "warmup_steps = 1", text)
            text = re.sub(r"(?m)^steps = \d+", f"steps = {steps}", text)
            text = re.sub(r"(?m)^every_steps = 100  +#", "every_steps = 2  #", text)  # checkpoints
            text = re.sub(r"(?m)^problems = \d+", "problems = 4000", text)
            text = re.sub(r"(?m)^batches = \d+", "batches = 1", text)  # of a validation
            text = re.sub(r'(?m)^  "/usr/lib/python3.11/(?!email|http|json)([a-z]+/.*|\*\.py",)\n', "", text)
        (folder / file.name).write_text(text)
    return folder


@pytest.mark.soak
def test_shipped_experiments_take_the_planned_memory(place):
    """The long form runs every experiment unchanged, the short one LoRA with two pipelines and their stages for three
    steps; a checkpoint is written during the third."""
    folder = shipped(place, None if SOAK else 3)
    names = ["reference.toml", "arithmetic.toml", "lora_rho1.toml", "lora_verifiable.toml"]
    names = sorted(file.name for file in folder.glob("*.toml")) if SOAK else names
    for name in names:
        place.host("run", folder / name, timeout=1200)
    for name in names:
        plan = planned(place, folder / name)  # after its data was prepared
        expect_within(place.log, plan, name, place.log.newest(name.removesuffix(".toml"))["id"])


LARGE = {
    "name": "large", "pipeline": {"plugin": "baseline"},
    "model": {"dim": 4096, "layers": 32, "heads": 32, "ffn_dim": 11008, "vocab_size": 32000, "future_tokens": 4},
    "data": {"kind": "random"},
    "train": {"steps": 1000, "batch_size": 1, "sequence_length": 2048},
    "parallel": {"processes": 4, "precision": "bf16", "activation_checkpointing": "full"},
}
PARAMETERS = 6_738_415_616  # Llama 2's 7B, whose last four layers are heads here
LORA_PARAMETERS = 32 * 4 * 8 * 2 * 4096


def by_variant(plan):
    return {(variant["adapter"], variant["strategy"]): variant["bytes"] for variant in plan["memory"]}


def near(bytes_, wanted):
    """Adds at most the padding to 64 elements per rank."""
    return wanted <= bytes_ <= wanted * 1.001 + (1 << 16)


def test_a_model_of_seven_billion_is_planned_strategy_by_strategy(place):
    plan = planned(place, place.write({**LARGE, "adapter": {"plugin": "lora", "rank": 8}}))
    assert plan["parameters"] == PARAMETERS + LORA_PARAMETERS and plan["trained"] == LORA_PARAMETERS
    assert plan["model_bytes"] == 4 * PARAMETERS and plan["training_state_bytes"] == 12 * LORA_PARAMETERS
    assert plan["tokens_a_step"] == 4 * 2048 and plan["steps"] == 1000
    variants = by_variant(plan)
    assert len(variants) == 8
    for strategy, shards in (("full_shard", 4), ("shard_grad_op", 4), ("shard_optimizer", 4), ("no_shard", 1)):
        full, lora = variants["full", strategy], variants["lora", strategy]
        assert near(full["parameters"], 4 * PARAMETERS / shards), strategy
        assert near(full["optimizer"], 8 * PARAMETERS / shards), strategy
        assert near(lora["optimizer"], 8 * LORA_PARAMETERS / shards), strategy
        assert near(lora["parameters"], (2 * PARAMETERS + 4 * LORA_PARAMETERS) / shards), strategy
        assert lora["gradients"] <= 2 * 4 * LORA_PARAMETERS + (1 << 20), strategy
    assert variants["full", "no_shard"]["optimizer"] > 53e9 and variants["lora", "no_shard"]["optimizer"] < 68e6
    assert variants["full", "full_shard"]["allocated"] < variants["full", "shard_grad_op"]["allocated"] \
        <= variants["full", "shard_optimizer"]["allocated"] < variants["full", "no_shard"]["allocated"]


def test_the_text_states_what_is_counted_and_what_is_not(place):
    ended = place.host("plan", place.write(LARGE))
    for words in ("6,738,415,616", "full_shard *", "shard_grad_op", "no_shard", "GiB",
                  "Not counted: the process itself", "parameters", "optimizer", "sequences, 8,192 tokens: 8,192,000",
                  "4 ranks, bf16"):
        assert words in ended.out, f"{words}\n{ended}"


def test_a_plan_trains_nothing_and_writes_nothing(place):
    file = place.write(**SIZES)
    place.host("plan", file)
    records = place.folder / "r.jsonl"
    records.write_text('{"prompt": "a", "completion": "b"}\n' * 8)
    os.utime(records, (1, 1))
    data = {"kind": "records", "files": ["r.jsonl"]}
    file = place.write(data=data, model__vocab_size=None, train__steps=1, **ONE_RANK)
    place.host("plan", file)
    place.host("run", file, "--dry-run")
    assert not (place.folder / "runs").exists()


def test_one_rank_has_one_layout(place):
    file = place.write(**{**SIZES, **ONE_RANK})
    shown = place.host("plan", file).out
    assert len(re.findall(r"^(full|no)_shard|^shard_", shown, re.MULTILINE)) == 1, shown
    lora = planned(place, place.write(**{**SIZES, **ONE_RANK, "adapter": LORA}))
    assert [one["adapter"] for one in lora["memory"]] == ["lora", "full"]


def test_stages_are_listed_with_their_state(place):
    place.write({**experiment(**ONE_RANK, train__steps=1), "name": "base"}, "base.toml")
    file = place.write(**ONE_RANK, model__experiment="base.toml", train__steps=1)
    assert "model: base.toml would run first" in place.host("plan", file).out
    place.host("run", place.folder / "base.toml")
    assert "model: base.toml run 1 would be reused" in place.host("plan", file).out


def test_epochs_over_a_file_of_ids_give_the_steps(place):
    file = place.write(train__steps=None, train__epochs=2)
    assert planned(place, file)["steps"] == 2 * 64 // 4
    assert planned(place, file, "--nproc", 1)["steps"] == 2 * 64 // 2


def test_epochs_over_text_give_the_steps_once_it_is_prepared(place):
    (place.folder / "text.txt").write_text("a line of text\n" * 500)
    file = place.write(data={"kind": "text", "files": ["text.txt"], "tokenizer": {"kind": "byte"}},
                       model__vocab_size=None, train__steps=None, train__epochs=2)
    assert planned(place, file)["steps"] is None
    place.host("data", "prepare", file)
    windows = (500 * len("a line of text\n") + 1) // 64
    assert planned(place, file)["steps"] == -(-2 * windows // 4)


def test_records_that_are_not_prepared_are_planned_at_full_length(place):
    records = {"kind": "records", "template": "plain",
               "arithmetic": {"problems": 300, "operations": ["negate", "add"], "max_operations": 1}}
    changes = dict(data=records, model__vocab_size=None, train__sequence_length=256, train__steps=2, **ONE_RANK)
    before = planned(place, place.write(**changes))
    assert not before["longest_is_known"] and before["positions"] == 256
    place.run(**changes)
    after = planned(place, place.write(**changes))
    assert after["longest_is_known"] and after["positions"] < 128
    assert after["memory"][0]["bytes"]["allocated"] < before["memory"][0]["bytes"]["allocated"]


def test_packed_rows_are_as_long_as_their_packs(place):
    (place.folder / "r.jsonl").write_text("".join(json.dumps({"prompt": "p", "completion": "c" * 58}) + "\n"
                                                  for _ in range(60)))
    changes = dict(data={"kind": "records", "files": ["r.jsonl"], "packing": True}, model__vocab_size=None,
                   train__sequence_length=512, train__steps=1, **ONE_RANK)
    place.run(**changes)
    found = planned(place, place.write(**changes))
    assert found["longest_is_known"] and found["positions"] == 480, "8 records of 60 ids"


def test_an_experiment_with_a_mistake_is_refused_as_by_run(place):
    place.refuse_command(2, "unknown key", command=["plan", place.write(train__stepz=1)])


TOO_LONG = {"train__sequence_length": 1 << 20, "train__batch_size": 1 << 10, "train__steps": 1,
            "data": {"kind": "random"}}
TAKE_TOO_MUCH = r"2 ranks of [\d,]{6,} MiB each .*more than the [\d,]+ MiB of memory available here; lower"


def test_ranks_that_the_memory_cannot_hold_are_refused_before_one_starts(place):
    place.refuse(2, r"experiment\.toml: " + TAKE_TOO_MUCH, **TOO_LONG)
    place.refuse(2, TAKE_TOO_MUCH, arguments=["--dry-run"], **TOO_LONG)
    assert not (place.folder / "runs").exists()
    file = place.write(**TOO_LONG)
    shown = place.host("plan", file).out
    assert re.search(r"^  machine     does not fit: " + TAKE_TOO_MUCH, shown, re.MULTILINE), shown
    assert "of memory available here" in planned(place, file)["misfit"]
    assert planned(place, place.write())["misfit"] is None
    assert "does not fit" not in place.host("plan", place.write()).out


def test_a_stage_that_the_memory_cannot_hold_is_refused_before_it_starts(place):
    place.write(experiment(**TOO_LONG), "reference.toml")
    changes = {"data": {"kind": "random"}, "pipeline__plugin": "rho1", "reference__experiment": "reference.toml"}
    place.refuse(2, r"reference\.toml: " + TAKE_TOO_MUCH, **changes)
    place.refuse(2, r"reference\.toml: " + TAKE_TOO_MUCH, arguments=["--dry-run"], **changes)


def test_many_more_ranks_than_cores_need_oversubscribe(place):
    cores = len(os.sched_getaffinity(0))
    many = {"data": {"kind": "random"}, "parallel__processes": 8 * cores + 1}
    place.refuse(2, rf"{8 * cores + 1:,} ranks of [\d,]+ MiB each .* {cores} usable cores?, at most {8 * cores:,}",
                 "oversubscribe = true", **many)
    file = place.write(**many)
    assert "oversubscribe = true" in place.host("plan", file).out
    place.host("run", file, "--dry-run", "--set", "parallel.oversubscribe=true")


def test_shard_groups_of_hosts_are_planned_for_the_given_number_of_hosts(place):
    hybrid = {"parallel__processes": 4, "parallel__strategy": "hybrid_shard", "train__steps": 2}
    bytes_of = {size: this_one(planned(place, place.write(**hybrid, parallel__shard_group_size=size)))["bytes"]
                for size in (2, 4)}
    file = place.write(**hybrid, parallel__shard_group_size="host")
    assert this_one(planned(place, file))["bytes"] == bytes_of[4] != bytes_of[2]
    assert this_one(planned(place, file, "--nodes", 2))["bytes"] == bytes_of[2]
    place.host("plan", file, "--nodes", 3, wanted=2)


def test_the_largest_batch_that_fits_into_a_memory_is_found(place):
    file = place.write(**SIZES, train__gradient_accumulation=3)
    fit = planned(place, file, "--fit", "64MiB")["fit"]
    largest, same = fit["largest"], fit["same_tokens"]
    assert largest["gradient_accumulation"] == 3 and same["batch_size"] * same["gradient_accumulation"] == 4 * 3
    for batch in (largest, same):
        keys = [word for key in ("batch_size", "gradient_accumulation")
                for word in ("--set", f"train.{key}={batch[key]}")]
        assert this_one(planned(place, file, *keys))["bytes"] == batch["bytes"]
        assert batch["bytes"]["allocated"] <= 64 << 20
    larger = planned(place, file, "--set", f"train.batch_size={largest['batch_size'] + 1}")
    assert this_one(larger)["bytes"]["allocated"] > 64 << 20
    text = place.host("plan", file, "--fit", "64MiB").out
    assert re.search(rf"^largest +{largest['batch_size']} +3 .* MiB activations", text, re.MULTILINE), text


def test_a_memory_that_no_batch_fits_into_is_refused_with_the_changes_that_help(place):
    file = place.write({**LARGE, "parallel": {**LARGE["parallel"], "device": "cuda", "strategy": "no_shard"}})
    place.refuse_command(2, r"experiment\.toml: train\.batch_size = 1 takes 1\d\d\.\d GiB per rank .*GiB optimizer.*"
                         r"more than --fit 60GiB less 5%; it fits with .*"
                         r"parallel\.strategy = \"full_shard\" \([23]\d\.\d GiB\)",
                         command=["plan", file, "--fit", "60GiB"])
    place.refuse_command(2, 'no strategy fits, even with full checkpointing, activation_offload = true and cpu_offload',
                         command=["plan", file, "--fit", "100MiB"])
    place.refuse_command(2, 'found "80GX", expected a number and its unit', command=["plan", file, "--fit", "80GX"])


@pytest.mark.parametrize("page, examples", [("plan.md", 4), ("seven_billion.md", 3)])
def test_the_figures_of_the_page_are_those_of_the_program(place, page, examples):
    """Line by line. The first example prepares no data either, so it is the same everywhere."""
    shown = re.findall(r"^```\n\$ wmtp-host plan experiments/(.*)\n((?s:.*?))^```$",
                       (ROOT / "docs" / page).read_text(), re.MULTILINE)
    assert len(shown) == examples
    for command, output in shown:
        file, *options = shlex.split(command)
        printed = place.host("plan", ROOT / "experiments" / file, *options).out.splitlines()
        for line in filter(None, output.splitlines()):
            assert line in printed, f"{command}\n  docs/{page}: {line}\n" + "\n".join(printed)


def test_the_table_of_models_and_layouts_follows_from_the_program(place):
    """The layout, the GiB of a rank, and where a row says so those of another layout and its time."""
    rows = re.findall(r"^\| [\d.]+B on \d+ .*? \| (.+?) \| ([\d.]+) \| `(.+?)` \|$",
                      (ROOT / "docs/parallel.md").read_text(), re.MULTILINE)
    assert len(rows) == 4
    compared = 0
    for text, memory, command in rows:
        file, *options = shlex.split(command)
        cluster = planned(place, ROOT / "experiments/plan" / file, *options)["cluster"]
        assert [cluster[f"recommended{axis}"] for axis in ("_sequence", "_tensor", "_pipeline")] == [1, 1, 1]
        best = next(one for one in cluster["strategies"] if one["strategy"] == cluster["recommended"])
        assert f"{best['bytes'] / 2**30:.1f}" == memory, command
        assert text.startswith(("one rank", f"`{cluster['recommended']}`")), command
        for other in cluster["divided"]:
            named = f"`tensor = {other['tensor']}`"
            slower = round(100 * (other["time"]["seconds"] / best["time"]["seconds"] - 1))
            if named in text and other["pipeline"] == 1:
                compared += 1
                assert f"{other['bytes'] / 2**30:.1f} GiB" in text and f"{slower}%" in text, f"{command}: {slower}%"
        if "all axes cost time" in text:
            assert all(one["time"]["seconds"] > best["time"]["seconds"] for one in cluster["divided"])
    assert compared > 0


def test_the_prose_about_seven_billion_follows_from_the_program(place):
    file = ROOT / "experiments/plan/7b.toml"

    def layouts(*changes):
        cluster = planned(place, file, "--gpus", 4, "--on", "a100-80gb", *changes)["cluster"]
        return {one["strategy"]: one for one in cluster["strategies"]}

    four, eight = layouts(), layouts("--set", "train.batch_size=8")
    full, no = four["full_shard"], four["no_shard"]
    assert [round(one["bytes"] / 2**30, 1) for one in (no, full)] == [115.5, 30.4]
    assert round(100 * full["bytes"] / no["bytes"]) == 26
    assert no["time"]["seconds"] == pytest.approx(full["time"]["seconds"], rel=0.01)
    assert full["bus_bytes"] < no["bus_bytes"] and round(full["time"]["communication"], 2) == 0.19
    assert round((eight["full_shard"]["bytes"] - full["bytes"]) / 2**30, 1) == 1.6
    variants = by_variant(planned(place, file, "--nproc", 4, "--set", "adapter.plugin=lora"))
    assert [round(variants[adapter, "no_shard"]["optimizer"] / unit, 1)
            for adapter, unit in (("full", 1e9), ("lora", 1e6))] == [53.9, 67.1]


def test_strategies_are_compared_on_given_hardware(place):
    file = ROOT / "experiments/plan/70b.toml"
    cluster = planned(place, file, "--nodes", 8, "--gpus", 8, "--on", "h100")["cluster"]
    by_strategy = {one["strategy"]: one for one in cluster["strategies"]}
    assert cluster["recommended"] == "full_shard" and by_strategy["full_shard"]["fits"]
    assert by_strategy["hybrid_shard"]["network_bytes"] < by_strategy["full_shard"]["network_bytes"]
    for one in by_strategy.values():
        time = one["time"]
        both = time["computation"], time["communication"]
        assert max(both) <= time["seconds"] < sum(both)
        assert 0 < time["mfu"] < 0.513, "the calibration is the bound"
    plan = planned(place, file, "--nodes", 8, "--gpus", 8, "--on", "h200", "--fit", "200GB")
    assert plan["fit"]["largest"]["batch_size"] > 2 and plan["fit"]["largest"]["seconds"] > 0
    assert plan["fit"]["largest"]["bytes"]["allocated"] < plan["fit"]["largest"]["reserved"] <= 0.95 * 200e9
    smaller = ROOT / "experiments/plan/7b.toml"
    printed = place.host("plan", smaller, "--gpus", 1, "--on", "h200").out
    assert "products at 54.3% of the peak," in printed
    printed = place.host("plan", smaller, "--gpus", 1, "--on", "l40s").out
    assert "products at 51.3% of the peak (assumed: the lowest of the calibrated cards)" in printed
    bytes_only = place.host("plan", smaller, "--nodes", 2, "--gpus", 2).out
    assert "network GB" in bytes_only and "Recommended" not in bytes_only and "fits" not in bytes_only


@pytest.mark.parametrize("checkpointing, measured", [("none", 52776), ("full", 43480)])
def test_the_speed_that_was_measured_on_an_h200_is_planned(place, checkpointing, measured):
    """docs/gpu.md. The first is the calibration; the second repeats the trunk's products."""
    one, = planned(place, ROOT / "experiments/gpu/baseline-1b3.toml", "--on", "h200", "--set",
                   f"parallel.activation_checkpointing='{checkpointing}'")["cluster"]["strategies"]
    assert one["time"]["tokens_per_second"] == pytest.approx(measured, rel=0.03)


def test_numbers_of_gpus_and_cards_are_compared_in_one_table(place):
    file = ROOT / "experiments/plan/7b.toml"
    numbers, cards = (1, 8, 16), ("h100", "h200", "a100-80gb", "rtx4090")
    both = ["--gpus", ",".join(map(str, numbers)), "--on", ",".join(cards)]
    rows = planned(place, file, *both)["rows"]
    assert [(row["gpus"], row["on"]) for row in rows] == [(number, card) for number in numbers for card in cards]
    for row in rows:
        memory = {"h200": 141e9, "rtx4090": 24e9}.get(row["on"], 80e9)
        assert row["fits"] == (row["reserved"] <= memory) and row["bytes"] < row["reserved"]
        assert row["missing_bytes"] == max(0, row["reserved"] - memory)
        assert (row["time"] is not None) == row["fits"] == (row["largest_batch_size"] >= 4)
    by = {(row["gpus"], row["on"]): row for row in rows}
    one, eight = by[1, "h200"], by[8, "h200"]
    assert one["fits"] and not by[1, "h100"]["fits"] and not by[1, "rtx4090"]["fits"]
    assert by[8, "rtx4090"]["calibrated_by"] is None
    assert one["calibrated_by"] == "h200" == by[8, "h100"]["calibrated_by"]
    for row, gpus in ((one, 1), (eight, 8)):
        time = row["time"]
        assert time["run_tokens"] == 1000 * gpus * 4 * 2048
        assert time["hours"] == pytest.approx(1000 * time["seconds"] / 3600)
        assert time["rank_hours"] == pytest.approx(gpus * time["hours"])
        assert time["tokens_per_second"] == pytest.approx(time["run_tokens"] / time["hours"] / 3600)
    alone = planned(place, file, "--gpus", 8, "--on", "a100-80gb")["cluster"]
    best = next(cost for cost in alone["strategies"] if cost["strategy"] == alone["recommended"])
    assert by[8, "a100-80gb"]["time"] == best["time"] and by[8, "a100-80gb"]["bytes"] == best["bytes"]
    shown = place.host("plan", file, *both).out
    assert all(row["hosts"] == (2 if row["gpus"] == 16 else 1) for row in rows)
    small = place.write(**SIZES)
    assert planned(place, small, "--gpus", 16) == planned(place, small, "--nodes", 2, "--gpus", 8)
    assert re.search(r"^ +1 +1  h100 +does not fit: \S+ lacks [\d.]+ GiB ", shown, re.MULTILINE), shown
    assert "GPU-hours" in shown and "not calibrated: products at the lowest share" in shown
    grows = "Without train.global_batch_size the tokens of a step grow with the GPUs"
    assert grows in shown
    assert grows in place.host("plan", small, *both).out
    assert grows not in place.host("plan", small, *both, "--set", "train.global_batch_size=64").out
    place.refuse_command(2, "several numbers without --on", command=["plan", file, "--gpus", "1,2"])
    place.refuse_command(2, "--fit: found several numbers", command=["plan", file, *both, "--fit", "80GB"])


def test_layouts_that_divide_sequences_blocks_and_the_model_are_compared_too(place):
    file = place.write(data={"kind": "random"}, train__gradient_accumulation=3)
    cluster = planned(place, file, "--gpus", 4)["cluster"]
    whole = next(one for one in cluster["strategies"] if one["strategy"] == "full_shard")
    divided = {(one["strategy"], one["sequence"], one["tensor"], one["pipeline"]): one for one in cluster["divided"]}
    assert list(divided) == [("full_shard", 2, 1, 1), ("full_shard", 4, 1, 1), ("full_shard", 1, 2, 1),
                             ("full_shard", 1, 4, 1), ("shard_grad_op", 1, 1, 2)]
    for (strategy, sequence, tensor, sections), one in divided.items():
        if sections > 1:
            continue
        assert one["bytes"] < whole["bytes"] and one["operations"] == pytest.approx(whole["operations"], rel=0.02)
        alone = planned(place, file, "--gpus", 4, "--set", f"parallel.sequence={sequence}", "--set",
                        f"parallel.tensor={tensor}", "--set",
                        f"train.gradient_accumulation={3 * sequence * tensor}")["cluster"]
        assert one == next(other for other in alone["strategies"] if other["strategy"] == strategy)
        assert alone["divided"] == []
    shown = place.host("plan", file, "--gpus", 4).out
    assert "full_shard, sequence 4" in shown and "full_shard, tensor 4" in shown
    assert re.search(r"shard_grad_op, pipeline 2 \(\d+ x \d+\)", shown)


def test_on_several_hosts_all_axes_are_also_planned_together(place):
    file = place.write(data={"kind": "random"}, train__gradient_accumulation=3)
    cluster = planned(place, file, "--nodes", 2, "--gpus", 4)["cluster"]
    divided = {(one["strategy"], one["tensor"], one["pipeline"]): one for one in cluster["divided"]}
    both = divided["shard_grad_op", 4, 2]
    assert both["bytes"] < divided["shard_grad_op", 1, 2]["bytes"]
    assert both["network_bytes"] < divided["full_shard", 4, 1]["network_bytes"], "only borders cross the hosts"
    assert ("shard_grad_op", 4, 4) not in divided, "sections would divide hosts"
    assert re.search(r"shard_grad_op, tensor 4, pipeline 2 \(\d+ x \d+\)", place.host(
        "plan", file, "--nodes", 2, "--gpus", 4).out)


def with_steps_of(log, seconds, waits):
    """Replaces the measured times of the newest run's steps, and of the waits for other ranks in each."""
    with contextlib.closing(sqlite3.connect(log.database)) as database, database:
        for name, value in (("perf/step_seconds", f"{seconds}"), ("time/communication", f"{waits} * step")):
            database.execute(f"UPDATE metric_values SET value = {value} WHERE run_id = ? "
                             "AND name_id = (SELECT id FROM metric_names WHERE name = ?)", (log.newest()["id"], name))


def test_sections_are_those_of_the_model_that_trains(place):
    """A critic trains no token heads: its trunk is divided in the middle, that of a policy before its heads."""
    divided = ("--nproc", "2", "--set", "parallel.pipeline=2", "--set", "train.gradient_accumulation=4")
    shown = {name: place.host("plan", ROOT / f"experiments/{name}.toml", *divided).out
             for name in ("critic", "baseline")}
    assert "sections    blocks 0 to 0 | blocks 1 to 2 and the heads" in shown["critic"]
    assert ("sections    blocks 0 to 1 | the heads; bubble 20% of a step of 4 micro-batches; the busiest section "
            "computes 1.68 times the mean") in shown["baseline"]


def test_seconds_follow_from_the_steps_of_a_run_and_the_speed_of_the_network(place):
    place.tokens(windows=400)
    place.run(train__steps=4, train__gradient_accumulation=2)
    with_steps_of(place.log, 0.25, waits=0.05)
    file = place.write(train__steps=4, train__gradient_accumulation=2)

    def times(*arguments):
        """{strategy: (time, bytes over the network, seconds of waits, of sockets)}"""
        cluster = planned(place, file, "--like", "trial", *arguments)["cluster"]
        bytes_of = [one["bus_bytes"] + one["network_bytes"] for one in cluster["strategies"]]
        return {one["strategy"]: (one["time"], one["network_bytes"], cluster["like"]["exchange_seconds"] * received,
                                  cluster["socket_seconds"] * received)
                for one, received in zip(cluster["strategies"], bytes_of)}

    alike = times()
    assert alike["full_shard"][0]["seconds"] == pytest.approx(0.25) and alike["full_shard"][2] == pytest.approx(0.05)
    for time, network_bytes, waits, sockets in alike.values():
        assert (time["communication"], network_bytes, sockets) == (0, 0, 0)
        assert time["seconds"] == pytest.approx(0.2 + waits)
    for time, _, waits, _ in times("--set", "train.batch_size=6").values():
        assert time["seconds"] == pytest.approx(0.6 + waits), "three times the work, as many bytes"
    for time, _, waits, _ in times("--nproc", 8).values():
        assert time["seconds"] == pytest.approx(0.2 + waits), "ranks with as many cores as before"
    slow = times("--nodes", 2, "--nproc", 4, "--network", 1e-5)
    assert len(slow) == 5, "hybrid_shard by host, too"
    for time, network_bytes, *_ in slow.values():
        assert time["seconds"] == pytest.approx(network_bytes * 2 / (0.94 * 1e4 / 8), rel=1e-3)
    for strategy, (time, _, waits, sockets) in times("--nodes", 2, "--nproc", 4, "--network", 1e5).items():
        assert sockets > 0 and time["seconds"] > 0.2 + waits
        if strategy != "hybrid_shard":  # whose shard groups use no sockets
            assert time["seconds"] == pytest.approx(0.2 + waits + sockets, rel=1e-6)
    shown = place.host("plan", file, "--nodes", 2, "--like", 1, "--network", 2.5).out
    assert "as in run 1 (trial, 2 ranks); 2.5 Gbit/s between hosts" in shown \
        and "s of computing per GB" in shown and "MFU" not in shown


def test_a_run_that_shows_no_comparable_speed_is_refused(place):
    file = place.write(**ONE_RANK, train__steps=2)
    place.refuse_command(2, "1 host, which needs none", command=["plan", file, "--like", "1", "--network", "1"])
    place.refuse_command(2, "--network: found no --like", command=["plan", file, "--nodes", "2", "--network", "1"])
    place.refuse_command(2, "2 hosts without --network", command=["plan", file, "--nodes", "2", "--like", "1"])
    place.refuse_command(2, "--on excludes --like", command=["plan", file, "--like", "1", "--on", "h100"])
    place.host("run", file)
    place.refuse_command(2, r"run 1 \(trial\) took 2 steps.* wanted at least 3",
                         command=["plan", file, "--like", "trial"])
    place.refuse_command(2, r"run 1 \(trial\) trained in fp32.* wanted bf16",
                         command=["plan", file, "--like", "1", "--set", "parallel.precision=bf16"])
    place.run(**ONE_RANK, train__steps=4, optimizer__lr=1e30, guard__max_in_a_row=1, wanted=5)
    place.refuse_command(2, r"run 2 \(trial\) is failed, wanted a finished one", command=["plan", file, "--like", "2"])


def test_unknown_hardware_and_contradicting_ranks_are_refused(place):
    file = place.write()
    place.refuse_command(2, '--on: found "h101", known are h100, a100-80gb, h200, a100-40gb, l40s and rtx4090',
                         command=["plan", file, "--on", "h101"])
    place.refuse_command(2, "--nproc excludes --gpus", command=["plan", file, "--gpus", "8", "--nproc", "8"])
