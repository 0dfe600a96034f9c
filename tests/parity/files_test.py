"""Models and adapters in the formats of other programs, opened by those programs: transformers, PEFT, SentencePiece."""
import copy
import json
import re
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import experiment
import numpy as np
import prepared
import pytest
import torch
import transformers
from checkpoint import adapter_tensors, flip_bit, model_tensors
from compare import assert_tensors_equal
from hf_model import logits_of, open_llama, random_llama
from mtp_model import Shape, model_of, tensors_of, token_losses
from places import Place, assert_nothing_half_written
from reference import filled
from safetensors.torch import load_file, save_file
from start import POLICY, keys_of

# Relative to the largest logit: two programs compute the same model, and round sums of a few hundred numbers.
CLOSE = 1e-5
GROUPED = Shape(dim=64, layers=6, heads=4, kv_heads=2, ffn_dim=160, vocab_size=experiment.VOCAB, rope_theta=5000.0,
                norm_eps=1e-6, future_tokens=3)
CHAINED = replace(GROUPED, future_heads="chained")
SHARED = replace(GROUPED, future_heads="shared")
IDS = torch.arange(1, 49).view(2, 24) * 7 % experiment.VOCAB
ONE = {"parallel__processes": 1}  # for runs that only write or read converted files
FOUR_WINDOWS = {**ONE, "train__batch_size": 4}  # a step as of two ranks
SHARP = {**ONE, "optimizer__lr": 3e-2, "train__steps": 8}  # trains a model far from its initial values


LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
# With 24 positions: some angles have few rotations within 16 positions, some have many, some lie between.
OTHERS = {
    "llama3": replace(GROUPED, rope_scaling=LLAMA3),
    "linear": replace(GROUPED, rope_scaling={"rope_type": "linear", "factor": 2.5}),
    "tied": replace(GROUPED, tie_word_embeddings=True),
    "qwen2": replace(GROUPED, qkv_bias=True),
    "qwen2-tied": replace(GROUPED, qkv_bias=True, tie_word_embeddings=True, rope_scaling=LLAMA3),
    "one-key-head": replace(GROUPED, kv_heads=1, tie_word_embeddings=True),
}
THEIRS = {
    "llama3": dict(rope_parameters=LLAMA3 | {"rope_theta": 5000.0}),
    "linear": dict(rope_parameters={"rope_type": "linear", "factor": 2.5, "rope_theta": 5000.0}),
    "tied": dict(tie_word_embeddings=True),
    "qwen2": dict(model_type="qwen2"),
    "qwen2-tied": dict(model_type="qwen2", tie_word_embeddings=True,
                       rope_parameters=LLAMA3 | {"rope_theta": 5000.0}),
    "one-key-head": dict(tie_word_embeddings=True, num_key_value_heads=1),
}


our_model = model_of


def first_head(model, ids=IDS):
    with torch.no_grad():
        return model(ids)[0]


def assert_close(found, wanted):
    largest = wanted.abs().max().item()
    assert largest > 0.5, "logits this small would hide a mistake"
    error = (found - wanted).abs().max().item() / largest
    assert error <= CLOSE, f"logits differ by {error:.2e} of the largest > {CLOSE:.0e}"


def shape_of(table):
    return Shape(**{name: value for name, value in table.items() if name != "weights"})


def exported(place, source, name, *options):
    place.host("checkpoint", "export", source, "-o", name, *options)
    return place.folder / name


def imported(place, source, name, *options):
    """The table printed for the experiment."""
    table, = tomllib.loads(place.host("checkpoint", "import", source, "-o", name, *options).out).values()
    return table


SHAPES = {"policy": POLICY, "grouped": GROUPED, "chained": CHAINED, "shared": SHARED, **OTHERS}


@pytest.fixture(scope="module")
def trained(program, tmp_path_factory):
    """A function that returns a place with run 1, a model of that shape trained far from its initial values. Each is
    trained once; a test writes only folders that begin with a word of its own."""
    made = {}

    def trained(name):
        if name not in made:
            made[name] = Place(tmp_path_factory.mktemp(name))
            made[name].tokens()
            made[name].run(**keys_of(SHAPES[name], "model"), **SHARP)
        return made[name]
    return trained


@pytest.mark.parametrize("name", SHAPES)
def test_transformers_opens_an_exported_run_and_computes_the_same(trained, name):
    place, shape = trained(name), SHAPES[name]
    folder = exported(place, "trial", "opened")
    assert_close(logits_of(open_llama(folder), IDS), first_head(our_model(shape, model_tensors(place.log.folder()))))
    config = json.loads((folder / "config.json").read_text())
    assert config["num_hidden_layers"] == shape.layers - shape.future_tokens + 1
    assert config["max_position_embeddings"] == experiment.SEQUENCE
    assert config["torch_dtype"] == "float32" and config["eos_token_id"] is None


@pytest.mark.parametrize("name", ["grouped", "qwen2-tied", "chained", "shared"])
def test_export_and_import_give_the_same_model_back_bit_for_bit(trained, name):
    place, shape = trained(name), SHAPES[name]
    run = place.log.folder()
    exported(place, "1", "there")
    table = imported(place, "there", "there-and-back")
    back = place.folder / "there-and-back"
    assert shape_of(table) == shape and table["weights"] == str(back)
    assert_tensors_equal(load_file(back / "model.safetensors"), model_tensors(run))
    assert json.loads((back / "params.json").read_text()) == json.loads((run / "model/params.json").read_text())
    assert "complete (model" in place.host("checkpoint", "verify", "there-and-back").out


@pytest.mark.parametrize("name", ["grouped", "qwen2-tied", "chained", "shared"])
def test_metas_format_is_exported_and_imported_bit_for_bit(trained, name):
    place, shape = trained(name), SHAPES[name]
    folder = exported(place, place.log.folder(), "meta", "--to", "meta")
    wanted = model_tensors(place.log.folder())
    if shape.tie_word_embeddings:  # Meta's code has no tied embeddings
        wanted["output.weight"] = wanted["tok_embeddings.weight"]
    assert_tensors_equal(load_file(folder / "consolidated.00.safetensors"), wanted)
    assert shape_of(imported(place, "meta", "meta-back")) == shape
    assert_tensors_equal(load_file(place.folder / "meta-back/model.safetensors"), model_tensors(place.log.folder()))


def test_bf16_is_rounded_as_pytorch_rounds(trained):
    place = trained("policy")
    folder = exported(place, "trial", "rounded", "--dtype", "bf16")
    found = {**load_file(folder / "model.safetensors"), **load_file(folder / "mtp_heads.safetensors")}
    whole = exported(place, "trial", "rounded-not")
    wanted = {**load_file(whole / "model.safetensors"), **load_file(whole / "mtp_heads.safetensors")}
    assert {value.dtype for value in found.values()} == {torch.bfloat16}
    assert_tensors_equal({name: value.float() for name, value in found.items()},
                         {name: value.bfloat16().float() for name, value in wanted.items()})
    assert open_llama(folder).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype, shards", [(torch.float32, None), (torch.float32, "60KB"), (torch.bfloat16, None),
                                           (torch.float16, "60KB")])
