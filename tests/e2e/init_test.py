"""`init` writes experiments for the data that is there, which run as they are."""
import json
import re

import numpy as np
import pytest
from byte_tokenizer import write_byte_tokenizer
from places import assert_nothing_half_written

NAMES = ("baseline", "reference", "rho1", "random")
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
    (folder / "data.jsonl").write_text("".join(json.dumps({"text": PROSE[i:i + 500]}) + "\n"
                                               for i in range(0, 15000, 500)))
    return "data.jsonl", r"of text in 1 file"


def write_records(folder):
    (folder / "data.jsonl").write_text("".join(json.dumps({"prompt": f"{i} + 1 =", "completion": f" {i + 1}"}) + "\n"
                                               for i in range(300)))
    return "data.jsonl", r"300 records \(completions\) in 1 file"


def write_chats(folder):
    (folder / "chats.jsonl").write_text("".join(json.dumps({"messages": CHAT}) + "\n" for _ in range(20)))
    return "chats.jsonl", r"20 records \(messages\) in 1 file"


def write_nanogpt_ids(folder):
    """As data/shakespeare_char/prepare.py does."""
    ids = np.arange(5000) % 65
    ids[:4500].astype(np.uint16).tofile(folder / "train.bin")
    ids[4500:].astype(np.uint16).tofile(folder / "val.bin")
    (folder / "meta.pkl").write_bytes(b"\x80\x04.")
    return "train.bin", r"4,500 token ids \(uint16, the largest found is 64\) in 1 file"


def llm_c_shard(file, ids):
    """As write_datafile of llm.c does."""
    header = np.zeros(256, dtype=np.int32)
    header[:3] = 20240520, 1, len(ids)
    file.write_bytes(header.tobytes() + ids.astype(np.uint16).tobytes())


def write_llm_c_shards(folder):
    for i in range(2):
        llm_c_shard(folder / f"fineweb_train_{i:06}.bin", np.arange(120000) % 500)
    llm_c_shard(folder / "fineweb_val_000000.bin", np.arange(3000) % 500)
    return "fineweb_train_*.bin", r"240,000 token ids \(uint16, the largest found is 499\) in 2 files"


def shorten(file):
    """2 steps show as much as 200."""
    text = re.sub("^(steps = 200|epochs = .*)$", "steps = 2", file.read_text(), flags=re.MULTILINE)
    text = text.replace("sequence_length = 256", "sequence_length = 64")
    file.write_text(text.replace("warmup_steps = 10", "warmup_steps = 1"))


@pytest.mark.parametrize("write", [write_text, write_folder, write_json_texts, write_records, write_chats,
                                   write_nanogpt_ids, write_llm_c_shards])
def test_the_experiments_run_as_they_are(place, write):
    data, message = write(place.folder)
    said = place.host("init", data).out
    assert re.search(f"found .*{message}", said), said
    shorten(place.folder / "baseline.toml")
    for command in re.findall(r"^  wmtp-host ([^#\n]+)", said, re.MULTILINE):
        place.host(*command.split())
    place.host("run", "random.toml")
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
    refuse(4, "too little to train on", "ids.npy", "-o", "out")
    (place.folder / "saved").mkdir()
    (place.folder / "saved/dataset_dict.json").write_text('{"splits": ["train"]}')
    refuse(4, "wmtp-host data convert saved --split train --to train.jsonl", "saved", "-o", "out")
    refuse(4, "absent", "absent", "-o", "out")
    refuse(2, "contains no config.json", "data.txt", "data.txt", "-o", "out")
    refuse(2, "nothing is downloaded; .*hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B", "data.txt",
           "meta-llama/Llama-3.2-1B", "-o", "out")
    refuse(2, "quote a pattern of several files", "ids.npy", "ids.npy", "-o", "out")
    refuse(2, "--lora updates a model", "data.txt", "--lora", "-o", "out")
    (place.folder / "gpt2").mkdir()
    (place.folder / "gpt2/config.json").write_text('{"model_type": "gpt2"}')
    refuse(4, "gpt2", "data.txt", "gpt2", "-o", "out")
    (place.folder / "model").mkdir()
    (place.folder / "model/config.json").write_text("{}")
    refuse(2, "is a model, which needs data to train on", "model", "-o", "out")
    place.host("init", "data.txt")
    refuse(2, "baseline.toml already exists; choose another folder with -o", "data.txt")


