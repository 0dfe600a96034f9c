"""Features of the sdk in real runs: weightings that draw, keep state or read tokens give the same numbers in every
layout; and the test plugins, an objective on a value head and a small LoRA."""
import pytest
from checkpoint import model_tensors
from compare import assert_losses_close, assert_tensors_close
from experiment import ONE_RANK
from paths import TEST_PLUGINS

OURS = {"WMTP_PLUGIN_PATH": TEST_PLUGINS}
LAYOUTS = [(1, 4), (2, 2), (4, 1)]
# Where tests/contract tests sums, counts and quantiles over all ranks, two ranks show that the host computes them.
# Draws, and the parameters of an adapter, are tried on four.
UP_TO_TWO_RANKS = LAYOUTS[:2]


def losses_in_every_layout(place, pipeline, layouts=LAYOUTS):
    losses = []
    for ranks, batch in layouts:
        place.run(pipeline=pipeline, train__steps=4, parallel__processes=ranks, train__batch_size=batch)
        losses.append(place.log.losses())
    for other in losses[1:]:
        assert_losses_close(other, losses[0], 1e-6)


def test_a_random_control_keeps_its_share_and_is_the_same_in_every_layout(place):
    losses_in_every_layout(place, {"plugin": "random", "keep": 0.6})
    shares = place.log.metric("random/selection_ratio")
    assert len(shares) == 4
    for share in shares.values():
        assert share == pytest.approx(0.6, abs=0.08)


@pytest.mark.parametrize("pipeline", [
    {"plugin": "random", "kind": "lognormal"},
    {"plugin": "frequency"},
    {"plugin": "truncation", "drop": 0.2, "warmup_steps": 1},
    {"plugin": "focal"},
], ids=lambda pipeline: pipeline["plugin"])
def test_small_weightings_give_the_same_numbers_on_one_and_two_ranks(place, pipeline):
    losses_in_every_layout(place, pipeline, UP_TO_TWO_RANKS)
    means = place.log.metric("weights/mean").values()
    assert any(abs(mean - 1) > 1e-3 for mean in means), "the weights change nothing"


def test_an_objective_teaches_a_value_head(place):
    place.tokens(windows=400)
    place.run(env=OURS, **ONE_RANK, pipeline={"plugin": "value_objective", "target": 1.0}, train__steps=80,
              train__batch_size=4, optimizer__lr=3e-3)
    losses = place.log.metric("value/loss")
    assert losses[80] < 0.3 * losses[1], losses


def test_a_small_lora_trains_its_own_parameters_only(place):
    place.run(**ONE_RANK, train__steps=1, optimizer__lr=1e-12, optimizer__weight_decay=0.0)
    before = model_tensors(place.log.folder())
    changes = {**ONE_RANK, "adapter": {"plugin": "small_lora", "rank": 4}, "model__weights": "run:trial",
               "train__steps": 8, "train__batch_size": 4}
    place.run(env=OURS, **changes)
    after = model_tensors(place.log.folder())
    assert before.keys() == after.keys(), "model/ holds merged weights, by the model's own names"
    for name, tensor in before.items():
        slot = ".attention.w" in name
        change = (after[name] - tensor).abs().max().item()
        assert (change > 1e-6) if slot else (change == 0), f"{name} changed by {change}"
    losses = place.log.losses()
    assert losses[8] < losses[1]


def test_a_small_lora_gives_the_same_numbers_in_every_layout(place):
    results = []
    for ranks, batch in LAYOUTS:
        place.run(env=OURS, adapter={"plugin": "small_lora"}, train__steps=6, parallel__processes=ranks,
                  train__batch_size=batch)
        results.append((place.log.losses(), model_tensors(place.log.folder())))
    for losses, model in results[1:]:
        assert_losses_close(losses, results[0][0], 1e-6)
        assert_tensors_close(model, results[0][1], 5e-6)
