"""Standard streams that are closed, as by cron and daemons, or cannot be written: no message gets into a file of data,
and an incomplete result is not a success."""
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from host import clean_environment
from paths import HOST
from places import Place

TEXT = {"data": {"kind": "text", "files": ["text.txt"]}, "model__vocab_size": None, "train__steps": 2}


@pytest.fixture(scope="module")
def place(program, tmp_path_factory):
    """A place with a finished run, `trial`."""
    made = Place(tmp_path_factory.mktemp("streams"))
    (made.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 2000)
    made.run(**TEXT)
    return made


def shell(place, command, **named):
    environment = clean_environment({"PATH": f"{HOST.parent}:{os.environ['PATH']}"})
    return subprocess.run(["sh", "-c", command], cwd=place.folder, env=environment, stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, timeout=60, **named)


def prepared(place):
    return {file.relative_to(place.folder): file.read_bytes() for file in place.folder.glob("runs/cache/**/*.bin")}


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-", "<&-"])
def test_no_message_gets_into_prepared_data(place, closed):
    """A file opened with the number of a closed stream would receive its messages."""
    wanted = prepared(place)
    assert wanted
    for command in ("data prepare experiment.toml", "run experiment.toml --nproc 2 --set train.batch_size=1"):
        shutil.rmtree(place.folder / "runs/cache")
        ended = shell(place, f"exec wmtp-host {command} {closed}", stdout=subprocess.DEVNULL)
        assert ended.returncode == 0 and prepared(place) == wanted, ended


def test_closed_streams_are_the_null_device(place):
    started = subprocess.Popen(["sh", "-c", "exec wmtp-host ui --port 0 <&- >&- 2>&-"], cwd=place.folder,
                               env=clean_environment({"PATH": f"{HOST.parent}:{os.environ['PATH']}"}))
    folder, end = Path(f"/proc/{started.pid}"), time.monotonic() + 20
    while time.monotonic() < end and ((folder / "comm").read_text() != "wmtp-host\n" or not serves(folder)):
        time.sleep(0.05)
    streams = [os.readlink(folder / f"fd/{number}") for number in (0, 1, 2)]
    started.kill()
    started.wait()
    assert streams == ["/dev/null"] * 3


def serves(folder):
    try:
        return any(os.readlink(fd).startswith("socket:") for fd in (folder / "fd").iterdir())
    except FileNotFoundError:  # closed meanwhile
        return False


COMMANDS = ["runs list", "runs list --json", "runs show trial", "runs show trial --toml", "runs compare trial trial",
            "sql 'SELECT * FROM v_metrics' --csv", "plan experiment.toml --json", "plan experiment.toml",
            "generate 1 the --max-tokens 3", "data inspect text.txt --kind text --json",
            "eval trial --text text.txt --json", "plugins list --json", "plugins inspect rho1",
            "checkpoint list trial --json", "checkpoint verify runs/1-trial/model", "run experiment.toml --dry-run",
            "completion bash", "export trial --to csv", "doctor", "--help", "--version", "run --help"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_result_that_cannot_be_written_is_no_success(place, command):
    ended = shell(place, f"wmtp-host {command} > /dev/full")
    assert ended.returncode == 7 and "cannot write to standard output" in ended.stderr, ended


READ = ["sql 'SELECT * FROM v_metrics' --csv", "completion bash", "generate 1 the --max-tokens 3"]


@pytest.mark.parametrize("command", READ)
def test_the_signal_of_a_reader_that_has_gone_ends_the_program(place, command):
    reader, writer = os.pipe()
    os.close(reader)
    ended = shell(place, f"exec wmtp-host {command}", stdout=writer)
    os.close(writer)
    assert ended.returncode == -signal.SIGPIPE and not ended.stderr, ended


@pytest.mark.parametrize("command", READ)
def test_a_reader_that_has_gone_is_no_success(place, command):
    """With SIGPIPE ignored, as below Python and systemd; otherwise the signal ends the program."""
    reader, writer = os.pipe()
    os.close(reader)
    ended = shell(place, f"exec wmtp-host {command}", stdout=writer, restore_signals=False)
    os.close(writer)
    assert ended.returncode == 7 and "cannot write to standard output" in ended.stderr, ended
