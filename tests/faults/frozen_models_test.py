"""Models and adapters that do not fit their place in an experiment: one message with table, found and wanted value."""
import re
import shutil

import pytest
from experiment import ONE_RANK, experiment

RECORD = '{"instruction": "Add 1 and 2.", "output": "3", "task_id": "t/%d", "is_correct": %s}\n'
CRITIC = {"plugin": "critic", "loss": "lambda_return", "lambda": 0.95}
SMALL = {"model__layers": 2, "model__future_tokens": 1, "train__steps": 2, **ONE_RANK}


def records(**changes):
    data = {"kind": "records", "files": ["a.jsonl"], "template": "plain"}
    return {"data": data, "model__vocab_size": None, **SMALL, **changes}


@pytest.fixture
def place_with_records(place):
    text = "".join(RECORD % (i, "true" if i % 2 else "false") for i in range(64))
    (place.folder / "a.jsonl").write_text(text)
    return place


def test_value_weights_of_another_vocabulary_or_width_are_refused(place_with_records):
    place = place_with_records
    place.run("--set", "name=critic", pipeline=CRITIC, **records())
    verifiable = {"pipeline": {"plugin": "verifiable"}, "value__weights": "run:critic"}
    place.run(**records(**verifiable))
    place.refuse_everywhere(4, r"\[value\] .*its vocabulary has \d+ ids, the policy's 512", **SMALL, **verifiable)
    place.refuse_everywhere(4, r"tok_embeddings\.weight.* shape \[\d+,64\], the model has \[\d+,32\]",
                            **records(**verifiable, value__model={"dim": 32}))


@pytest.mark.parametrize("table, pipeline", [("value", {"plugin": "verifiable"}), ("model", CRITIC)])
def test_a_shape_that_leaves_out_the_last_block_of_a_critics_trunk_is_refused(place_with_records, table, pipeline):
    """Without token heads, the block after a trunk that is too short would pass for that of head 1."""
    place = place_with_records
    place.run("--set", "name=critic", pipeline=CRITIC, **records())
    shape = {"model__layers": 2, "model__future_tokens": 2}
    if table == "value":
        shape["value__model"] = {"layers": 2}  # the critic's own number, with [model]'s future_tokens
    one = {**records(), "pipeline": pipeline, **shape}
    place.refuse_everywhere(4, r"model/params\.json: its trunk has 1 block, but layers = 2 less future_tokens = 2 "
                               r"leaves 0 blocks; set layers to 3", **one, **{f"{table}__weights": "run:critic"})
    file = next(place.folder.glob("runs/*-critic/model/model.safetensors"))
    if table == "model":
        place.refuse_everywhere(4, r"model/params\.json: its trunk has 1 block, but layers = 2 less future_tokens = 2",
                                **one, model__weights=str(file))
        (place.folder / "alone.safetensors").hardlink_to(file)  # states no shape, but has no output matrix
        place.refuse_everywhere(4, r"'layers\.0\..*' is not part of the model; check \[model\] layers",
                                **one, model__weights="alone.safetensors")


def test_a_critic_of_another_depth_gives_the_same_values_with_and_without_its_shape(place_with_records):
    place = place_with_records
    place.run("--set", "name=critic", pipeline=CRITIC, **records(model__rope_theta=500.0))
    verifiable = records(pipeline={"plugin": "verifiable"}, value__weights="run:critic", model__future_tokens=2)
    place.run(**verifiable)
    alone = place.log.metric("train/loss")
    told = place.run(**verifiable, value__model={"layers": 2, "future_tokens": 1, "rope_theta": 500.0})
    assert place.log.metric("train/loss") == alone and "rope_theta" not in told.err
    told = place.run(**verifiable, value__model={"layers": 2, "future_tokens": 1})
    assert "[value] weights" in told.err and "rope_theta is 500.0 there and 10000.0 here" in told.err


@pytest.mark.parametrize("table", ["model", "reference"])
def test_another_number_of_attention_heads_than_the_weights_have_is_refused(place, table):
    place.run("--set", "name=other", **SMALL)
    heads = {"model__heads": 2} if table == "model" else {"reference__model": {"heads": 2}}
    place.refuse_everywhere(4, r"params\.json: 4 heads and 4 kv_heads, \[.*\] has 2 and 2; "
                               r"set them to the weights' own",
                            **SMALL, pipeline={"plugin": "rho1" if table == "reference" else "baseline"},
                            **{f"{table}__weights": "run:other"}, **heads)


