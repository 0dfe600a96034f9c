"""How fast a model of about 1 GB is imported, exported and verified, compared with copying its file.

A Hugging Face Llama in fp32, generated from a seed. A copy is read, written and synced to the disk like an import and
an export; a verification only reads. Each is timed in a pair with its own copy, in alternating order, and the written
files are removed before the next measurement, because a machine that has just written a gigabyte writes the next one
slower. The reported share is the median over pairs.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import machine  # noqa: E402
from host import users_environment  # noqa: E402
from paths import HOST  # noqa: E402

WANTED = 0.8  # of the speed of a copy
DIM, FFN, VOCABULARY, HEADS = 1024, 2816, 32000, 16


def write_llama(folder, layers):
    torch.manual_seed(1)
    tensors = {"model.embed_tokens.weight": (VOCABULARY, DIM), "lm_head.weight": (VOCABULARY, DIM),
               "model.norm.weight": (DIM,)}
    for layer in range(layers):
        block = f"model.layers.{layer}."
        tensors |= {f"{block}self_attn.{name}_proj.weight": (DIM, DIM) for name in "qkvo"}
        tensors |= {f"{block}mlp.{name}_proj.weight": (FFN, DIM) for name in ("gate", "up")}
        tensors |= {f"{block}mlp.down_proj.weight": (DIM, FFN), f"{block}input_layernorm.weight": (DIM,),
                    f"{block}post_attention_layernorm.weight": (DIM,)}
    folder.mkdir()
    save_file({name: torch.randn(shape) for name, shape in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": DIM,
        "intermediate_size": FFN, "num_hidden_layers": layers, "num_attention_heads": HEADS, "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "tie_word_embeddings": False}))


def copy(source, target):
    shutil.copyfile(source, target)
    with open(target, "rb") as file:
        os.fsync(file.fileno())


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=16, help="of 12.8M parameters each, in addition to 65.5M")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as name:
        folder = Path(name)
        write_llama(folder / "source", arguments.layers)
        file = folder / "source/model.safetensors"
        size = file.stat().st_size
        if shutil.disk_usage(folder).free < 4 * size:
            raise SystemExit(f"{folder} has less room than three copies of {size / 2**20:.0f} MiB need")

        def host(*words):
            subprocess.run([HOST, *words, "-q"], cwd=folder, env=users_environment(), check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

        commands = {"import": (["import", "source", "-o", "made"], "made"), "verify": (["verify", "imported"], None),
                    "export": (["export", "imported", "-o", "made"], "made")}
        host("checkpoint", "import", "source", "-o", "imported")

        def seconds_of(action, made):
            begun = time.perf_counter()
            action()
            taken = time.perf_counter() - begun
            if made:
                remove(folder / made)
            return taken

        pairs = {part: [] for part in commands}
        for number in range(arguments.rounds):
            for part, (words, made) in commands.items():
                timed = {"copy": lambda: seconds_of(lambda: copy(file, folder / "copy"), "copy"),
                         part: lambda: seconds_of(lambda: host("checkpoint", *words), made)}
                order = ["copy", part] if number % 2 == 0 else [part, "copy"]
                pairs[part].append({name: timed[name]() for name in order})
    print(f"{size / 1e9:.2f} GB, {arguments.rounds} pairs each; {machine.processor()}\n")
    print(f"{'':>8}{'median, s':>12}{'its copy, s':>13}{'of a copy':>12}{'from':>7}{'to':>7}")
    for part, rows in pairs.items():
        shares = sorted(row["copy"] / row[part] for row in rows)
        share = statistics.median(shares)
        verdict = f"   wanted >= {WANTED:.0%}: {'yes' if share >= WANTED else 'NO'}"
        print(f"{part:>8}{statistics.median(row[part] for row in rows):12.2f}"
              f"{statistics.median(row['copy'] for row in rows):13.2f}"
              f"{share:12.0%}{shares[0]:7.0%}{shares[-1]:7.0%}{verdict}")


if __name__ == "__main__":
    main()
