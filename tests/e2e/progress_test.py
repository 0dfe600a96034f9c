"""Progress of long work: nothing for short work, occasional lines if stderr is a file, one line that is redrawn on a
terminal, nothing with -q or --json."""
import fcntl
import json
import os
import pty
import random
import re
import struct
import subprocess
import termios

import pytest
from experiment import experiment
from host import clean_environment
from paths import HOST

ENCODED = r"encoding train: [\d.]+ MiB of [\d.]+ MiB, [\d.ms ]+ left"


@pytest.fixture
def text(place):
    """An experiment whose text takes seconds to encode, because its words are long and differ, and a moment to train
    its tokenizer on. Progress is counted when a file, or 16 MiB of one, is encoded."""
    letters = random.Random(1)
    lines = ["".join(letters.choices("abcd", k=100)) + "\n" for _ in range(96_000)]
    for number in range(24):
        (place.folder / f"corpus-{number}.txt").write_text("".join(lines[number::24]))
    (place.folder / "small.txt").write_text("".join(lines[:300]))
    tokenizer = {"kind": "bpe", "files": ["small.txt"], "vocab_size": 340}
    data = {"kind": "text", "files": ["corpus-*.txt"], "tokenizer": tokenizer}
    return place.write(experiment(model__vocab_size=None, data=data), "text.toml")


@pytest.fixture
def suite(place):
    """Programs that sleep for three seconds in total, and their samples. Progress is shown after two."""
    problem = {"task_id": "t/0", "prompt": "def f():\n", "entry_point": "f", "test": "def check(f):\n    f()\n"}
    (place.folder / "suite.jsonl").write_text(json.dumps(problem) + "\n")
    sample = json.dumps({"task_id": "t/0", "completion": "    import time\n    time.sleep(0.3)\n"}) + "\n"
    (place.folder / "samples.jsonl").write_text(sample * 10)
    return ["eval", "--suite", "suite.jsonl", "--samples", "samples.jsonl", "--jobs", "1"]


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))


def on_a_terminal(folder, *arguments, columns=200, env=None):
    """Everything written to stderr if it is a terminal."""
    here, there = pty.openpty()
    resize(there, columns)
    running = subprocess.Popen([HOST, *map(str, arguments)], cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=there,
                               env=clean_environment({"TERM": "xterm", **(env or {})}))
    os.close(there)
    shown = b""
    try:
        while part := os.read(here, 4096):
            shown += part
    except OSError:  # the other side is closed
        pass
    os.close(here)
    assert running.wait(60) == 0, shown
    return shown.decode()


def drawn_over(shown, line):
    """The drawn lines of that form, each of which must be erased before anything else is written."""
    found = re.findall(f"{line}(.{{0,4}})", shown)
    assert found and all(after.startswith("\r\x1b[K") for after in found), shown
    return found


def test_preparation_shows_how_far_it_is(place, text):
    ended = place.host("data", "prepare", text, timeout=120)
    assert re.search(f"^{ENCODED}$", ended.err, re.MULTILINE), ended
    again = place.host("data", "prepare", text, timeout=120)
    assert "encoding" not in again.err, "it is there already"


def test_preparation_draws_one_line_on_a_terminal(place, text):
    shown = on_a_terminal(place.folder, "data", "prepare", text)
    assert len(drawn_over(shown, ENCODED)) > 1


LONG = "a-name-of-sixty-four-characters-that-no-narrow-terminal-can-show"


@pytest.mark.parametrize("columns, widest", [(40, 39), (80, 79), (0, 79), (5, 4)])
def test_a_line_that_is_redrawn_fits_into_one_row_of_the_terminal(place, columns, widest):
    file = place.write(experiment(data={"kind": "random"}, train__steps=4, name=LONG))
    shown = on_a_terminal(place.folder, "run", file, columns=columns)
    drawn = re.findall(r"(?:^|\n|\x1b\[K)(a-na?(?![^\r\n]* steps of )[^\r\n]*)", shown)  # that line is written once
    assert drawn and max(map(len, drawn)) == widest and all(len(line) <= widest for line in drawn), shown


def test_a_terminal_that_is_resized_is_asked_again(place):
    file = place.write(experiment(data={"kind": "random"}, train__steps=200, name=LONG))
    here, there = pty.openpty()
    resize(there, 40)
    running = subprocess.Popen([HOST, "run", file], cwd=place.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=there, env=clean_environment({"TERM": "xterm"}))
    shown = ""
    while "a-name" not in shown:
        shown += os.read(here, 4096).decode()
    resize(there, 120)
    os.close(there)
    try:
        while part := os.read(here, 4096):
            shown += part.decode(errors="replace")
    except OSError:  # the other side is closed
        pass
    os.close(here)
    assert running.wait(60) == 0, shown
    assert f"{LONG}: step 200/200  loss" in shown, shown


def test_a_terminal_without_a_movable_cursor_gets_plain_lines(place):
    file = place.write(experiment(data={"kind": "random"}, train__steps=4, name=LONG))
    shown = on_a_terminal(place.folder, "run", file, columns=40, env={"TERM": "dumb"})
    assert "\x1b" not in shown and re.search(f"^{LONG}: step 4/4  loss .* left\r$", shown, re.MULTILINE), shown


def test_preparation_is_quiet_with_q(place, text):
    assert place.host("data", "prepare", text, "-q", timeout=120).err == ""


def test_evaluation_shows_how_far_it_is(place, suite):
    ended = place.host(*suite, timeout=120)
    assert re.search(r"^judging samples: [1-9] of 10, [\d.]+s left$", ended.err, re.MULTILINE), ended
    assert len(drawn_over(on_a_terminal(place.folder, *suite), r"judging samples: \d+ of 10, [\d.]+s left")) > 1
    for silent in ("-q", "--json"):
        assert place.host(*suite, silent, timeout=120).err == ""


def test_short_work_shows_nothing(place, suite):
    (place.folder / "samples.jsonl").write_text(json.dumps({"task_id": "t/0", "completion": "    pass\n"}) + "\n")
    assert place.host(*suite).err == ""
