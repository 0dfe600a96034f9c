"""`plan` of a step that reads references, compared with the allocator's counts of a run, phase by phase."""
import pytest
from experiment import experiment
from paths import cases_of
from plan_test import SIZES, expect_equal, expect_within, planned

STAGE = {"experiment": "stage.toml"}
NARROW = {"model__dim": 64, "model__ffn_dim": 96}
AMATEUR = {"references": {"amateur": {"experiment": "amateur.toml", "heads": "next"}},
           "pipeline": {"plugin": "formula", "weight": "max(0, amateur_loss - ref) + exp(-amateur_entropy)"}}
CASES = {
    "own heads": dict(reference=STAGE),
    "next-token head": dict(reference=STAGE | {"heads": "next"}),
    "own chained heads in bf16, accumulated": dict(reference=STAGE | {"cache": False}, model__future_heads="chained",
                                                   parallel__precision="bf16", train__gradient_accumulation=2),
    "own heads, divided positions": dict(reference=STAGE, parallel__sequence=2),
    "own heads, divided features": dict(reference=STAGE, parallel__tensor=2),
    "two models": dict(reference=STAGE, **AMATEUR),
    "two models, divided positions": dict(reference=STAGE | {"cache": False}, **AMATEUR, parallel__sequence=2),
    "two models, accumulated": dict(reference=STAGE, **AMATEUR, train__gradient_accumulation=2),
}
# rho-1 selects another number of tokens on each rank.
SHORT = ["own heads", "two models"]
READS_BOTH = {"pipeline": {"plugin": "formula", "weight": "exp(-ref) + exp(-reference_entropy)"}}


@pytest.mark.soak
@pytest.mark.parametrize("case", cases_of(CASES, SHORT))
def test_the_plan_of_a_reference_is_what_a_run_takes(place, case):
    changes = {**SIZES, **CASES[case]}
    stage = {name: value for name, value in changes.items() if name not in ("reference", "references", "pipeline")}
    place.write({**experiment(**stage), "name": "stage"}, "stage.toml")
    place.write({**experiment(**stage | NARROW), "name": "amateur"}, "amateur.toml")
    file = place.write(**READS_BOTH | changes)
    plan = planned(place, file)
    assert place.host("plan", file).out.count("parameters, frozen") == len(plan["frozen"])
    place.run(**READS_BOTH | changes)
    expect_within(place.log, plan, case)
    expect_equal(place.log, plan, case)
    assert any("frozen_models" in variant["phases"] for variant in plan["memory"])
    has_amateur = "references" in changes
    assert set(plan["frozen"]) == {"reference"} | ({"references.amateur"} if has_amateur else set())
    assert [run["name"] for run in place.log.runs()] == ["stage"] + ["amateur"] * has_amateur + ["trial"]


def test_the_plan_reads_the_number_of_heads_from_weights(place):
    """A run is named, whose log the engine that plans does not read."""
    place.run("--set", "name=four", **SIZES)
    place.run("--set", "name=one", **SIZES | {"model__layers": 3, "model__future_tokens": 1})
    parameters = {}
    for heads, name in (("own", "four"), ("auto", "four"), ("next", "four"), ("auto", "one")):
        file = place.write(**SIZES, **READS_BOTH, reference={"weights": f"run:{name}", "heads": heads})
        parameters[heads, name] = planned(place, file)["frozen"]["reference"]
    block = 4 * 128 * 128 + 3 * 128 * 352 + 2 * 128
    assert parameters["own", "four"] == parameters["auto", "four"] == parameters["next", "four"] + 3 * block
    assert parameters["auto", "one"] == parameters["next", "four"]


def test_the_plan_reads_the_shape_of_a_reference_from_its_weights(place):
    place.run("--set", "name=narrow", **SIZES | NARROW)
    shape = experiment(**SIZES | NARROW)["model"]
    read, stated = (
        planned(place, place.write(**SIZES, **READS_BOTH, reference={"weights": "run:narrow", "heads": "next"} | more))
        for more in ({}, {"model": shape}))
    assert read["frozen"] == stated["frozen"] and read["memory"] == stated["memory"]
    block = 4 * 64 * 64 + 3 * 64 * 96 + 2 * 64
    blocks = shape["layers"] - shape["future_tokens"] + 1
    assert read["frozen"]["reference"] == blocks * block + 2 * shape["vocab_size"] * 64 + 64