def test_scores_of_a_critic_are_refused_where_values_are_read(place_with_records):
    place = place_with_records
    pairs = "".join(RECORD % (i, right) for i in range(64) for right in ("true", "false"))
    (place.folder / "pairs.jsonl").write_text(pairs)
    data = {"kind": "records", "files": ["pairs.jsonl"], "template": "plain"}
    place.run("--set", "name=critic", **records(pipeline={"plugin": "critic"}, data=data))
    sigmoid = {"pipeline": {"plugin": "verifiable", "squash": "sigmoid"}, "value__weights": "run:critic"}
    place.refuse_everywhere(4, r"\[value\] .*its value head was trained on scores, .* wanted values; "
                               r"train the critic with",
                            **records(**sigmoid))
    place.run(**records(pipeline={"plugin": "verifiable", "critic": "score"}, value__weights="run:critic"))


def test_value_weights_without_a_value_head_are_refused(place):
    place.run("--set", "name=policy", **SMALL)
    place.refuse_everywhere(4, r"\[value\] .*wanted a model with one value head, found 0; train one with",
                            **SMALL, pipeline={"plugin": "verifiable"}, value__weights="run:policy")


@pytest.mark.parametrize("table", ["model", "reference"])
def test_a_critic_gives_no_model_that_predicts_tokens(place_with_records, table):
    place = place_with_records
    place.write({**experiment(**records(pipeline=CRITIC)), "name": "critic"}, "critic.toml")
    pipeline = {"plugin": "rho1"} if table == "reference" else {"plugin": "baseline"}
    place.refuse(2, r"experiment\.toml:\d+:\d+: the stage has no head that predicts tokens: found pipeline .critic",
                 **records(pipeline=pipeline, **{f"{table}__experiment": "critic.toml"}))
    assert not place.log.runs(), "the stage was trained first"


def test_a_critics_weights_are_refused_for_a_model_that_predicts_tokens(place_with_records):
    place = place_with_records
    place.run("--set", "name=critic", pipeline=CRITIC, **records())
    place.refuse_everywhere(4, r"is missing; .*a critic's model predicts no tokens: it goes into \[value\]",
                            **records(model__weights="run:critic"))


@pytest.mark.parametrize("table", ["reference", "references.amateur"])
def test_a_reference_of_another_vocabulary_is_refused(place, table):
    place.run("--set", "name=other", **{**SMALL, "data": {"kind": "random"}, "model__vocab_size": 96})
    weight = "ref" if table == "reference" else "amateur_loss"
    place.refuse_everywhere(4, rf"\[{table}\] .*its vocabulary has 96 ids, the policy's 512; both must share",
                            **SMALL, pipeline={"plugin": "formula", "weight": weight},
                            **{f"{table.replace('.', '__')}__weights": "run:other"})


def text(name, /, **tokenizer):
    tokenizer = tokenizer or {"kind": "bpe", "vocab_size": 290}
    return {"data": {"kind": "text", "files": [name], "tokenizer": tokenizer}, "model__vocab_size": 290, **SMALL}


@pytest.fixture
def place_with_texts(place):
    (place.folder / "a.txt").write_text("the thin thread that they threw there\n" * 200)
    (place.folder / "b.txt").write_text("our old oak, outside, over our own orchard\n" * 200)
    return place


@pytest.mark.parametrize("table", ["reference", "references.amateur"])
def test_a_reference_with_another_tokenizer_of_the_same_size_is_refused(place_with_texts, table):
    place = place_with_texts
    for name in ("a", "b"):
        place.run("--set", f"name={name}", **text(f"{name}.txt"))
    [a, b] = [next(place.folder.glob(f"runs/*-{name}/model/tokenizer.model")) for name in ("a", "b")]
    pipeline = {"plugin": "formula", "weight": "ref" if table == "reference" else "amateur_loss"}
    to_a = {"pipeline": pipeline, f"{table.replace('.', '__')}__weights": "run:a"}
    place.refuse(4, rf"\[{table}\] .*model: its tokenizer runs/1-a/model/tokenizer\.model is not the data's, "
                    r"runs/cache/.*/tokenizer\.model: id \d+ is .* there and .* here; "
                    rf"set \[data\.tokenizer\] to kind = .file. and file = .{a}., or choose weights",
                 **text("b.txt"), **to_a)
    place.refuse_everywhere(4, rf"\[{table}\] .* is not the data's, {b}: ",
                            **text("b.txt", kind="file", file=str(b)), **to_a)
    place.run(**text("b.txt", kind="file", file=str(a)), **to_a)


