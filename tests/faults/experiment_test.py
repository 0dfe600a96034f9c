"""Experiments that are refused before any training: exit 2, with the position in the file and the correction."""
import os

import pytest
from experiment import ONE_RANK, experiment, line_of, to_toml


def place_of(file, text, at):
    """A regular expression for `file:line:column` of `at` in the line that contains `text`."""
    line = line_of(file, text)
    column = file.read_text().splitlines()[line - 1].index(at) + 1
    return rf"{file.name}:{line}:{column}"


def test_an_unknown_key_is_reported_with_its_place_and_a_similar_key(place):
    ended = place.refuse(2, "batchsize", r"batch_size", train__batchsize=2)
    file = place.folder / "experiment.toml"
    place.refuse(2, place_of(file, "batchsize", "batchsize"), train__batchsize=2)
    assert "batchsize = 2" in ended.err, "the line is printed"
    assert any(set(line.strip()) == {"^"} for line in ended.err.splitlines()), f"no caret\n{ended}"


def test_an_unknown_table_is_refused(place):
    place.refuse(2, "optimiser", "optimizer", optimiser={"lr": 1e-3})


def test_a_wrong_type_is_reported_with_found_and_wanted(place):
    place.refuse(2, r"experiment\.toml:\d+:\d+", "steps", "integer", "string|text", train__steps="ten")


def test_muon_is_refused_where_it_would_update_no_matrix(place):
    """It would be AdamW, and momentum without an effect."""
    place.refuse_everywhere(2, r'\[optimizer\] name = "muon": the adapter trains no matrix of a block.*'
                               r'set name = "adamw"',
                            optimizer={"name": "muon", "momentum": 0.5}, adapter={"plugin": "lora", "rank": 2})


def test_a_pattern_that_matches_no_parameter_is_refused_with_its_place(place):
    message = r'experiment\.toml:\d+: \[adapter\] train: "foo\.\*" matches no parameter'
    place.refuse(2, message, adapter={"plugin": "full", "train": ["foo.*"]}, **ONE_RANK)
    place.refuse_command(2, message, command=["plan", place.folder / "experiment.toml"])
    file = place.write(**ONE_RANK)
    with open(file, "a") as text:
        text.write('[[optimizer.groups]]\nmatch = "layer.*"\nlr_scale = 2.0\n')
    message = r'\[\[optimizer\.groups\]\] match = "layer\.\*" matches no trained parameter'
    place.refuse_command(2, r"experiment\.toml:\d+: " + message, command=["run", file])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_number_out_of_range_is_refused(place, value):
    place.refuse(2, r"experiment\.toml:\d+:\d+", r"\blr\b", optimizer__lr=value)


def test_missing_keys_and_tables_are_all_named(place):
    ended = place.refuse(2, "vocab_size", r"\bdim\b", r"\[optimiser\]", r"\bsteps\b", model={"layers": 5, "heads": 4},
                         train__steps=None, optimiser={"lr": 1e-3})
    assert "batch_size" not in ended.err, "a given key is not missing"
    place.refuse(2, r"\[data\]", "kind", r"\bdim\b", model={"layers": 5, "heads": 4}, data=None)


def test_all_errors_are_reported_at_once(place):
    place.refuse(2, "batchsize", "optimizr", r"\blr\b", "heads", "keeep", train__batchsize=2, optimizr={"lr": 1},
                 optimizer__lr=float("nan"), model__heads="four", pipeline={"plugin": "rho1", "keeep": 0.6})


def test_an_option_of_a_plugin_is_checked_by_the_schema_of_the_plugin(place):
    place.refuse(2, r"experiment\.toml:\d+:\d+", "keep", pipeline={"plugin": "rho1", "keep": 1.5},
                 reference__weights="reference.safetensors")


def test_rho1_without_a_reference_is_refused(place):
    place.refuse(2, r"\[?reference\]?", pipeline={"plugin": "rho1"})


def test_a_missing_experiment_file_is_named(place):
    place.refuse_command(2, r"absent\.toml", command=["run", "absent.toml"])


def test_truncated_toml_is_reported_with_its_place(place):
    text = to_toml(experiment())
    file = place.folder / "cut.toml"
    file.write_text(text[:text.index("[train]") + 4])
    place.refuse_command(2, r"cut\.toml:\d+:\d+", command=["run", file])


def test_a_file_of_one_mebibyte_is_refused_unread(place):
    file = place.folder / "large.toml"
    file.write_text("# " + "x" * (1 << 20))
    place.refuse_command(2, r"large\.toml", r"16 KiB|16,?384", command=["run", file])


@pytest.mark.parametrize("parts", [30_000, 5_000, 200])
def test_a_long_dotted_key_is_refused_without_a_crash(place, parts):
    file = place.folder / "dotted.toml"
    file.write_text(".".join(["a"] * parts) + " = 1\n")
    place.refuse_command(2, r"dotted\.toml", command=["run", file])


def test_a_file_that_is_not_utf8_is_refused(place):
    file = place.folder / "latin.toml"
    file.write_bytes(b'name = "caf\xe9"\n')
    place.refuse_command(2, r"latin\.toml", "UTF-8", command=["run", file])


def test_a_duplicate_key_is_refused_with_its_place(place):
    file = place.write("name = 'a'\nname = 'b'\n", "twice.toml")
    place.refuse_command(2, r"twice\.toml:2", command=["run", file])


def test_an_override_is_checked_like_the_file(place):
    place.refuse(2, "batchsize", "batch_size", arguments=["--set", "train.batchsize=2"])
    place.refuse(2, "steps", arguments=["--set", 'train.steps="ten"'])
    place.refuse(2, "train.steps|--set", arguments=["--set", "train.steps"])


def test_a_sequence_longer_than_the_model_is_refused(place):
    place.refuse(2, "max_sequence_length", "sequence_length", "64", "32", model__max_sequence_length=32)


def test_heads_that_do_not_divide_the_width_are_refused(place):
    place.refuse(2, "heads", "64", model__heads=5)


def test_an_unknown_command_is_a_usage_error(place):
    place.refuse_command(2, "runn", command=["runn", "experiment.toml"])


def test_a_refused_experiment_leaves_no_log(place):
    place.refuse(2, train__batchsize=2)
    assert not (place.folder / "runs").exists()


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="this machine has a CUDA device")
def test_offload_is_refused_on_a_cpu(place):
    place.refuse(2, r"\[parallel\] found cpu_offload on the CPU", parallel__cpu_offload=True,
                 parallel__device="auto")
    place.refuse(2, r"experiment\.toml:\d+:\d+", "everything is in host memory anyway", parallel__cpu_offload=True,
                 parallel__device="cpu")