def test_a_llama_of_transformers_is_imported_and_exported_again(place, dtype, shards):
    llama = random_llama(rounded_to=dtype)
    copy.deepcopy(llama).to(dtype).save_pretrained(place.folder / "theirs",
                                                   **({"max_shard_size": shards} if shards else {}))
    assert (len(list((place.folder / "theirs").glob("*.safetensors"))) > 2) == (shards is not None)
    table = imported(place, "theirs", "ours")
    assert_close(first_head(our_model(shape_of(table), load_file(place.folder / "ours/model.safetensors"))),
                 logits_of(llama, IDS))
    folder = exported(place, "ours", "again")
    assert not (folder / "mtp_heads.json").exists()
    assert_tensors_equal(load_file(folder / "model.safetensors"), llama.state_dict())
    assert_close(logits_of(open_llama(folder), IDS), logits_of(llama, IDS))


@pytest.mark.parametrize("case", OTHERS)
def test_models_of_the_llama_family_are_imported_trained_and_exported_again(place, case):
    """Training with updates too small for fp32 leaves the imported weights unchanged."""
    theirs = random_llama(**THEIRS[case])
    theirs.save_pretrained(place.folder / "theirs")
    table = imported(place, "theirs", "ours")
    shape = shape_of(table)
    assert replace(shape, layers=6, future_tokens=3) == OTHERS[case]
    tensors = load_file(place.folder / "ours/model.safetensors")
    assert_close(first_head(our_model(shape, tensors)), logits_of(theirs, IDS))
    keys = {f"model__{key}": value for key, value in table.items()}
    place.run(**keys, **FOUR_WINDOWS, train__steps=1, optimizer__lr=1e-30, optimizer__weight_decay=0)
    assert_tensors_equal(model_tensors(place.log.folder()), tensors)
    wanted = first_loss(shape, tensors, experiment.write_tokens(place.folder))
    assert abs(place.log.losses()[1] - wanted) <= 1e-6 * wanted
    folder = exported(place, "trial", "again")
    assert json.loads((folder / "config.json").read_text())["model_type"] == theirs.config.model_type
    again = open_llama(folder)
    parameters = {name: value.detach() for name, value in theirs.named_parameters()}  # a tied matrix occurs once
    assert_tensors_equal(load_file(folder / "model.safetensors"), parameters)
    assert torch.equal(logits_of(again, IDS), logits_of(theirs, IDS))


def first_loss(shape, tensors, ids):
    """The loss of the first four windows: the mean over heads of the mean over tokens."""
    batch = torch.as_tensor(ids).view(-1, experiment.SEQUENCE)[:4].long()
    with torch.no_grad():
        heads = our_model(shape, tensors)(batch)
        return torch.stack([token_losses(logits, batch, k).mean() for k, logits in enumerate(heads, 1)]).mean().item()


def test_a_run_from_an_imported_model_begins_with_its_loss(place):
    random_llama().save_pretrained(place.folder / "theirs")
    ids = place.tokens()
    for tokens in (1, 3):
        table = imported(place, "theirs", f"ours-{tokens}", "--future-tokens", tokens)
        place.run(**{f"model__{key}": value for key, value in table.items()}, **FOUR_WINDOWS, train__steps=1)
        wanted = first_loss(shape_of(table), load_file(place.folder / f"ours-{tokens}/model.safetensors"), ids)
        assert abs(place.log.losses()[1] - wanted) <= 1e-6 * wanted


def run_from(place, weights, table, **changes):
    """Runs three steps from these weights; returns the final tensors and the losses."""
    place.run(**{f"model__{key}": value for key, value in table.items()}
              | {"model__weights": weights, "train__steps": 3}, **changes)
    return model_tensors(place.log.folder()), place.log.losses()


@pytest.mark.parametrize("case, dtype, ranks", [("llama3", torch.float32, 2), ("qwen2-tied", torch.bfloat16, 4),
                                                ("tied", torch.float16, 1)])
