"""`plugins new` and `plugins check` as an author types them. The content of a new folder is built and tested by
contract/installed_template.sh."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from paths import BUILD, ROOT, TEST_PLUGINS

SHIPPED = BUILD / "lib/wmtp/plugins"
BREAKS_PROMISES = TEST_PLUGINS / "pipelines/breaks_promises.so"


def checks(place, file, *more, wanted=0):
    ended = place.host("plugins", "check", file, *more, "--json", wanted=wanted, timeout=120)
    return {row["check"]: row for row in json.loads(ended.out)}


def failed(found):
    return [name for name, check in found.items() if check["result"] != "passed"]


@pytest.mark.parametrize("folder, name", [("pipelines", "rho1"), ("adapters", "lora"),
                                          ("auxiliary_losses", "reference_divergence")])
def test_a_shipped_plugin_passes_every_check(place, folder, name):
    found = checks(place, SHIPPED / folder / f"{name}.so")
    assert {"entry", "schema", "trains", "again", "speed"} <= set(found)
    assert not failed(found), found


def test_a_check_takes_the_options_of_an_experiment(place):
    assert not failed(checks(place, BREAKS_PROMISES))
    mine = place.write(pipeline={"plugin": "breaks_promises", "promise": "resumes"})
    found = checks(place, BREAKS_PROMISES, "--experiment", mine, wanted=3)
    assert failed(found) == ["resumes"]
    assert "Step::state" in found["resumes"]["found"]


def test_a_plugin_that_crashes_fails_its_checks_one_by_one(place):
    mine = place.write(pipeline={"plugin": "breaks_promises", "promise": "no_crash"})
    found = checks(place, BREAKS_PROMISES, "--experiment", mine, wanted=3)
    assert "signal 11" in found["trains"]["found"]
    assert "signal 11" in found["speed"]["found"], "the checks after the first one run too"


def test_a_mistake_that_fails_several_checks_is_printed_once(place):
    mine = place.write(pipeline={"plugin": "breaks_promises", "promise": "no_crash"})
    said = place.host("plugins", "check", BREAKS_PROMISES, "--experiment", mine, wanted=3, timeout=120).out
    assert said.count("FAILED") > 1 and said.count("signal 11") == 1, said
    assert "  mistake 1  " in said and "\nmistake 1: " in said
    assert max(map(len, said.split("\nmistake 1: ")[0].splitlines())) <= 140, said


def test_a_plugin_for_which_no_torch_is_found_names_what_to_install(tmp_path, program):
    """Not `make setup`: a wheel and an installation have no Makefile."""
    subprocess.run([program, "plugins", "new", "ramp", "--kind", "pipeline"], cwd=tmp_path, check=True)
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    ended = subprocess.run(["cmake", "-S", "ramp", "-B", "build", f"-DCMAKE_PREFIX_PATH={BUILD}",
                            "-DLIBTORCH=/nowhere"], cwd=tmp_path, capture_output=True, text=True,
                           env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert ended.returncode != 0
    said = " ".join(ended.stderr.split())
    assert f"searched: /nowhere (python3 is {python}). To do: install torch==2.11.0 for that python3" in said, said
    assert "make setup" not in said


def test_a_library_that_is_no_plugin_is_refused(place):
    (place.folder / "words.so").write_text("only words\n")
    place.refuse_command(3, r"words\.so", command=["plugins", "check", "words.so"])


def test_a_new_plugin_is_a_folder_named_after_it(place):
    ended = place.host("plugins", "new", "soft_focal", "--kind", "pipeline")
    assert sorted(ended.out.split()) == [f"soft_focal/{name}"
                                         for name in ("CMakeLists.txt", "README.md", "soft_focal.cpp")]
    source = (place.folder / "soft_focal/soft_focal.cpp").read_text()
    assert "class SoftFocal" in source and "@" not in source
    assert "cmake -S . -B build" in ended.err


def test_a_new_plugin_never_overwrites_an_existing_folder(place):
    (place.folder / "mine").mkdir()
    place.refuse_command(2, "already exists", command=["plugins", "new", "mine", "--kind", "adapter"])
    assert not list((place.folder / "mine").iterdir())


@pytest.mark.parametrize("name", ["Rho", "1x", "a-b", "../x"])
def test_a_new_plugin_needs_a_valid_name(place, name):
    place.refuse_command(2, "not a valid plugin name", command=["plugins", "new", name, "--kind", "pipeline"])
    assert not [path for path in place.folder.iterdir() if path.is_dir()]


def hash_of_headers(folder, output):
    subprocess.run(["cmake", f"-DFOLDER={folder}", f"-DOUTPUT={output}", "-P", ROOT / "cmake/HashHeaders.cmake"],
                   check=True)
    return re.search(r"WMTP_SDK_HEADERS ([0-9a-f]{12})$", output.read_text(), re.MULTILINE)[1]


def test_a_changed_header_of_the_sdk_changes_the_fingerprint(tmp_path):
    """contract/bad_plugins_test.cpp tests how a plugin with a different fingerprint is refused."""
    headers = tmp_path / "wmtp"
    shutil.copytree(ROOT / "sdk/include/wmtp", headers)
    same = hash_of_headers(headers, tmp_path / "same.hpp")
    assert f"WMTP_SDK_HEADERS {same}\n" in (BUILD / "include/wmtp/headers_hash.hpp").read_text()
    with (headers / "options.hpp").open("a") as file:
        file.write("struct Added {};\n")
    assert hash_of_headers(headers, tmp_path / "changed.hpp") != same
