"""Plugins that are refused (exit 2 for an invalid name, exit 3 for a library), and plugins that misbehave in a run: all
ranks exit with 3, and the message names the plugin."""
import json
import shutil
import time

import pytest
from experiment import ONE_RANK
from paths import BUILD, TEST_PLUGINS, cases
from runlog import step_folders

OURS = {"WMTP_PLUGIN_PATH": f"{TEST_PLUGINS}:{TEST_PLUGINS / 'bad'}"}


def pipelines(place):
    folder = place.folder / "plugins/pipelines"
    folder.mkdir(parents=True)
    return folder


def own_path(place):
    return {"WMTP_PLUGIN_PATH": place.folder / "plugins"}


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/b", "Rho1", "", "x" * 300, "1x"])
def test_an_invalid_name_is_refused_and_nothing_is_opened(place, name):
    place.refuse(2, "plugin", pipeline={"plugin": name})


def test_an_absent_plugin_is_reported_with_a_similar_name_and_the_searched_folders(place):
    place.refuse(3, "rho_1", "rho1", str(BUILD / "lib/wmtp/plugins"), pipeline={"plugin": "rho_1"})


def test_a_text_file_is_refused(place):
    (pipelines(place) / "words.so").write_text("these are only words\n")
    place.refuse(3, r"words\.so", env=own_path(place), pipeline={"plugin": "words"})