def test_a_hugging_face_folder_is_read_as_it_is_imported(place, case, dtype, ranks):
    llama = random_llama(rounded_to=dtype, **THEIRS[case])
    copy.deepcopy(llama).to(dtype).save_pretrained(place.folder / "theirs", max_shard_size="60KB")
    table = imported(place, "theirs", "ours")
    wanted, losses = run_from(place, "ours", table)
    for weights in ("theirs", "alone/model.safetensors"):
        if weights != "theirs":
            llama.save_pretrained(place.folder / "alone")
        found, found_losses = run_from(place, weights, table, parallel__processes=ranks, train__batch_size=4 // ranks)
        if ranks == 2:
            assert found_losses == losses
            assert_tensors_equal(found, wanted)
        assert abs(found_losses[1] - losses[1]) <= 1e-6 * losses[1]


@pytest.mark.parametrize("case", ["llama3", "qwen2-tied"])
def test_a_folder_of_weights_states_the_shape_of_the_model(place, case):
    """Of a Hugging Face model, of an imported one, and of a run that began with it."""
    random_llama(**THEIRS[case]).save_pretrained(place.folder / "theirs")
    many = imported(place, "theirs", "many", "--future-tokens", 3)
    wanted, losses = run_from(place, "theirs", many | {"new_heads": "copy"}, **ONE)
    hash_of = lambda: place.log.newest("trial")["config_hash"]  # noqa: E731
    given = hash_of()
    place.run(model={"weights": "theirs", "future_tokens": 3, "new_heads": "copy"}, train__steps=3, **ONE)
    assert hash_of() == given and place.log.losses() == losses
    assert_tensors_equal(model_tensors(place.log.folder()), wanted)
    for weights in ("many", str(place.log.folder() / "model")):
        place.run(model={"weights": weights}, train__steps=1, **ONE)
        assert model_tensors(place.log.folder()).keys() == wanted.keys()
    place.refuse(2, r"\[model\] lacks dim, layers and heads", "only a folder of weights",
                 model={"weights": "run:trial"})
    place.refuse(4, "there is no .*absent", model={"weights": "absent"})


@pytest.mark.parametrize("how", ["copy", "new"])
def test_heads_that_the_weights_lack_are_initialized_as_new_heads_says(place, how):
    """And the adapter `heads` trains only them."""
    random_llama(tie_word_embeddings=True).save_pretrained(place.folder / "theirs")
    table = imported(place, "theirs", "ours")
    many = imported(place, "theirs", "many", "--future-tokens", 3)
    place.refuse(4, "extra_heads.0.*is missing.*new_heads = .copy. or .new.",
                 **{f"model__{key}": value for key, value in (many | {"weights": "theirs"}).items()})
    base = load_file(place.folder / ("many" if how == "copy" else "ours") / "model.safetensors")
    for weights in ("theirs", table["weights"]):
        still, untrained = run_from(place, weights, many | {"new_heads": how}, **FOUR_WINDOWS,
                                    optimizer__lr=1e-30, optimizer__weight_decay=0)
        assert_tensors_equal({name: still[name] for name in base}, base)
    drawn = torch.cat([value.flatten() for name, value in still.items()
                       if name.startswith("extra_heads") and ".w1." in name])
    assert (abs(drawn.std().item() - 0.02) < 0.001) == (how == "new")
    trained, losses = run_from(place, "theirs", many | {"new_heads": how}, **FOUR_WINDOWS,
                               adapter__plugin="heads", optimizer__lr=1e-2)
    of_heads = {name for name in trained if name.startswith("extra_heads.")}
    assert_tensors_equal({name: trained[name] for name in trained if name not in of_heads},
                         {name: still[name] for name in still if name not in of_heads})
    assert of_heads and not any(torch.equal(trained[name], still[name]) for name in of_heads)
    assert losses[1] == untrained[1] and losses[3] < untrained[3]


def test_new_chained_heads_are_copies_of_the_last_block_behind_new_projections(place):
    random_llama().save_pretrained(place.folder / "theirs")
    many = imported(place, "theirs", "many", "--future-tokens", 3)
    chained = many | {"future_heads": "chained"}
    place.refuse(4, r"extra_heads.0.hnorm.weight. is missing.*future_heads = .parallel.",
                 **{f"model__{key}": value for key, value in chained.items()})
    still, _ = run_from(place, "theirs", chained | {"new_heads": "copy"}, optimizer__lr=1e-30,
                        optimizer__weight_decay=0)
    copies = load_file(place.folder / "many/model.safetensors")
    assert_tensors_equal({name: still[name] for name in copies}, copies)
    assert sorted(still.keys() - copies.keys()) == [f"extra_heads.{head}.{layer}.weight" for head in (0, 1)
                                                    for layer in ("eh_proj", "enorm", "hnorm")]
    replaced, _ = run_from(place, "many", chained | {"new_heads": "copy"}, optimizer__lr=1e-30,
                           optimizer__weight_decay=0)
    assert_tensors_equal(replaced, still)  # parallel heads of the weights do not become chained ones
    for head in (0, 1):
        assert abs(still[f"extra_heads.{head}.eh_proj.weight"].std().item() - 0.02) < 0.001
        assert still[f"extra_heads.{head}.hnorm.weight"].eq(1).all()
    weights = str(place.log.folder() / "model")
    place.refuse(4, r"extra_heads.0.eh_proj.weight. is not part of the model; check \[model\] future_heads",
                 **{f"model__{key}": value
                    for key, value in (many | {"weights": weights, "future_heads": "parallel"}).items()})


def test_shared_heads_begin_with_the_block_of_one_head_and_are_as_many_as_wanted(place):
    """From the weights of chained heads, of more shared ones, and from a file."""
    place.tokens()
    still = {**FOUR_WINDOWS, "optimizer__lr": 1e-30, "optimizer__weight_decay": 0, "train__steps": 1}
    two = replace(GROUPED, layers=5, future_tokens=2, future_heads="chained")
    place.run(**keys_of(two, "model"), **SHARP)
    block = model_tensors(place.log.folder())
    many = keys_of(replace(two, layers=7, future_tokens=4, future_heads="shared"), "model")
    for weights in ("run:1", "run:2", str(place.folder / "runs/2-trial/model/model.safetensors")):
        place.run(**many | {"model__weights": weights}, **still)
        assert_tensors_equal(model_tensors(place.log.folder()), block)
        stated = json.loads((place.log.folder() / "model/params.json").read_text())
        assert (stated["n_layers"], stated["n_future_tokens"], stated["future_heads"]) == (7, 4, "shared")
    assert len({json.dumps(place.log.losses(run)) for run in (2, 3, 4)}) == 1


def test_shared_heads_of_weights_without_them_are_made_and_those_of_several_blocks_refused(place):
    random_llama().save_pretrained(place.folder / "theirs")
    many = imported(place, "theirs", "many", "--future-tokens", 3)
    shared = many | {"future_heads": "shared", "weights": "theirs"}
    place.refuse(4, r"extra_heads.0.attention_norm.weight. is missing.*new_heads = .copy.",
                 **{f"model__{key}": value for key, value in shared.items()})
    still, _ = run_from(place, "theirs", shared | {"new_heads": "copy"}, optimizer__lr=1e-30,
                        optimizer__weight_decay=0)
    copies = load_file(place.folder / "many/model.safetensors")
    of_one = {name: value for name, value in copies.items() if not name.startswith("extra_heads.1.")}
    assert_tensors_equal({name: still[name] for name in of_one}, of_one)
    assert sorted(still.keys() - of_one.keys()) == [f"extra_heads.0.{layer}.weight"
                                                    for layer in ("eh_proj", "enorm", "hnorm")]
    run_from(place, "theirs", many | {"future_heads": "chained", "new_heads": "copy"}, optimizer__lr=1e-30)
    weights = str(place.log.folder() / "model")
    place.refuse(4, r"extra_heads.1.*there each head has a block.*set it to .chained.",
                 **{f"model__{key}": value for key, value in (shared | {"weights": weights}).items()})


def test_differences_from_a_hugging_face_config_are_reported(place):
    random_llama(**THEIRS["llama3"]).save_pretrained(place.folder / "theirs")
    table = imported(place, "theirs", "ours")
    keys = {f"model__{key}": value for key, value in (table | {"weights": "theirs"}).items()}
    place.refuse(2, 'found heads 2, wanted 4 as in the weights "theirs"', "found kv_heads 1, wanted 2",
                 "remove the key", **keys | {"model__heads": 2, "model__kv_heads": 1})
    place.refuse(2, "new_heads has no effect without weights",
                 **keys | {"model__new_heads": "copy", "model__weights": None})
    for weights in ("theirs", "ours"):
        unscaled = {"model__rope_scaling": {"rope_type": "default"}, "model__weights": weights}
        ended = place.run(**keys | unscaled, **ONE, train__steps=1)
        assert ended.err.count('rope_scaling is {"factor":4.0') == 1 and "there and null here" in ended.err, ended
        assert "rope_theta is" not in ended.err
    change_config(place, sliding_window=4096)
    place.refuse(4, "sliding_window is 4096", **keys)


def test_dropout_of_a_hugging_face_config_is_not_applied_and_said_so(place):
    random_llama(attention_dropout=0.1).save_pretrained(place.folder / "theirs")
    said = "attention_dropout is 0.1 there and 0 here: nothing is dropped from this model's activations"
    ended = place.host("checkpoint", "import", "theirs", "-o", "ours")
    assert re.findall("warning: (.*)", ended.err) == [f"theirs: {said}"]
    keys = {f"model__{key}": None for key in experiment.BASE["model"]}
    for weights, warnings in (("theirs", [f"[model] weights {place.folder}/theirs: {said}"]), ("ours", [])):
        changed = keys | {"model__weights": weights} | ONE | {"train__steps": 1}
        file = place.write(**changed)
        for command in (["plan"], ["run", "--dry-run"], ["run"]):
            assert re.findall("warning: (.*)", place.host(*command, file).err) == warnings, command
    (place.folder / "a.txt").write_text("A line of a text.\n" * 4000)
    ended = place.host("init", "a.txt", "theirs", wanted=None)
    assert f"theirs: {said}" in ended.err, ended
    place.write(**keys | {"model__weights": "theirs"} | ONE, name="stage.toml")
    stages = place.write(**ONE, pipeline__plugin="rho1", reference={"experiment": "stage.toml"})
    for command in (["plan", stages], ["run", stages, "--dry-run"]):
        assert place.host(*command).err.count(said) == 1, command


def test_code_that_a_hugging_face_config_names_is_not_read_and_said_so(place):
    random_llama().save_pretrained(place.folder / "theirs")
    change_config(place, auto_map={"AutoConfig": "configuration_custom.C", "AutoModelForCausalLM": "modeling_custom.M"})
    said = 'auto_map names "modeling_custom.py", which is not read: computed as a plain Llama'
    ended = place.host("checkpoint", "import", "theirs", "-o", "ours")
    assert re.findall("warning: (.*)", ended.err) == [f"theirs: {said}"]
    keys = {f"model__{key}": None for key in experiment.BASE["model"]}
    for table, changes in (("model", keys | {"model__weights": "theirs"}),
                           ("reference", {"pipeline__plugin": "rho1", "reference__weights": "theirs"})):
        file = place.write(**changes | ONE | {"train__steps": 1})
        for command in (["plan"], ["run", "--dry-run"], ["run"]):
            warnings = re.findall("warning: (.*auto_map.*)", place.host(*command, file).err)
            assert warnings == [f"[{table}] weights {place.folder}/theirs: {said}"], command
    (place.folder / "a.txt").write_text("A line of a text.\n" * 4000)
    assert f"theirs: {said}" in place.host("init", "a.txt", "theirs", wanted=None).err


def test_weights_with_nan_are_refused_with_their_place(place):
    random_llama().save_pretrained(place.folder / "theirs")
    tensors = load_file(place.folder / "theirs/model.safetensors")
    tensors["model.layers.1.self_attn.q_proj.weight"][17, 3] = torch.nan
    tensors["lm_head.weight"][0, 2] = torch.inf
    save_file(tensors, place.folder / "theirs/model.safetensors", {"format": "pt"})
    said = r'theirs/model\.safetensors: tensor "(model\.layers\.1\.self_attn\.q_proj\.weight" has NaN at \[17,3\]|' \
           r'lm_head\.weight" has infinity at \[0,2\]), and 1 other tensor of the file such numbers too: the file is'
    place.refuse_command(4, said, command=["checkpoint", "import", "theirs", "-o", "ours"])
    assert not (place.folder / "ours").exists()
    place.refuse_command(4, said, command=["generate", "theirs", "--ids", "1 2"])
    keys = {f"model__{key}": None for key in experiment.BASE["model"]}
    for processes in (1, 2):
        place.refuse(4, said, **keys | {"model__weights": "theirs", "parallel__processes": processes})


def test_weights_that_a_copy_left_zero_are_refused_by_name(place):
    """A copy that reserves the space of a file and is interrupted leaves zeros at its end."""
    random_llama().save_pretrained(place.folder / "theirs")
    file = place.folder / "theirs/model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:len(whole) // 2].ljust(len(whole), b"\0"))
    said = r'theirs/model\.safetensors: tensor "model\.[a-z0-9_.]+" is zero everywhere, as after a copy that ' \
           "stopped: copy it again"
    place.refuse_command(4, said, command=["checkpoint", "import", "theirs", "-o", "ours"])
    assert not (place.folder / "ours").exists()
    place.refuse_command(4, said, command=["generate", "theirs", "--ids", "1 2"])
    keys = {f"model__{key}": None for key in experiment.BASE["model"]}
    for processes in (1, 2):
        place.refuse_everywhere(4, said, **keys | {"model__weights": "theirs", "parallel__processes": processes})
    reads = {"pipeline__plugin": "rho1", "reference__weights": "theirs", **ONE}
    place.refuse_everywhere(4, said, **reads)


def test_weights_that_an_initialization_begins_with_zeros_may_be_zero(place):
    """muP's queries and output; blocks that begin as identities; biases."""
    random_llama(model_type="qwen2").save_pretrained(place.folder / "theirs")
    tensors = load_file(place.folder / "theirs/model.safetensors")
    for name in tensors:
        if name.endswith((".bias", "q_proj.weight", "o_proj.weight", "down_proj.weight")) or name == "lm_head.weight":
            tensors[name] = torch.zeros_like(tensors[name])
    save_file(tensors, place.folder / "theirs/model.safetensors", {"format": "pt"})
    imported(place, "theirs", "ours")
    keys = {f"model__{key}": None for key in experiment.BASE["model"]}
    for weights in ("theirs", "ours"):
        place.run(**keys | {"model__weights": weights} | ONE, train__steps=1)


def test_added_heads_start_as_copies_of_the_last_block(place):
    random_llama().save_pretrained(place.folder / "theirs")
    assert imported(place, "theirs", "ours", "--future-tokens", 4)["layers"] == 6
    tensors = load_file(place.folder / "ours/model.safetensors")
    heads = [{name.removeprefix(block): value for name, value in tensors.items() if name.startswith(block)}
             for block in ("layers.2.", "extra_heads.0.", "extra_heads.1.", "extra_heads.2.")]
    assert len(heads[0]) == 9
    for head in heads[1:]:
        assert_tensors_equal(head, heads[0])


LORA = {**ONE, "adapter__plugin": "lora", "optimizer__lr": 1e-2, "model__weights": "base"}
ADAPTERS = {
    "lora": {"adapter__rank": 4},
    "rslora": {"adapter__rslora": True, "adapter__targets": ["wq", "wk", "wv", "wo", "w1", "w2", "w3"]},
    "dora": {"adapter__dora": True, "adapter__targets": ["wk", "wq", "w2"], "adapter__plus_ratio": 4.0},
    # Some layers, and beside them heads, a norm, the output and a whole layer that train: PEFT's modules_to_save.
    "saved": {"adapter__targets": ["layers.*.wq", "layers.[02].*.wv", "extra_heads.0.*.w1"], "optimizer__lr": 3e-3,
              "adapter__train": ["extra_heads.1.*", "norm.weight", "output.weight", "layers.1.attention.wk.weight"]},
}


def write_base(place, shape):
    """Writes the folder `base` in Meta's format, from which runs with adapters start."""
    folder = place.folder / "from"
    folder.mkdir()
    save_file(tensors_of(filled(shape, seed=3, sharp=6.0)), folder / "consolidated.00.safetensors")
    said = {name: getattr(shape, name) for name in ("rope_scaling", "qkv_bias", "tie_word_embeddings")}
    (folder / "params.json").write_text(json.dumps({name: value for name, value in said.items() if value} | {
        "dim": shape.dim, "n_layers": shape.layers, "n_heads": shape.heads, "n_kv_heads": shape.kv_heads,
        "n_future_tokens": shape.future_tokens, "rope_theta": shape.rope_theta, "norm_eps": shape.norm_eps,
        "vocab_size": -1, "multiple_of": 256}))
    assert shape_of(imported(place, "from", "base")) == shape


@pytest.fixture(scope="module")
def adapted(program, tmp_path_factory):
    """A function that returns a place with the folder `base` and with run 1, trained from it with that adapter and
    shape. Each is trained once."""
    made = {}

    def adapted(case, name):
        if (case, name) not in made:
            place = made[case, name] = Place(tmp_path_factory.mktemp(f"{case}-{name}"))
            place.tokens()
            write_base(place, SHAPES[name])
            place.run(**keys_of(SHAPES[name], "model"), **LORA | ADAPTERS[case])
        return made[case, name]
    return adapted


@pytest.mark.parametrize("case", ADAPTERS)
def test_peft_opens_an_adapter_on_the_exported_base_and_computes_the_same(adapted, case):
    peft = pytest.importorskip("peft", reason="no peft in .venv: `make setup-tests` installs it")
    shape = OTHERS["qwen2-tied"] if case == "rslora" else GROUPED
    place = adapted(case, "qwen2-tied" if case == "rslora" else "grouped")
    run = place.log.folder(1)
    base, adapter = exported(place, "base", "base-hf"), exported(place, "1", "opened", "--to", "peft")
    model = peft.PeftModel.from_pretrained(open_llama(base), adapter).eval()
    config = json.loads((adapter / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(place.folder / "base")
    # In fp64: after ten steps of "rslora", rounding in fp32 changes logits by 7e-5 of the largest.
    wanted = first_head(our_model(shape, model_tensors(run)).double())
    assert_close(logits_of(model.double(), IDS), wanted)
    of_base = logits_of(open_llama(base).double(), IDS)
    assert (of_base - wanted).abs().max() > 100 * CLOSE, "the adapter has changed nothing"
    # A plain export contains the merged weights.
    assert_close(logits_of(open_llama(exported(place, "1", "merged-hf")).double(), IDS), wanted)


def test_peft_opens_the_base_by_itself_where_a_run_started_from_a_hugging_face_folder(place):
    peft = pytest.importorskip("peft", reason="no peft in .venv: `make setup-tests` installs it")
    write_base(place, GROUPED)
    exported(place, "base", "base-hf")
    place.run(**keys_of(GROUPED, "model"), **LORA | {"model__weights": "base-hf"}, train__steps=1)
    adapter = exported(place, "trial", "peft", "--to", "peft")
    model = peft.AutoPeftModelForCausalLM.from_pretrained(adapter).eval()
    wanted = first_head(our_model(GROUPED, model_tensors(place.log.folder())))
    assert_close(logits_of(model, IDS), wanted)


@pytest.mark.parametrize("case", ADAPTERS)
def test_an_exported_adapter_is_imported_bit_for_bit_and_trains_on(adapted, case):
    place = adapted(case, "grouped")
    run = place.log.folder(1)
    exported(place, "1", "peft", "--to", "peft")
    table = imported(place, "peft", "back", "--base", "base")
    assert_tensors_equal(load_file(place.folder / "back/adapter.safetensors"), adapter_tensors(run))
    found, wanted = (json.loads((folder / "adapter.json").read_text())
                     for folder in (place.folder / "back", run / "adapter"))
    assert found["base_fingerprint"] == wanted["base_fingerprint"]
    settings = {f"adapter__{key}": value for key, value in table.items()}
    place.run(**keys_of(GROUPED, "model"), **LORA | settings | FOUR_WINDOWS, train__steps=1)
    continued = place.log.losses()[1]
    model = our_model(GROUPED, model_tensors(run)).state_dict()
    wanted = first_loss(GROUPED, model, experiment.write_tokens(place.folder))
    assert abs(continued - wanted) <= 1e-5 * wanted
    exported(place, "back", "again", "--to", "peft", "--base", "base")
    assert_tensors_equal(load_file(place.folder / "again/adapter_model.safetensors"),
                         load_file(place.folder / "peft/adapter_model.safetensors"))


@pytest.mark.parametrize("case", ADAPTERS)
def test_merging_is_what_a_run_does_at_its_end(adapted, case):
    place = adapted(case, "qwen2-tied" if case == "rslora" else "grouped")
    run = place.log.folder(1)
    (place.folder / "base/generation_config.json").write_text('{"temperature": 0.6}')
    place.host("checkpoint", "merge", run, "--base", "base", "-o", "merged")
    assert (place.folder / "merged/generation_config.json").read_text() == '{"temperature": 0.6}'
    assert_tensors_equal(load_file(place.folder / "merged/model.safetensors"), model_tensors(run))
    assert shape_of_params(place.folder / "merged") == shape_of_params(run / "model")
    assert "complete (model" in place.host("checkpoint", "verify", "merged").out
    place.refuse_command(2, "-o merged already exists",
                         command=["checkpoint", "merge", run / "adapter", "--base", "base", "-o", "merged"])
    place.refuse_command(4, "fingerprint of the model it was trained on",
                         command=["checkpoint", "merge", run, "--base", run / "model", "-o", "other"])
    place.refuse_command(4, "base contains no adapter",
                         command=["checkpoint", "merge", "base", "--base", "base", "-o", "x"])
    place.refuse_command(4, "contains no model of this program",
                         command=["checkpoint", "merge", run, "--base", place.folder, "-o", "x"])
    assert_nothing_half_written(place.folder)


def shape_of_params(folder):
    return {key: value for key, value in json.loads((folder / "params.json").read_text()).items()
            if key != "max_seq_len"}


@pytest.mark.parametrize("dora", [False, True])
def test_an_adapter_that_peft_trained_trains_on_here(place, dora):
    peft = pytest.importorskip("peft", reason="no peft in .venv: `make setup-tests` installs it")
    llama = random_llama()
    llama.save_pretrained(place.folder / "theirs")
    config = peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "k_proj", "down_proj"], use_dora=dora,
                             use_rslora=True, task_type="CAUSAL_LM", init_lora_weights=False)
    adapted = peft.get_peft_model(llama, config).eval()
    with torch.no_grad():  # PEFT initializes magnitudes so that DoRA changes nothing
        for name, parameter in adapted.named_parameters():
            if "magnitude" in name:
                parameter.mul_(1 + 0.3 * torch.rand_like(parameter))
    adapted.save_pretrained(place.folder / "peft")
    model_table = imported(place, "theirs", "base")
    table = imported(place, "peft", "adapter", "--base", "base")
    place.host("checkpoint", "merge", "adapter", "--base", "base", "-o", "merged")
    assert_close(logits_of(open_llama(exported(place, "merged", "merged-hf")), IDS), logits_of(adapted, IDS))
    ids = {key: json.loads((place.folder / "merged-hf/config.json").read_text())[key]
           for key in ("bos_token_id", "eos_token_id")}
    assert ids == {"bos_token_id": llama.config.bos_token_id, "eos_token_id": llama.config.eos_token_id}
    settings = {**{f"model__{key}": value for key, value in model_table.items()},
                **{f"adapter__{key}": value for key, value in table.items()}}
    place.run(**settings, **ONE, optimizer__lr=1e-30, train__steps=1)
    merged = model_tensors(place.log.folder())
    assert_close(first_head(our_model(shape_of(model_table), merged)), logits_of(adapted, IDS))


ODD_TEXTS = ["", " ", "  a", "a  ", " a b  c ", "\n\n    x", "\t\tx\t", "\n" + " " * 30 + "x", "\n   x\n     y",
             "\r\nx", "\u00fc \u4f60\u597d \u0434\u0430 \U0001f600 e\u0301 a\u00a0b", "a\0b", "<s>x</s><unk><0x41>",
             "1234 56", "<|begin_of_text|>x<|end_of_text|>"]


def prepared_ids(place, texts, file):
    """The ids of the texts, each followed by the end of text, with that tokenizer file."""
    names = [f"odd/{number:02}" for number in range(len(texts))]
    (place.folder / "odd").mkdir(exist_ok=True)
    for name, text in zip(names, texts):
        (place.folder / name).write_bytes(text.encode())
    data = {"kind": "text", "files": names, "encoding": "bytes", "tokenizer": {"kind": "file", "file": file}}
    log = f"{Path(file).name}/wmtp.db"
    place.host("data", "prepare", place.write(data=data, model__vocab_size=300), "--set", f"log.database={log}")
    prepared_file, = (place.folder / log).parent.glob("cache/*/train.bin")
    return np.fromfile(prepared_file, "<u2").tolist()


def assert_ids_equal(folder, texts, ours):
    """transformers encodes the texts, each followed by the end of text, to the ids `ours`."""
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    of_texts = [theirs(text)["input_ids"] for text in texts]
    wanted = [id for ids in of_texts for id in [*ids, theirs.eos_token_id]]
    assert ours == wanted, prepared.first_difference(ours, wanted, theirs)
    assert [theirs.decode(ids) for ids in of_texts] == texts


def test_the_byte_tokenizer_is_exported_and_imported(place):
    (place.folder / "text").write_text("".join(f"line {i}\n" for i in range(2000)))
    place.run(data={"kind": "text", "files": ["text"], "tokenizer": {"kind": "byte"}}, model__vocab_size=None, **ONE,
              train__steps=2)
    folder = exported(place, "trial", "hf")
    assert_ids_equal(folder, ODD_TEXTS, [id for text in ODD_TEXTS for id in [*text.encode(), 257]])
    assert_ids_equal(folder, ODD_TEXTS, prepared_ids(place, ODD_TEXTS, "hf/tokenizer.json"))
    imported(place, "hf", "back")
    assert json.loads((place.folder / "back/params.json").read_text())["tokenizer"] == "byte"


def test_a_chat_template_and_the_settings_of_generation_are_kept(place):
    write_base(place, GROUPED)
    folder = exported(place, "base", "theirs")
    carried = {"chat_template.jinja": "{{ messages }}", "generation_config.json": '{"eos_token_id": [1, 2]}'}
    for name, text in carried.items():
        (folder / name).write_text(text)
    imported(place, "theirs", "ours")
    back = exported(place, "ours", "back")
    for name, text in carried.items():
        assert (place.folder / "ours" / name).read_text() == (back / name).read_text() == text


def test_the_tokenizer_is_exported_and_imported(place):
    (place.folder / "text").mkdir()
    for number in range(40):
        (place.folder / f"text/{number}.py").write_text(f"def f{number}(x):\n    return x + {number}\n" * 40)
    place.run(data={"kind": "text", "files": ["text/*.py"], "tokenizer": {"kind": "bpe", "vocab_size": 300}},
              model__vocab_size=None, **ONE, train__steps=2)
    sentencepiece = pytest.importorskip("sentencepiece",
                                        reason="no sentencepiece in .venv: `make setup-tests` installs it")
    folder = exported(place, "trial", "hf")
    known = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))
    assert known.vocab_size() == 300 == json.loads((folder / "config.json").read_text())["vocab_size"]
    imported(place, "hf", "back")
    assert (place.folder / "back/tokenizer.model").read_bytes() == (folder / "tokenizer.model").read_bytes()
    assert not (place.folder / "back/tokenizer_config.json").exists(), "a tokenizer of our own, as it was"

    files = sorted(Path("/usr/lib/python3.11").glob("*.py"))[:40]
    texts = [file.read_text() for file in files] + ODD_TEXTS
    for file in ("hf/tokenizer.model", "hf/tokenizer.json"):
        assert_ids_equal(folder, texts, prepared_ids(place, texts, file))
    assert "complete (model" in place.host("checkpoint", "verify", place.log.folder() / "model").out


