"""Plugins that must be refused (exit 2 for a name that is none, exit 3 for a library), and plugins that misbehave in a
run: every rank ends with exit 3, and the plugin is named."""
import shutil

import pytest
from paths import BUILD, TEST_PLUGINS

OURS = {"WMTP_PLUGIN_PATH": TEST_PLUGINS}


def pipelines(place):
    folder = place.folder / "plugins/pipelines"
    folder.mkdir(parents=True)
    return folder


def own_path(place):
    return {"WMTP_PLUGIN_PATH": place.folder / "plugins"}


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/b", "Rho1", "", "x" * 300, "1x"])
def test_a_name_that_is_none_is_refused_and_nothing_is_opened(place, name):
    place.refuse(2, "plugin", pipeline={"plugin": name})


def test_an_absent_plugin_is_told_with_the_nearest_name_and_the_places_searched(place):
    place.refuse(3, "rho2", "rho1", str(BUILD / "lib/wmtp/plugins"), pipeline={"plugin": "rho2"})


def test_a_text_file_is_no_plugin(place):
    (pipelines(place) / "words.so").write_text("these are only words\n")
    place.refuse(3, r"words\.so", env=own_path(place), pipeline={"plugin": "words"})


def test_a_truncated_library_is_refused(place):
    whole = (BUILD / "lib/wmtp/plugins/pipelines/rho1.so").read_bytes()
    (pipelines(place) / "half.so").write_bytes(whole[:len(whole) // 2])
    place.refuse(3, r"half\.so", env=own_path(place), pipeline={"plugin": "half"})


def test_an_empty_file_is_no_plugin(place):
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


def test_a_plugin_of_another_sdk_is_refused_with_both_versions(place):
    place.refuse(3, "other_sdk", r"sdk", env=OURS, pipeline={"plugin": "other_sdk"})


@pytest.mark.parametrize("name, message", [
    ("throws_exception", "throws_exception"),
    ("throws_int", "throws_int"),
    ("wrong_shape", r"shape|\[\d+"),
    ("nan_weights", r"nan|finite"),
    ("negative_weights", "negative"),
])
@pytest.mark.parametrize("processes", [1, 2])
def test_a_plugin_that_misbehaves_ends_every_rank_and_is_named(place, name, message, processes):
    ended = place.refuse(3, name, message, env=OURS, pipeline={"plugin": name}, parallel__processes=processes,
                         train__steps=3)
    row = place.log.newest()
    assert (row["status"], row["exit_code"]) == ("failed", 3), f"{row}\n{ended}"


def test_the_list_shows_a_bad_library_with_its_problem_and_goes_on(place):
    (pipelines(place) / "words.so").write_text("these are only words\n")
    ended = place.host("plugins", "list", env=own_path(place))
    assert "words" in ended.out + ended.err and "rho1" in ended.out