def test_a_model_is_where_training_begins(place):
    tables = {"data": {"kind": "text", "files": ["data.txt"], "tokenizer": {"kind": "byte"}},
              "model__vocab_size": None, "model__layers": 2, "model__future_tokens": 1, "parallel__processes": 1,
              "train__steps": 1}
    write_text(place.folder)
    place.run(**tables)
    place.host("checkpoint", "export", "trial", "-o", "model")
    place.host("init", "data.txt", "model", "-o", "tuned")
    place.host("run", "tuned/rho1.toml", "--dry-run")
    place.host("run", "tuned/baseline.toml", "--set", "train.steps=21")
    first, tuned = (list(place.log.losses(run["id"]).values()) for run in place.log.runs())
    assert len(first) == 1 and len(tuned) == 21
    said = place.host("init", "data.txt", "model", "--lora", "-o", "lora").out
    assert "wmtp-host runs compare rho1-lora baseline-lora\n" in said
    for name in NAMES:
        assert f'name = "{name}-lora"\n' in (place.folder / f"lora/{name}.toml").read_text()
    shorten(place.folder / "lora/baseline.toml")
    assert "adapter lora" in place.host("plan", "lora/rho1.toml").out
    place.host("run", "lora/rho1.toml")
    assert tuned[0] < first[0] - 0.1 and tuned[20] < tuned[0], "it begins with what the first run has learned"


def test_token_files_are_found_with_what_lies_beside_them(place):
    _, message = write_nanogpt_ids(place.folder)
    said = place.host("init", "train.bin").out
    assert 'validates on 1 file ("val.bin")\nmeta.pkl is not read' in said
    baseline = (place.folder / "baseline.toml").read_text()
    assert f'file = "{place.folder}/train.bin"\ndtype = "uint16"\n' in baseline
    assert "vocab_size = 128\n" in baseline and "tokenizer" not in baseline
    write_llm_c_shards(place.folder)
    place.host("init", "fineweb_train_*.bin", "-o", "web")
    web = (place.folder / "web/baseline.toml").read_text()
    assert f'files = ["{place.folder}/fineweb_train_*.bin"]' in web
    assert f'files = ["{place.folder}/fineweb_val_000000.bin"]' in web
    (place.folder / "fineweb_val_000000.bin").unlink()
    place.host("init", "fineweb_train_*.bin", "-o", "alone")
    assert "share = 0.1" in (place.folder / "alone/baseline.toml").read_text()
    np.arange(1000, 101000).astype(np.uint32).tofile(place.folder / "wide.bin")
    assert "100,000 token ids (uint32" in place.host("init", "wide.bin", "-o", "wide").out


def test_a_folder_of_token_files_is_read_with_its_tokenizer(place):
    ids = place.folder / "ids"
    ids.mkdir()
    write_nanogpt_ids(ids)
    write_byte_tokenizer(ids)
    said = place.host("init", "ids").out
    assert "found 4,500 token ids (uint16" in said and 'validates on 1 file ("val.bin")' in said
    baseline = (place.folder / "baseline.toml").read_text()
    assert f'file = "{ids}/train.bin"\n' in baseline and f'kind = "file"\nfile = "{ids}/tokenizer.json"\n' in baseline


