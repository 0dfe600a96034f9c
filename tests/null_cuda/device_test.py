"""The program on the null device (support/null_cuda.py): every layout, faults of the devices, and the faults that the
null device must detect."""
import json
import re

import null_cuda
import pytest
from compare import assert_losses_close
from experiment import ONE_RANK, SEQUENCE
from paths import BUILD, TEST_PLUGINS
from places import Place

SMALL = {"train__steps": 3, "model__layers": 3, "model__future_tokens": 2}
ON_ONE = SMALL | ONE_RANK
PLUGINS = {"WMTP_PLUGIN_PATH": TEST_PLUGINS}


@pytest.fixture(scope="module")
def finished(program, tmp_path_factory):
    """A place in which one run on one device has finished, and what it printed."""
    place = Place(tmp_path_factory.mktemp("finished"))
    place.tokens()
    ended = place.run(**ON_ONE)
    null_cuda.assert_no_races(place.folder)
    return place, ended


@pytest.fixture(scope="module")
def losses_on_the_cpu(program, tmp_path_factory):
    """A function that returns the losses of a run on one rank of the CPU with that many sequences a step: those of any
    layout (parity.layouts). Each is trained once."""
    made = {}

    def losses_on_the_cpu(sequences):
        if sequences not in made:
            place = Place(tmp_path_factory.mktemp("cpu"))
            place.tokens()
            place.run(**ON_ONE, parallel__device="cpu", train__batch_size=sequences)
            made[sequences] = place.log.losses()
        return made[sequences]
    return losses_on_the_cpu


@pytest.mark.parametrize("ranks, strategy", [(2, "hybrid_shard"), (4, "hybrid_shard")] + [
    (ranks, strategy) for ranks in (1, 2, 4)
    for strategy in ("no_shard", "shard_optimizer", "shard_grad_op", "full_shard")])
def test_a_layout_has_the_same_losses_as_on_the_cpu(place, losses_on_the_cpu, ranks, strategy):
    """To 1e-5: the CPU's fused kernels sum in another order. NCCL is used, and no access to its data is a race."""
    layout = {"parallel__processes": ranks, "parallel__strategy": strategy, "train__batch_size": 1}
    if strategy == "hybrid_shard":
        layout["parallel__shard_group_size"] = ranks // 2
    place.run(**SMALL, **layout)
    assert_losses_close(place.log.losses(), losses_on_the_cpu(ranks), 1e-5)
    on_device = null_cuda.reports(place.folder)
    assert len(on_device) == ranks
    for report in on_device:
        assert ranks == 1 or report["launches"]["ncclAlltoAll"] > 0, report


@pytest.mark.parametrize("ranks, strategy, sequence, tensor, sections", [
    (2, "no_shard", 1, 2, 1), (4, "full_shard", 2, 2, 1), (2, "full_shard", 1, 1, 2), (4, "shard_grad_op", 1, 2, 2)])
def test_divided_blocks_and_models_have_the_same_losses_as_on_the_cpu(place, losses_on_the_cpu, ranks, strategy,
                                                                      sequence, tensor, sections):
    place.run(**SMALL, parallel__processes=ranks, parallel__strategy=strategy, parallel__tensor=tensor,
              parallel__sequence=sequence, parallel__pipeline=sections, train__batch_size=2 // sections,
              train__gradient_accumulation=sections)
    assert_losses_close(place.log.losses(), losses_on_the_cpu(2), 1e-5)
    null_cuda.assert_no_races(place.folder)
    for report in null_cuda.reports(place.folder):
        exchanged = report["launches"]["ncclAlltoAll"] if tensor > 1 else report["launches"]["ncclAllGather"]
        assert exchanged > 0, report


def test_an_embedding_in_two_sections_has_the_losses_of_the_cpu(place):
    twins = SMALL | {"model__tie_word_embeddings": True, "model__future_heads": "chained"}
    place.run(**twins | ONE_RANK, parallel__device="cpu", train__batch_size=2)
    on_the_cpu = place.log.losses()
    place.run(**twins, parallel__processes=2, parallel__pipeline=2, train__batch_size=1, train__gradient_accumulation=2)
    assert_losses_close(place.log.losses(), on_the_cpu, 1e-5)
    null_cuda.assert_no_races(place.folder)