def refuse_import(place, *messages, code=4, options=()):
    place.refuse_command(code, *messages, command=["checkpoint", "import", "theirs", "-o", "ours", *options])
    assert not (place.folder / "ours").exists()


def change_config(place, **changes):
    file = place.folder / "theirs/config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


REFUSED = {
    "rope_scaling": {"rope_type": "dynamic", "factor": 2.0},
    "rope_parameters": {"rope_type": "llama3", "rope_theta": 5000.0, "factor": 8.0},
    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
    "attention_bias": 1,
    "mlp_bias": True,
    "model_type": "gemma2",
    "architectures": ["MixtralForCausalLM"],
    "sliding_window": 4096,
    "hidden_act": "gelu",
    "head_dim": 1,
    "quantization_config": {"bits": 4},
    "num_key_value_heads": 3,
    "num_hidden_layers": 10**15,
}


def test_a_model_that_is_not_a_plain_llama_is_refused_by_key_and_value(place):
    random_llama().save_pretrained(place.folder / "theirs")
    original = (place.folder / "theirs/config.json").read_text()
    for key, value in REFUSED.items():
        (place.folder / "theirs/config.json").write_text(original)
        change_config(place, **{key: value})
        named = "num_attention_heads is 4.*multiple of the 3" if key == "num_key_value_heads" else \
            f"{key} is {re.escape(json.dumps(value, separators=(',', ':'), sort_keys=True)[:40])}"
        refuse_import(place, f"config.json: {named}")
    (place.folder / "theirs/config.json").write_text(original)
    change_config(place, mlp_bias=True, hidden_act="gelu")
    refuse_import(place, r"hidden_act is .gelu.; wanted .*\n  mlp_bias is true; wanted false")