def test_runs_and_models_in_the_folder_are_no_data(place):
    data = place.folder / "data"
    for folder, name in (("runs", "wmtp.db"), ("model", "config.json")):
        (data / folder / "1-trial").mkdir(parents=True)
        (data / folder / name).write_text("{}")
        (data / folder / "1-trial/state.json").write_text('{"step": 1}\n')
    place.refuse_command(4, "found only files of runs and models", command=["init", "data", "-o", "out"])
    (data / "novel.jsonl").write_text(json.dumps({"text": PROSE}) + "\n")
    assert "of text in 1 file\nleft out 4 files of runs and models\n" in place.host("init", "data", "-o", "out").out


def test_of_a_folder_of_json_lines_the_other_files_are_left_out(place):
    data = place.folder / "clone"
    (data / ".git").mkdir(parents=True)
    (data / ".ipynb_checkpoints").mkdir()
    lines = "".join(json.dumps({"messages": CHAT}) + "\n" for _ in range(20))
    for name in ("train.jsonl", ".ipynb_checkpoints/train-checkpoint.jsonl", "._train.jsonl", "train.jsonl~"):
        (data / name).write_text(lines)
    (data / ".git/config").write_text("[core]")
    (data / "README.md").write_text("# A data set\n")
    said = place.host("init", "clone").out
    assert "found 20 records (messages) in 1 file\n" \
        "left out 1 file (\"README.md\"), which contain no JSON lines\n" in said
    assert f'files = ["{data}/**/*.jsonl"]' in (place.folder / "baseline.toml").read_text()
    assert "1 file" in place.host("data", "prepare", "baseline.toml").err


def test_too_little_data_to_hold_out_is_said(place):
    write_chats(place.folder)
    said = place.host("init", "chats.jsonl").out
    assert "\ntoo few records to hold out, so that nothing is validated until [validation] files names some\n" in said
    assert "[validation]" not in (place.folder / "baseline.toml").read_text()
    write_records(place.folder)
    assert "to hold out" not in place.host("init", "data.jsonl", "-o", "enough").out
    assert "[validation]" in (place.folder / "enough/baseline.toml").read_text()


def test_files_are_taken_as_they_are_named(place):
    (place.folder / "what?.txt").write_text(PROSE)
    (place.folder / "whatX.txt").write_text(PROSE)
    assert "of text in 1 file" in place.host("init", "what?.txt").out
    target = place.folder / "target/sub"
    target.mkdir(parents=True)
    (place.folder / "link").symlink_to("target/sub")
    (place.folder / "target/t.txt").write_text(PROSE)
    place.host("init", "link/../t.txt", "-o", "out")
    assert f'files = ["{place.folder}/target/t.txt"]' in (place.folder / "out/baseline.toml").read_text()


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"


def test_records_with_a_text_are_records(place):
    """As in tatsu-lab/alpaca; the field text of MBPP is a question."""
    alpaca = {"instruction": "Add 1 and 2.", "input": "", "output": "3", "text": PROSE[:100]}
    (place.folder / "alpaca.jsonl").write_text((json.dumps(alpaca) + "\n") * 40)
    assert "40 records (instructions)" in place.host("init", "alpaca.jsonl", "-o", "alpaca").out
    mbpp = {"task_id": 1, "text": "Write a function.", "code": "def f(): pass", "test_list": ["assert f() is None"]}
    (place.folder / "mbpp.jsonl").write_text(json.dumps(mbpp) + "\n")
    place.refuse_command(4, "mbpp.jsonl: .* data prepare .* --from mbpp", command=["init", "mbpp.jsonl", "-o", "mbpp"])


def test_rejected_answers_are_left_out(place):
    (place.folder / "pairs.jsonl").write_text("".join(
        json.dumps({"prompt": f"{i}?", "chosen": " yes", "rejected": " no"}) + "\n" for i in range(40)))
    place.host("init", "pairs.jsonl")
    assert 'select = "correct"' in (place.folder / "baseline.toml").read_text()
    shorten(place.folder / "baseline.toml")
    assert "wrong answer" not in place.host("run", "baseline.toml").err


