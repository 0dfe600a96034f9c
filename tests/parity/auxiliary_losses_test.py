"""Each auxiliary loss, compared with its formula in plain PyTorch over whole logits: losses of all steps and final
parameters, on one rank and on several, in every division of the work, with every moment of a weighting."""
from dataclasses import replace

import pytest
from equal_runs import DIVISIONS, PLAIN_LAYOUTS, expect_case_equal, expect_layouts_equal
from paths import cases, cases_of
from reference import Recipe
from start import POLICY, READER, changes_for, train_reference

CHAINED = replace(POLICY, future_heads="chained")
TIED = replace(POLICY, tie_word_embeddings=True)
OWN = {"layers": 5, "future_tokens": 4}  # a reference with as many heads as the policy


def of(plugin, shape=None, pipeline="baseline", data="windows", frozen=None, heads=None, weightings=None, **options):
    shape = shape or (POLICY if data == "windows" else READER)
    return shape, Recipe(pipeline=pipeline, data=data, frozen=frozen or {}, heads=heads,
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


@pytest.mark.soak
@DIVISIONS
@pytest.mark.parametrize("case", cases_of(CASES, SHORT))
def test_losses_and_parameters_equal_pytorch(place, case, ranks, accumulation):
    expect_case_equal(place, *CASES[case], ranks=ranks, accumulation=accumulation)


def test_a_divisor_of_weights_is_not_that_of_the_auxiliary_loss(place):
    expect_case_equal(place, *CASES["z-loss-rho1"], normalize="weights", accumulation=2, steps=4,
                      head_weights=[1.0, 0.5, 0.0, 2.0])


@pytest.mark.soak
@pytest.mark.parametrize("case", cases(["reference-next", "token-order-alone"],
                                        ["distillation-chained", "token-order"]))
def test_every_layout_equals_pytorch(place, case):
    shape, recipe = CASES[case]
    layouts = [*PLAIN_LAYOUTS, *["reference sharded alone"] * case.startswith("reference")]
    if shape == READER:
        layouts.remove("sequence and tensor")  # four ranks for its two heads of attention
    expect_layouts_equal(place, shape, recipe, layouts)


def test_the_log_has_the_mean_of_each_head(place):
    """Of a z-loss with weight 1, which is the square of the log-sum-exp."""
    shape, recipe = of("z_loss", weight=1.0)
    recipe = replace(recipe, steps=1)
    train_reference(place.folder, shape, recipe)
    place.run(**changes_for(shape, recipe))
    loss, ce, *heads = (place.log.metric(f"train/{name}")[1]
                        for name in ("loss", "ce", *(f"auxiliary_head_{k}" for k in range(1, 5))))
    assert sum(heads) / 4 == pytest.approx(loss - ce, rel=1e-5)