def test_a_second_copy_of_a_tied_matrix_must_equal_the_first(place):
    random_llama(tie_word_embeddings=True).save_pretrained(place.folder / "theirs")
    file = place.folder / "theirs/model.safetensors"
    tensors = load_file(file)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, file, metadata={"format": "pt"})
    imported(place, "theirs", "good")
    assert "output.weight" not in load_file(place.folder / "good/model.safetensors")
    tensors["lm_head.weight"][3, 5] += 1
    save_file(tensors, file, metadata={"format": "pt"})
    refuse_import(place, 'tensor "lm_head.weight" differs from the embedding.s, and tie_word_embeddings is true')


def test_a_shape_that_contradicts_the_weights_is_refused_with_the_key(place):
    random_llama(model_type="qwen2", tie_word_embeddings=True).save_pretrained(place.folder / "theirs")
    table = imported(place, "theirs", "ours")
    keys = {f"model__{key}": value for key, value in table.items()}
    place.refuse(4, "output.weight. is missing.*tie_word_embeddings = true",
                 **keys | {"model__tie_word_embeddings": False})
    place.refuse(2, "found qkv_bias false, wanted true as in the weights", **keys | {"model__qkv_bias": False})


def test_every_tensor_that_does_not_fit_is_named_at_once(place):
    random_llama().save_pretrained(place.folder / "theirs")
    file = place.folder / "theirs/model.safetensors"
    tensors = load_file(file)
    del tensors["model.norm.weight"], tensors["model.layers.1.self_attn.k_proj.weight"]
    tensors["model.layers.0.mlp.up_proj.weight"] = torch.zeros(160, 63)
    tensors["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(64)
    tensors["lm_head.weight"] = torch.zeros(512, 64, dtype=torch.int32)
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(8)  # as in older files; ignored
    save_file(tensors, file, metadata={"format": "pt"})
    refuse_import(place, "5 tensors do not fit", 'tensor "model.norm.weight" is missing',
                  'tensor "model.layers.1.self_attn.k_proj.weight" is missing; wanted .32,64.',
                  r'up_proj.weight" has the shape \[160,63\]; wanted \[160,64\]',
                  'q_proj.bias" is not part of', 'lm_head.weight" has the dtype I32')


CONTRADICTIONS = {
    ("intermediate_size", 128): r'up_proj.weight" has the shape \[160,64\]; wanted \[128,64\]',
    ("vocab_size", 500): r'embed_tokens.weight" has the shape \[512,64\]; wanted \[500,64\]',
    ("num_key_value_heads", 4): r'k_proj.weight" has the shape \[32,64\]; wanted \[64,64\]',
    ("num_hidden_layers", 4): 'tensor "model.layers.3.self_attn.q_proj.weight" is missing',
    ("num_hidden_layers", 2): 'tensor "model.layers.2.self_attn.q_proj.weight" is not part of',
    ("tie_word_embeddings", True): 'lm_head.weight" differs from the embedding.s, and tie_word_embeddings is true',
}


def test_a_config_that_contradicts_the_tensors_is_refused(place):
    random_llama().save_pretrained(place.folder / "theirs")
    original = (place.folder / "theirs/config.json").read_text()
    for (key, value), shown in CONTRADICTIONS.items():
        (place.folder / "theirs/config.json").write_text(original)
        change_config(place, **{key: value})
        refuse_import(place, shown)


def test_metas_pickles_are_refused_with_the_command_that_converts_them(place):
    folder = place.folder / "theirs"
    folder.mkdir()
    (folder / "params.json").write_text(json.dumps({"dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": -1}))
    torch.save({"tok_embeddings.weight": torch.zeros(512, 64)}, folder / "consolidated.00.pth")
    refuse_import(place, r"pickle of torch.save.*\n.*python3 -c .*save_file.*consolidated.00.safetensors")


def test_pickles_are_refused_with_the_command_that_converts_them(place):
    random_llama().save_pretrained(place.folder / "theirs")
    folder = place.folder / "theirs"
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    refuse_import(place, r"pickle of torch.save.*\n.*python3 -c .*save_file.*pytorch_model.safetensors")


def test_an_existing_target_is_left_unchanged(place):
    random_llama().save_pretrained(place.folder / "theirs")
    (place.folder / "full").mkdir()
    (place.folder / "full/mine").write_text("mine")
    place.refuse_command(2, "-o full already exists", command=["checkpoint", "import", "theirs", "-o", "full"])
    assert [file.name for file in (place.folder / "full").iterdir()] == ["mine"]
    (place.folder / "empty").mkdir()
    imported(place, "theirs", "empty/")
    place.refuse_command(2, "-o empty already exists", command=["checkpoint", "export", "empty", "-o", "empty"])


def test_damage_is_found_by_export_and_import(place):
    random_llama().save_pretrained(place.folder / "theirs")
    imported(place, "theirs", "good")
    size = (place.folder / "good/model.safetensors").stat().st_size
    for position in (size // 2, 40):  # a weight, and the header
        shutil.copytree(place.folder / "good", place.folder / "bad", dirs_exist_ok=True)
        flip_bit(place.folder / "bad/model.safetensors", position)
        for command in ("export", "import"):
            place.refuse_command(4, "bad/model.safetensors", command=["checkpoint", command, "bad", "-o", "out"])
    assert not (place.folder / "out").exists()


def test_options_that_would_be_ignored_are_refused(place):
    random_llama().save_pretrained(place.folder / "theirs")
    imported(place, "theirs", "ours", "--future-tokens", 2)
    for said, command in {
        "has heads for 2 future tokens": ["import", "ours", "-o", "x", "--future-tokens", "3"],
        "--base applies only to a PEFT adapter": ["import", "theirs", "-o", "x", "--base", "ours"],
        "--base applies only to --to peft": ["export", "ours", "-o", "x", "--base", "ours"],
        "--dtype applies only to": ["export", "ours", "-o", "x", "--to", "peft", "--dtype", "bf16"],
    }.items():
        place.refuse_command(2, said, command=["checkpoint", *command])
    place.refuse_command(4, "has no adapter", command=["checkpoint", "export", "ours", "-o", "x", "--to", "peft"])
    assert_nothing_half_written(place.folder)


PEFT_REFUSED = {
    "peft_type": "IA3", "bias": "all", "modules_to_save": "lm_head", "rank_pattern": {"q_proj": 2},
    "alpha_pattern": {"q_proj": 2}, "layers_to_transform": "0", "init_lora_weights": "pissa", "lora_bias": True,
    "fan_in_fan_out": True, "target_modules": ["q_proj", "embed_tokens"], "some_new_trick": 3, "task_type": "SEQ_CLS",
}


def test_options_of_peft_that_the_plugin_lora_lacks_are_refused(place):
    peft = pytest.importorskip("peft", reason="no peft in .venv: `make setup-tests` installs it")
    llama = random_llama()
    llama.save_pretrained(place.folder / "base-hf")
    imported(place, "base-hf", "base")
    imported(place, "base-hf", "many", "--future-tokens", 2)
    peft.get_peft_model(llama, peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")).save_pretrained(
        place.folder / "theirs")
    file = place.folder / "theirs/adapter_config.json"
    original = json.loads(file.read_text())
    for key, value in PEFT_REFUSED.items():
        file.write_text(json.dumps(original | {key: value}))
        refuse_import(place, f"adapter_config.json: {key} is ", options=["--base", "base"])
    file.write_text(json.dumps(original | {"target_modules": ["q_proj", "v_proj"]}))
    refuse_import(place, 'layers.2.self_attn.v_proj.lora_A.weight" is missing', options=["--base", "base"])
    file.write_text(json.dumps(original | {"layers_to_transform": [0]}))
    refuse_import(place, 'layers.1.self_attn.q_proj.lora_A.weight" is not part of', options=["--base", "base"])
    file.write_text(json.dumps(original | {"modules_to_save": ["lm_head"]}))
    refuse_import(place, 'base_model.model.lm_head.weight" is missing', options=["--base", "base"])
    file.write_text(json.dumps(original | {"modules_to_save": ["score"]}))
    refuse_import(place, 'modules_to_save contains "score", which names no parameter', options=["--base", "base"])
    file.write_text(json.dumps(original | {"target_modules": ".*q_proj"}))
    assert imported(place, "theirs", "ours", "--base", "base")["targets"] == ["wq"]
    # Heads that PEFT does not know stay as they are in the base.
    assert imported(place, "theirs", "beside", "--base", "many")["targets"] == ["layers.*.wq"]


def trained_by_peft(llama, **config):
    """Every trained tensor differs from its initial value."""
    import peft
    theirs = peft.get_peft_model(llama, peft.LoraConfig(r=2, task_type="CAUSAL_LM", **config)).eval()
    with torch.no_grad():
        for number, (_, parameter) in enumerate(theirs.named_parameters()):
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)))
    return theirs


