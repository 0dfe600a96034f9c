"""wmtp-host against a PyTorch peer, in alternating order (A B B A ...) on the same token ids: speed, memory, time to
the first step.

Machines drift, so only ratios within a pair of consecutive runs count. Reported is their median with its 95% interval
(with fewer than six pairs: the lowest and the highest). Bare matrix products before each pair show the drift, and how
close a step is to the limit. Speed: tokens per second of the median step after the first two. Memory: peak resident
memory of the largest rank, and its increase since before the first tensor. First step: from the start of the command to
the end of step 1; the peer's ranks are started directly, without the startup time of torchrun.

compiled: the peer is one process with torch.compile, its fastest form on a CPU, and without checkpointing.

ddp: DistributedDataParallel, whose C++ Reducer sums buckets of 25 MB during the backward pass, against no_shard.

rho-1: both sides evaluate a frozen reference with one head and the trunk's shape for each token of each step, without a
cache of its losses.
"""
import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import machine  # noqa: E402
from experiment import write  # noqa: E402
from host import users_environment  # noqa: E402
from paths import HOST  # noqa: E402
from runlog import RunLog  # noqa: E402

MODELS = {
    "nano": {"dim": 128, "layers": 4, "heads": 4, "ffn_dim": 344, "vocab_size": 256, "future_tokens": 1},
    "small": {"dim": 256, "layers": 8, "heads": 8, "ffn_dim": 704, "vocab_size": 8192, "future_tokens": 4},
    "wide": {"dim": 512, "layers": 10, "heads": 8, "ffn_dim": 1408, "vocab_size": 32000, "future_tokens": 4},
}
# By default glibc returns large blocks to the system on every free; the peer is fastest when it keeps them.
PEER_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": 32 << 20, "MALLOC_TRIM_THRESHOLD_": 4 << 30, "MALLOC_TOP_PAD_": 64 << 20}
SPEED, MEMORY, NET, FIRST_STEP = "tokens/s", "peak resident MiB", "beyond the process MiB", "command to first step, s"