def test_training_goes_on_from_weights_with_another_tokenizer_with_a_warning(place_with_texts):
    place = place_with_texts
    for name in ("a", "b"):
        place.run("--set", f"name={name}", **text(f"{name}.txt"))
    told = place.run(**text("b.txt"), model__weights="run:a").err
    assert "[model] weights runs/1-a/model: its tokenizer runs/1-a/model/tokenizer.model is not the data's" in told
    other = text("b.txt", kind="file", file=str(next(place.folder.glob("runs/*-b/model/tokenizer.model"))))
    told = place.host("plan", place.write(**other, model__weights="run:a")).err
    assert "[model] weights runs/1-a/model: its tokenizer runs/1-a/model/tokenizer.model is not the data's" in told
    assert "is not the data's" not in place.run(**text("a.txt"), model__weights="run:a").err


def test_weights_of_a_frozen_model_that_state_fewer_positions_than_a_sequence_has_are_refused(place):
    place.run("--set", "name=short", **SMALL, train__sequence_length=32)
    reads = {**SMALL, "pipeline": {"plugin": "rho1"}}
    place.refuse_everywhere(4, r"\[reference\] .*model: its sequences have at most 32 tokens, wanted "
                               r"train\.sequence_length = 64; .* set max_sequence_length, .* in \[reference\.model\]",
                            **reads, reference__weights="run:short")
    file = next(place.folder.glob("runs/*-short/model/model.safetensors"))
    place.refuse_everywhere(4, "its sequences have at most 32 tokens", **reads, reference__weights=str(file))
    place.run(**reads, reference__weights="run:short", reference__model={"max_sequence_length": 64})
    place.run(**reads, reference__weights="run:short", train__sequence_length=32)


