"""`previous_ce`, a token's loss in the epoch before, compared with plain PyTorch over several epochs: losses and final
parameters, on one rank and on two, with micro-batches, packed, and in every division of the work; saved and resumed."""
import json
import signal

import numpy as np
import pytest
from checkpoint import model_tensors
from compare import assert_losses_close, assert_tensors_close, assert_tensors_equal
from equal_runs import DIVISIONS, LAYOUTS, PLAIN_LAYOUTS, expect_case_equal, expect_equal, expect_layouts_equal
from experiment import ONE_RANK, SEQUENCE
from paths import cases_of
from reference import Recipe
from start import POLICY, READER, changes_for, train_reference

ROWS = 14  # not a multiple of what a step reads, so that another rank reads a window in the next epoch
FORGOTTEN = "(2 + clamp(ce - previous_ce, -1, 1)) * (1 + position) / 64"
LEARNED = "1 + clamp(previous_ce - ce, 0, 2)"
FORMULA = {"pipeline__plugin": "formula", "pipeline__weight": LEARNED}
HEADS = 4


def of(weight, data="windows", shape=POLICY, normalize="tokens"):
    return shape, Recipe(pipeline="formula", options={"weight": weight}, data=data, rows=ROWS, normalize=normalize,
                         steps=10, betas=(0.5, 0.95), clip_norm=0.0, sharp=8.0)


CASES = {
    "learned": of(LEARNED),
    "learned-sum": of(LEARNED, normalize="weights"),
    "learned-records": of(LEARNED, "records", READER),
    "learned-packed": of(LEARNED, "packed", READER),
    "forgotten": of(FORGOTTEN),
    "forgotten-records": of(FORGOTTEN, "records", READER, "weights"),
}
SHORT = ["learned", "forgotten-records"]


@pytest.mark.soak
@DIVISIONS
@pytest.mark.parametrize("case", cases_of(CASES, SHORT))
def test_losses_and_parameters_equal_pytorch(place, case, ranks, accumulation):
    expect_case_equal(place, *CASES[case], ranks=ranks, accumulation=accumulation)


@pytest.mark.parametrize("case", ["learned", "forgotten"])
def test_every_layout_equals_pytorch(place, case):
    expect_layouts_equal(place, *CASES[case], PLAIN_LAYOUTS)


def test_recomputed_blocks_change_nothing(place):
    shape, recipe = CASES["learned"]
    wanted = train_reference(place.folder, shape, recipe)
    expect_equal(place, wanted, **changes_for(shape, recipe) | {"parallel__activation_checkpointing": "full"})


def test_a_shuffled_run_is_the_same_on_any_number_of_ranks(place):
    """Each epoch has an order of its own, so that any rank may read next what another one has written."""
    place.tokens(windows=ROWS)
    changes = FORMULA | {"train__steps": None, "train__epochs": 4, "data__order": "shuffled"}
    found = []
    for layout in ({"train__batch_size": 4} | ONE_RANK, {"train__gradient_accumulation": 2} | ONE_RANK, {},
                   LAYOUTS["sequence"]):
        place.run(**changes | layout)
        found.append((place.log.losses(), model_tensors(place.log.folder())))
    for losses, model in found[1:]:
        assert_losses_close(losses, found[0][0], 1e-6)
        assert_tensors_close(model, found[0][1], 1e-5)
    place.run(**changes | {"pipeline__weight": "1"})
    plain = place.log.losses()
    assert [abs(plain[step] - found[0][0][step]) > 1e-4 for step in plain] == [step > 3 for step in plain], \
        "in the first epoch the weights are 1"


def text(place, letters):
    """The keys of a run over a text file, whose windows steps read again and again."""
    words = np.random.default_rng(3).integers(0, 26, letters) + ord("a")
    (place.folder / "text.txt").write_text("".join(map(chr, words)) + "\n")
    return {"data": {"kind": "text", "files": ["text.txt"], "tokenizer": {"kind": "byte"}}, "model__vocab_size": None}


def test_a_checkpoint_has_them(place):
    """Stopped in the second epoch, and extended at its end: bitwise the same as without an interruption."""
    an_epoch = 10  # steps
    changes = FORMULA | text(place, an_epoch * 4 * SEQUENCE)
    running = place.start(**changes | {"train__steps": 60})
    running.wait_for_step(an_epoch + 1)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait().code == 75
    losses = place.log.losses()
    assert max(losses) < 60
    place.host("run", "experiment.toml", "--resume=must")
    losses |= place.log.losses()
    assert max(losses) == 60
    place.host("run", "experiment.toml", "--resume=must", "--set", "train.steps=70")
    losses |= place.log.losses()
    model = model_tensors(place.log.folder())

    place.run(**changes | {"train__steps": 70})
    assert losses == place.log.losses()
    assert_tensors_equal(model, model_tensors(place.log.folder()))


def test_the_plan_counts_them(place):
    changes = FORMULA | {"train__steps": None, "train__epochs": 2} | ONE_RANK
    place.tokens(windows=1000)

    def plan(**more):
        return json.loads(place.host("plan", place.write(**changes | more), "--json").out)

    without, found = plan(pipeline__weight="ce"), plan()
    table = 4 * 1000 * SEQUENCE * HEADS
    assert (without["previous_losses_bytes"], found["previous_losses_bytes"]) == (None, table)
    assert found["training_state_bytes"] - without["training_state_bytes"] == table
    added = found["memory"][0]["bytes"]["other"] - without["memory"][0]["bytes"]["other"]
    assert table <= added <= 1.01 * table
    saving = plan(checkpoint__every_steps=5)["memory"][0]["bytes"]
    assert saving["checkpoint"] - found["memory"][0]["bytes"]["checkpoint"] >= table, "a copy on rank 0"


def test_a_plan_says_what_it_cannot_count(place):
    changes = FORMULA | text(place, 150 * SEQUENCE)
    unknown = place.host("plan", place.write(**changes)).out
    assert "when last read, by head: not counted in memory and disk" in unknown
    place.host("data", "prepare", "experiment.toml")
    known = place.host("plan", "experiment.toml").out
    assert "by head: 150.0 KiB in host memory of each rank with the heads" in known, known


@pytest.mark.parametrize("changes, message", [
    ({"data__kind": "random", "data__file": None, "data__dtype": None, "data__order": None},
     'policy.previous_loss, a loss of the epoch before: found data of kind "random", which has no epochs'),
    ({}, "found steps, which read every window of token files at most once"),
])
def test_data_that_are_read_once_are_refused(place, changes, message):
    place.refuse(2, message, **FORMULA | changes)


def test_a_single_epoch_is_warned_of(place):
    place.tokens(windows=8)
    ended = place.run(**FORMULA | {"train__steps": None, "train__epochs": 1})
    assert "in 2 steps the run reads no token twice, so that it is always the present loss" in ended.err
    assert "reads no token twice" not in place.run(**FORMULA | {"train__steps": None, "train__epochs": 2}).err


def test_held_out_tokens_have_no_previous_loss(place):
    place.tokens(windows=40)
    place.run(validation__share=0.2, train__steps=None, train__epochs=0.5, **ONE_RANK)
    (place.folder / "weights.toml").write_text(f'[pipeline]\nplugin = "formula"\nweight = "{LEARNED}"\n')
    place.refuse_command(2, "reads policy.previous_loss, which only a training has",
                         command=["weigh", "trial", "--pipeline", "weights.toml"])
