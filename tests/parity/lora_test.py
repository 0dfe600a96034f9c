"""The results of a run with LoRA: the unchanged base, the adapter, the merged model; and its memory."""
import json

import pytest
import torch
from checkpoint import adapter_tensors, model_tensors
from compare import assert_tensors_equal
from experiment import ONE_RANK
from lora import OPTIONS
from paths import TEST_PLUGINS
from start import POLICY, POLICY_KEYS
from reference import filled
from safetensors.torch import save_file

TARGETS = tuple(f".{name}.weight" for name in OPTIONS["targets"])
LORA = {"adapter__plugin": "lora", "optimizer__lr": 1e-2, **POLICY_KEYS}


@pytest.fixture
def base(place):
    """The weights that the run starts from, by name."""
    weights = filled(POLICY, seed=3).state_dict()
    save_file(weights, place.folder / "weights.safetensors")
    return weights


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_base_keeps_its_bits_and_the_merge_is_exact(place, base, precision):
    place.run(**LORA, parallel__precision=precision)
    model, adapter = model_tensors(place.log.folder()), adapter_tensors(place.log.folder())
    # A frozen base is stored in the type of the computation: in bf16, the file's values are rounded.
    stored = {name: value if precision == "fp32" else value.bfloat16().float() for name, value in base.items()}
    wanted = dict(stored)
    for name in base:
        if name.endswith(TARGETS):
            slot = name.removesuffix(".weight")
            update = adapter[f"{slot}.lora_B"] @ adapter[f"{slot}.lora_A"]
            assert update.abs().max() > 0, f"{slot} was not trained"
            wanted[name] = stored[name] + update * (16.0 / 8)
    assert len(adapter) == 2 * 4 * 5, "two matrices beside four layers of five blocks"
    assert_tensors_equal(model, wanted)


def test_parameters_train_beside_the_adapter_and_are_part_of_it(place, base):
    heads = {"adapter__targets": ["layers.*.w[qv]"], "adapter__train": ["extra_heads.*", "norm.weight"]}
    place.run(**LORA | heads)
    folder = place.log.folder()
    model, adapter = model_tensors(folder), adapter_tensors(folder)
    trained = {name: value for name, value in adapter.items() if "lora_" not in name}
    assert set(trained) == {name for name in base if name.startswith("extra_heads.") or name == "norm.weight"}
    wanted = base | trained
    for name in base:
        if name.startswith("layers.") and name.endswith(("wq.weight", "wv.weight")):
            slot = name.removesuffix(".weight")
            wanted[name] = base[name] + adapter[f"{slot}.lora_B"] @ adapter[f"{slot}.lora_A"] * (16.0 / 8)
    changed = {name for name in base if not torch.equal(base[name], wanted[name])}
    assert len(changed) == len(trained) + 2 * 2, "every trained parameter, and two layers of two blocks"
    assert_tensors_equal(model, wanted)

    still = {"optimizer__lr": 1e-30, "train__steps": 1, "adapter__weights": "run:trial", **ONE_RANK}
    place.run(**LORA | heads | still)
    assert_tensors_equal(adapter_tensors(place.log.folder()), adapter)
    refused = place.run(**LORA | heads | still | {"adapter__train": ["extra_heads.*"]}, wanted=4).err
    assert "tensor 'norm.weight' is not part of the adapter, because it does not train here" in refused
    refused = place.run(**LORA | heads | {"adapter__train": ["extra_heads.*", "*.wv.weight"]}, wanted=2).err
    assert ("[adapter] train and train_last choose parameters that the adapter changes already: "
            "layers.0.attention.wv.weight and layers.1.attention.wv.weight") in refused


def test_the_base_of_an_adapter_is_what_stays_frozen(place, base):
    """Other values of the heads that the adapter holds as a whole make no other base."""
    heads = {"adapter__targets": ["layers.*.wq"], "adapter__train": ["extra_heads.*"], **ONE_RANK}
    place.run(**LORA | heads)
    save_file({name: value * (0.5 if name.startswith("extra_heads.") else 1) for name, value in base.items()},
              place.folder / "weights.safetensors")
    still = {"optimizer__lr": 1e-30, "train__steps": 1, "adapter__weights": "run:trial"}
    first = model_tensors(place.log.folder())
    place.run(**LORA | heads | still)
    assert_tensors_equal(model_tensors(place.log.folder()), first)


def test_the_adapter_is_a_separate_folder_that_identifies_its_base(place, base):
    place.run(**LORA, **ONE_RANK, adapter__rank=128)
    folder = place.log.folder() / "adapter"
    shown = json.loads((folder / "adapter.json").read_text())
    assert shown["plugin"] == "lora" and shown["options"]["rank"] == 128 and len(shown["base_fingerprint"]) == 16
    tensors = sum(value.nbytes for value in adapter_tensors(place.log.folder()).values())
    assert tensors <= (folder / "adapter.safetensors").stat().st_size <= 1.01 * tensors
    assert "complete (adapter" in place.host("checkpoint", "verify", folder).out


