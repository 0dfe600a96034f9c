"""Token files of other programs: shards, validation files, and the tokenizer that wrote them."""
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from byte_tokenizer import write_byte_tokenizer

TEXT = "".join(f"This is line {i} of a text, and it says {i * 7919 % 1000}.\n" for i in range(300))
TOKENIZED = {"tokenizer": {"kind": "file", "file": "tokenizer.json"}}


def write_shards(folder):
    ids = np.frombuffer(TEXT.encode(), dtype=np.uint8).astype(np.uint16)
    for name, part in (("train_0", ids[:5000]), ("train_1", ids[5000:10000]), ("val_0", ids[10000:12000])):
        part.tofile(folder / f"{name}.bin")


SHARDS = {"data": {"kind": "tokens", "files": ["*_?.bin"]}, "parallel__processes": 1,
          "train__steps": 20, "validation": {"every_steps": 10, "files": ["val_*.bin"]}}


def test_shards_are_validated_on_files_that_are_not_trained_on(place):
    write_shards(place.folder)
    place.run(**SHARDS)
    first = place.log.losses(1)
    validated = place.log.query("SELECT step, value FROM metrics "
                                "WHERE run_id = 1 AND name = 'valid/loss' ORDER BY step")
    assert [row["step"] for row in validated] == [0, 10, 20] and validated[2]["value"] < validated[0]["value"]
    joined = b"".join((place.folder / f"train_{i}.bin").read_bytes()[:2 * (5000 // 64 * 64)] for i in range(2))
    (place.folder / "one.bin").write_bytes(joined)
    place.run(**SHARDS | {"data": {"kind": "tokens", "file": "one.bin"}})
    assert place.log.losses(2) == first, "each file's windows, one file after the other"
    (place.folder / "short_9.bin").write_bytes(bytes(6))
    place.refuse_everywhere(4, r"short_9\.bin has 3 ids, fewer than one window", **SHARDS)


def test_a_tokenizer_beside_the_ids_gives_texts(place):
    write_shards(place.folder)
    write_byte_tokenizer(place.folder)
    (place.folder / "text.txt").write_text(TEXT[:500])
    place.run(**SHARDS | {"data": SHARDS["data"] | TOKENIZED, "log": {"prompts": ["This is"]}})
    assert place.log.query("SELECT prompt FROM generations WHERE run_id = 1 AND step = 20")[0]["prompt"] == "This is"
    assert place.host("generate", "trial", "This is", "--max-tokens", 5).out
    assert "bits_per_byte" in place.host("eval", "trial", "--text", "text.txt").out
    place.refuse(4, "the tokenizer has 257 ids, the model 256", **SHARDS | {
        "data": SHARDS["data"] | TOKENIZED, "model__vocab_size": 256})
    place.refuse_everywhere(2, 'found a tokenizer of kind "byte" for token ids, wanted kind "file"',
                            **SHARDS | {"data": SHARDS["data"] | {"tokenizer": {"kind": "byte"}}})
    place.refuse_everywhere(4, "name patterns of files in data.files", data={"kind": "tokens", "file": "*.bin"})


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">u2", ">u4", "uint8"])
def test_raw_numbers_of_other_types_are_not_read_as_ids(place, dtype):
    """For a vocabulary in which each of them would be an id."""
    ids = np.random.default_rng(1).integers(1, 50 if dtype == "uint8" else 250, 8000)
    ids.astype(dtype).tofile(place.folder / "train.bin")
    name = {">u2": "big-endian ids", ">u4": "big-endian ids", "uint8": "ids of uint8"}.get(dtype, f"numbers of {dtype}")
    data = {"data": {"kind": "tokens", "file": "train.bin"}, "model__vocab_size": 65536}
    place.refuse_everywhere(4, f"train.bin begins like {name}", **data)
    for command in (["data", "inspect", "train.bin"], ["init", "train.bin"]):
        assert f"begins like {name}" in place.host(*command, wanted=4).err
    ids.astype("<u2").tofile(place.folder / "train.bin")
    assert "largest_id        249" in place.host("data", "inspect", "train.bin").out or dtype == "uint8"


def test_ids_that_are_written_as_text_are_refused_with_the_command_that_makes_a_token_file_of_them(place):
    ids = np.random.default_rng(1).integers(1, 250, 8000)
    (place.folder / "ids.txt").write_text("".join(f"[{', '.join(map(str, line))}]\n" for line in ids.reshape(-1, 20)))
    found = "ids.txt: found numbers only, such as token ids, wanted "
    as_text = {"data": {"kind": "text", "files": ["ids.txt"]}, "model__vocab_size": None, "train__steps": 1}
    said = [place.refuse(4, found + "text", **as_text),
            place.refuse(4, found + "raw token ids", data={"kind": "tokens", "file": "ids.txt"})]
    said += [place.refuse_command(4, found, command=command) for command in (["init", "ids.txt"],
                                                                             ["data", "inspect", "ids.txt"])]
    for ended in said:
        (place.folder / "ids.bin").unlink(missing_ok=True)
        command = re.search(r"convert them: (python3 -c .* > \S*ids\.bin), and set", ended.err)[1]
        subprocess.run(command, shell=True, check=True, cwd=place.folder,
                       env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
        assert np.array_equal(np.fromfile(place.folder / "ids.bin", "<u4"), ids)
    place.run(data={"kind": "tokens", "file": "ids.bin", "dtype": "uint32"}, train__steps=1)
    place.run(**as_text | {"data": as_text["data"] | {"encoding": "bytes"}})


def test_random_bytes_are_no_ids(place):
    (place.folder / "train.bin").write_bytes(np.random.default_rng(1).bytes(40000))
    data = {"kind": "tokens", "file": "train.bin"}
    place.refuse_everywhere(4, "train.bin begins like random bytes", data=data, model__vocab_size=65536)
    place.run(data=data | {"dtype": "uint16"}, model__vocab_size=65536, train__steps=1)


def test_a_gap_in_the_numbers_of_files_is_a_warning_for_every_kind_of_data(place):
    ids = np.frombuffer(TEXT.encode(), dtype=np.uint8).astype("<u2")
    for number in (0, 2):
        ids.tofile(place.folder / f"part-0000{number}.bin")
        (place.folder / f"part-0000{number}.txt").write_text(TEXT)
        (place.folder / f"part-0000{number}.jsonl").write_text('{"prompt": "1 + 1 = ", "completion": "2"}\n' * 20)
    byte = {"tokenizer": {"kind": "byte"}}
    for kind, files, missing, more in (("tokens", ["part-*.bin"], "part-00001.bin", {}),
                                       ("text", ["part-00000.txt", "part-00002.txt"], "part-00001.txt", byte),
                                       ("records", ["part-*.jsonl"], "part-00001.jsonl", byte)):
        file = place.write(data={"kind": kind, "files": files} | more, name=f"{kind}.toml",
                           model__vocab_size=None if more else 512)
        for command in (["data", "prepare", file], ["plan", file], ["run", file, "--dry-run"],
                        ["plan", file, "--gpus", "1,2", "--on", "h100"], ["run", file, file, "--dry-run"],
                        ["init", files[0] if "*" in files[0] else "part-0000?.txt", "-o", kind], ["run", file]):
            ended = place.host(*command)
            assert re.findall(r"warning: (.*)", ended.err) == [
                f"{place.folder} has no {missing}, but files with lower and higher numbers; check that the download is "
                "complete"], (command, ended.err)
    (place.folder / "part-00001.bin").write_bytes(ids.tobytes())
    file = place.write(data={"kind": "tokens", "files": ["part-*.bin"]}, name="tokens.toml")
    assert "warning" not in place.host("data", "prepare", file).err
