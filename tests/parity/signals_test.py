"""Signals of the data and of the logits, as formulas of their own, compared with plain PyTorch: losses and
final parameters, on one rank and on two, with micro-batches, packed, and in every division of the work."""
from dataclasses import replace

import pytest
from equal_runs import DIVISIONS, PLAIN_LAYOUTS, expect_case_equal, expect_layouts_equal
from experiment import ONE_RANK, VOCAB
from paths import cases, cases_of
from reference import Recipe
from start import POLICY, READER, changes_for, train_reference, write_start

ALL_SIGNALS = "data_weight * (1 + (rank < 9)) / (1 + exp(-margin)) * (2 - top_mass(4)) * (1 + agreement)"


# GRPO's gradient for answers that the reference wrote: outside of the clipped range there is none.
ADVANTAGE = "signed((correct - pass_rate) / ((pass_rate * (1 - pass_rate))^0.5 + 1e-4))"
CLIPPED = ("signed((correct - pass_rate) * exp(ref - ce) * (1 - (correct > pass_rate) * (ref - ce > log(1.2))"
           " - (correct < pass_rate) * (ref - ce < log(0.8))))")


CHAINED = replace(POLICY, future_heads="chained")


def of(weight, data="weighted", shape=READER, normalize="tokens", sequences=4):
    return shape, Recipe(pipeline="formula", options={"weight": weight}, data=data, normalize=normalize,
                         sequences=sequences, betas=(0.5, 0.95), clip_norm=0.0, sharp=8.0)


CASES = {
    "weights": of("data_weight", normalize="weights"),
    "weights-packed": of("data_weight", "weighted-packed"),
    "weights-of-losses": of("data_weight * exp(-ce)"),
    "weights-of-losses-packed": of("data_weight * exp(-ce)", "weighted-packed", normalize="weights"),
    "weights-of-places": of("data_weight * ce * position"),
    "ranks": of("(rank < 9) / (1 + exp(-margin))", "windows", POLICY),
    "weights-of-ranks": of(ALL_SIGNALS),
    "top-mass": of("1 - top_mass(5)", "windows", POLICY, normalize="weights"),
    "agreement": of("1 + agreement", "windows", POLICY),
    "agreement-of-heads": of("(1 + agreement * 3) * (1 - exp(-ce))", normalize="weights"),
    "agreement-packed": of("(1 + agreement * 3) * (1 - exp(-ce))", "weighted-packed"),
    "agreement-of-places": of("agreement * position", "windows", POLICY),
    "alignment": of("1 + min(0, alignment)", "windows", POLICY),
    "alignment-packed": of("signed(alignment)", "weighted-packed"),
    "alignment-of-losses": of("max(0, alignment) * (1 - exp(-ce))", normalize="weights"),
    "alignment-of-places": of("(1 + alignment) * position", "windows", CHAINED),
    "alignment-shared": of("1 + min(0, alignment)", "windows", replace(POLICY, future_heads="shared")),
    "top-mass-selected": of("(1 - top_mass(5) > 0.4) * ce", "windows", POLICY),
    "advantages": of(ADVANTAGE, sequences=8),  # of fewer, all may have the same answers
    "advantages-packed": of(ADVANTAGE, "weighted-packed", sequences=8),
    "advantages-clipped": of(CLIPPED, sequences=8),
    "advantages-of-losses": of("signed((correct - pass_rate) * exp(-ce) * position)", sequences=8),
    "answers": of("correct * (1 - pass_rate) + bytes / 2"),
    "answers-packed": of("correct * (1 - pass_rate) + bytes / 2", "weighted-packed"),
}
SHORT = ["weights", "weights-packed", "ranks", "top-mass", "agreement", "agreement-packed", "alignment",
         "alignment-of-losses", "alignment-of-places", "advantages-clipped", "answers-packed"]


@pytest.mark.soak
@DIVISIONS
@pytest.mark.parametrize("case", cases_of(CASES, SHORT))
def test_losses_and_parameters_equal_pytorch(place, case, ranks, accumulation):
    expect_case_equal(place, *CASES[case], ranks=ranks, accumulation=accumulation)


def test_every_layout_equals_pytorch(place):
    shape, recipe = CASES["weights-of-ranks"]
    expect_layouts_equal(place, replace(shape, kv_heads=4), recipe, PLAIN_LAYOUTS)


@pytest.mark.soak
@pytest.mark.parametrize("heads", cases(["chained"], [None]))
def test_alignment_in_every_layout_equals_pytorch(place, heads):
    shape, recipe = CASES["alignment"]
    expect_layouts_equal(place, replace(shape, future_heads=heads), recipe, PLAIN_LAYOUTS)


