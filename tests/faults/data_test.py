"""Data and weights that must be refused: exit 4, with the file, the position, the found and the wanted value."""
import gzip
import json
import os
import re
import subprocess
import sys

import needs_torch  # noqa: F401
import numpy as np
import pytest
import torch
from experiment import ONE_RANK, SEQUENCE, VOCAB
from host import clean_environment
from mtp_model import MultiTokenLlama, Shape
from paths import HOST
from places import assert_nothing_half_written
from safetensors.torch import save_file


def test_a_missing_token_file_is_named(place):
    place.refuse_everywhere(4, r"absent\.bin", data__file="absent.bin")


def test_an_empty_token_file_is_refused(place):
    (place.folder / "tokens.bin").write_bytes(b"")
    place.refuse_everywhere(4, r"tokens\.bin is empty")


def test_half_an_id_at_the_end_is_refused(place):
    with open(place.folder / "tokens.bin", "ab") as file:
        file.write(b"\1")
    place.refuse(4, r"tokens\.bin")


def test_a_token_beyond_the_vocabulary_is_reported_with_its_position(place):
    ids = np.fromfile(place.folder / "tokens.bin", "<u2")
    ids[SEQUENCE + 5] = VOCAB
    ids.tofile(place.folder / "tokens.bin")
    place.refuse(4, r"tokens\.bin", str(VOCAB), str(SEQUENCE + 5))


def test_too_few_windows_are_refused_with_both_counts(place):
    place.tokens(windows=10)
    place.refuse_everywhere(4, r"\b10\b", r"\b40\b", train__steps=10, train__batch_size=2, parallel__processes=2)


def test_exactly_enough_windows_are_enough(place):
    place.tokens(windows=12)
    place.run(train__steps=3, train__batch_size=2, parallel__processes=2)
    assert list(place.log.losses()) == [1, 2, 3]
    assert place.log.metric("train/tokens")[3] == 12 * SEQUENCE, "each of the 12 windows is read once"


def test_more_ranks_than_sequences_is_refused(place):
    place.tokens(windows=2)
    place.refuse(4, r"\b2\b", r"\b4\b", parallel__processes=4, train__batch_size=1, train__steps=1)


def test_a_pattern_that_matches_nothing_is_named(place):
    text = {"kind": "text", "files": ["absent/**/*.py"], "tokenizer": {"kind": "byte"}}
    place.refuse_everywhere(4, "absent", data=text, model__vocab_size=None)


TEXT = {"kind": "text", "files": ["corpus.txt"], "tokenizer": {"kind": "byte"}}


@pytest.mark.parametrize("kind", ["tokens", "text", "weights"])
def test_a_device_or_a_pipe_is_refused_at_once(place, kind):
    os.mkfifo(place.folder / "pipe")
    for path in ("/dev/zero", "pipe"):
        change = {"tokens": {"data__file": path}, "weights": {"model__weights": path},
                  "text": {"data": TEXT | {"files": [path]}, "model__vocab_size": None}}[kind]
        place.refuse(4, path, "is a (device|named pipe), not a regular file", **change)


def test_packed_and_columnar_files_are_refused_as_text_and_as_ids(place):
    (place.folder / "good.txt").write_text("a sound text\n" * 1000)
    (place.folder / "packed.bin").write_bytes(gzip.compress(b"text" * 1000))
    place.refuse(4, r"packed\.bin: found a gzip file", r"gunzip -k < \S*packed\.bin", data__file="packed.bin")
    (place.folder / "corpus.txt").write_bytes(b"PAR1" + bytes(1000))
    place.refuse(4, r"corpus\.txt: found a Parquet file", data=TEXT | {"files": ["good.txt"]}, model__vocab_size=None,
                 validation={"files": ["corpus.txt"]}, **ONE_RANK)
    (place.folder / "corpus.txt").write_text('{"content": "x"}\n' * 1000)
    tokenizer = {"kind": "bpe", "files": ["corpus.txt"], "vocab_size": 300}
    place.refuse(4, r"corpus\.txt: found JSON lines", 'kind = "records"', model__vocab_size=None, **ONE_RANK,
                 data=TEXT | {"files": ["good.txt"], "tokenizer": tokenizer})
    np.save(place.folder / "tokens.npy", np.fromfile(place.folder / "tokens.bin", "<u2"))
    place.refuse(4, r"tokens\.npy: found a numpy file", r'kind = "tokens"', data=TEXT | {"files": ["tokens.npy"]},
                 model__vocab_size=None)