def test_nothing_is_trained_on_because_it_looks_like_nothing_else(place):
    """Each was prepared as text with exit 0 once; `data prepare` and `eval --text` check more kinds."""
    line = json.dumps({"messages": CHAT}) + "\n"
    for name, content, message in (
            ("a.zip", b"PK\x03\x04" + bytes(100), r"found a zip archive, wanted text; unpack it first: unzip \S*a.zip"),
            ("a.txt", "words of a text\n".encode("utf-16"),
             "found text in UTF-16, wanted text; convert it first: iconv -f UTF-16"),
            ("b.txt", POINTER.encode(),
             "b.txt is a pointer of Git LFS, in place of the file; download the file: git lfs pull"),
            ("c.txt", "ein schöner Text\n".encode("latin1"), "found 1 byte in no character of UTF-8"),
            ("nan.jsonl", (line + '{"messages": NaN}\n' + line).encode(), r"nan.jsonl:2:14: found invalid JSON"),
            ("cut.jsonl", b'{"text": "a', r"cut.jsonl: line 1, column \d+: the line ends in the middle of its object"),
            ("list.json", b'[{"text": "a"}]',
             "found a JSON list, wanted text; convert it first: wmtp-host data convert")):
        (place.folder / name).write_bytes(content)
        place.refuse_command(4, message, command=["init", name, "-o", "out"])
    (place.folder / "model").mkdir()
    (place.folder / "model/config.json").write_text("{}")
    (place.folder / "model/model.safetensors").write_text(POINTER)
    write_text(place.folder)
    place.refuse_command(4, "model.safetensors is a pointer of Git LFS",
                         command=["init", "data.txt", "model", "-o", "out"])
    assert not list(place.folder.glob("out/*"))


def test_of_a_data_set_only_its_split_for_training_is_trained_on(place):
    def write(name, tag, count):
        file = place.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps({"instruction": f"{tag} {i}", "output": f"{tag} {i}"}) + "\n"
                                for i in range(count)))

    def files(folder):
        return re.findall("^files = (.*)$", (place.folder / folder / "baseline.toml").read_text(), re.MULTILINE)
    write("split/train-00000-of-00002.jsonl", "a", 20)
    write("split/train-00001-of-00002.jsonl", "b", 20)
    write("split/test.jsonl", "test", 10)
    said = place.host("init", "split", "-o", "out").out
    assert "found 40 records" in said and 'left out 1 file ("test.jsonl"), another split\n' in said
    assert files("out") == [f'["{place.folder}/split/train-0000*"]']
    write("split/dev.jsonl", "dev", 8)
    assert 'validates on 1 file ("dev.jsonl")\n' in place.host("init", "split", "-o", "validated").out
    assert files("validated")[1] == f'["{place.folder}/split/dev.jsonl"]'
    place.host("run", "validated/baseline.toml", "--set", "train.steps=21", "--set", "validation.every_steps=21")
    for name, tag in (("main", "m"), ("socratic", "s")):
        write(f"cfg/{name}/train.jsonl", tag, 20)
    place.refuse_command(4, "has the configurations main and socratic; name the folder of one",
                         command=["init", "cfg", "-o", "none"])


def test_of_the_cache_of_hugging_face_each_file_is_read_once_and_one_revision(place):
    cache = place.folder / "datasets--x"
    for folder in ("blobs", "refs", "snapshots/1", "snapshots/2"):
        (cache / folder).mkdir(parents=True)
    (cache / "refs/main").write_text("1")
    for i in range(3):
        (cache / f"blobs/{i}").write_text(PROSE + f"{i}\n")
        (cache / f"snapshots/1/{i}.txt").symlink_to(f"../../blobs/{i}")
    assert "of text in 3 files" in place.host("init", "datasets--x", "-o", "out").out
    assert "3 files" in place.host("data", "prepare", "out/baseline.toml").err
    (cache / "snapshots/2/0.txt").symlink_to("../../blobs/0")
    place.refuse_command(4, "snapshots has the revisions 1 and 2; name the folder of one",
                         command=["init", "datasets--x", "-o", "none"])
