"""How fast text becomes token ids, compared with Hugging Face's tokenizers on one core; memory of preparing a gigabyte.

Python's standard library, and a byte-level BPE of 16,384 tokens with Llama 3's pattern, trained on it by tokenizers.
Each round times both in alternating order: `data prepare`, from its start to the file of ids on the disk, and a Python
script's encode_batch alone, without loading, reading and writing. encode_batch gets the text in parts, which makes it
faster.
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

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from host import users_environment  # noqa: E402
from paths import HOST  # noqa: E402

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
VOCABULARY = 16384
EXPERIMENT = """
name = "tokens"
pipeline.plugin = "baseline"
model = {{ dim = 64, heads = 4, layers = 4, vocab_size = {vocabulary} }}
data = {{ kind = "text", files = ["{text}"], tokenizer = {{ kind = "file", file = "bpe/tokenizer.json" }} }}
train = {{ steps = 1, batch_size = 1, sequence_length = 64 }}
"""


# A process of its own: the system counts the memory of the process that starts a program to that program.
MEASURED = """
import resource, subprocess, sys, time
begun = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print([time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024])
"""


def library():
    """The texts of the files that are UTF-8."""
    texts = []
    for file in sorted(Path(os.__file__).parent.rglob("*.py")):
        try:
            texts.append(file.read_bytes().decode())
        except UnicodeDecodeError:
            continue
    return "".join(texts)


def trained(folder, text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(text[:8 << 20].splitlines(True), trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False))
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    return tokenizer


def prepare(folder, text):
    """(seconds, peak memory in bytes) of `data prepare` with an empty cache."""
    (folder / "tokens.toml").write_text(EXPERIMENT.format(vocabulary=VOCABULARY, text=text))
    measured = subprocess.run([sys.executable, "-c", MEASURED, HOST, "data", "prepare", "tokens.toml", "-q"],
                              cwd=folder, env=users_environment({"OMP_NUM_THREADS": 1}), stdout=subprocess.PIPE,
                              check=True)
    shutil.rmtree(folder / "runs")
    return json.loads(measured.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    text = library()
    size = len(text.encode())
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as name:
        folder = Path(name)
        tokenizer = trained(folder / "bpe", text)
        (folder / "library.txt").write_text(text, newline="")
        parts = text.split("\n\n\n")

        def peer():
            begun = time.perf_counter()
            tokenizer.encode_batch_fast(parts)
            return time.perf_counter() - begun

        timed = {"wmtp-host": lambda: prepare(folder, "library.txt")[0], "tokenizers": peer}
        rows = []
        for number in range(arguments.rounds):
            order = list(timed) if number % 2 == 0 else list(timed)[::-1]
            rows.append({one: timed[one]() for one in order})
        ratios = sorted(row["tokenizers"] / row["wmtp-host"] for row in rows)
        print(f"{size / 1e6:.1f} MB of text on one core, {arguments.rounds} pairs")
        for one in timed:
            print(f"{one:>12}  {size / 1e6 / statistics.median(row[one] for row in rows):6.2f} MB/s")
        print(f"  {statistics.median(ratios):.1f} times as fast ({ratios[0]:.1f} to {ratios[-1]:.1f})")
        copies = -(-10**9 // size)
        with open(folder / "gigabyte.txt", "w", newline="") as file:
            for _ in range(copies):
                file.write(text)
        seconds, peak = prepare(folder, "gigabyte.txt")
        print(f"{copies * size / 1e9:.2f} GB: {seconds:.0f} s, at most {peak / 2**20:.0f} MiB of memory")


if __name__ == "__main__":
    main()
