"""The device's work in a training step, counted while kernels do nothing: launches, waits of the host, copies,
allocations.

All quantities that the counts depend on (layers, heads, tokens, vocabulary) are those of a model of 1.3 billion
parameters; only the matrices are narrow. At full width, norm and AdamW make about 60 more launches per billion
parameters."""
import null_cuda
import pytest
from experiment import SEQUENCE
from places import Place

SHAPE = {"model__dim": 256, "model__layers": 24, "model__heads": 2, "model__ffn_dim": 512, "model__vocab_size": 32_000,
         "model__future_tokens": 4, "data": {"kind": "random"}, "train__batch_size": 8,
         "train__sequence_length": 2048, "parallel__processes": 1, "parallel__strategy": "full_shard",
         "parallel__precision": "bf16", "parallel__activation_checkpointing": "full"}
STEPS = 6  # the counted one is the fifth


class Step:
    """The counts of a rank's second to last step, from the arrival of its batch to that of the next."""

    def __init__(self, report, micro_batches=1):
        begin, end = report["batches"][-2 * micro_batches], report["batches"][-micro_batches]
        self.launches, self.syncs, self.copies = (
            {name: count - begin[kind].get(name, 0)
             for name, count in end[kind].items() if count > begin[kind].get(name, 0)}
            for kind in ("launches", "syncs", "copies"))
        # In two steps; 1 where autograd's thread once freed a block after the main thread had asked for the next one.
        self.allocations = end["allocations"] - report["batches"][-3 * micro_batches]["allocations"]
        self.pageable = {name: count for name, count in self.copies.items() if "pageable" in name}

    def __str__(self):
        lines = [f"{count:5} {name}" for kind in (self.launches, self.syncs, self.copies)
                 for name, count in sorted(kind.items(), key=lambda item: -item[1])]
        return "\n".join([f"{self.allocations:5} allocations in two steps", *lines])


@pytest.fixture(scope="module")
def reference(program, tmp_path_factory):
    """The folder of a model of that shape, trained for a step."""
    place = Place(tmp_path_factory.mktemp("reference"))
    place.run(**SHAPE, train__steps=1, timeout=120, env=null_cuda.environment(computes=0, megabytes=140_000))
    return str(place.log.folder() / "model")


def steps_of(place, micro_batches=1, nonzero=0, **changes):
    """The counts of a step on each rank. `nonzero`: tokens that a selective weighting selects per head."""
    place.run(**SHAPE | {"train__steps": STEPS} | changes, train__gradient_accumulation=micro_batches, timeout=120,
              env=null_cuda.environment(computes=0, megabytes=140_000, nonzero=nonzero))
    return [Step(report, micro_batches) for report in null_cuda.reports(place.folder)]


def test_a_step_of_the_baseline_waits_twice_at_most_and_launches_little(place):
    (step,) = steps_of(place)
    assert sum(step.launches.values()) <= 1750, f"{step}"
    assert sum(step.syncs.values()) <= 2, f"{step}"
    assert not step.pageable and step.allocations <= 1, f"{step}"


def test_a_further_micro_batch_waits_for_nothing_and_launches_no_more(place):
    (step,) = steps_of(place, micro_batches=2)
    assert sum(step.launches.values()) <= 2 * 1750 and sum(step.syncs.values()) <= 2, f"{step}"
    assert not step.pageable and step.allocations <= 1, f"{step}"


RECORDS = {"kind": "records", "template": "plain",
           "arithmetic": {"problems": 2000, "operations": ["negate", "add"], "max_operations": 1}}


@pytest.mark.parametrize("changes", [
    {"train__ema": 0.99}, {"data": RECORDS, "model__vocab_size": None, "train__sequence_length": 256}],
    ids=["a moving average", "prompts and padding"])
def test_the_baseline_waits_no_more_with(place, changes):
    (step,) = steps_of(place, **changes)
    assert sum(step.syncs.values()) <= 2 and not step.pageable, f"{step}"


def test_ranks_launch_what_one_does_and_their_collectives(place):
    for step in steps_of(place, parallel__processes=2):
        collectives = sum(count for name, count in step.launches.items() if name.startswith("nccl"))
        assert 0 < collectives < 110 and sum(step.launches.values()) <= 1900, f"{step}"
        assert sum(step.syncs.values()) <= 2 and not step.pageable, f"{step}"


@pytest.mark.parametrize("ranks, waits", [(1, 1), (2, 5)])
def test_rho1_waits_for_the_tokens_that_a_head_selects_only_on_several_ranks(place, reference, ranks, waits):
    """One rank knows a bound on their number. The threshold over all ranks stays on the devices."""
    steps = steps_of(place, pipeline__plugin="rho1", reference={"weights": reference}, nonzero=9830,
                     parallel__processes=ranks)
    for step in steps:
        assert sum(step.syncs.values()) <= waits and not step.pageable, f"{step}"
        assert sum(step.launches.values()) <= 3000 and step.allocations <= 1, f"{step}"


def test_a_further_micro_batch_of_rho1_waits_for_nothing_and_launches_no_more(place, reference):
    (step,) = steps_of(place, micro_batches=2, pipeline__plugin="rho1", reference={"weights": reference}, nonzero=9830)
    assert sum(step.syncs.values()) <= 1 and not step.pageable, f"{step}"
    assert sum(step.launches.values()) <= 2 * 3000 and step.allocations <= 1, f"{step}"


def test_losses_of_the_reference_from_the_disk_arrive_without_a_wait(place, reference):
    """Each step reads the same eight sequences, so only the first computes them."""
    place.tokens(windows=8 * SHAPE["train__sequence_length"] // SEQUENCE + 1)
    (step,) = steps_of(place, pipeline__plugin="rho1", reference={"weights": reference}, nonzero=9830,
                       data={"kind": "tokens", "file": "tokens.bin", "dtype": "uint16"}, train__steps=None,
                       train__epochs=STEPS)
    assert sum(step.syncs.values()) <= 1 and not step.pageable, f"{step}"
