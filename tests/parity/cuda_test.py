"""Runs on a CUDA device, compared with the same runs on the CPU. Without a device they are run on the null device only
(tests/null_cuda), and ctest reports that this file was skipped."""
import json
import os
import shutil

import null_cuda
import pytest

if not os.path.exists("/dev/nvidiactl") and not null_cuda.is_used():
    pytest.skip("no NVIDIA device on this machine", allow_module_level=True)

import torch  # noqa: E402
from checkpoint import model_tensors  # noqa: E402
from compare import assert_losses_close, assert_tensors_equal  # noqa: E402
from places import Place  # noqa: E402
from reference import Recipe, steps_here  # noqa: E402
from resume_test import stopped_and_resumed  # noqa: E402
from start import POLICY, POLICY_KEYS, RHO1_KEYS, train_reference  # noqa: E402

CUDA = {"parallel__device": "cuda", "parallel__processes": 1, "train__batch_size": 4, "parallel__precision": "fp32",
        "parallel__strategy": "full_shard", "train__steps": steps_here()}
CPU = CUDA | {"parallel__device": "cpu"}
PIPELINES = {"baseline": {}, "lora": {"adapter": {"plugin": "lora", "dropout": 0.1}, "optimizer__lr": 1e-2},
             "chained": {"model__future_heads": "chained"}, "rho1": RHO1_KEYS | POLICY_KEYS,
             "packed": {"data": {"kind": "records", "files": ["records.jsonl"], "template": "none", "packing": True,
                                 "tokenizer": {"kind": "byte"}}, "model__vocab_size": None}}


def peaks_of(place):
    """Peak bytes by category."""
    rows = place.log.query("SELECT category, max(bytes) AS bytes FROM memory WHERE run_id = ? AND phase = 'peak' "
                           "GROUP BY category", place.log.newest()["id"])
    return {row["category"]: row["bytes"] for row in rows}


