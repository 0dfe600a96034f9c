"""`plan` of experiments on a CUDA device, compared with what LibTorch's allocator is asked for on the null device,
where LibTorch's own kernels are launched and do nothing."""
import sys

import null_cuda
import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "tests/e2e"))
from plan_test import CASES, SIZES, expect_equal, planned  # noqa: E402

BF16 = {"parallel__precision": "bf16"}
SHOWN = {
    "one process": {"parallel__processes": 1},
    "checkpointing, one process": CASES["checkpointing, one process"],
    "lora, one process": CASES["lora"] | {"parallel__processes": 1},
    "full_shard": {},
    "hybrid_shard": CASES["hybrid_shard"],
    "no_shard": CASES["no_shard"],
}


@pytest.mark.parametrize("case", SHOWN)
def test_the_plan_is_what_a_run_on_the_device_takes(place, case):
    changes = {**SIZES, **BF16, **SHOWN[case]}
    plan = planned(place, place.write(**changes))
    place.run(**changes, env=null_cuda.environment(computes=0))
    expect_equal(place.log, plan, case)
