"""`plan` counts the operations of the products and the attention that the step computes: what no trained parameter
needs is not differentiated. The step that is planned is the one that a run takes."""
import pytest
from experiment import ONE_RANK
from plan_test import planned

DIM, FFN, VOCAB, LENGTH, BATCH, HEADS = 64, 176, 256, 32, 4, 3
BLOCK = 4 * DIM * DIM + 3 * DIM * FFN
ATTENTION = 2 * 2 * DIM * LENGTH  # scores and their sum of values, for one position
SIZES = dict(**ONE_RANK, model__dim=DIM, model__ffn_dim=FFN, model__vocab_size=VOCAB, model__layers=5,
             model__future_tokens=HEADS, train__batch_size=BATCH, train__sequence_length=LENGTH,
             data={"kind": "random"})


def block(differentiated, trained):
    """Operations for a position: forward, by the input, by the weights; those of attention have no weights."""
    return (2 + 2 * differentiated + 2 * trained) * BLOCK + (3 if differentiated else 1) * ATTENTION


def output(head, differentiated, trained):
    """Head k has no target for the last k positions."""
    return (2 + 2 * differentiated + 2 * trained) * DIM * VOCAB * (LENGTH - head) / LENGTH


WANTED = {
    "all parameters": ({}, 5 * block(1, 1) + sum(output(k, 1, 1) for k in (1, 2, 3))),
    "the adapter heads": (dict(adapter__plugin="heads"),
                          3 * block(0, 0) + output(1, 0, 0) + 2 * block(1, 1) + output(2, 1, 0) + output(3, 1, 0)),
    "the last head": (dict(adapter__train=["extra_heads.1.*"]),
                      4 * block(0, 0) + output(1, 0, 0) + output(2, 0, 0) + block(1, 1) + output(3, 1, 0)),
}


@pytest.mark.parametrize("case", WANTED)
def test_a_step_computes_what_its_trained_parameters_need(place, case):
    changes, wanted = WANTED[case]
    plan = planned(place, place.write(**SIZES, **changes), "--on", "h100")
    operations = {cost["operations"] for cost in plan["cluster"]["strategies"]}
    assert operations == {wanted * BATCH * LENGTH}
