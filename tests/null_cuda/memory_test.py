"""`plan` of experiments on a CUDA device, compared with what LibTorch's allocator is asked for on the null device,
where LibTorch's own kernels are launched and do nothing."""
import os
import sys

import null_cuda
import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "tests/e2e"))
from plan_test import CASES, SIZES, expect_equal, planned, this_one  # noqa: E402

# LibTorch splits the keys of attention where its blocks are fewer than the device's processors, in scratch memory.
SPLITS_KEYS = "divided positions of one sequence, recomputed in bf16"
LONG = [case for case in CASES if case != SPLITS_KEYS]
SHORT = ("one process", "lora", "full_shard", "hybrid_shard", "no_shard", "checkpointing, one process",
         "grouped queries", "a window of attention", "muon with a moving average", "divided positions",
         "divided features", "state in a file")


@pytest.mark.soak
@pytest.mark.parametrize("case", LONG if os.environ.get("WMTP_SOAK") else SHORT)
def test_the_plan_is_what_a_run_on_the_device_takes(place, case):
    changes = {**SIZES, "parallel__device": "cuda", "parallel__precision": "bf16", **CASES[case]}
    plan = planned(place, place.write(**changes))
    place.run(**changes, env=null_cuda.environment(computes=0))
    expect_equal(place.log, plan, case)
    (held,) = place.log.query("SELECT max(bytes) AS bytes FROM memory WHERE run_id = ? AND category = 'reserved'",
                              place.log.newest()["id"])
    assert held["bytes"] == this_one(plan)["reserved"]