def test_modules_that_peft_trained_as_a_whole_are_imported_and_train_on(place):
    pytest.importorskip("peft", reason="no peft in .venv: `make setup` installs it")
    llama = random_llama()
    llama.save_pretrained(place.folder / "theirs")
    theirs = trained_by_peft(llama, target_modules=["q_proj", "v_proj"], layers_to_transform=[0, 2],
                             modules_to_save=["lm_head", "model.norm", "layers.1.mlp"])
    theirs.save_pretrained(place.folder / "peft")
    model_table = imported(place, "theirs", "base", "--future-tokens", 2)
    table = imported(place, "peft", "adapter", "--base", "base")
    assert table["targets"] == [f"layers.{i}.attention.{layer}" for layer in ("wq", "wv") for i in (0, 2)]
    of_block = [f"layers.1.feed_forward.w{i}.weight" for i in (1, 2, 3)]
    assert table["train"] == [*of_block, "norm.weight", "output.weight"]
    place.host("checkpoint", "merge", "adapter", "--base", "base", "-o", "merged")
    assert_close(logits_of(open_llama(exported(place, "merged", "merged-hf")), IDS), logits_of(theirs, IDS))
    settings = {**{f"model__{key}": value for key, value in model_table.items()},
                **{f"adapter__{key}": value for key, value in table.items()}}
    place.run(**settings, **ONE, optimizer__lr=1e-30, train__steps=1)
    assert_tensors_equal(model_tensors(place.log.folder()), load_file(place.folder / "merged/model.safetensors"))


