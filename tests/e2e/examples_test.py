"""Every example in a command's help is run as shown, in a folder with the files and runs that it names."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paths import BUILD, HOST

PROBLEM = {"task_id": "HumanEval/0", "prompt": "def double(x):\n", "entry_point": "double",
           "canonical_solution": "    return 2 * x\n", "test": "def check(f):\n    assert f(3) == 6\n"}
CONTEST = {"name": "sums", "source": 2, "description": "Add.", "difficulty": 1,
           "solutions": [{"language": 2, "solution": "int main() {}"}],
           "incorrect_solutions": []}
RECORDS = [{"instruction": "1+1", "output": "#2", "task_id": "a", "is_correct": True},
           {"instruction": "1+1", "output": "#3", "task_id": "a", "is_correct": False}]
SHAPE = dict(model__dim=32, model__heads=2, model__ffn_dim=48, model__layers=4, model__future_tokens=2,
             model__vocab_size=None, train__steps=3, train__sequence_length=32,
             data={"kind": "text", "files": ["../text.txt"]}, checkpoint={"every_steps": 2})
# Examples that are not run here, and why.
ELSEWHERE = {
    "eval \"$(wmtp-host completion bash)\"": "e2e.commands asks a bash, a zsh and a fish for completions",
    "wmtp-host completion fish | source": "the same",
    "torchrun --no-python --nproc-per-node 2 wmtp-host run experiments/rho1.toml":
        "faults.foreign_launcher has launchers",
    "wmtp-host plugins check build/lib/wmtp/plugins/pipelines/soft_focal.so": "e2e.guide builds a plugin and checks it",
    "wmtp-host doctor --device cuda": "null_cuda.device has a device",
    "wmtp-host plugins check formula.so --experiment mine.toml --device cuda": "the same",
    "wmtp-host run experiments/rho1.toml --resume": "it needs a stopped run; parity.resume",
    "wmtp-host init 'fineweb_train_*.bin'": "e2e.init has shards",
    "wmtp-host experiments --copy experiments && wmtp-host run experiments/rho1.toml": "e2e.experiments copies them",
    **{f"wmtp-host {example}": "parity.models names checkpoints" for example in (
        "checkpoint export rho1@400 -o rho1-at-400", "generate rho1@140 \"def main(\"",
        "checkpoint merge runs/5-lora/step-000400 -o lora-at-400")},
    **{f"wmtp-host {example}": "e2e.study has studies and results" for example in (
        "plan experiments/study/text.toml", "study experiments/study/text.toml",
        "study experiments/study/noise.toml --jobs 2 --known here.json",
        "study experiments/study/text.toml --results here.json --results there.json -o report")},
    "wmtp-host eval paths --suite test.jsonl --judge experiments/study/paths/judge_paths.py":
        "e2e.study trains on paths in a graph and judges answers",
    **{f"wmtp-host weigh {example}": "e2e.weigh has runs with validation" for example in (
        "baseline --pipeline experiments/rho1.toml --pipeline experiments/weightings/entropy.toml",
        "baseline@100 --pipeline formula.toml --set 'pipeline.weight=\"exp(-ce)\"' --show 2",
        "rho1 --pipeline experiments/rho1.toml --set pipeline.keep=0.3 --json")},
    "wmtp-host init chats.jsonl Qwen2.5-0.5B-Instruct -o chats": "e2e.init begins with a model",
    "wmtp-host export 3 --to mlflow --push http://127.0.0.1:5000": "e2e.export has a client of MLflow",
    "wmtp-host export rho1 --to wandb": "e2e.tracker has the package",
}
# A deletion is only announced, with exit code 2, unless --yes is given.
REFUSED = {"wmtp-host runs delete 3"}
SERVES = re.compile(r"wmtp-host ui\b")


def help_of(words):
    return subprocess.run([HOST, *words, "--help"], capture_output=True, text=True, check=True).stdout


def commands_of(text):
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    return re.findall(r"^  (\S+)", listed[1], re.MULTILINE) if listed else []


def examples(words=()):
    """(command, example) of this command and its subcommands, in the order of the help."""
    text = help_of(words)
    found = re.search(r"^examples?:\n((?:  .*\n)+)", text, re.MULTILINE)
    commands = commands_of(text)
    assert found or commands, f"the help of {' '.join(words)} shows no example"
    yield from ((words, line.strip()) for line in (found[1].splitlines() if found else []))
    for command in commands:
        yield from examples((*words, command))


def write_lines(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_tables(folder):
    (folder / "novel.txt").write_text("".join(f"Line {i} of a novel.\n" for i in range(3000)))
    (folder / "alpaca_data.json").write_text(
        json.dumps([{"instruction": f"{i}+1", "input": "", "output": str(i + 1)} for i in range(300)]))
    (folder / "reviews.csv").write_text("text,stars\n" + "good,5\nbad,1\n" * 50)
    pq.write_table(pa.table({"text": ["one", "two"]}), folder / "train-00000-of-00001.parquet")
    (folder / "ultrachat_200k/data").mkdir(parents=True)
    chats = [[{"role": "user", "content": f"{i}+1"}, {"role": "assistant", "content": str(i + 1)}] for i in range(300)]
    pq.write_table(pa.table({"messages": chats}), folder / "ultrachat_200k/data/train_sft-00000-of-00001.parquet")


@pytest.fixture
def prepared(place):
    """The files and runs that the examples name. Runs: 1 reference, 2 rho1, 3 baseline, 4 random, 5 lora, 6 arithmetic,
    7 tokens, 8 tuned."""
    folder = place.folder
    (folder / "text.txt").write_text(("def main(): import this\n" * 30 + "the quick brown fox\n" * 30) * 5)
    (folder / "experiments").mkdir()
    one = {**SHAPE, "parallel__processes": 1}
    place.write(name="experiments/reference.toml", **one)
    place.write(name="experiments/rho1.toml", **one, pipeline={"plugin": "rho1", "keep": 0.6},
                reference={"experiment": "reference.toml"})
    plain = {**one, "model__future_tokens": 1, "model__layers": 2}
    place.write(name="experiments/baseline.toml", **plain)
    place.write(name="experiments/lora.toml", **plain, model__weights="run:baseline", adapter={"plugin": "lora"})
    place.write(name="experiments/random.toml", **one, pipeline={"plugin": "random"})
    place.write(name="experiments/tokens.toml", **{
        **one, "model__vocab_size": 512, "data": {"kind": "tokens", "file": "../tokens.bin", "dtype": "uint16"}})
    write_lines(folder / "sums.jsonl", [
        {"messages": [{"role": "user", "content": f"{i}+1"}, {"role": "assistant", "content": str(i + 1)}]}
        for i in range(9)])
    place.write(name="experiments/tuned.toml", **{**plain, "train__sequence_length": 128, "data": {
        "kind": "records", "files": ["../sums.jsonl"], "template": "chatml"}})
    for file in ("reference", "rho1", "baseline", "random", "lora", "tokens", "tuned"):
        path = folder / f"experiments/{file}.toml"
        path.write_text(path.read_text().replace('name = "trial"', f'name = "{file}"'))
    for file, *name in (("rho1",), ("baseline",), ("random",), ("lora",),
                        ("reference", "--name", "arithmetic", "--set", "seed=9"), ("tokens",), ("tuned",)):
        place.host("run", f"experiments/{file}.toml", *name, timeout=120)
    write_lines(folder / "HumanEval.jsonl", [PROBLEM])
    write_lines(folder / "samples.jsonl",
                [{"task_id": "HumanEval/0", "completion": PROBLEM["canonical_solution"]}] * 10)
    write_lines(folder / "problems.jsonl", RECORDS)
    write_lines(folder / "questions.jsonl", [{"question": "1+1", "answer": "2"}])
    (folder / "turns.json").write_text(json.dumps([{"role": "user", "content": "1+1"}]))
    write_lines(folder / "answers.jsonl", RECORDS)
    write_lines(folder / "gsm8k.jsonl", [{"instruction": "1+1", "output": "#### 2", "task_id": "a"}])
    write_lines(folder / "train.jsonl", [CONTEST])
    write_tables(folder)
    np.arange(100, dtype="<u2").tofile(folder / "corpus.bin")
    for name in ("held_out.py", "README.md"):
        (folder / name).write_text("def main(): import this\n" * 3)
    (folder / "begun.py").write_text("def main(")
    shutil.copy(BUILD / "lib/wmtp/plugins/pipelines/formula.so", folder / "formula.so")
    place.write(name="mine.toml", pipeline={"plugin": "formula", "weight": "1 - exp(-ce)"})
    (folder / "other.db").write_bytes((folder / "runs/wmtp.db").read_bytes())
    place.host("checkpoint", "export", "baseline", "-o", "Llama-2-7b-hf")
    place.host("checkpoint", "export", "lora", "--to", "peft", "-o", "llama-peft")
    return place


def typed(place, example):
    command = f"timeout --preserve-status -s INT 2 {example.replace(' --open', '')}" \
        if SERVES.match(example) else example
    return subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=place.folder, capture_output=True, text=True,
                          errors="replace", timeout=300, stdin=subprocess.DEVNULL,
                          env={**os.environ,
                               "PATH": f"{BUILD / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                               "NO_COLOR": "1", "WMTP_PLUGIN_PATH": ""})


def test_every_example_of_every_help_does_what_it_says(prepared):
    shown = [example for _, example in examples()]
    assert len(shown) > 50 and set(ELSEWHERE) <= set(shown)
    wanted = [example for example in dict.fromkeys(shown) if example not in ELSEWHERE]
    wanted.sort(key=lambda example: ("runs delete" in example, "runs rename" in example))  # last
    failed = []
    for example in wanted:
        ended = typed(prepared, example)
        if ended.returncode != (2 if example in REFUSED else 0):
            failed.append(f"{example}\n  exit code {ended.returncode}: {ended.stderr.strip()[-600:]}")
    assert not failed, "\n".join(failed)