def test_alignment_with_heads_that_leave_the_trunk_alone_is_refused(place):
    changes = {"pipeline__plugin": "formula", "pipeline__weight": "1 + min(0, alignment)"}
    place.refuse(2, "reads policy.alignment, .* with detach_heads only head 1 sends one", **changes,
                 train__detach_heads=True)
    place.refuse(2, "reads policy.alignment: no head sends a gradient to the trunk's output", **changes,
                 adapter={"plugin": "full", "train": ["output.weight"]})


def test_an_alignment_that_overflows_fp16_counts_as_an_overflow(place):
    """All weights are 0, so no parameter's gradient overflows."""
    recipe = Recipe(steps=4, pipeline="formula", sharp=1e3)
    write_start(place.folder, POLICY, recipe, seed=11)
    for weight, falls in (("head > 9", False), ("alignment > 9", True)):
        changes = changes_for(POLICY, replace(recipe, options={"weight": weight}), ranks=1)
        place.run(**changes | {"parallel__precision": "fp16"})
        scales = place.log.metric("train/loss_scale")
        assert (scales[4] < scales[1]) == falls, scales


def test_a_run_that_reads_no_weights_prepares_the_same_files(place):
    """So the control of an experiment is the same run with another pipeline."""
    shape, recipe = CASES["weights"]
    train_reference(place.folder, shape, replace(recipe, steps=2))

    def prepared():
        return {file.relative_to(place.folder): file.read_bytes()
                for file in sorted(place.folder.glob("**/cache/*/records.*"))}

    changes = changes_for(shape, replace(recipe, steps=2), ranks=1)
    place.run(**changes | {"pipeline__plugin": "baseline", "pipeline__weight": None, "train__normalize": "tokens"})
    before = prepared()
    place.run(**changes)
    added = {file.name for file in prepared().keys() - before.keys()}
    assert added == {"records.weights"} and before.items() <= prepared().items()


def test_a_token_has_the_bytes_of_its_text(place):
    """The name of a byte-level token has one character per byte; a special token has no text."""
    from perplexity_test import END, write_tokenizer  # skips this test where there are no tokenizers
    tokenizer = write_tokenizer(place.folder, begins=False)
    text = "def f(x):\n    return 'é東' + x  # two  words of über\n" * 40
    (place.folder / "text.txt").write_text(text)
    ids = [*tokenizer.encode(text).ids, tokenizer.token_to_id(END)]
    place.run(**ONE_RANK, pipeline__plugin="formula", pipeline__weight="bytes", train__steps=1, train__batch_size=2,
              train__sequence_length=32, model__vocab_size=tokenizer.get_vocab_size(), model__future_tokens=1,
              data__kind="text", data__file=None, data__files=["text.txt"], data__dtype=None,
              data__tokenizer={"kind": "file", "file": "tokenizer.json"})
    targets = [*ids[1:32], *ids[33:64]]
    wanted = sum(len(tokenizer.id_to_token(target)) for target in targets if target > 1) / len(targets)
    [found] = place.log.metric("weights/mean").values()
    assert found == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("kind, weight, message", [
    ("tokens", "data_weight", 'reads data.weight: found data of kind "tokens", wanted kind "records"'),
    ("tokens", "bytes", 'reads data.bytes: found data of kind "tokens" without a tokenizer'),
    ("random", "pass_rate", 'reads data.pass_rate: found data of kind "random", wanted kind "records"'),
])
def test_data_without_the_signal_is_refused(place, kind, weight, message):
    changes = {"data__kind": kind, "pipeline__plugin": "formula", "pipeline__weight": weight}
    if kind == "random":
        changes |= {"data__file": None, "data__dtype": None, "data__order": None}
    place.refuse(2, message, **changes)


def test_the_mass_of_more_tokens_than_there_are_is_refused(place):
    place.refuse(2, f"reads the probability of the 900 likeliest tokens of a vocabulary of {VOCAB}",
                 pipeline__plugin="formula", pipeline__weight="1 - top_mass(900)")


def test_the_sum_of_signed_weights_is_no_divisor(place):
    place.refuse(2, 'found normalize "weights" for the weights of pipeline "formula", which may be negative',
                 pipeline__plugin="formula", pipeline__weight="signed(ce - 1)", train__normalize="weights")


def test_negative_weights_are_refused_where_the_formula_does_not_say_so(place):
    place.refuse(3, r"wanted a finite number, not negative \(unless its needs\(\) declare signed_weights; of formula: "
                 r"signed\(x\)\)", pipeline__plugin="formula", pipeline__weight="position - 2")
