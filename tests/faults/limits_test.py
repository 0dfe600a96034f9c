"""Under limits of the system (ulimit) a command works, or it ends with exit code 7 and a line that names the limit and
its value (8 for memory): never as if the program or a plugin had a bug, and never by a signal."""
import itertools
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from experiment import experiment, write, write_tokens
from host import LIMIT, clean_environment
from paths import HOST

KIB = 1024
users = itertools.count(61_000 + os.getpid() % 4_000)  # without processes


@pytest.fixture(scope="module")
def folder():
    """Readable by other users: with a finished run "m", and a suite with its samples."""
    made = Path(tempfile.mkdtemp(prefix="wmtp-limits-"))
    write_tokens(made)
    write(made, experiment(train__steps=1, parallel__processes=1, name="m"))
    (made / "text.txt").write_text("some text\n" * 2_000)
    data = {"kind": "text", "files": ["text.txt"], "tokenizer": {"kind": "byte"}}
    write(made, experiment(data=data, model__vocab_size=None, train__steps=1), "text.toml")
    problem = '{"task_id": "t/0", "prompt": "def f():\\n", "entry_point": "f", "test": "def check(f):\\n    f()\\n"}\n'
    (made / "suite.jsonl").write_text(problem)
    (made / "samples.jsonl").write_text('{"task_id": "t/0", "completion": "    pass\\n"}\n' * 4)
    for file in ("experiment.toml", "text.toml"):
        subprocess.run([HOST, "-q", "run", file, "--nproc", "1"], cwd=made, check=True, env=clean_environment(),
                       capture_output=True)
    yield made
    shutil.rmtree(made)


COMMANDS = {"one rank": ["run", "experiment.toml", "--nproc", "1"],
            "four ranks": ["run", "experiment.toml", "--nproc", "4", "--name", "four"],
            "plan": ["plan", "experiment.toml"], "preparation": ["data", "prepare", "text.toml"],
            "a suite": ["eval", "--suite", "suite.jsonl", "--samples", "samples.jsonl"],
            "a text": ["eval", "trial", "--text", "text.txt"],
            "generation": ["generate", "trial", "some", "--max-tokens", "2"], "plugins": ["plugins", "list"]}


def ended_under(folder, name, value, command, environment=None):
    def limit_it():
        if name is None:
            return
        if name == "NPROC":  # counts the processes of a user, except root
            user = next(users)
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

    subprocess.run(["chmod", "-R", "a+rwX", folder], check=True)
    next(users)
    running = subprocess.Popen([HOST, *COMMANDS[command]], cwd=folder,
                               env=clean_environment({"HOME": "/nonexistent"} | (environment or {})),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               errors="replace", start_new_session=True, preexec_fn=limit_it)
    try:
        shown = running.communicate(timeout=LIMIT)[0]
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    return running.returncode, shown


def assert_limit_is_named(code, shown, option, number):
    if code == 0:
        return
    assert code in (7, 8), shown
    assert re.search(rf"ulimit -{option} \([^)]*\) is {number}\b", shown), shown
    assert "bug" not in shown and "report it" not in shown, shown


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user without processes")
@pytest.mark.parametrize("processes", [1, 3, 6, 12])
@pytest.mark.parametrize("command", COMMANDS)
def test_too_few_processes(folder, command, processes):
    assert_limit_is_named(*ended_under(folder, "NPROC", processes, command), "u", processes)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user without processes")
@pytest.mark.parametrize("processes", [4, 5, 7, 8])
def test_too_few_processes_for_the_threads_of_a_rank(folder, processes):
    assert_limit_is_named(*ended_under(folder, "NPROC", processes, "one rank"), "u", processes)


@pytest.mark.parametrize("name, value", [("OMP_STACKSIZE", "100G"),
                                         ("GOMP_CPU_AFFINITY", f"{os.cpu_count() + 3}-{os.cpu_count() + 7}")])
def test_settings_of_openmp_that_it_cannot_follow_are_named(folder, name, value):
    code, shown = ended_under(folder, None, None, "one rank", {name: value, "OMP_NUM_THREADS": "2"})
    assert code == 0 or code == 7 and f'{name} is "{value}"' in shown, shown


@pytest.mark.parametrize("files", [12, 24, 48])
@pytest.mark.parametrize("command", COMMANDS)
def test_too_few_open_files(folder, command, files):
    assert_limit_is_named(*ended_under(folder, "NOFILE", files, command), "n", files)


@pytest.mark.parametrize("mebibytes", [300, 600])
@pytest.mark.parametrize("command", COMMANDS)
def test_too_little_address_space(folder, command, mebibytes):
    assert_limit_is_named(*ended_under(folder, "AS", mebibytes * KIB * KIB, command), "v", mebibytes * KIB)


@pytest.mark.parametrize("kibibytes", [64, 128, 256])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_small_stack(folder, command, kibibytes):
    assert_limit_is_named(*ended_under(folder, "STACK", kibibytes * KIB, command), "s", kibibytes)


@pytest.mark.parametrize("mebibytes", [5, 70, 84, 90, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_too_little_data(folder, command, mebibytes):
    code, shown = ended_under(folder, "DATA", mebibytes * KIB * KIB, command)
    assert_limit_is_named(code, shown, "d", mebibytes * KIB)
    assert command != "a suite" or code != 0 or "pass@1  1.0000" in shown, shown


@pytest.mark.parametrize("kibibytes", [1, 20, 40, 100])
def test_a_small_file(folder, kibibytes):
    assert_limit_is_named(*ended_under(folder, "FSIZE", kibibytes * KIB, "one rank"), "f", kibibytes)
