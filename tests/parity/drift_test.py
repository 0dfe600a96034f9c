"""How far training in bf16 is from PyTorch in fp64 after the same steps from the same weights, by layout: ranks that
divide features, positions, sequences or blocks must not add to the rounding of one rank."""
import os

import pytest
from checkpoint import model_tensors
from reference import Recipe
from start import POLICY, changes_for, write_start

STEPS = 40 if os.environ.get("WMTP_SOAK") else 10
SEEDS = range(11, 16) if os.environ.get("WMTP_SOAK") else (11,)
LAYOUTS = {"one rank": {}, "2 data ranks": {"train__batch_size": 2},
           "tensor 2": {"parallel__tensor": 2}, "tensor 4": {"parallel__tensor": 4},
           "sequence 2": {"parallel__sequence": 2},
           "pipeline 2": {"parallel__pipeline": 2, "train__batch_size": 1, "train__gradient_accumulation": 4}}
RANKS = {"one rank": 1, "tensor 4": 4}  # others: 2


def drift(place, recipe, exact, layout):
    """The root mean square of the losses' relative differences, and the parameters' distance from the exact ones as a
    share of the way that these went."""
    ranks = RANKS.get(layout, 2)
    changes = changes_for(POLICY, recipe, ranks=1) | {"parallel__processes": ranks, "parallel__precision": "bf16"}
    place.run(env={"OMP_NUM_THREADS": 1}, timeout=200, **changes | LAYOUTS[layout])
    losses, parameters = place.log.losses(), model_tensors(place.log.folder())
    of_losses = [losses[step] / exact.losses[step] - 1 for step in exact.losses]
    way = sum((exact.parameters[name] - start).square().sum() for name, start in exact.start.items())
    error = sum((exact.parameters[name] - parameters[name].double()).square().sum() for name in exact.start)
    return (sum(one * one for one in of_losses) / len(of_losses)) ** 0.5, (error / way).sqrt().item()


def trained_in_fp64(folder, recipe, seed):
    reference, batches = write_start(folder, POLICY, recipe, seed)
    reference.model.double()
    start = {name: parameter.detach().clone() for name, parameter in reference.model.named_parameters()}
    exact = reference.train(batches)
    exact.start = start
    return exact


@pytest.mark.soak
def test_no_layout_adds_to_the_rounding_of_bf16(place):
    recipe = Recipe(steps=STEPS)
    found = {layout: [] for layout in LAYOUTS}
    for seed in SEEDS:
        exact = trained_in_fp64(place.folder, recipe, seed)
        for layout in LAYOUTS:
            found[layout].append(drift(place, recipe, exact, layout))
    mean = {layout: [sum(column) / len(column) for column in zip(*rows)] for layout, rows in found.items()}
    print(f"{'':>14} {'losses':>9} {'parameters':>11}  ({STEPS} steps, {len(SEEDS)} seeds)")
    for layout, (losses, parameters) in mean.items():
        print(f"{layout:>14} {losses:9.2e} {parameters:11.4f}")
    for layout, numbers in mean.items():
        assert numbers == pytest.approx(mean["one rank"], rel=0.5), layout
