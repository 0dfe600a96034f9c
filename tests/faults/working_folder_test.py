"""Python programs that wmtp-host starts import nothing from the working folder, which may hold anything: a `json.py` or
a `wandb/` there runs in none of them. Modules in absolute folders of PYTHONPATH are found."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from experiment import ONE_RANK
from host import clean_environment
from paths import HOST

PYTHON = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # which has jinja2 and pyarrow
MODULES = ("json", "re", "datetime", "secrets", "encodings", "jinja2", "pyarrow", "wandb", "trackio", "mlflow")
TOKENIZER = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None,
             "added_tokens": [{"id": 256, "content": "<e>", "single_word": False, "lstrip": False, "rstrip": False,
                               "normalized": False, "special": True}],
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
             "post_processor": None, "decoder": {"type": "ByteLevel"}}
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"


def set_traps(folder):
    for name in MODULES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"open({str(folder / 'RAN')!r}, 'a').write('{name} ')\n"
                                                   "raise ImportError")


def assert_none_ran(folder):
    ran = folder / "RAN"
    assert not ran.exists(), f"the working folder's {ran.read_text()} ran"


# Python makes an empty entry of PYTHONPATH absolute before a program could remove it.
@pytest.fixture(params=["", ":/absent", ".", "/absent:"], ids=["unset", "leading", "dot", "trailing"])
def environment(request):
    return PYTHON | ({"PYTHONPATH": request.param} if request.param else {})


def test_data_convert_imports_nothing_from_the_working_folder(place, environment):
    pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow in .venv: `make setup-tests` installs it")
    import pyarrow.parquet
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"]}), place.folder / "x.parquet")
    set_traps(place.folder)
    place.host("data", "convert", "x.parquet", "--to", "o.jsonl", env=environment)
    assert_none_ran(place.folder)
    assert (place.folder / "o.jsonl").read_text() == '{"text": "a"}\n'


def test_chats_import_nothing_from_the_working_folder(place, environment):
    pytest.importorskip("jinja2", reason="no jinja2 in .venv: `make setup-tests` installs it")
    from tokenizers import pre_tokenizers
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "merges": [], "vocab": {letter: id for id, letter in enumerate(letters)}}
    (place.folder / "tokenizer.json").write_text(json.dumps({**TOKENIZER, "model": model}))
    (place.folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<e>"}))
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    (place.folder / "chats.jsonl").write_text(json.dumps({"messages": chat}) + "\n")
    data = {"kind": "records", "files": ["chats.jsonl"], "tokenizer": {"kind": "file", "file": "tokenizer.json"}}
    file = place.write(data=data, model__vocab_size=257)
    set_traps(place.folder)
    ended = place.host("data", "prepare", file, env=environment)
    assert_none_ran(place.folder)
    assert "1 record" in ended.out + ended.err, ended


@pytest.fixture
def bare(place):
    """A Python without packages, which would find those of the working folder."""
    file = place.folder / "bare"
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    file.chmod(0o755)
    return file


def test_the_folder_that_wandb_left_is_not_its_package(place, environment, bare):
    place.run(train__steps=1, **ONE_RANK)
    (place.folder / "wandb/offline-run-1").mkdir(parents=True)  # without __init__.py, Python takes it for a package too
    ended = place.host("export", "trial", "--to", "wandb", env={**environment, "WMTP_PYTHON": bare}, wanted=2)
    assert f"{sys.executable} has no wandb" in ended.err and "pip install wandb" in ended.err, ended


@pytest.mark.parametrize("to", ["wandb", "trackio", "mlflow"])
def test_trackers_import_nothing_from_the_working_folder(place, to, environment, bare):
    place.run(train__steps=1, **ONE_RANK)
    set_traps(place.folder)
    push = ("--push", "http://127.0.0.1:9") if to == "mlflow" else ()
    ended = place.host("export", "trial", "--to", to, *push, env={**environment, "WMTP_PYTHON": bare}, wanted=2)
    assert_none_ran(place.folder)
    assert f"pip install {to}" in ended.err, ended


def test_an_empty_wmtp_python_is_unset(place):
    place.run(train__steps=1, **ONE_RANK)
    for to in (("wandb",), ("mlflow", "--push", "http://127.0.0.1:9")):
        ended = place.host("export", "trial", "--to", *to, env={"WMTP_PYTHON": "", "PATH": "/absent"}, wanted=2)
        assert "found no python3 in PATH" in ended.err, ended


def test_modules_in_absolute_folders_of_pythonpath_are_found(place, tmp_path):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/trackio.py").write_text(f"open({str(tmp_path / 'FOUND')!r}, 'w')\n"
                                                     "raise ImportError('as wanted')")
    place.run(train__steps=1, **ONE_RANK)
    place.host("export", "trial", "--to", "trackio", wanted=2,
               env={"WMTP_PYTHON": sys.executable, "PYTHONPATH": f":{tmp_path / 'modules'}"})
    assert (tmp_path / "FOUND").exists()


@pytest.mark.parametrize("command", ["run {}", "data prepare {}"])
def test_a_working_folder_that_is_gone_is_named(place, command):
    file = place.folder / place.write(**ONE_RANK)
    script = f"mkdir gone; cd gone; rmdir ../gone; exec {HOST} {command.format(file)}"
    ended = subprocess.run(["sh", "-c", script], cwd=place.folder, env=clean_environment(), capture_output=True,
                           text=True, timeout=60)
    assert ended.returncode == 7 and "working folder" in ended.stderr, ended
    assert ended.stderr.count("\n") == 1, ended