def losses_of(place, **changes):
    place.run(**changes, timeout=300)
    return place.log.losses()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with data in which no token lies on a threshold of rho-1, and the weights of both models."""
    folder = tmp_path_factory.mktemp("inputs")
    train_reference(folder, POLICY, Recipe(pipeline="rho1", steps=steps_here()))
    records = [{"instruction": f"{i}+{i}=", "output": str(2 * i)}
               for i in range(2000)]  # several in each row of 64 tokens
    (folder / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    long = [record | {"output": record["output"] * 40} for record in records]
    (folder / "long.jsonl").write_text("".join(json.dumps(record) + "\n" for record in long))
    return folder


@pytest.fixture(scope="module")
def finished(program, inputs, tmp_path_factory):
    """A function that returns a place with one finished run of BASE with these changes; equal runs are made once."""
    made = {}

    def finished(**changes):
        key = str(sorted(changes.items()))
        if key not in made:
            made[key] = Place(tmp_path_factory.mktemp("finished"))
            shutil.copytree(inputs, made[key].folder, dirs_exist_ok=True)
            losses_of(made[key], **changes)
            null_cuda.assert_no_races(made[key].folder)
        return made[key]
    return finished


def skip_without(ranks):
    if not null_cuda.is_used() and torch.cuda.device_count() < ranks:
        pytest.skip("one device only")


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_losses_in_fp32_are_those_of_the_cpu(finished, pipeline):
    """To 1e-5: products are summed in a different order, and AdamW divides small gradients by their own size."""
    on_cuda, on_cpu = (finished(**of | PIPELINES[pipeline]).log.losses() for of in (CUDA, CPU))
    assert_losses_close(on_cuda, on_cpu, 1e-5)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_losses_in_half_precision_follow_those_in_fp32(finished, precision):
    exact = finished(**CUDA).log.losses()
    assert_losses_close(finished(**CUDA | {"parallel__precision": precision}).log.losses(), exact, 2e-2)


DIVIDED = {"window": {"model__sliding_window": 24}, "documents": {}, "documents and window":
           {"model__sliding_window": 24}, "short documents": {}}


@pytest.mark.parametrize("divided", DIVIDED)
def test_losses_in_bf16_with_windows_and_documents_are_those_of_the_cpu(finished, divided):
    """Flash attention reads their lengths; short documents, and fp32, have a mask."""
    packed = PIPELINES["packed"] if "documents" in divided else {}
    if packed and divided != "short documents":
        packed = packed | {"data": packed["data"] | {"files": ["long.jsonl"]}, "train__sequence_length": 256}
    changes = packed | DIVIDED[divided]
    on_cuda = finished(**CUDA | changes | {"parallel__precision": "bf16"}).log.losses()
    assert_losses_close(on_cuda, finished(**CPU | changes).log.losses(), 2e-2)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_offloaded_state_gives_the_same_losses_and_leaves_the_device(finished, precision):
    """To 1e-5: AdamW's CPU kernel rounds differently from the device's."""
    changes = CUDA | {"parallel__precision": precision}
    kept, offloaded = finished(**changes), finished(**changes, parallel__cpu_offload=True)
    kept_peaks, peaks = peaks_of(kept), peaks_of(offloaded)
    assert_losses_close(offloaded.log.losses(), kept.log.losses(), 1e-5 if precision == "fp32" else 2e-3)
    assert kept_peaks["parameters"] > 0 and kept_peaks["optimizer"] > 0
    assert peaks["parameters"] == 0 and peaks["optimizer"] == 0, peaks


@pytest.mark.parametrize("offload", [False, True])
def test_a_state_in_a_file_changes_no_loss_and_leaves_the_device(finished, offload):
    changes = CUDA | {"parallel__cpu_offload": offload, "train__ema": 0.9}
    kept = finished(**changes)
    in_file = finished(**changes, parallel__optimizer_offload="nvme", parallel__offload_path=".")
    assert in_file.log.losses() == kept.log.losses()
    for model in ("model", "model-ema"):
        assert_tensors_equal(model_tensors(in_file.log.folder(), model), model_tensors(kept.log.folder(), model))


FROZEN = {"base model": ({"adapter": {"plugin": "lora"}, "parallel__precision": "bf16"}, 2e-2),
          "reference": (PIPELINES["rho1"], 1e-5)}


@pytest.mark.parametrize("frozen", FROZEN)
@pytest.mark.parametrize("ranks, strategy", [(1, "no_shard"), (2, "full_shard")])
def test_an_offloaded_frozen_model_gives_the_same_losses_and_leaves_the_device(finished, frozen, ranks, strategy):
    """AdamW runs on the CPU in both runs, so no bit differs; and the CPU's to the tolerance of their precision."""
    skip_without(ranks)
    changes, tolerance = FROZEN[frozen]
    layout = {"parallel__processes": ranks, "train__batch_size": 4 // ranks, "parallel__strategy": strategy}
    kept, offloaded = (finished(**CUDA | changes | layout, parallel__cpu_offload=offload) for offload in (True, "all"))
    assert offloaded.log.losses() == kept.log.losses()
    assert_losses_close(offloaded.log.losses(), finished(**CPU | changes).log.losses(), tolerance)
    assert peaks_of(kept)["parameters"] > 0 and peaks_of(offloaded)["parameters"] == 0


def test_offloaded_activations_change_no_loss_and_leave_the_device(finished):
    changes = CUDA | {"model__layers": 8, "parallel__activation_checkpointing": "full"}
    kept, offloaded = finished(**changes), finished(**changes, parallel__activation_offload=True)
    assert offloaded.log.losses() == kept.log.losses()
    assert peaks_of(offloaded)["activations"] < peaks_of(kept)["activations"]


def test_the_devices_memory_is_in_the_log_by_category(finished):
    peaks = peaks_of(finished(**CUDA))
    for category in ("parameters", "gradients", "optimizer", "activations", "logits"):
        assert peaks[category] > 0, (category, peaks)


def test_a_stopped_run_resumes_bit_for_bit(place):
    steps = 12
    place.tokens(windows=steps * 4)
    changes = CUDA | {"train__steps": steps}
    whole = losses_of(place, **changes)
    losses, _ = stopped_and_resumed(place, steps, changes)
    assert losses == whole


@pytest.mark.parametrize("pipeline, strategy", [("baseline", "no_shard"), ("baseline", "shard_grad_op"),
                                                ("baseline", "full_shard"), ("chained", "full_shard")])
def test_two_devices_give_the_losses_of_one(finished, pipeline, strategy):
    """Chained heads also recompute their blocks."""
    skip_without(2)
    one = finished(**CUDA | PIPELINES[pipeline])
    two = finished(**CUDA | PIPELINES[pipeline] | {
        "parallel__processes": 2, "train__batch_size": 2, "parallel__strategy": strategy,
        "parallel__activation_checkpointing": "full" if pipeline == "chained" else "none"})
    assert_losses_close(two.log.losses(), one.log.losses(), 1e-5)


@pytest.mark.parametrize("pipeline", ["lora", "rho1"])
def test_two_devices_that_divide_the_positions_give_the_losses_of_one(finished, pipeline):
    skip_without(2)
    one = finished(**CUDA | PIPELINES[pipeline])
    two = finished(**CUDA | PIPELINES[pipeline] | {"parallel__processes": 2, "parallel__sequence": 2})
    assert_losses_close(two.log.losses(), one.log.losses(), 1e-5)
