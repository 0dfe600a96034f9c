"""Each auxiliary loss, compared with its formula in plain PyTorch over whole logits: losses of all steps and final
parameters, on one rank and on several, in every division of the work, with every moment of a weighting."""
from dataclasses import replace

import pytest
from checkpoint import model_tensors
from compare import assert_losses_close, assert_tensors_close
from paths import cases
from reference import Recipe
from start import POLICY, READER, changes_for, train_reference

CHAINED = replace(POLICY, future_heads="chained")
TIED = replace(POLICY, tie_word_embeddings=True)
OWN = {"layers": 5, "future_tokens": 4}  # a reference with as many heads as the policy


def of(plugin, shape=None, pipeline="baseline", data="windows", frozen=None, heads=None, weightings=None, **options):
    shape = shape or (POLICY if data == "windows" else READER)
    return shape, Recipe(pipeline=pipeline, data=data, frozen=frozen or {}, heads=heads, steps=10,
                         options=weightings or {}, auxiliary={"plugin": plugin, **options}, betas=(0.5, 0.95),
                         clip_norm=0.0, sharp=8.0)


CASES = {
    "label-smoothing": of("label_smoothing"),
    "label-smoothing-focal": of("label_smoothing", pipeline="focal", share={"from": 0.3, "to": 0.0, "steps": 5}),
    "z-loss": of("z_loss", TIED, weight=0.01),
    "z-loss-rho1": of("z_loss", pipeline="rho1", weight=0.01),
    "z-loss-quantile": of("z_loss", data="records", pipeline="formula", weight=0.01,
                          weightings={"weight": "(ce > quantile(ce, 0.4)) * exp(-ce)"}),
    "unlikelihood": of("unlikelihood", data="records"),
    "unlikelihood-focal": of("unlikelihood", data="records", pipeline="focal", weight=0.3),
    "asft": of("reference_divergence", pipeline="dft", frozen=OWN, weight=0.5),
    "reference-next": of("reference_divergence", frozen=OWN, heads="next", direction="reverse", weight=2.0),
    "reference-one-head": of("reference_divergence", data="packed", pipeline="rho1"),
    "distillation": of("head_distillation"),
    "distillation-chained": of("head_distillation", CHAINED, pipeline="focal", weight=0.5),
    # Rounding may decide which token is the 20th: a small weight keeps that below the tolerance.
    "distillation-top": of("head_distillation", top=20, weight=0.1),
    "distillation-tv": of("head_distillation", data="records", distance="tv"),
    "token-order": of("token_order", data="packed", window=8),
    "token-order-alone": of("token_order", pipeline="formula", weightings={"weight": "(head < 3) + (head > 3)"}, head=3,
                            window=12),
}
SHORT = ["label-smoothing", "z-loss-rho1", "unlikelihood", "asft", "distillation", "token-order"]


def expect_equal(place, wanted, **changes):
    place.run(**changes)
    assert_losses_close(place.log.losses(), wanted.losses, 1e-6)
    assert_tensors_close(model_tensors(place.log.folder()), wanted.parameters, 1e-5)


@pytest.mark.soak
@pytest.mark.parametrize("ranks, accumulation", cases([(1, 1), (2, 2)], [(1, 2), (2, 1)]))
@pytest.mark.parametrize("case", cases(SHORT, [case for case in CASES if case not in SHORT]))
def test_losses_and_parameters_equal_pytorch(place, case, ranks, accumulation):
    shape, recipe = CASES[case]
    recipe = replace(recipe, accumulation=accumulation)
    wanted = train_reference(place.folder, shape, recipe)
    expect_equal(place, wanted, **changes_for(shape, recipe, ranks))


def test_a_divisor_of_weights_is_not_that_of_the_auxiliary_loss(place):
    shape, recipe = CASES["z-loss-rho1"]
    recipe = replace(recipe, normalize="weights", accumulation=2, steps=4, head_weights=[1.0, 0.5, 0.0, 2.0])
    expect_equal(place, train_reference(place.folder, shape, recipe), **changes_for(shape, recipe))


LAYOUTS = {
    "no_shard": {"parallel__strategy": "no_shard"},
    "reference sharded alone": {"parallel__strategy": "no_shard", "reference__strategy": "full_shard"},
    "sequence": {"parallel__sequence": 2, "train__batch_size": 4},
    "tensor": {"parallel__tensor": 2, "train__batch_size": 4},
    "sections": {"parallel__pipeline": 2, "train__batch_size": 4},
    "sequence and tensor": {"parallel__processes": 4, "parallel__sequence": 2, "parallel__tensor": 2,
                            "train__batch_size": 4},
}


@pytest.mark.soak
@pytest.mark.parametrize("case", cases(["reference-next", "token-order-alone"],
                                        ["distillation-chained", "token-order"]))
def test_every_layout_equals_pytorch(place, case):
    shape, recipe = CASES[case]
    recipe = replace(recipe, accumulation=2, steps=4)
    wanted = train_reference(place.folder, shape, recipe)
    for layout, changes in LAYOUTS.items():
        if "reference" in layout and "reference" not in case:
            continue
        if layout == "sequence and tensor" and shape == READER:  # it has two heads of attention
            continue
        expect_equal(place, wanted, **changes_for(shape, recipe) | changes)


def test_the_log_has_the_mean_of_each_head(place):
    """Of a z-loss with weight 1, which is the square of the log-sum-exp."""
    shape, recipe = of("z_loss", weight=1.0)
    recipe = replace(recipe, steps=1)
    train_reference(place.folder, shape, recipe)
    place.run(**changes_for(shape, recipe))
    loss, ce, *heads = (place.log.metric(f"train/{name}")[1]
                        for name in ("loss", "ce", *(f"auxiliary_head_{k}" for k in range(1, 5))))
    assert sum(heads) / 4 == pytest.approx(loss - ce, rel=1e-5)