def test_a_truncated_library_is_refused(place):
    whole = (BUILD / "lib/wmtp/plugins/pipelines/rho1.so").read_bytes()
    (pipelines(place) / "half.so").write_bytes(whole[:len(whole) // 2])
    place.refuse(3, r"half\.so", env=own_path(place), pipeline={"plugin": "half"})


def test_an_empty_file_is_refused(place):
    (pipelines(place) / "empty.so").write_bytes(b"")
    place.refuse(3, r"empty\.so", env=own_path(place), pipeline={"plugin": "empty"})


def test_a_library_without_an_entry_is_refused(place):
    shutil.copy(BUILD / "lib/libwmtp_sdk.so", pipelines(place) / "bare.so")
    place.refuse(3, r"bare\.so", env=own_path(place), pipeline={"plugin": "bare"})


def test_a_library_that_others_may_write_is_refused(place):
    file = pipelines(place) / "rho1.so"
    shutil.copy(BUILD / "lib/wmtp/plugins/pipelines/rho1.so", file)
    file.chmod(0o666)
    place.refuse(3, r"rho1\.so", "writ", env=own_path(place), pipeline={"plugin": "rho1"})


def test_a_library_of_another_name_is_refused(place):
    file = pipelines(place) / "alias.so"
    shutil.copy(BUILD / "lib/wmtp/plugins/pipelines/baseline.so", file)
    file.chmod(0o644)
    place.refuse(3, "alias", "baseline", env=own_path(place), pipeline={"plugin": "alias"})


UNDESCRIBED = [
    ("other_sdk", [r"0[._]99", r"0[._]9\b"]),
    ("no_entry", ["without a plugin's entry"]),
    ("aborts", ["signal 6"]),
    ("exits", ["before it was described"]),
    ("bad_schema", ["keep", "60"]),
]
ENDLESS = [("loops", [r"20 s"])]  # runs into the time limit


@pytest.mark.soak
@pytest.mark.parametrize("name, messages", cases(UNDESCRIBED, ENDLESS))
def test_a_library_that_cannot_be_described_is_refused(place, name, messages):
    place.refuse(3, name, *messages, env=OURS, pipeline={"plugin": name})


def test_output_of_a_library_is_not_taken_for_its_description(place):
    """It prints a different description to stdout while it is loaded; the answer uses another descriptor."""
    described = json.loads(place.host("plugins", "inspect", "writes", "--json", env=OURS).out)
    assert described["name"] == "writes" and described["kind"] == "pipeline"
    place.run(env=OURS, **ONE_RANK, train__steps=1, pipeline={"plugin": "writes"})


def test_no_code_of_a_plugin_for_another_sdk_runs(place):
    canary = place.folder / "canary"
    place.refuse(3, env={**OURS, "WMTP_CANARY": canary}, pipeline={"plugin": "other_sdk"})
    assert not canary.exists()


FAULTS = {"exception": "the weighting has given up", "int": "faulty", "tensor": r"shape|-7|invalid",
          "shape": r"shape|\[", "dtype": r"double|float64|fp32|float", "undefined": "without values",
          "nan": "nan|finite", "inf": "inf|finite", "negative": "negative|-0.5",
          "metric": r'a metric cannot be named "\.\./\.\./x', "pointer": r"it wrote into batch\(\).tokens",
          "tokens": r"weigh\(\) failed: it wrote into batch\(\).tokens", "mask": r"it wrote into valid\(\)"}
# unit/plugins/torch tests each fault of a weighting and of an adapter in one process. Here: how a run ends by
# an error in the call (thrown, or found in the form of weights), by values that the ranks find together, by a metric.
WAYS = ("exception", "shape", "nan", "metric", "tokens", "pointer")
BRIEF = [(1, fault) for fault in WAYS] + [(-1, "exception"), (-1, "nan")]  # on one rank while the other waits; on all
ALL = [(rank, fault) for rank in (1, -1) for fault in FAULTS]


@pytest.mark.soak
@pytest.mark.parametrize("rank, fault", cases(BRIEF, [case for case in ALL if case not in BRIEF]))
def test_a_plugin_that_misbehaves_ends_every_rank_and_is_named(place, rank, fault):
    place.refuse(3, "faulty", FAULTS[fault], env=OURS, train__steps=5,
                 pipeline={"plugin": "faulty", "fault": fault, "step": 2, "rank": rank})
    assert max(place.log.losses(), default=0) <= 1, "the step with the fault was logged as finished"


def test_a_plugin_says_of_how_many_tokens_it_reads_the_mass(place):
    place.refuse(3, "it reads policy.top_mass with top_k = 0, wanted at least 1", env=OURS,
                 pipeline={"plugin": "faulty", "fault": "mass"})


def test_a_plugin_reads_the_loss_or_entropy_of_a_reference_with_a_valid_name(place):
    place.refuse(3, "it reads a reference named 'Amateur'; a name has at most 32 lower case letters", env=OURS,
                 pipeline={"plugin": "faulty", "fault": "name"})
    place.refuse(3, "it reads policy.loss of a named reference, wanted reference_loss or reference_entropy", env=OURS,
                 pipeline={"plugin": "faulty", "fault": "signal"})


ADAPTER_FAULTS = {("forward", "exception"): r"forward\(\) threw: the adapter has given up",
                  ("forward", "shape"): r"forward\(\) of layers.*returned a tensor of shape",
                  ("merged", "exception"): r"merged\(\) threw: the adapter has given up",
                  ("forward", "argument"): r"forward\(\) of layers.*: it wrote into its argument",
                  ("merged", "argument"): r"merged\(\) of layers.*: it wrote into its argument"}


@pytest.mark.soak
@pytest.mark.parametrize("call, fault", cases([("forward", "exception"), ("merged", "exception"),
                                               ("forward", "argument"), ("merged", "argument")],
                                              [("forward", "shape"), ("merged", "shape"), ("declare", "exception")]))
def test_an_adapter_that_misbehaves_ends_every_rank_and_is_named(place, call, fault):
    place.refuse(3, "plugin faulty_adapter: " + ADAPTER_FAULTS.get((call, fault), call), env=OURS, train__steps=1,
                 adapter={"plugin": "faulty_adapter", "call": call, "fault": fault})


AUXILIARY_FAULTS = {"shape": r"loss\(\) failed: its loss is of shape \[\d+,1\], wanted one number per token",
                    "type": r"loss\(\) failed: its loss is of type Double, wanted fp32",
                    "constant": r"loss\(\) failed: its loss is constant, wanted one that depends on logits\(\)",
                    "undeclared": r"loss\(\) failed: it reads reference_logits, which its needs\(\) do not declare",
                    "throws": r"loss\(\) threw: it gives up"}


@pytest.mark.soak
@pytest.mark.parametrize("fault", cases(["shape", "undeclared"], ["type", "constant", "throws"]))
def test_an_auxiliary_loss_that_misbehaves_ends_every_rank_and_is_named(place, fault):
    place.refuse(3, "faulty_auxiliary_loss", AUXILIARY_FAULTS[fault], env=OURS, train__steps=1,
                 auxiliary_loss={"plugin": "faulty_auxiliary_loss", "fault": fault})


def test_an_auxiliary_loss_without_a_head_is_refused(place):
    place.refuse(3, "auxiliary loss 'head_distillation' applies to none of the heads", model__future_tokens=1,
                 auxiliary_loss={"plugin": "head_distillation"})


@pytest.mark.parametrize("fault, message", [
    ("state", r"pipeline 'faulty': state \"seen\" on rank 1 differs from rank 0's"),
    ("own state", r"pipeline 'faulty': state \"mine\" on rank 1 does not exist on rank 0"),
    ("short state", r"plugin faulty: state \"few\" is of type Short, which no checkpoint holds; wanted F32, F64, ")])
def test_a_state_that_cannot_be_saved_is_refused_before(place, fault, message):
    place.refuse(3, message, env=OURS, train__steps=4, checkpoint__every_steps=2,
                 pipeline={"plugin": "faulty", "fault": fault, "rank": 1})
    assert not step_folders(place.log.folder())


def test_a_plugin_that_sleeps_is_a_peer_that_hangs(place):
    begun = time.monotonic()
    place.refuse(6, "rank 1", env=OURS, parallel__timeout_seconds=3,
                 pipeline={"plugin": "faulty", "fault": "sleep", "step": 2, "rank": 1})
    assert time.monotonic() - begun < 3 + 5 + 4, "the timeout, what may pass after it, and the start"


@pytest.mark.parametrize("rank", [-1, 1])
def test_a_plugin_that_ends_its_process_with_0_has_not_finished_the_run(place, rank):
    place.refuse(6, r"rank \d ended with exit code 0 before it had finished", env=OURS, train__steps=5,
                 pipeline={"plugin": "faulty", "fault": "exit", "step": 2, "rank": rank})
    assert not (place.log.folder() / "model").exists()


def test_weights_that_are_all_zero_give_no_loss_and_no_nan(place):
    place.run(env=OURS, **ONE_RANK, train__steps=3, pipeline={"plugin": "faulty", "fault": "zero", "step": 2})
    assert place.log.losses()[2] == 0.0 and place.log.losses()[3] > 1


@pytest.mark.parametrize("sections", [1, 2])
def test_losses_that_are_not_finite_are_not_the_plugins_fault(place, sections):
    """Its weights of them are not, either; the guard judges the step, as any other."""
    ended = place.run(pipeline={"plugin": "focal"}, parallel__pipeline=sections, optimizer__lr=1e30,
                      train__clip_norm=0.0, guard={"max_in_a_row": 2}, wanted=5)
    assert "not finite" in ended.err and "plugin focal" not in ended.err, ended


def test_the_list_shows_a_bad_library_with_its_problem_and_the_other_plugins(place):
    (pipelines(place) / "words.so").write_text("these are only words\n")
    ended = place.host("plugins", "list", env=own_path(place))
    assert "words" in ended.out + ended.err and "rho1" in ended.out


def test_a_value_that_the_plugin_refuses_is_reported_with_its_character(place):
    ended = place.refuse(2, r"experiment\.toml:\d+:12: \[pipeline\] marks: no mark is called x", env=OURS,
                         pipeline={"plugin": "chosen", "marks": "abxc"})
    shown, caret = ended.err.splitlines()[-2:]
    assert shown[caret.index("^")] == "x", ended
    place.refuse(2, r"\[pipeline\] low: above high", env=OURS, pipeline={"plugin": "chosen", "low": 3.0, "high": 2.0})
    place.refuse(2, r"\[pipeline\.inner\] low: above high", env=OURS,
                 pipeline={"plugin": "doubled", "inner": {"plugin": "chosen", "low": 3.0, "high": 2.0}})
    assert not (place.folder / "runs").exists()


def test_the_needs_of_a_plugin_depend_on_its_options(place):
    place.refuse(2, r"\"chosen\" reads reference\.loss, but there is no \[reference\]", env=OURS,
                 pipeline={"plugin": "chosen", "by": "excess"})
    place.refuse(2, r"reads references\.amateur\.loss, but the experiment has no \[references\.amateur\]", env=OURS,
                 pipeline={"plugin": "doubled", "inner": {"plugin": "chosen", "by": "amateur"}})
    place.refuse(2, r"\"chosen\" reads value\.value, but there is no \[value\]", env=OURS,
                 pipeline={"plugin": "chosen", "by": "value"})
    place.refuse(2, r"reads no reference with these options", env=OURS, reference__weights="run:x",
                 pipeline={"plugin": "chosen", "by": "loss"})
    place.refuse(2, r"needs pairs of a correct and an incorrect answer", env=OURS,
                 pipeline={"plugin": "chosen", "pairs": True})
    place.refuse(2, r"\"doubled\" over \"chosen\" reads reference\.loss", env=OURS,
                 pipeline={"plugin": "doubled", "inner": {"plugin": "chosen", "by": "excess"}})


def test_a_wrapper_requires_an_inner_weighting(place):
    place.refuse(2, r"\"doubled\" is a wrapper, but there is no", env=OURS, pipeline={"plugin": "doubled"})
    place.refuse(2, r"\"chosen\" is not a wrapper", env=OURS,
                 pipeline={"plugin": "chosen", "inner": {"plugin": "baseline"}})
    place.refuse(2, r"found the wrapper \"doubled\"", env=OURS,
                 pipeline={"plugin": "doubled", "inner": {"plugin": "doubled"}})
    place.refuse(3, r"no pipeline 'basline'", "baseline", env=OURS,
                 pipeline={"plugin": "doubled", "inner": {"plugin": "basline"}})