def test_new_heads_train_as_a_whole_beside_lora_on_a_downloaded_model(place):
    """Only the part of LoRA is in the files of PEFT; the heads lie beside them, and come back with them."""
    peft = pytest.importorskip("peft", reason="no peft in .venv: `make setup` installs it")
    random_llama().save_pretrained(place.folder / "theirs")
    table = imported(place, "theirs", "base", "--future-tokens", 3)
    keys = {f"model__{key}": value for key, value in (table | {"weights": "theirs", "new_heads": "copy"}).items()}
    place.run(**LORA | keys, adapter__targets=["layers.*"], adapter__train=["extra_heads.*"])
    run = place.log.folder()
    folder = exported(place, "trial", "peft", "--to", "peft")
    assert json.loads((folder / "adapter_config.json").read_text())["modules_to_save"] is None
    assert set(load_file(folder / "mtp_adapter.safetensors")) == {
        name for name in model_tensors(run) if name.startswith("extra_heads.")}
    model = peft.AutoPeftModelForCausalLM.from_pretrained(folder).eval()
    assert_close(logits_of(model, IDS), first_head(our_model(shape_of(table), model_tensors(run))))
    assert imported(place, "peft", "back", "--base", "base")["train"] == ["extra_heads.0.*", "extra_heads.1.*"]
    place.host("checkpoint", "merge", "back", "--base", "base", "-o", "merged")
    assert_tensors_equal(load_file(place.folder / "merged/model.safetensors"), model_tensors(run))
    texts = [place.host("generate", model, "--ids", "17 4 9", "--max-tokens", "8").out for model in ("trial", "merged")]
    assert texts[0] == texts[1]