def test_validation_and_eval_have_the_losses_of_the_cpu(place):
    """rho-1 is validated with the losses of a reference. `eval` reads the model of a run of the device."""
    (place.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 100)
    (place.folder / "held.txt").write_text(("a lazy dog sleeps in the sun; " * 20)[:8 * SEQUENCE - 1])  # 8 windows
    text = SMALL | {"data": {"kind": "text", "files": ["text.txt"]}, "model__vocab_size": None,
                    "validation": {"files": ["held.txt"], "batches": 8, "every_steps": 1}}
    place.run(**text, **ONE_RANK)
    reference = {"pipeline__plugin": "rho1", "reference": {"weights": str(place.log.folder() / "model")}}
    of = {}
    for device, ranks in (("cpu", 1), ("cuda", 1), ("cuda", 2)):
        place.run(**text, **reference, parallel__processes=ranks, parallel__device=device, train__batch_size=2 // ranks)
        of[device, ranks] = place.log.metric("valid/loss"), place.log.metric("valid/ce_head_2")
    for ranks in (1, 2):
        for found, wanted in zip(of["cuda", ranks], of["cpu", 1]):
            assert len(found) == 4
            assert_losses_close(found, wanted, 1e-5)
    rows = json.loads(place.host("eval", place.log.folder() / "model", "--text", "held.txt", "--json").out)
    assert rows[1]["loss"] == pytest.approx(of["cuda", 2][1][3], rel=1e-5)


def test_the_log_contains_reserved_and_used_device_memory(finished):
    place, ended = finished
    bytes_of = {row["category"]: row["bytes"] for row in place.log.query(
        "SELECT category, max(bytes) AS bytes FROM memory WHERE run_id = ? AND phase = 'peak' GROUP BY category",
        place.log.newest()["id"])}
    assert bytes_of["allocated"] <= bytes_of["reserved"] <= bytes_of["device_used"], bytes_of
    assert re.search(r"peak memory +rank 0: [\d.]+ MiB of the device, [\d.]+ MiB resident", ended.out), ended
    shown = place.host("runs", "show", place.log.newest()["id"]).out
    assert re.search(r"allocated +reserved +device_used +parameters", shown), shown


def test_each_phase_has_its_reserved_memory(finished):
    place, _ = finished
    rows = place.log.query("SELECT phase, category, max(bytes) AS bytes FROM memory WHERE run_id = ? AND phase NOT IN "
                           "('peak', 'live', 'process') GROUP BY phase, category", place.log.newest()["id"])
    phases = {phase: {row["category"]: row["bytes"] for row in rows if row["phase"] == phase}
              for phase in {row["phase"] for row in rows}}
    assert {"forward", "head_1", "backward", "optimizer"} <= phases.keys(), phases
    for of in phases.values():
        assert of["allocated"] <= of["reserved"] <= of["device_used"], phases


def test_the_use_of_the_device_is_logged_where_the_driver_has_nvml(finished):
    place, _ = finished
    assert set(place.log.metric("perf/gpu_utilization").values()) == {0.37}


def test_a_checkpoint_is_copied_beside_the_training(place):
    """On a separate stream, to pinned memory; the search for races covers the following updates."""
    place.run(**ON_ONE | {"train__steps": 5}, checkpoint__every_steps=2, env=null_cuda.environment(computes=0))
    (report,) = null_cuda.reports(place.folder)
    flats = 3 * 6  # parameters and two moments of each unit
    assert report["copies"]["device_to_host beside"] == 2 * flats, report["copies"]


def test_a_missing_wait_is_detected_as_a_race(place):
    """Kernels run when they are launched, so the numbers stay right; vector clocks detect the race."""
    place.run(**SMALL, parallel__strategy="full_shard", env=null_cuda.environment(drop_waits=1, report="dropped"))
    files = list((place.folder / "dropped").glob("*.json"))
    assert len(files) == 2
    for file in files:
        assert "ncclAllGather" in file.read_text()


def test_kernels_are_counted_when_they_do_not_compute(place):
    place.run(**ON_ONE, env=null_cuda.environment(computes=0))
    (report,) = null_cuda.reports(place.folder)
    # Three steps launch 719 kernels; measuring the rate of products launches as many as its time allows.
    assert sum(report["launches"].values()) > 719 and report["syncs"] and report["copies"]


def test_the_workspace_of_cublas_is_not_counted(place):
    """It is a library's scratch memory of 32 MiB. cuBLAS is called only where kernels do not compute."""
    place.run(**ON_ONE, env=null_cuda.environment(computes=0))
    peak = {row["category"]: row["bytes"] for row in place.log.query(
        "SELECT category, max(bytes) AS bytes FROM memory WHERE run_id = ? AND phase = 'backward' GROUP BY category",
        place.log.newest()["id"])}
    assert peak["activations"] + peak["logits"] < 8 << 20 and peak["other"] < 1 << 20, peak


def test_a_step_is_profiled_where_cupti_fails(place):
    """CUPTI finds no driver that it knows: the profile has the host's part, and the losses stay those of a plain
    run."""
    place.run(**ON_ONE)
    losses = place.log.losses()
    ended = place.run(**ON_ONE, log={"profile_step": 2})
    assert place.log.losses() == losses
    events = json.loads((place.log.folder() / "profile-0000.json").read_text())["traceEvents"]
    assert "aten::mm" in {event["name"] for event in events if event.get("cat") == "cpu_op"}, ended


def test_a_full_device_is_reported_with_what_to_change(place):
    """The weights fit, but the activations of a long batch do not."""
    ended = place.refuse(8, r"out of memory on the device: [\d.]+ [KMG]iB requested", r"train\.batch_size",
                         "activation_checkpointing", "cpu_offload", env=null_cuda.environment(megabytes=40),
                         data={"kind": "random"}, **ON_ONE, train__sequence_length=2048)
    assert "frame #" not in ended.err
    run = place.log.newest()
    assert (run["status"], run["exit_code"]) == ("failed", 8)


def test_a_device_that_stops_ends_the_run_within_the_timeout(place):
    """Rank 1's device completes nothing after the 20th collective; rank 0's device waits for it."""
    ended = place.refuse(6, r"rank 0: a collective on the device failed \(WorkNCCL.*ran for.*\); the device of rank 1 "
                            r"stopped before step \d: \w+ing .+ \(all-(gather|to-all), ", r"flight-\*\.txt",
                         env=null_cuda.environment(hang_rank=1, hang_at=20), **SMALL, parallel__timeout_seconds=5)
    assert "frame #" not in ended.err and "ProcessGroupNCCL" not in ended.err
    for rank in (0, 1):
        assert "unfinished" in (place.log.folder() / f"flight-000{rank}.txt").read_text()


def test_a_step_runs_again_if_a_head_selects_more_tokens_than_rho1_stated(place):
    """Against the heads of a reference with its own first weights, every token ties with the threshold and is kept."""
    place.run(**ON_ONE, optimizer__lr=1e-30)
    unchanged = str(place.log.folder() / "model")
    place.run(**ON_ONE, parallel__device="cpu", pipeline__plugin="rho1", reference={"weights": unchanged})
    on_cpu, selected = place.log.losses(), place.log.metric("rho1/selection_ratio")
    place.run(**ON_ONE, pipeline__plugin="rho1", reference={"weights": unchanged})
    assert_losses_close(place.log.losses(), on_cpu, 1e-5)
    assert selected[1] > 0.7 and place.log.metric("rho1/selection_ratio") == selected


def test_a_step_that_runs_again_begins_from_the_same_state_of_the_pipeline(place):
    """Two heads call it once each in a step."""
    place.run(**ON_ONE, pipeline__plugin="overselects", env=PLUGINS)
    assert place.log.metric("overselects/calls") == {1: 1.5, 2: 3.5, 3: 5.5}


def test_weights_on_another_device_are_reported_with_both(place):
    place.refuse(3, r"plugin faulty: weigh\(\) at step 1: returned values on cpu, wanted cuda:0", env=PLUGINS,
                 pipeline={"plugin": "faulty", "fault": "device"}, **ON_ONE)


def test_more_processes_than_devices_are_refused(place):
    place.refuse(2, r"wants CUDA device 1, this host has 1 CUDA device; use fewer processes",
                 env=null_cuda.environment(devices=1), **SMALL, parallel__processes=2)


def test_a_plugin_is_checked_on_the_device(place):
    """Each check has its own process; tests/contract/trials_test.cpp checks every shipped plugin in one process."""
    checked = place.host("plugins", "check", BUILD / "lib/wmtp/plugins/adapters/full.so", "--device", "cuda")
    assert re.search(r"^same_losses +passed +4 steps, within \S+ +losses on the device equal the CPU's", checked.out,
                     re.M), checked
    assert all(report["launches"] for report in null_cuda.reports(place.folder))


def test_doctor_compares_each_kernel_with_the_cpu(place):
    shown = place.host("doctor", "--device", "cuda")
    lines = dict(re.match(r"(.+?)  +(.+)", line).groups() for line in shown.out.splitlines())
    assert lines["device"].startswith("null H200, compute capability 9.0, "), shown
    for kernel in ("norm", "SwiGLU", "rotation", "cross entropy", "products", "attention", "documents",
                   "dropout", "embedding gradient", "AdamW", "sum of parts"):
        assert re.fullmatch(r"fp32 \S+, bf16 \S+, fp16 \S+ from the CPU; bitwise identical when repeated",
                            lines[kernel]), shown
    assert "TFLOP/s" in lines["speed"] and "GB/s" in lines["copies"] and "fails cleanly" in lines["full device"], shown
    for kernel in ("norm", "SwiGLU", "cross entropy"):
        assert re.fullmatch(r"forward [\d.]+ GB/s, backward [\d.]+ GB/s \(\d+%, \d+% of a copy on the device\)",
                            lines[f"{kernel} speed"]), shown
    for kernel in ("rotation", "dropout", "sum of parts"):
        assert re.fullmatch(r"[\d.]+ GB/s \(\d+% of a copy on the device\)", lines[f"{kernel} speed"]), shown
    assert lines["NCCL"] == "all-gather with one rank works", shown


def test_doctor_reports_a_failed_check_and_continues(place):
    shown = place.host("doctor", "--device", "cuda", wanted=70, env=null_cuda.environment(megabytes=64))
    assert re.search(r"^copies +bad: CUDA out of memory", shown.out, re.M) and "NCCL" in shown.out, shown


def test_doctor_detects_a_device_that_computes_nothing(place):
    shown = place.host("doctor", "--device", "cuda", wanted=70, env=null_cuda.environment(computes=0))
    assert re.search(r"^norm +bad: fp32", shown.out, re.M), shown
