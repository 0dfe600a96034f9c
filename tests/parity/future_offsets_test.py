"""model.future_offsets: heads that predict tokens 1, 3, 5 and 7 ahead, or 1, 2 and 6, compared with plain PyTorch:
losses and final parameters, with what else depends on which token a head predicts."""
from dataclasses import replace

import pytest
from checkpoint import model_tensors
from compare import assert_tensors_equal
from equal_runs import DIVISIONS, expect_case_equal, expect_layouts_equal
from paths import cases, cases_of
from reference import Recipe
from start import POLICY, READER, changes_for, frozen_shape, write_frozen

LEAPS = replace(POLICY, future_offsets=[1, 3, 5, 7])
UNEVEN = replace(READER, layers=5, future_tokens=3, future_offsets=[1, 2, 6])
OWN = {"layers": 5, "future_tokens": 4}  # as many heads as the policy

CASES = {
    "plain": (LEAPS, Recipe()),
    "head-weights": (LEAPS, Recipe(head_weights=[1.0, 0.3, 0.1, 0.5], detach_heads=True)),
    "weights": (LEAPS, Recipe(normalize="weights", pipeline="dft", accumulation=2)),
    "records": (UNEVEN, Recipe(data="records", accumulation=2)),
    "packed": (UNEVEN, Recipe(data="packed", accumulation=2)),
    "documents": (UNEVEN, Recipe(data="documents")),
    "by-target": (UNEVEN, Recipe(data="records", pipeline="prompt_weight", options={"weight": 0.3})),
    "shuffled": (LEAPS, Recipe(pipeline="shuffled", options={"inner": {"plugin": "focal", "gamma": 3.0}})),
    "random": (LEAPS, Recipe(pipeline="random")),
    "data-weight": (UNEVEN, Recipe(data="weighted", pipeline="formula", options={"weight": "data_weight"})),
    "rho1-next": (LEAPS, Recipe(pipeline="rho1")),
    "rho1-own": (LEAPS, Recipe(pipeline="rho1", frozen=OWN)),
    "rho1-of-own-heads-but-next": (LEAPS, Recipe(pipeline="rho1", frozen=OWN, heads="next")),
    "distillation": (LEAPS, Recipe(auxiliary={"plugin": "head_distillation", "weight": 0.5}, accumulation=2)),
    "token-order": (UNEVEN, Recipe(data="records", auxiliary={"plugin": "token_order", "window": 5, "head": 3})),
    "divergence-next": (LEAPS, Recipe(auxiliary={"plugin": "reference_divergence"})),
    "divergence-own": (LEAPS, Recipe(auxiliary={"plugin": "reference_divergence"}, frozen=OWN)),
    "heads": (LEAPS, Recipe(adapter="heads")),
}
SHORT = ["head-weights", "weights", "packed", "documents", "by-target", "random", "data-weight",
         "rho1-of-own-heads-but-next", "distillation", "token-order", "divergence-next"]


@pytest.mark.soak
@DIVISIONS
def test_losses_and_parameters_equal_pytorch(place, ranks, accumulation):
    expect_case_equal(place, *CASES["plain"], ranks=ranks, accumulation=accumulation)


@pytest.mark.soak
@pytest.mark.parametrize("case", cases_of(CASES, SHORT))
def test_what_depends_on_the_target_equals_pytorch(place, case):
    shape, recipe = CASES[case]
    expect_case_equal(place, shape, recipe)


@pytest.mark.soak
@pytest.mark.parametrize("case", cases(["distillation", "rho1-own"], ["plain"]))
def test_layouts_equal_pytorch(place, case):
    shape, recipe = CASES[case]
    expect_layouts_equal(place, shape, recipe, layouts=["no_shard", "sequence", "tensor", "sections"])


def test_signals_cached_for_other_offsets_are_not_read(place):
    """A file states no offsets: its heads are taken to be those of the policy."""
    recipe = Recipe(pipeline="rho1", frozen=OWN, heads="own")
    write_frozen(place.folder, shape=frozen_shape(recipe, POLICY.vocab_size))
    changes = changes_for(LEAPS, recipe, ranks=1) | {"model__weights": None, "train__steps": 3}
    place.tokens(windows=24)
    known = {}
    for offsets in ([1, 3, 5, 7], [1, 2, 3, 4], [1, 3, 5, 7]):
        place.run(**changes | {"model__future_offsets": offsets})
        losses, tensors = place.log.losses(), model_tensors(place.log.folder())
        wanted = known.setdefault(str(offsets), (losses, tensors))
        assert losses == wanted[0]
        assert_tensors_equal(tensors, wanted[1])
    assert len(list(place.folder.glob("runs/cache/signals/*"))) == 2, "one for each"
