"""wmtp-host and a PyTorch peer in turn (A B B A ...), on the same token ids: speed, memory, time to the first step.

Machines drift, so only ratios within a pair of neighbouring runs count, and their median is what is reported; a bare
matrix multiplication before each pair shows the drift. Speed: tokens a second from the median step after the first two.
Memory: resident memory of the largest rank. First step: from the start of the command to the end of step 1; the peer's
ranks are started directly, without the seconds that torchrun itself takes.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from experiment import write  # noqa: E402
from host import clean_environment  # noqa: E402
from paths import HOST  # noqa: E402
from runlog import RunLog  # noqa: E402

SEQUENCE, VOCAB = 256, 8192
# glibc gives large blocks back to the system on every free; kept instead, the peer is at its fastest.
PEER_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": 32 << 20, "MALLOC_TRIM_THRESHOLD_": 4 << 30, "MALLOC_TOP_PAD_": 64 << 20}
WANTED = {"tokens/s": (">=", 1.2), "peak resident MiB": ("<=", 0.4), "command to first step, s": ("<=", 0.3)}


def experiment(arguments):
    return {
        "name": "bench", "seed": 0,
        "pipeline": {"plugin": "baseline"},
        "model": {"dim": 256, "layers": 8, "heads": 8, "ffn_dim": 704, "vocab_size": VOCAB, "future_tokens": 4},
        "data": {"kind": "tokens", "file": "tokens.bin", "dtype": "uint16", "order": "sequential"},
        "train": {"steps": arguments.steps, "batch_size": arguments.batch, "sequence_length": SEQUENCE},
        "optimizer": {"lr": 1e-3},
        "parallel": {"processes": arguments.ranks, "strategy": arguments.strategy, "precision": arguments.precision,
                     "activation_checkpointing": arguments.checkpointing, "device": "cpu"},
    }


def figures(arguments, step_seconds, first_step_ns, begun_ns, peak_bytes):
    tokens = arguments.ranks * arguments.batch * SEQUENCE
    return {"tokens/s": tokens / statistics.median(step_seconds[2:]), "peak resident MiB": peak_bytes / 2**20,
            "command to first step, s": (first_step_ns - begun_ns) / 1e9}


def run_host(folder, arguments):
    begun = time.time_ns()
    ended = subprocess.run([HOST, "run", folder / "bench.toml", "-q"], cwd=folder, env=clean_environment(),
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"wmtp-host ended with exit code {ended.returncode}\n{ended.stderr}")
    log = RunLog(folder / "runs/wmtp.db")
    run = log.newest()["id"]
    first, = log.query("SELECT time_ns FROM metrics WHERE run_id = ? AND name = 'train/loss' AND step = 1", run)
    peak, = log.query("SELECT max(bytes) AS bytes FROM memory WHERE run_id = ? AND category = 'resident' "
                      "AND phase = 'peak'", run)
    seconds = list(log.metric("perf/step_seconds", run).values())
    return figures(arguments, seconds, first["time_ns"], begun, peak["bytes"]), list(log.losses(run).values())


def run_peer(folder, arguments):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, HERE / "peer.py", "--tokens", folder / "tokens.bin", "--strategy", arguments.strategy,
               "--steps", arguments.steps, "--batch", arguments.batch, "--sequence", SEQUENCE, "--vocab", VOCAB]
    command += ["--bf16"] if arguments.precision == "bf16" else []
    command += ["--checkpointing"] if arguments.checkpointing == "full" else []
    begun = time.time_ns()
    ranks = []
    for rank in range(arguments.ranks):
        words = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": arguments.ranks, "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": port, **PEER_ALLOCATOR}
        ranks.append(subprocess.Popen([str(part) for part in command], env=clean_environment(words),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True))
    texts = [rank.communicate() for rank in ranks]
    for rank, (_, errors) in zip(ranks, texts):
        if rank.returncode:
            raise SystemExit(f"the peer ended with exit code {rank.returncode}\n{errors}")
    result = json.loads(texts[0][0])
    return figures(arguments, result["step_seconds"], result["first_step_ns"], begun, result["peak_bytes"]), \
        result["losses"]


def gigaflops():
    """What one core does with a plain matrix multiplication, now."""
    code = "import torch,time; torch.set_num_threads(1); a=torch.randn(1024,1024); a@a; t=time.perf_counter()\n" \
           "for _ in range(20): a@a\n" \
           "print(20*2*1024**3/(time.perf_counter()-t)/1e9)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def report(pairs):
    print(f"\n{'':26}{'wmtp-host':>12}{'PyTorch':>12}{'ratio':>8}{'lowest':>8}{'highest':>9}   wanted")
    for name, (sign, limit) in WANTED.items():
        ratios = [host[name] / peer[name] for host, peer in pairs]
        ratio = statistics.median(ratios)
        host, peer = (statistics.median(pair[side][name] for pair in pairs) for side in (0, 1))
        holds = ratio >= limit if sign == ">=" else ratio <= limit
        print(f"{name:26}{host:12.1f}{peer:12.1f}{ratio:8.2f}{min(ratios):8.2f}{max(ratios):9.2f}   "
              f"{sign} {limit} {'yes' if holds else 'NO'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=2, help="sequences per rank")
    parser.add_argument("--strategy", default="full_shard", choices=["no_shard", "shard_grad_op", "full_shard"])
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16"])
    parser.add_argument("--checkpointing", default="full", choices=["none", "full"])
    arguments = parser.parse_args()
    if arguments.steps < 5 or arguments.pairs < 1:
        parser.error("wanted at least 5 steps and 1 pair")

    print(f"dim 256, 8 layers of which 4 are heads, vocabulary {VOCAB}, sequence {SEQUENCE}; {arguments.ranks} ranks, "
          f"batch {arguments.batch}, {arguments.strategy}, {arguments.precision}, checkpointing "
          f"{arguments.checkpointing}; {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as name:
        folder = Path(name)
        count = arguments.steps * arguments.ranks * arguments.batch * SEQUENCE
        ids = np.random.default_rng(0).integers(0, VOCAB, count)
        ids.astype("<u2").tofile(folder / "tokens.bin")
        write(folder, experiment(arguments), "bench.toml")
        run_host(folder, arguments), run_peer(folder, arguments)  # pages in both sides' libraries; not counted
        pairs = []
        for number in range(arguments.pairs):
            speed = gigaflops()
            sides = {}
            for side in (run_host, run_peer) if number % 2 == 0 else (run_peer, run_host):
                sides[side], losses = side(folder, arguments)
                assert all(abs(loss - np.log(VOCAB)) < 1 for loss in losses), f"{side.__name__}: losses {losses}"
            pairs.append((sides[run_host], sides[run_peer]))
            host, peer = pairs[-1]
            print(f"pair {number + 1}: " + ", ".join(f"{name} {host[name]:.1f} : {peer[name]:.1f}" for name in WANTED) +
                  f"; bare matrix multiplication {speed:.0f} GFLOP/s", flush=True)
    report(pairs)


if __name__ == "__main__":
    main()
