"""docs/finetuning.md, followed as written: every shell block, in order, in one shell, with small models of the
architecture of those that it names, made by transformers, and made chats. Other programs compute what `generate`
prints."""
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hf_model import transformers
from paths import BUILD, ROOT
from runlog import RunLog
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LARGE, SMALL = "SmolLM2-360M-Instruct", "SmolLM2-135M-Instruct"
BEGIN, START, END = "<|begin|>", "<|im_start|>", "<|im_end|>"
TEMPLATE = """{{- bos_token }}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
NOISE = ["no idea", "ask me later", "a number"]


def chat(a, b, answer):
    return {"messages": [{"role": "user", "content": f"What is {a} + {b}?"}, {"role": "assistant", "content": answer}]}


def write_tokenizer(folder, texts):
    """Digits are tokens, as in SmolLM2. The tokenizer begins each text with a BOS, and so does the template."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=400, special_tokens=[BEGIN, START, END], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A", pair="$A $B", special_tokens=[(BEGIN, 0)])
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BEGIN, "eos_token": END, "chat_template": TEMPLATE}))
    return transformers.AutoTokenizer.from_pretrained(folder)


def write_model(folder, chats, width, layers):
    """It has learnt the form of an answer."""
    tokenizer = write_tokenizer(folder, [message["content"] for line in chats for message in line["messages"]])
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True,
        bos_token_id=0, eos_token_id=2)
    model = transformers.LlamaForCausalLM(config)
    texts = [tokenizer.apply_chat_template(line["messages"], tokenize=False) for line in chats]
    ids = tokenizer(texts, add_special_tokens=False).input_ids
    longest = max(map(len, ids))
    rows = torch.tensor([row + [2] * (longest - len(row)) for row in ids])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(60):
        batch = rows[torch.arange(32) + 32 * step % (len(rows) - 32)]
        model(batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)


@pytest.fixture
def folder(program, tmp_path):
    """What the page expects to be there."""
    draw = random.Random(2)
    sums = [(draw.randrange(100), draw.randrange(100)) for _ in range(700)]
    right = [chat(a, b, str(a + b)) for a, b in sums]
    noisy = [chat(a, b, draw.choice(NOISE)) for a, b in sums[:200]]
    for name, chats in (("chats", right[:400] + noisy), ("good", right[400:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in chats))
    (tmp_path / "held_out.txt").write_text("".join(f"The sum of {a} and {b} is {a + b}.\n" for a, b in sums[:80]))
    transformers.set_seed(1)
    write_model(tmp_path / LARGE, right, 64, 3)
    write_model(tmp_path / SMALL, right, 32, 2)
    return tmp_path


def in_a_shell(commands, folder):
    """What a user types, with the program and the Python of the set-up in the path."""
    path = f"{BUILD / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(["bash", "-euo", "pipefail"], input=commands, cwd=folder, text=True, capture_output=True,
                          timeout=500, env={
                              **os.environ, "PATH": path, "NO_COLOR": "1", "OMP_WAIT_POLICY": "passive",
                              "HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(folder / "modules")})


def test_the_walk_from_a_hugging_face_model_to_a_result_works_as_written(folder):
    blocks = BLOCK.findall((ROOT / "docs/finetuning.md").read_text())
    assert len(blocks) == 8
    texts = {"temperature": 0.7, "eos_token_id": 2}  # how the model is sampled elsewhere
    (folder / LARGE / "generation_config.json").write_text(json.dumps(texts))
    shell = in_a_shell("".join(blocks), folder)
    assert shell.returncode == 0, shell.stdout[-3000:] + shell.stderr[-3000:]
    log = RunLog(folder / "runs/wmtp.db")
    assert [row["name"] for row in log.runs()] == ["first", "lora", "small", "lora_rho1"]
    for row in log.runs():
        losses = log.metric("valid/loss", row["id"])
        assert losses[200] < losses[0], row["name"]
    assert len(log.query("SELECT * FROM v_text_losses WHERE run_id = 4")) == 4, "one for each head"
    assert [row["problems"] for row in log.query("SELECT problems FROM v_evaluations WHERE run_id = 4")] == [3]
    assert json.loads((folder / "tuned-hf/generation_config.json").read_text()) == texts
    # The last line of `generate`, then of use.py: the answers of the merged model and of PEFT, and of each head.
    ours, merged, adapted, heads = shell.stdout.splitlines()[-4:]
    assert ours.isdigit() and (merged, adapted) == (f"merged: {ours}", f"adapter: {ours}"), shell.stdout[-1000:]
    assert heads.startswith("heads 1 to 4: "), heads


def test_answers_end_in_transformers_where_they_do_here(place):
    """Also if the model ended texts by another token than the one that its template writes after an answer."""
    chats = [chat(a, b, str(a + b)) for a in range(20) for b in range(20)]
    base = place.folder / "base"
    transformers.set_seed(1)
    write_model(base, chats, 32, 2)
    for name, change in (("tokenizer_config.json", {"eos_token": BEGIN}), ("config.json", {"eos_token_id": 0}),
                         ("generation_config.json", {"eos_token_id": 0, "temperature": 0.5})):
        (base / name).write_text(json.dumps(json.loads((base / name).read_text()) | change))
    (place.folder / "chats.jsonl").write_text("".join(json.dumps(line) + "\n" for line in chats))
    python = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # which has jinja2
    place.host("init", "chats.jsonl", "base", "-o", "tuned", env=python)
    place.host("run", "tuned/baseline.toml", "--name", "sums", "--set", "train.steps=12", "--nproc", 1, env=python)
    place.host("checkpoint", "export", "sums", "-o", "sums-hf", env=python)
    written = json.loads((place.folder / "sums-hf/generation_config.json").read_text())
    assert (written["eos_token_id"], written["temperature"]) == ([0, 2], 0.5)
    assert json.loads((place.folder / "sums-hf/config.json").read_text())["eos_token_id"] == [0, 2]
