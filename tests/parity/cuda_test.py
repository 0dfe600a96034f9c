"""Runs on a CUDA device, compared with the same runs on the CPU. Without a device they are run on the null device only
(tests/null_cuda), and ctest reports that this file was skipped."""
import os

import null_cuda
import pytest
from compare import assert_losses_close
from reference import Recipe
from resume_test import stopped_and_resumed
from start import POLICY, POLICY_KEYS, RHO1_KEYS, train_reference

if not os.path.exists("/dev/nvidiactl") and not null_cuda.is_used():
    pytest.skip("no NVIDIA device on this machine", allow_module_level=True)

import torch  # noqa: E402

CUDA = {"parallel__device": "cuda", "parallel__processes": 1, "train__batch_size": 4}
CPU = CUDA | {"parallel__device": "cpu"}
PIPELINES = {"baseline": {}, "lora": {"adapter": {"plugin": "lora", "dropout": 0.1}, "optimizer__lr": 1e-2},
             "rho1": RHO1_KEYS | POLICY_KEYS}


def peaks_of(place):
    """Peak bytes by category."""
    rows = place.log.query("SELECT category, max(bytes) AS bytes FROM memory WHERE run_id = ? AND phase = 'peak' "
                           "GROUP BY category", place.log.newest()["id"])
    return {row["category"]: row["bytes"] for row in rows}


def losses_of(place, **changes):
    place.run(**changes, timeout=300)
    return place.log.losses()


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_losses_in_fp32_are_those_of_the_cpu(place, pipeline):
    """To 1e-5: products are summed in a different order, and AdamW divides small gradients by their own size."""
    if pipeline == "rho1":
        train_reference(place.folder, POLICY, Recipe(pipeline="rho1"))
    changes = PIPELINES[pipeline]
    assert_losses_close(losses_of(place, **CUDA | changes), losses_of(place, **CPU | changes), 1e-5)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_losses_in_half_precision_follow_those_in_fp32(place, precision):
    exact = losses_of(place, **CUDA)
    assert_losses_close(losses_of(place, **CUDA, parallel__precision=precision), exact, 2e-2)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_offloaded_state_gives_the_same_losses_and_leaves_the_device(place, precision):
    """To 1e-5 after ten steps: AdamW's CPU kernel rounds differently from the device's."""
    changes = CUDA | {"parallel__precision": precision, "parallel__strategy": "full_shard"}
    kept, kept_peaks = losses_of(place, **changes), peaks_of(place)
    offloaded = losses_of(place, **changes, parallel__cpu_offload=True)
    peaks = peaks_of(place)
    assert_losses_close(offloaded, kept, 1e-5 if precision == "fp32" else 2e-3)
    assert kept_peaks["parameters"] > 0 and kept_peaks["optimizer"] > 0
    assert peaks["parameters"] == 0 and peaks["optimizer"] == 0, peaks


def test_an_offloaded_base_model_gives_the_same_losses_and_leaves_the_device(place):
    """AdamW runs on the CPU in both runs, so no bit differs."""
    changes = CUDA | {"adapter": {"plugin": "lora"}, "parallel__precision": "bf16", "parallel__strategy": "no_shard"}
    kept = losses_of(place, **changes, parallel__cpu_offload=True)
    kept_peaks = peaks_of(place)
    assert losses_of(place, **changes, parallel__cpu_offload="all") == kept
    assert kept_peaks["parameters"] > 0 and peaks_of(place)["parameters"] == 0


def test_offloaded_activations_change_no_loss_and_leave_the_device(place):
    changes = CUDA | {"model__layers": 8, "parallel__activation_checkpointing": "full"}
    kept, kept_peaks = losses_of(place, **changes), peaks_of(place)
    assert losses_of(place, **changes, parallel__activation_offload=True) == kept
    assert peaks_of(place)["activations"] < kept_peaks["activations"]


def test_the_devices_memory_is_in_the_log_by_category(place):
    place.run(**CUDA, timeout=300)
    peaks = peaks_of(place)
    for category in ("parameters", "gradients", "optimizer", "activations", "logits"):
        assert peaks[category] > 0, (category, peaks)


def test_a_stopped_run_resumes_bit_for_bit(place):
    steps = 200
    place.tokens(windows=steps * 4)
    changes = CUDA | {"train__steps": steps}
    whole = losses_of(place, **changes)
    losses, _ = stopped_and_resumed(place, steps, changes)
    assert losses == whole


@pytest.mark.skipif(not null_cuda.is_used() and torch.cuda.device_count() < 2, reason="one device only")
@pytest.mark.parametrize("strategy", ["no_shard", "shard_grad_op", "full_shard"])
def test_two_devices_give_the_losses_of_one(place, strategy):
    one = losses_of(place, **CUDA, parallel__strategy="no_shard")
    two = losses_of(place, **CUDA | {"parallel__processes": 2, "train__batch_size": 2}, parallel__strategy=strategy)
    assert_losses_close(two, one, 1e-5)