def test_what_peft_cannot_hold_is_refused_by_name(place):
    write_base(place, OTHERS["qwen2-tied"])
    keys = {**keys_of(OTHERS["qwen2-tied"], "model"), **LORA, "train__steps": 1}
    for train, targets, message in (
            ("layers.0.attention.wk.bias", "wq", "layers.0.attention.wk.weight of the same module did not"),
            ("layers.0.attention.wq.bias", "wq", "layers.0.attention.wq.bias trained, but its layer has an update"),
            ("tok_embeddings.weight", "wq", "tok_embeddings.weight trained and is also the output layer"),
            ("norm.weight", "extra_heads.*", "it changes no layer of the trunk and head 1")):
        place.run(**keys, adapter__train=[train], adapter__targets=[targets])
        place.refuse_command(4, f"PEFT cannot hold it: .*{message}.*--to hf",
                             command=["checkpoint", "export", "trial", "-o", "x", "--to", "peft"])
    llama = random_llama(tie_word_embeddings=True)
    llama.save_pretrained(place.folder / "theirs")
    imported(place, "theirs", "tied")
    trained_by_peft(llama, target_modules=["q_proj"], modules_to_save=["embed_tokens"]).save_pretrained(
        place.folder / "peft")
    place.refuse_command(4, "modules_to_save contains the embedding",
                         command=["checkpoint", "import", "peft", "-o", "x", "--base", "tied"])
    assert_nothing_half_written(place.folder)


OF_PEFT = {
    "bias": dict(bias="lora_only"),
    "rank_pattern": dict(rank_pattern={"q_proj": 4}),
    "alpha_pattern": dict(alpha_pattern={"q_proj": 3}),
}


@pytest.mark.parametrize("key", OF_PEFT)
def test_an_adapter_that_the_plugin_lora_cannot_hold_is_refused_once_and_imported_merged(place, key):
    """As PEFT itself writes it, with all of its tensors."""
    peft = pytest.importorskip("peft", reason="no peft in .venv: `make setup-tests` installs it")
    llama = random_llama(attention_bias=key == "bias")
    llama.save_pretrained(place.folder / "base-hf")
    imported(place, "base-hf", "base")
    theirs = peft.get_peft_model(llama, peft.LoraConfig(
        r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", **OF_PEFT[key]))
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    theirs.save_pretrained(place.folder / "theirs")
    ended = place.refuse_command(4, f"adapter_config.json: {key} is ", "PEFT's merge_and_unload.. makes a model of any",
                                 command=["checkpoint", "import", "theirs", "-o", "ours", "--base", "base"])
    assert ended.err.count("; wanted ") == 1, ended.err
    wanted = logits_of(theirs, IDS)
    theirs.merge_and_unload().save_pretrained(place.folder / "merged")
    table = imported(place, "merged", "whole")
    with torch.no_grad():
        assert_close(our_model(shape_of(table), load_file(place.folder / "whole/model.safetensors"))(IDS)[0], wanted)


def test_an_import_tells_the_base_that_pefts_files_state(place):
    pytest.importorskip("peft", reason="no peft in .venv: `make setup-tests` installs it")
    llama = random_llama()
    llama.save_pretrained(place.folder / "theirs")
    imported(place, "theirs", "small-llama")
    trained_by_peft(llama, target_modules=["q_proj"]).save_pretrained(place.folder / "peft")
    file = place.folder / "peft/adapter_config.json"
    config = json.loads(file.read_text())

    def told(target, **stated):
        file.write_text(json.dumps(config | stated))
        return place.host("checkpoint", "import", "peft", "--base", "small-llama/", "-o", target).err

    assert ('peft: adapter_config.json states the base "org/large-llama", revision "v2"; --base is small-llama/'
            in told("one", base_model_name_or_path="org/large-llama", revision="v2"))
    assert "states the base" not in told("two", base_model_name_or_path=None, revision=None)


def test_an_adapter_beside_a_model_is_refused_with_the_commands_that_import_both(place):
    """transformers applies it to the model."""
    theirs = place.folder / "theirs"
    random_llama().save_pretrained(theirs)
    (theirs / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    shutil.copy(theirs / "model.safetensors", theirs / "adapter_model.safetensors")
    said = r"theirs contains both config\.json, of a model, and adapter_config\.json, .* move adapter_config\.json " \
           r"and adapter_model\.safetensors to a folder ADAPTER; .*checkpoint import .*theirs -o MODEL. and " \
           r".*checkpoint import ADAPTER --base MODEL -o IMPORTED. .*checkpoint merge IMPORTED --base MODEL -o MERGED"
    (place.folder / "a.txt").write_text("A line of a text.\n" * 4000)
    for command in (["checkpoint", "import", "theirs", "-o", "ours"], ["generate", "theirs", "--ids", "1 2"],
                    ["checkpoint", "import", "theirs", "-o", "ours", "--base", "base"], ["init", "a.txt", "theirs"]):
        place.refuse_command(4, said, command=command)
    keys = {f"model__{key}": None for key in experiment.BASE["model"]}
    place.refuse_everywhere(4, said, **keys | {"model__weights": "theirs"})
    place.refuse_everywhere(4, said, pipeline__plugin="rho1", reference__weights="theirs")
    place.run(**ONE, model__weights="theirs/model.safetensors", model__layers=3, model__kv_heads=2, model__ffn_dim=160,
              model__future_tokens=1, train__steps=1)  # a file that is named is that file


def test_an_adapter_is_not_imported_for_another_base(place):
    write_base(place, POLICY)
    place.run(**keys_of(POLICY, "model"), **LORA)
    exported(place, "trial", "theirs", "--to", "peft")
    place.refuse_command(2, "which needs --base", command=["checkpoint", "import", "theirs", "-o", "ours"])
    for command in (["import", "theirs"], ["export", place.log.folder() / "adapter", "--to", "peft"]):
        place.refuse_command(4, "trained on a model with the fingerprint", command=[
            "checkpoint", *command, "-o", "ours", "--base", place.log.folder() / "model"])
    assert "states the base" not in place.host("checkpoint", "import", "theirs", "-o", "ours", "--base", "base").err