def test_weights_to_train_that_state_fewer_positions_than_a_sequence_has_are_a_warning(place):
    place.run("--set", "name=short", **SMALL, train__sequence_length=32)
    weights = {**SMALL, "model__weights": "run:short"}
    said = r"warning: \[model\] weights .*model: its sequences have at most 32 tokens, and train\.sequence_length is 64"
    file = place.write(**weights)
    for command in (["plan"], ["run", "--dry-run"], ["run"]):
        assert len(re.findall(said, place.host(*command, file).err)) == 1, command
    assert "its sequences have" not in place.run(**weights, train__sequence_length=32).err
    stretched = {"model__rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    assert "its sequences have" not in place.run(**weights, **stretched).err


def test_names_of_references_that_the_experiment_lacks_are_refused_and_listed(place):
    formula = {"plugin": "formula", "weight": "max(0, amatuer_loss - reference_loss)"}
    place.refuse(2, r"pipeline .formula. reads references\.amatuer\.loss, but the experiment has no "
                    r"\[references\.amatuer\], only \[references\] amateur",
                 r"reads no reference .amateur. with these options", **SMALL, pipeline=formula,
                 reference__weights="run:x", references__amateur__weights="run:x")
    place.refuse(2, r"unknown name 'policy_loss'.* and NAME_loss and NAME_entropy of a \[references\.NAME\]",
                 **SMALL, pipeline={"plugin": "formula", "weight": "policy_loss"})
    place.refuse(4, r"weights = .run:nobody.", **SMALL, pipeline={"plugin": "formula", "weight": "amateur_loss"},
                 references__amateur__weights="run:nobody")


OWN = {"pipeline": {"plugin": "rho1"}, "model__layers": 5, "reference__heads": "own", "train__steps": 2, **ONE_RANK}


def test_own_heads_that_the_weights_of_a_reference_lack_are_refused(place):
    place.run("--set", "name=other", **SMALL)
    place.refuse_everywhere(4, r"experiment\.toml: \[reference\] heads = \"own\": .*/model: found 1 head, wanted at "
                               r"least \[model\] future_tokens = 4; choose a reference with as many heads, or set "
                               r"heads = \"next\"", **OWN, reference__weights="run:other")
    place.run(**OWN | {"reference__heads": "next"}, reference__weights="run:other")
    place.run(**OWN | {"reference__heads": "auto"}, reference__weights="run:other")
    assert len({run["config_hash"] for run in place.log.runs()[-2:]}) == 1, "both read the next-token head"


def test_own_heads_that_a_stage_or_a_stated_shape_lacks_are_refused_at_the_key(place):
    place.write({**experiment(**SMALL), "name": "reference"}, "reference.toml")
    place.refuse(2, r"experiment\.toml:\d+:\d+: the stage's model has too few heads: found heads \"own\" for its "
                    r"future_tokens 1, wanted at least 4 as in this experiment", r"heads = \"own\"",
                 r"choose a reference", **OWN, reference__experiment="reference.toml")
    place.refuse(2, r"experiment\.toml:\d+:\d+: found heads \"own\" for \[reference.model\] future_tokens = 3, "
                    r"wanted at least \[model\] future_tokens = 4", **OWN, reference__weights="run:x",
                 reference__model={"future_tokens": 3})
    place.refuse(2, r"\[reference\] heads: found the string \"both\", wanted one of \"auto\", \"own\" and \"next\"",
                 **OWN | {"reference__heads": "both"}, reference__weights="run:x")


@pytest.mark.parametrize("table", ["model", "reference"])
def test_weights_that_are_not_what_their_manifest_says_are_refused(place, table):
    """The manifest identifies the run, and the losses of a reference that are kept."""
    for seed in (1, 2):
        place.run("--set", f"name=base{seed}", seed=seed, **SMALL)
    one, other = (next(place.folder.glob(f"runs/*-base{seed}/model/model.safetensors")) for seed in (1, 2))
    shutil.copyfile(other, one)
    named = {**SMALL, "pipeline": {"plugin": "rho1" if table == "reference" else "baseline"}}
    place.refuse_everywhere(4, r"base1/model/model\.safetensors: .* checksum .* but the manifest lists",
                            **named, **{f"{table}__weights": "run:base1"})
    place.run(**named, **{f"{table}__weights": "run:base2"})


def test_an_adapter_for_another_base_is_refused(place):
    lora = {"plugin": "lora", "rank": 2}
    place.run("--set", "name=tuned", adapter=lora, **SMALL)
    place.run(adapter={**lora, "weights": "run:tuned"}, **SMALL)
    place.refuse(4, r"the fingerprint of the model it was trained on is \"[0-9a-f]{16}\", but here",
                 adapter={**lora, "weights": "run:tuned"}, seed=8, **SMALL | {"parallel__processes": 2})  # by the ranks


def test_a_file_is_refused_where_an_adapters_folder_is_wanted(place):
    place.run("--set", "name=tuned", adapter={"plugin": "lora", "rank": 2}, **SMALL)
    folder = next(place.folder.glob("runs/*-tuned/adapter"))
    wanted = r"wanted the adapter folder of a run, the folder of an imported adapter, or run:NAME"
    for path, found in ((next(folder.glob("*.safetensors")), "is not a folder"), (folder / "none", "there is no ")):
        place.refuse_everywhere(4, r"\[adapter\] weights = ", found, wanted,
                                adapter={"plugin": "lora", "rank": 2, "weights": str(path)}, **SMALL)
    place.run(adapter={"plugin": "lora", "rank": 2, "weights": str(folder)}, **SMALL)


def test_cached_signals_of_one_shape_are_not_used_for_another(place):
    """The same tensors with another base of the rotary embedding are a different model."""
    place.run("--set", "name=other", **SMALL)
    rho1 = {**SMALL, "pipeline": {"plugin": "rho1"}, "reference__weights": "run:other"}
    excess = []
    for theta in (10000.0, 50.0, 50.0):
        place.run(**rho1, reference__model={"rope_theta": theta, "layers": 2, "future_tokens": 1})
        excess.append(place.log.metric("rho1/excess_mean"))
    assert excess[0] != excess[1], "signals of the reference with another rope_theta were used"
    assert excess[1] == excess[2]
