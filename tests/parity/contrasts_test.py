"""[references.NAME]: formulas over several frozen models, compared with plain PyTorch: losses and final
parameters, on one rank and on several, in every division of the work; with cached losses the same."""
from dataclasses import replace

import pytest
from checkpoint import model_tensors
from compare import assert_tensors_equal
from equal_runs import DIVISIONS, LAYOUTS, expect_case_equal, expect_equal, expect_layouts_equal
from experiment import ONE_RANK
from paths import cases, cases_of
from reference import Recipe
from start import FROZEN, POLICY, READER, changes_for, train_reference, write_frozen, write_named

OWN = {"layers": 5, "future_tokens": 4}  # as many heads as the policy
WIDE = {"dim": 96, "ffn_dim": 256, "layers": 3}
AMATEUR, DOMAINS = {"amateur": WIDE}, {"general": OWN, "domain": WIDE}


def of(weight, references, shape=POLICY, data="windows", **changes):
    """`sharp`: losses that differ by more than rounding."""
    return shape, Recipe(pipeline="formula", options={"weight": weight}, references=references, data=data,
                         betas=(0.5, 0.95), clip_norm=0.0, sharp=8.0, **changes)


CASES = {
    "contrast": of("max(0, amateur_loss - reference_loss)", AMATEUR),
    "contrast-tokens": of("(amateur_loss > ref) * ce * exp(-amateur_entropy)", AMATEUR),
    "difference": of("general_loss - domain_loss >= quantile(general_loss - domain_loss, 0.4)", DOMAINS),
    "contrast-own-heads": of("max(0, amateur_loss - reference_loss)", {"amateur": OWN}, frozen=OWN),
    "contrast-heads-of-one": of("(amateur_loss > ref) * ce * exp(-amateur_entropy)", {"amateur": OWN}, heads="next"),
    "contrast-packed": of("max(0, amateur_loss - reference_loss)", {"amateur": {}}, READER, "packed"),
    "difference-records": of("general_loss - domain_loss >= quantile(general_loss - domain_loss, 0.4)",
                             {"general": {}, "domain": WIDE}, READER, "records"),
}
SHORT = ["contrast", "contrast-tokens", "difference"]


@pytest.mark.soak
@DIVISIONS
@pytest.mark.parametrize("case", cases_of(CASES, SHORT))
def test_losses_and_parameters_equal_pytorch(place, case, ranks, accumulation):
    expect_case_equal(place, *CASES[case], ranks=ranks, accumulation=accumulation)


@pytest.mark.soak
@pytest.mark.parametrize("case", cases(["contrast-heads-of-one", "difference"], ["contrast"]))
def test_every_layout_equals_pytorch(place, case):
    expect_layouts_equal(place, *CASES[case], layouts=[one for one in LAYOUTS if one != "reference sharded alone"])


def test_each_model_has_a_strategy_of_its_own(place):
    alone = {"parallel__strategy": "no_shard", "references__amateur__strategy": "full_shard"}
    shape, recipe = CASES["contrast"]
    expect_equal(place, train_reference(place.folder, shape, recipe), **changes_for(shape, recipe) | alone)


def test_each_model_has_cached_losses_of_its_own(place):
    shape, recipe = CASES["contrast-heads-of-one"]
    write_frozen(place.folder)
    write_named(place.folder, recipe, POLICY.vocab_size)
    changes = changes_for(shape, recipe, ranks=1) | {"model__weights": None, "train__steps": 3} | ONE_RANK
    place.tokens(windows=24)
    found = []
    for cache in (False, True, True):
        place.run(**changes | {"reference__cache": cache, "references__amateur__cache": cache})
        found.append((place.log.losses(), model_tensors(place.log.folder())))
        files = len(list(place.folder.glob("runs/cache/signals/*")))
        assert files == (3 if cache else 0), "losses of both, entropies of one"
    assert len({run["config_hash"] for run in place.log.runs()}) == 1
    for losses, model in found[1:]:
        assert losses == found[0][0]
        assert_tensors_equal(model, found[0][1])


def test_one_rank_reads_what_another_layout_cached(place):
    """The order of the models is the same on every rank, also where only one lacks a window."""
    shape, recipe = CASES["contrast"]
    recipe = replace(recipe, steps=4)
    write_frozen(place.folder, recipe.sharp, FROZEN)
    write_named(place.folder, recipe, POLICY.vocab_size)
    changes = changes_for(shape, recipe) | {"model__weights": None}
    place.tokens(windows=16)
    place.run(**changes | {"train__steps": 1, "parallel__processes": 1, "train__batch_size": 2})  # of rank 0 alone
    place.run(**changes)
    first = place.log.losses()
    place.run(**changes | {"references__amateur__cache": False})
    assert place.log.losses() == first