def test_optimizer_and_gradients_take_the_trained_share_and_no_more(place, base):
    """Compares peaks counted by the allocator."""
    peaks = {}
    for plugin in ("full", "lora"):
        place.run(**LORA | ONE_RANK | {"adapter__plugin": plugin})
        rows = place.log.query("SELECT category, bytes FROM memory WHERE run_id = ? AND phase = 'peak'",
                              place.log.newest()["id"])
        peaks[plugin] = {row["category"]: row["bytes"] for row in rows}
    adapter = sum(value.numel() for value in adapter_tensors(place.log.folder()).values())
    share = adapter / sum(value.numel() for value in base.values())
    for category in ("optimizer", "gradients"):
        assert 0 < peaks["lora"][category] <= (share + 0.01) * peaks["full"][category], (category, share, peaks)


def test_frozen_parameters_may_be_replicated_on_every_rank(place, base):
    """Bitwise the same numbers, with more memory and no gathering of frozen parameters."""
    losses, peaks = [], []
    for replicate in (False, True):
        place.run(**LORA, parallel__replicate_frozen=replicate)
        losses.append(place.log.losses())
        rows = place.log.query("SELECT category, max(bytes) AS bytes FROM memory WHERE run_id = ? AND phase = 'peak' "
                               "GROUP BY category", place.log.newest()["id"])
        peaks.append({row["category"]: row["bytes"] for row in rows})
    assert losses[0] == losses[1]
    sharded, replicated = peaks
    assert replicated["parameters"] > 1.5 * sharded["parameters"]
    assert replicated["gathered"] < 0.5 * sharded["gathered"]


@pytest.mark.parametrize("changes, message", [
    ({"parallel__replicate_frozen": True}, 'adapter "full" freezes no parameter; remove it'),
    ({"parallel__cpu_offload": "all", "parallel__device": "auto"}, "there are no frozen parameters; set true")])
def test_a_key_for_frozen_parameters_is_refused_if_nothing_is_frozen(place, changes, message):
    place.refuse_everywhere(2, message, **changes)


def test_an_adapter_is_loaded_bit_for_bit_by_another_run_on_the_same_base_only(place, base):
    place.run(**LORA, adapter__dora=True)
    first = place.log.folder()
    too_small_to_matter = {"optimizer__lr": 1e-30, "train__steps": 1, "adapter__dora": True, **ONE_RANK}
    for weights in ("run:trial", str(first / "adapter")):
        place.run(**LORA | too_small_to_matter, adapter__weights=weights)
        assert_tensors_equal(adapter_tensors(place.log.folder()), adapter_tensors(first))
    refused = place.run(**LORA, **ONE_RANK, adapter__weights=str(first / "adapter"), wanted=4).err
    assert "option dora is true, but here false" in refused
    save_file(filled(POLICY, seed=4).state_dict(), place.folder / "weights.safetensors")
    refused = place.run(**LORA, adapter__dora=True, adapter__weights=str(first / "adapter"), wanted=4).err
    fingerprint = json.loads((first / "adapter/adapter.json").read_text())["base_fingerprint"]
    assert fingerprint in refused and "but here" in refused


def test_a_target_that_chooses_no_layer_is_refused(place):
    place.refuse(2, r'toml:\d+:\d+: .*found "wx", wanted wq, wk, wv, wo, w1, w2, w3 or a pattern',
                 adapter__plugin="lora", adapter__targets=["wq", "wx"])
    place.refuse(2, r'\[adapter\] targets: "layers.9.\*" matches no linear layer of this model; names are like',
                 adapter__plugin="lora", adapter__targets=["wq", "layers.9.*"])


def test_an_adapter_that_trains_nothing_is_refused(place):
    assert "trains no parameter" in place.run(adapter__plugin="lora", adapter__targets=[], wanted=3).err
    for sections in (1, 2):
        assert "trains no parameter" in place.run(adapter__plugin="frozen", parallel__pipeline=sections, wanted=3).err


def test_a_frozen_model_stays_and_the_head_on_it_trains(place, base):
    place.run(**{**LORA, "adapter__plugin": "frozen", "pipeline__plugin": "value_objective"},
              env={"WMTP_PLUGIN_PATH": TEST_PLUGINS})
    model = model_tensors(place.log.folder())
    head = model.pop("value_heads.return.0.weight")
    assert torch.count_nonzero(head) == head.numel()
    model.pop("value_heads.return.0.bias")
    assert_tensors_equal(model, {name: base[name] for name in model})  # a value model: the trunk without token heads
    assert not (place.log.folder() / "adapter").exists()
