"""`init` writes experiments for the data that is there, which run as they are."""
import json
import re

import numpy as np
import pytest
from places import assert_nothing_half_written

NAMES = ("baseline", "reference", "rho1")
PROSE = "".join(f"This is line {i} of a text, and it says {i * 7919 % 1000}.\n" for i in range(400))
CHAT = [{"role": "user", "content": "What is 1 + 2?"}, {"role": "assistant", "content": "3"},
        {"role": "user", "content": "And 2 + 2?"}, {"role": "assistant", "content": "4"}]


def write_text(folder):
    (folder / "data.txt").write_text(PROSE)
    return "data.txt", r"of text in 1 file"


def write_folder(folder):
    (folder / "texts").mkdir()
    for i in range(3):
        (folder / f"texts/{i}.md").write_text(PROSE)
    return "texts", r"of text in 3 files"


def write_json_texts(folder):
    (folder / "data.jsonl").write_text("".join(json.dumps({"text": PROSE[i:i + 500]}) + "\n" for i in range(0, 15000, 500)))
    return "data.jsonl", r"of text in 1 file"


def write_records(folder):
    (folder / "data.jsonl").write_text("".join(json.dumps({"prompt": f"{i} + 1 =", "completion": f" {i + 1}"}) + "\n" for i in range(300)))
    return "data.jsonl", r"300 records \(completions\) in 1 file"


def write_chats(folder):
    (folder / "chats.jsonl").write_text("".join(json.dumps({"messages": CHAT}) + "\n" for _ in range(20)))
    return "chats.jsonl", r"20 records \(messages\) in 1 file"


@pytest.mark.parametrize("write", [write_text, write_folder, write_json_texts, write_records, write_chats])
def test_the_experiments_run_as_they_are(place, write):
    data, message = write(place.folder)
    said = place.host("init", data).out
    assert re.search(f"found .*{message}", said), said
    for name in NAMES:  # 2 steps show as much as 200
        file = place.folder / f"{name}.toml"
        file.write_text(file.read_text().replace("steps = 200", "steps = 2").replace("warmup_steps = 20", "warmup_steps = 1"))
    for command in re.findall(r"^  wmtp-host ([^#\n]+)", said, re.MULTILINE):
        place.host(*command.split())
    assert {row["name"] for row in place.log.rows_after(0)} == set(NAMES)
    assert_nothing_half_written(place.folder)


def test_what_cannot_be_trained_on_is_refused_and_nothing_is_overwritten(place):
    write_text(place.folder)

    def refuse(code, message, *arguments):
        place.refuse_command(code, message, command=["init", *arguments])
        assert not list(place.folder.glob("out/*"))
    (place.folder / "small.txt").write_text("short")
    refuse(4, "too little to train on", "small.txt", "-o", "out")
    (place.folder / "rows.jsonl").write_text('{"question": "a", "answer": "b"}\n')
    refuse(4, "its first records have the fields answer and question", "rows.jsonl", "-o", "out")
    np.save(place.folder / "ids.npy", np.arange(10))
    refuse(4, 'set .data. kind = "tokens"', "ids.npy", "-o", "out")
    refuse(4, "absent", "absent", "-o", "out")
    refuse(2, "contains no config.json", "data.txt", "data.txt", "-o", "out")
    (place.folder / "model").mkdir()
    (place.folder / "model/config.json").write_text("{}")
    refuse(2, "is a model, which needs data to train on", "model", "-o", "out")
    place.host("init", "data.txt")
    refuse(2, "baseline.toml already exists; choose another folder with -o", "data.txt")


def test_a_model_is_where_training_begins(place):
    tables = {"data": {"kind": "text", "files": ["data.txt"], "tokenizer": {"kind": "byte"}},
              "model__vocab_size": None, "model__layers": 2, "model__future_tokens": 1, "parallel__processes": 1, "train__steps": 1}
    write_text(place.folder)
    place.run(**tables)
    place.host("checkpoint", "export", "trial", "-o", "model")
    place.host("init", "data.txt", "model", "-o", "tuned")
    place.host("run", "tuned/rho1.toml", "--dry-run")
    place.host("run", "tuned/baseline.toml", "--set", "train.steps=21")
