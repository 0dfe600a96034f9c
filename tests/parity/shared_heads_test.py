"""model.future_heads = "shared": heads 2, 3, ... are one block, applied to its own output, compared with plain
PyTorch: losses and final parameters, on one rank and on two that divide the work in every way."""
from dataclasses import replace

import pytest
from equal_runs import DIVISIONS, expect_case_equal, expect_layouts_equal
from reference import Recipe
from start import POLICY

SHARED = replace(POLICY, future_heads="shared")


@pytest.mark.soak
@DIVISIONS
def test_losses_and_parameters_equal_pytorch(place, ranks, accumulation):
    expect_case_equal(place, SHARED, Recipe(), ranks=ranks, accumulation=accumulation)


def test_layouts_equal_pytorch(place):
    expect_layouts_equal(place, SHARED, Recipe(), layouts=["no_shard", "sequence", "tensor", "sections"])