def test_a_truncated_packed_text_is_refused(place):
    packed = gzip.compress(b"".join(b"line %d\n" % i for i in range(1000)))
    (place.folder / "corpus.txt").write_bytes(packed[:-10])
    place.refuse(4, r"corpus\.txt: found a truncated gzip file: its [\d,]+ bytes end in the middle", "gzip -t",
                 data=TEXT, model__vocab_size=None)


def test_a_line_of_json_without_text_is_reported_with_its_number(place):
    (place.folder / "corpus.txt").write_text('{"text": "x"}\n' * 1000 + '{"txt": "y"}\n')
    place.refuse(4, r"corpus\.txt: line 1001: text: missing, wanted a string", data=TEXT, model__vocab_size=None)


def test_a_corpus_of_empty_files_is_refused(place):
    for name in ("a.py", "b.py"):
        (place.folder / name).write_text("")
    place.refuse(4, "fewer than one window",
                 data={"kind": "text", "files": ["*.py"], "tokenizer": {"kind": "byte"}}, model__vocab_size=None)


def test_lack_of_memory_while_the_data_is_prepared_is_named(place):
    """A line of JSON is held in memory; nothing that a training could change helps."""
    (place.folder / "long.jsonl").write_text('{"text": "' + "word " * 24_000_000 + '"}\n')
    file = place.write(data={"kind": "text", "files": ["long.jsonl"], "tokenizer": {"kind": "byte"}},
                       model__vocab_size=None)
    limited = ("import os, resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, 200 << 20)); "
               "os.execv(sys.argv[1], sys.argv[1:])")
    ended = subprocess.run([sys.executable, "-c", limited, str(HOST), "-q", "data", "prepare", str(file)],
                           cwd=place.folder, env=clean_environment(), capture_output=True, text=True)
    assert ended.returncode == 8, ended
    assert "out of memory on the CPU while the data was prepared; split long documents and lines" in ended.stderr
    assert "train." not in ended.stderr
    assert_nothing_half_written(place.folder)


@pytest.mark.parametrize("content", [b"", b"\x08", b"\xff" * 64, (1 << 63).to_bytes(8, "little") + b"{}"])
def test_a_file_that_is_no_safetensors_is_refused(place, content):
    (place.folder / "weights.safetensors").write_bytes(content)
    place.refuse(4, r"weights\.safetensors", model__weights="weights.safetensors")


@pytest.mark.parametrize("weights, message", [
    ("absent.safetensors", r"there is no .*absent\.safetensors"),
    ("run:nothing", "no run log at"),
])
def test_missing_weights_are_named(place, weights, message):
    place.refuse_everywhere(4, message, model__weights=weights)


def test_weights_of_another_shape_are_refused_with_both_shapes(place):
    shape = Shape(dim=32, layers=5, heads=4, kv_heads=4, ffn_dim=192, vocab_size=VOCAB)
    save_file(MultiTokenLlama(shape).state_dict(), place.folder / "weights.safetensors")
    place.refuse_everywhere(4, r"weights\.safetensors", r"\b32\b", r"\b64\b", model__weights="weights.safetensors")


def test_weights_that_lack_a_tensor_are_refused(place):
    save_file({"norm.weight": torch.ones(64)}, place.folder / "weights.safetensors")
    place.refuse_everywhere(4, r"weights\.safetensors", "output.weight|tok_embeddings.weight|layers",
                 model__weights="weights.safetensors")


RECORD = '{"instruction": "Add 1 and 2.", "output": "3", "task_id": "t/%d", "is_correct": %s}\n'