@dataclass
class Case:
    model: str
    precision: str
    ranks: int
    batch: int  # sequences per rank
    wanted: dict = field(default_factory=dict)  # figure: (">=" or "<=", ratio)
    pipeline: str = "baseline"
    strategy: str = "full_shard"
    checkpointing: str = "full"
    steps: int = 12
    sequence: int = 256
    compiled: bool = False  # torch.compile for the peer
    most_threads: int = None  # of a rank; None: its share of the cores

    @property
    def threads(self):
        return self.most_threads or max(1, os.cpu_count() // self.ranks)

    @property
    def about(self):
        shape = MODELS[self.model]
        return (f"{self.pipeline}, dim {shape['dim']}, {shape['layers']} layers of which {shape['future_tokens']} are "
                f"heads, vocabulary {shape['vocab_size']}, sequence {self.sequence}; ranks {self.ranks}, batch "
                f"{self.batch}, threads {self.threads}, {self.strategy}, {self.precision}, checkpointing "
                f"{self.checkpointing}"
                f"{'; PyTorch compiled' if self.compiled else ''}")

    @property
    def step_tokens(self):
        return self.ranks * self.batch * self.sequence


def speed(ratio):
    return {SPEED: (">=", ratio)}


CASES = {
    "small-bf16": Case("small", "bf16", 2, 2,
                       speed(1.7) | {MEMORY: ("<=", 0.35), NET: ("<=", 0.5), FIRST_STEP: ("<=", 0.25)}),
    "small-fp32": Case("small", "fp32", 2, 2, speed(1.5)),
    "wide-fp32": Case("wide", "fp32", 2, 1, speed(1.5), steps=8),
    "wide-bf16": Case("wide", "bf16", 2, 1, speed(1.6) | {MEMORY: ("<=", 0.55), NET: ("<=", 0.5)}, steps=8),
    "ddp-small-fp32": Case("small", "fp32", 2, 2, speed(0.99), strategy="no_shard", checkpointing="none"),
    "rho1-small-fp32": Case("small", "fp32", 1, 4, speed(1.7), "rho1", "no_shard", "none"),
    "rho1-small-bf16": Case("small", "bf16", 1, 4, speed(2.0), "rho1", "no_shard", "none"),
    "rho1-small-ranks": Case("small", "fp32", 2, 2, speed(1.7), "rho1"),
    "rho1-wide-fp32": Case("wide", "fp32", 1, 2, speed(2.0), "rho1", "no_shard", "none", steps=8),
    "compiled-small-fp32": Case("small", "fp32", 1, 4, speed(1.4), strategy="no_shard", checkpointing="none",
                                compiled=True),
    "compiled-small-bf16": Case("small", "bf16", 1, 4, speed(1.7), strategy="no_shard", checkpointing="none",
                                compiled=True),
    # The shape of nanoGPT's example for CPUs.
    "compiled-nano-fp32": Case("nano", "fp32", 1, 12, speed(1.5), strategy="no_shard", checkpointing="none", steps=300,
                               sequence=64, compiled=True),
    "compiled-nano-one-thread": Case("nano", "fp32", 1, 12, speed(1.2), strategy="no_shard", checkpointing="none",
                                     steps=300, sequence=64, compiled=True, most_threads=1),
}


def experiment(case, **changes):
    found = {
        "name": "bench", "seed": 0,
        "pipeline": {"plugin": case.pipeline},
        "model": MODELS[case.model],
        "data": {"kind": "tokens", "file": "tokens.bin", "dtype": "uint16", "order": "sequential"},
        "train": {"steps": case.steps, "batch_size": case.batch, "sequence_length": case.sequence},
        "optimizer": {"lr": 1e-3},
        "parallel": {"processes": case.ranks, "strategy": case.strategy, "precision": case.precision,
                     "activation_checkpointing": case.checkpointing, "device": "cpu"},
    } | changes
    if case.pipeline == "rho1" and not changes:
        found["reference"] = {"experiment": "reference.toml", "cache": False}
    return found


def write_inputs(folder, case):
    shape = MODELS[case.model]
    count = case.steps * case.step_tokens
    ids = np.random.default_rng(0).integers(0, shape["vocab_size"], count)
    ids.astype("<u2").tofile(folder / "tokens.bin")
    write(folder, experiment(case), "bench.toml")
    reference = {**shape, "layers": shape["layers"] - shape["future_tokens"] + 1, "future_tokens": 1}
    write(folder, experiment(case, name="reference", pipeline={"plugin": "baseline"}, model=reference),
          "reference.toml")


def figures(case, step_seconds, first_step_ns, begun_ns, peak_bytes, net_bytes):
    return {SPEED: case.step_tokens / statistics.median(step_seconds[2:]), MEMORY: peak_bytes / 2**20,
            NET: net_bytes / 2**20, FIRST_STEP: (first_step_ns - begun_ns) / 1e9}


def run_host(folder, case, host=HOST):
    begun = time.time_ns()
    words = {"OMP_NUM_THREADS": case.most_threads} if case.most_threads else {}
    ended = subprocess.run([host, "run", folder / "bench.toml", "-q"], cwd=folder, env=users_environment(words),
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"wmtp-host ended with exit code {ended.returncode}\n{ended.stderr}")
    log = RunLog(folder / "runs/wmtp.db")
    run = log.newest()["id"]
    first, = log.query("SELECT time_ns FROM metrics WHERE run_id = ? AND name = 'train/loss' AND step = 1", run)
    resident, = log.query("SELECT max(whole.bytes) AS peak, max(whole.bytes - process.bytes) AS net FROM memory whole "
                          "JOIN memory process USING (run_id, rank, category) WHERE run_id = ? "
                          "AND category = 'resident' AND whole.phase = 'peak' AND process.phase = 'process'", run)
    seconds = list(log.metric("perf/step_seconds", run).values())
    return figures(case, seconds, first["time_ns"], begun, resident["peak"], resident["net"]), \
        list(log.losses(run).values())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_peer(folder, case):
    port = free_port()
    shape = MODELS[case.model]
    command = [sys.executable, HERE / "peer.py", "--tokens", folder / "tokens.bin", "--strategy", case.strategy,
               "--steps", case.steps, "--batch", case.batch, "--sequence", case.sequence, "--pipeline", case.pipeline,
               "--threads", case.threads, "--dim", shape["dim"], "--layers", shape["layers"],
               "--heads", shape["heads"],
               "--ffn-dim", shape["ffn_dim"], "--vocab", shape["vocab_size"], "--future-tokens",
               shape["future_tokens"]]
    command += ["--compile"] if case.compiled else []
    command += ["--bf16"] if case.precision == "bf16" else []
    command += ["--checkpointing"] if case.checkpointing == "full" else []
    begun = time.time_ns()
    ranks = []
    for rank in range(case.ranks):
        words = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": case.ranks, "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": port} if case.ranks > 1 else {}
        words |= PEER_ALLOCATOR
        ranks.append(subprocess.Popen([str(part) for part in command], env=users_environment(words),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True))
    texts = [rank.communicate() for rank in ranks]
    for rank, (_, errors) in zip(ranks, texts):
        if rank.returncode:
            raise SystemExit(f"the peer ended with exit code {rank.returncode}\n{errors}")
    result = json.loads(texts[0][0])
    return figures(case, result["step_seconds"], result["first_step_ns"], begun, result["peak_bytes"],
                   result["net_bytes"]), \
        result["losses"]


# Prints GFLOP/s of the bare matrix products of a step: PyTorch's own, and the faster of PyTorch's and oneDNN's.
BARE = """
import sys, time, torch
rows, dim, ffn, vocab, threads, dtype = *map(int, sys.argv[1:6]), getattr(torch, sys.argv[6])
torch.set_num_threads(threads)
def seconds(multiply, left, right):
    multiply(left, right)
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        multiply(left, right)
        times.append(time.perf_counter() - begun)
    return sorted(times)[2]
def onednn(left, right):
    return torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")
operations = own = fastest = 0
for inner, outer in (dim, ffn), (ffn, dim), (dim, dim), (dim, vocab), (vocab, dim):
    left, right = torch.randn(rows, inner).to(dtype), torch.randn(outer, inner).to(dtype)
    plain = seconds(torch.nn.functional.linear, left, right)
    operations, own = operations + 2 * rows * inner * outer, own + plain
    fastest += min(plain, seconds(onednn, left, right))
print(operations / own / 1e9, operations / fastest / 1e9)
"""


def bare_rates(case):
    """GFLOP/s summed over ranks, each with its share of the cores: PyTorch's products, and the fastest ones."""
    shape = MODELS[case.model]
    words = [case.batch * case.sequence, shape["dim"], shape["ffn_dim"], shape["vocab_size"], case.threads,
             {"fp32": "float32", "bf16": "bfloat16"}[case.precision]]
    ranks = [subprocess.Popen([sys.executable, "-c", BARE, *map(str, words)], env=users_environment(PEER_ALLOCATOR),
                              stdout=subprocess.PIPE, text=True) for _ in range(case.ranks)]
    return [sum(rates) for rates in zip(*(map(float, rank.communicate()[0].split()) for rank in ranks))]


def operations_per_token(case):
    """Of a baseline step: 2 per multiply-add, backward twice forward, trunk blocks forward again with checkpointing."""
    shape = MODELS[case.model]
    block = 2 * (4 * shape["dim"] ** 2 + 3 * shape["dim"] * shape["ffn_dim"]) + 2 * case.sequence * shape["dim"]
    heads, again = shape["future_tokens"], case.checkpointing == "full"
    trunk = shape["layers"] - heads
    return block * (trunk * (4 if again else 3) + heads * 3) + heads * 6 * shape["dim"] * shape["vocab_size"]


def interval_of_median(sorted_values):
    """By order statistics: the number of values below the median is binomial, whatever their distribution."""
    count, tail, skipped = len(sorted_values), 0.0, 0
    while True:
        tail += math.comb(count, skipped) / 2**count
        if 2 * tail > 0.05:
            return sorted_values[max(0, skipped - 1)], sorted_values[min(count - 1, count - skipped)]
        skipped += 1


def report(case, pairs):
    print(f"\n{'':26}{'wmtp-host':>12}{'PyTorch':>12}{'ratio':>8}{'from':>8}{'to':>9}   wanted")
    for name in (SPEED, MEMORY, NET, FIRST_STEP):
        ratios = sorted(host[name] / peer[name] for host, peer in pairs)
        ratio = statistics.median(ratios)
        host, peer = (statistics.median(pair[side][name] for pair in pairs) for side in (0, 1))
        verdict = ""
        if name in case.wanted:
            sign, limit = case.wanted[name]
            verdict = f"   {sign} {limit} {'yes' if (ratio >= limit if sign == '>=' else ratio <= limit) else 'NO'}"
        lowest, highest = interval_of_median(ratios)
        print(f"{name:26}{host:12.1f}{peer:12.1f}{ratio:8.2f}{lowest:8.2f}{highest:9.2f}{verdict}")
    print(flush=True)


def measure(name, case, num_pairs):
    print(f"{name}: {case.about}; {machine.processor()}", flush=True)
    uniform = np.log(MODELS[case.model]["vocab_size"])
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as folder_name:
        folder = Path(folder_name)
        write_inputs(folder, case)
        run_host(folder, case), run_peer(folder, case)  # warms up both sides' libraries; not counted
        pairs, bare = [], []
        for number in range(num_pairs):
            with machine.watched(f"pair {number + 1}"):
                bare.append(bare_rates(case))
                sides = {}
                for side in (run_host, run_peer) if number % 2 == 0 else (run_peer, run_host):
                    sides[side], losses = side(folder, case)
                    if case.pipeline == "baseline":
                        assert all(abs(loss - uniform) < 1 for loss in losses), f"{side.__name__}: losses {losses}"
            pairs.append((sides[run_host], sides[run_peer]))
            host, peer = pairs[-1]
            print(f"pair {number + 1}: " + ", ".join(f"{figure} {host[figure]:.1f} : {peer[figure]:.1f}"
                                                     for figure in host) +
                  f"; bare matrix products {bare[-1][0]:.0f} GFLOP/s, the fastest {bare[-1][1]:.0f}", flush=True)
    report(case, pairs)
    if case.pipeline == "baseline":
        report_shares(case, pairs, bare)


def report_shares(case, pairs, bare):
    """The share of the speed of a step that consists of its matrix products alone."""
    def share(side, rate):
        return statistics.median(pair[side][SPEED] * operations_per_token(case) / (1e9 * rates[rate])
                                 for pair, rates in zip(pairs, bare))
    print(f"of what bare products allow: wmtp-host {share(0, 1):.0%} of the fastest, {share(0, 0):.0%} of PyTorch's; "
          f"PyTorch {share(1, 0):.0%} of its own\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", choices=[[], *CASES], help="default: all")
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.pairs < 1:
        parser.error("wanted at least 1 pair")
    for name in arguments.case or CASES:
        measure(name, CASES[name], arguments.pairs)


if __name__ == "__main__":
    main()
