"""Answers per minute of `eval` beside transformers' generate, with the same model (exported) and prompts, in
alternating order (A B B A ...): `python tests/bench/answers_bench.py`.

All answers have the same number of sampled tokens. Ours: the whole command, with loading the model and comparing the
answers. transformers: only its calls of generate, on batches of prompts of equal length padded on the left, whose size
is the fastest of those tried before; imports and loading are not counted. Both sides use all cores, in fp32.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench import interval_of_median
from experiment import ONE_RANK, experiment, write
from host import users_environment
from paths import HOST

MODELS = {
    "small": {"dim": 256, "layers": 8, "heads": 8, "ffn_dim": 704, "future_tokens": 4},
    "wide": {"dim": 512, "layers": 12, "heads": 8, "ffn_dim": 1408, "future_tokens": 4},
}
LONGEST_PROMPT = 300
WANTED = 5


def command(folder, *words):
    done = subprocess.run([HOST, *map(str, words)], cwd=folder, env=users_environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"wmtp-host {words[0]} ended with exit code {done.returncode}\n{done.stderr}")


def make(folder, model, problems):
    """A run of one step, its exported model, and a suite whose prompts are pieces of Python's library."""
    source = Path(os.__file__).with_name("argparse.py").read_text(encoding="ascii", errors="ignore")
    (folder / "text.txt").write_text(source)
    prompts = [source[at * 400:][:100 + at * 37 % (LONGEST_PROMPT - 99)] for at in range(problems)]
    lines = [json.dumps({"instruction": prompt, "output": "", "task_id": f"piece/{at}", "is_correct": True})
             for at, prompt in enumerate(prompts)]
    (folder / "suite.jsonl").write_text("\n".join(lines) + "\n")
    shape = {**MODELS[model], "max_sequence_length": 2048}
    write(folder, experiment(**ONE_RANK, model=shape, data={"kind": "text", "files": ["text.txt"]}, train__steps=1))
    command(folder, "run", "experiment.toml", "-q")
    command(folder, "checkpoint", "export", "trial", "-o", "exported")
    return [list(prompt.encode()) for prompt in prompts]


def host_seconds(folder, arguments):
    begun = time.perf_counter()
    command(folder, "eval", "trial", "--suite", "suite.jsonl", "--template", "plain", "--answers", arguments.answers,
            "--temperature", 0.8, "--max-tokens", arguments.tokens, "-q")
    return time.perf_counter() - begun


class Peer:
    def __init__(self, folder, prompts, arguments):
        import torch
        import transformers
        torch.set_num_threads(os.cpu_count())
        torch.manual_seed(0)
        self.torch, self.tokens = torch, arguments.tokens
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder / "exported", dtype=torch.float32).eval()
        self.prompts = sorted((prompt for prompt in prompts for _ in range(arguments.answers)), key=len)
        first = self.prompts[:128]
        self.batch = min((8, 32, 128), key=lambda size: self.seconds(first, size))

    def seconds(self, prompts, size):
        torch = self.torch
        begun = time.perf_counter()
        for at in range(0, len(prompts), size):
            part = prompts[at:at + size]
            longest = max(map(len, part))
            ids = torch.tensor([[0] * (longest - len(one)) + one for one in part])
            mask = torch.tensor([[0] * (longest - len(one)) + [1] * len(one) for one in part])
            with torch.inference_mode():
                found = self.model.generate(ids, attention_mask=mask, do_sample=True, temperature=0.8, top_k=0,
                                            max_new_tokens=self.tokens, min_new_tokens=self.tokens, pad_token_id=0)
            assert found.shape[1] == longest + self.tokens
        return time.perf_counter() - begun

    def all_seconds(self):
        return self.seconds(self.prompts, self.batch)


def measure(name, arguments):
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as folder:
        folder = Path(folder)
        prompts = make(folder, name, arguments.problems)
        peer = Peer(folder, prompts, arguments)
        pairs = []
        for number in range(arguments.pairs):
            sides = {}
            for side in ("host", "peer") if number % 2 == 0 else ("peer", "host"):
                sides[side] = host_seconds(folder, arguments) if side == "host" else peer.all_seconds()
            pairs.append((sides["host"], sides["peer"]))
    ratios = sorted(peer / host for host, peer in pairs)
    low, high = interval_of_median(ratios)
    minutes = [statistics.median(side) / 60 for side in zip(*pairs)]
    count = arguments.problems * arguments.answers
    ratio = statistics.median(ratios)
    print(f"{name}: {count} answers of {arguments.tokens} tokens; answers a minute {count / minutes[0]:,.0f} : "
          f"{count / minutes[1]:,.0f} (transformers, batches of {peer.batch}), ratio {ratio:.2f} ({low:.2f} to "
          f"{high:.2f}), wanted >= {WANTED} {'yes' if ratio >= WANTED else 'NO'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="*", choices=[[], *MODELS], help="default: all")
    parser.add_argument("--problems", type=int, default=32)
    parser.add_argument("--answers", type=int, default=20, help="per problem")
    parser.add_argument("--tokens", type=int, default=100, help="per answer")
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    for name in arguments.model or MODELS:
        measure(name, arguments)


if __name__ == "__main__":
    main()