def records(place, text, **changes):
    """An experiment on one file of records."""
    (place.folder / "a.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    data = {"kind": "records", "files": ["a.jsonl"], "template": "plain"}
    return {"data": data | changes, "model__vocab_size": None, **ONE_RANK}


def test_every_mistake_of_a_record_file_is_reported_with_its_line(place):
    text = RECORD % (1, '"true"') + '{"instruction": "x"}\n' + RECORD[:30]
    place.refuse(4, r"a\.jsonl:1: is_correct: found the string .*true", r"a\.jsonl:2: output: missing",
                 r"a\.jsonl:3:31: the line ends", **records(place, text) | {"parallel__processes": 2})


def test_a_record_that_is_not_utf8_is_reported_with_its_column(place):
    place.refuse(4, r"a\.jsonl:1:18: found byte 0xff", **records(place, b'{"instruction": "\xff", "output": "x"}\n'))


def test_a_number_of_a_record_that_is_out_of_range_is_reported_with_its_line(place):
    text = RECORD % (1, "1e999") + RECORD % (2, "9" * 5000)
    place.refuse(4, r"a\.jsonl:1: found a number that is out of range", r"a\.jsonl:2: ", **records(place, text))


def test_a_line_of_100_megabytes_is_refused(place):
    place.refuse(4, r"a\.jsonl:1: a line of 95\.4 MiB, wanted at most", **records(place, b"x" * 100_000_000))


def test_bins_of_difficulty_that_match_nothing_are_refused(place):
    text = '{"instruction": "a", "output": "b", "metadata": {"difficulty": 2}}\n' * 100
    place.refuse(4, "no records remain", "3-9", "2 to 2",
                 **records(place, text, difficulty={"bins": ["3-9"], "weights": [1]}))


def test_values_of_chats_with_several_answers_are_refused(place):
    """Returns run over one answer, from its reward at its end."""
    turns = [{"role": role, "content": "a"} for role in ("user", "assistant", "user", "assistant")]
    chats = [{"messages": turns[:2 + 2 * (i % 2)], "is_correct": True, "task_id": f"{i}"} for i in range(100)]
    changes = records(place, "".join(json.dumps(chat) + "\n" for chat in chats), template="chatml")
    place.refuse(4, "50 records .* have several answers, but the pipeline critic reads values of one",
                 **changes | {"pipeline": {"plugin": "critic", "loss": "monte_carlo"}, "train__sequence_length": 256})


@pytest.mark.parametrize("changes, what", [
    ({"pipeline": {"plugin": "critic", "loss": "monte_carlo"}}, "the value head of pipeline 'critic'"),
    ({"pipeline": {"plugin": "verifiable", "joint": True}}, "the value head of pipeline 'verifiable'"),
    ({"auxiliary_loss": {"plugin": "unlikelihood"}}, "auxiliary loss 'unlikelihood'")])
def test_learning_from_outcomes_that_no_record_has_is_refused(place, changes, what):
    text = "".join(json.dumps({"instruction": f"Add 1 and {i}.", "output": f"{i + 1}"}) + "\n" for i in range(100))
    place.refuse(4, f"no record of data.files has is_correct, but {what} learns from right and wrong answers",
                 **records(place, text) | changes)


def test_an_auxiliary_loss_of_wrong_answers_is_refused_where_data_have_none(place):
    place.refuse(4, 'data of kind "random" say of no answer whether it is right, but auxiliary loss \'unlikelihood\'',
                 data={"kind": "random"}, auxiliary_loss={"plugin": "unlikelihood"})


def test_an_auxiliary_loss_of_wrong_answers_is_refused_where_they_are_left_out(place):
    changes = records(place, RECORD % (1, "true"), select="correct")
    place.refuse(2, 'found select "correct" with auxiliary loss "unlikelihood"', **changes,
                 auxiliary_loss={"plugin": "unlikelihood"})


def test_weights_of_prompts_are_refused_where_data_have_none(place):
    place.refuse(2, 'pipeline "prompt_weight" weighs the tokens of prompts: found data of kind "random", which has ',
                 data={"kind": "random"}, pipeline={"plugin": "prompt_weight", "weight": 0})


def preferences(place, count=40):
    lines = [{"prompt": f"Question {i}?", "chosen": " yes" * (1 + i % 2 * 60), "rejected": " no"} for i in range(count)]
    return records(place, "".join(json.dumps(line) + "\n" for line in lines)) | {"data": {
        "kind": "records", "files": ["a.jsonl"]}, "train__sequence_length": 320}


def test_rejected_answers_that_a_pipeline_learns_like_right_ones_are_counted(place):
    changes = preferences(place) | {"pipeline": {"plugin": "baseline"}}
    ended = place.run(**changes)
    assert re.search(r"40 wrong answers .* are learned like right ones: pipeline 'baseline' .*select", ended.err), ended
    chosen = place.run(**changes | {"data": changes["data"] | {"select": "correct"}})
    assert "wrong answer" not in chosen.err, chosen


def test_pairs_in_different_bins_of_length_are_counted(place):
    changes = preferences(place) | {"pipeline": {"plugin": "critic"}}
    ended = place.run(**changes)
    assert "20 of 40 pairs are trained on: the answers of the others are in different bins of data.length_bins" \
        in ended.err, ended
    kept = place.run(**changes | {"data": changes["data"] | {"length_bins": []}})
    assert "pairs are trained on" not in kept.err, kept


def test_records_train(place):
    text = "".join(RECORD % (i, "true" if i % 2 else "false") for i in range(200))
    place.run(**records(place, text))
    losses = list(place.log.losses().values())
    assert len(losses) == 10 and losses == sorted(losses, reverse=True), losses
    assert losses[0] == pytest.approx(np.log(257), rel=0.02), "a new model tells no byte from another"
    per_record = len("Add 1 and 2.\n3") + 1
    assert place.log.metric("train/tokens") == {step: step * 2 * per_record for step in range(1, 11)}
