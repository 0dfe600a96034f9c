"""[reference] heads: each head of the policy with the reference's own head, or with its next-token head, compared
with plain PyTorch: losses and final parameters, on one rank and on several, in every division of the
work."""
from dataclasses import replace

import pytest
from checkpoint import model_tensors
from compare import assert_tensors_equal
from equal_runs import DIVISIONS, expect_case_equal, expect_layouts_equal
from paths import cases_of
from reference import Recipe
from start import POLICY, READER, changes_for, frozen_shape, write_frozen

OWN = {"layers": 5, "future_tokens": 4}  # as many heads as the policy
MORE = {"layers": 6, "future_tokens": 5}
CHAINED = OWN | {"future_heads": "chained"}
CHAINED_POLICY = replace(POLICY, future_heads="chained")
SHARED = MORE | {"future_heads": "shared"}  # of whose five heads four are read


def of(pipeline, frozen=None, shape=POLICY, data="windows", heads=None, normalize="tokens", **options):
    """`sharp`: entropies that differ by more than rounding."""
    return shape, Recipe(pipeline=pipeline, frozen=frozen or OWN, heads=heads, data=data, normalize=normalize,
                         options=options, betas=(0.5, 0.95), clip_norm=0.0, sharp=8.0)


CASES = {
    "rho1": of("rho1"),
    "rho1-self-loss": of("rho1", mode="self_loss", keep=0.7),
    "rho1-soft-self-entropy": of("rho1", mode="self_entropy", selection="soft"),
    "formula": of("formula", weight="ref * exp(-reference_entropy)"),
    "formula-of-tokens": of("formula", weight="(entropy > reference_entropy) * ce"),
    "chained": of("rho1", CHAINED, CHAINED_POLICY),
    "chained-reference-alone": of("formula", CHAINED, weight="ref * exp(-reference_entropy)"),
    "shared": of("rho1", SHARED, replace(POLICY, future_heads="shared")),
    "more-heads": of("rho1", MORE, heads="own"),
    "next": of("rho1", heads="next"),
    "packed": of("rho1", {"layers": 3, "future_tokens": 2}, READER, "packed"),
    "weights": of("rho1", normalize="weights"),
}
SHORT = ["rho1", "formula", "chained"]


@pytest.mark.soak
@DIVISIONS
@pytest.mark.parametrize("case", cases_of(CASES, SHORT))
def test_losses_and_parameters_equal_pytorch(place, case, ranks, accumulation):
    expect_case_equal(place, *CASES[case], ranks=ranks, accumulation=accumulation)


@pytest.mark.parametrize("kind", ["parallel", "chained"])
def test_every_layout_equals_pytorch(place, kind):
    expect_layouts_equal(place, *CASES["rho1" if kind == "parallel" else "chained"])


def test_a_cache_of_one_choice_is_not_read_by_the_other(place):
    """Random windows of a file, so that all runs could share them."""
    write_frozen(place.folder, shape=frozen_shape(CASES["rho1"][1], POLICY.vocab_size))
    changes = changes_for(*CASES["rho1"], ranks=1) | {"model__weights": None, "train__steps": 3}
    place.tokens(windows=24)
    losses = {}
    for heads in ("next", "own", "auto", "next"):
        place.run(**changes | {"reference__heads": heads})
        found = (place.log.losses(), model_tensors(place.log.folder()))
        known = losses.setdefault("own" if heads == "auto" else heads, found)
        assert found[0] == known[0], heads
        assert_tensors_equal(found[1], known[1])
    assert losses["own"][0] != losses["next"][0]
    assert len(list(place.folder.glob("runs/cache/signals/*"))) == 2, "one for each choice"
