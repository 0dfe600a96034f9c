"""The peer: the same multi-token model trained with PyTorch's FSDP2 over Gloo, as a PyTorch user would write it.

    torchrun --nproc-per-node 2 tests/bench/peer.py --tokens ids.bin --strategy full_shard --bf16 --checkpointing

Without torchrun's variables it is one process without FSDP2, in bf16 by autocast.

Rank 0 prints one JSON line: seconds of each step, the time at which the first one ended, the largest rank's peak
resident memory, the largest increase over a rank's memory before its first tensor, the losses. Started by `bench.py`.
With --device cuda over NCCL, and the memory is what PyTorch allocated on the device. --compile compiles the model; with
FSDP2 each block, as torchtitan does.
"""
import argparse
import dataclasses
import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from mtp_model import MultiTokenLlama, Shape, token_losses  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", required=True, help="raw uint16 ids")
    parser.add_argument("--strategy", default="full_shard", choices=["no_shard", "shard_grad_op", "full_shard"])
    parser.add_argument("--bf16", action="store_true", help="bf16 compute, fp32 master parameters and reductions")
    parser.add_argument("--checkpointing", action="store_true", help="recompute each block in backward")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, help="default: this rank's share of the cores")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--pipeline", default="baseline", choices=["baseline", "rho1"])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=2, help="sequences per rank")
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--lr", type=float, default=1e-3)
    for name, default in (("dim", 256), ("layers", 8), ("heads", 8), ("ffn-dim", 704), ("vocab", 8192),
                          ("future-tokens", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def shape_of(arguments):
    return Shape(arguments.dim, arguments.layers, arguments.heads, arguments.heads, arguments.ffn_dim, arguments.vocab,
                 arguments.future_tokens)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def build(arguments):
    shape = shape_of(arguments)
    with torch.device(arguments.device):
        model = MultiTokenLlama(shape, arguments.checkpointing).fill(seed=0)
    sharded = dist.is_initialized() and arguments.strategy != "no_shard"
    if arguments.compile:
        for part in model.blocks if sharded else [model]:
            part.compile()
    if not sharded:
        return nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    settings = {"reshard_after_forward": arguments.strategy == "full_shard"}
    if arguments.bf16:
        settings["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32,
                                                     cast_forward_inputs=False)
    for block in model.blocks:
        fully_shard(block, **settings)
    return fully_shard(model, **settings)


def build_reference(arguments):
    """A next-token model with the policy's trunk, whole on every rank, in the compute dtype."""
    shape = shape_of(arguments)
    shape = dataclasses.replace(shape, layers=shape.layers - shape.future_tokens + 1, future_tokens=1)
    with torch.device(arguments.device):
        model = MultiTokenLlama(shape).fill(seed=1).requires_grad_(False).eval()
    return model.to(torch.bfloat16) if arguments.bf16 else model


def objective(logits, tokens, weights=None):
    total = 0
    for k, head in enumerate(logits, 1):
        losses = token_losses(head, tokens, k)
        total = total + (losses if weights is None else losses * weights[k - 1]).mean()
    return total / len(logits)


@torch.no_grad()
def kept(logits, reference_losses, tokens, share=0.6):
    """Weights of each head: 1 for the share of its tokens with the largest excess over the reference, else 0."""
    weights = []
    for k, head in enumerate(logits, 1):
        excess = token_losses(head, tokens, k) - reference_losses[:, k - 1:]
        weights.append((excess >= excess.flatten().quantile(1 - share)).float())
    return weights


def main():
    arguments = parse_arguments()
    world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.set_num_threads(arguments.threads or max(1, os.cpu_count() // world))
    distributed = "WORLD_SIZE" in os.environ
    if distributed:
        dist.init_process_group("nccl" if arguments.device == "cuda" else "gloo")
    if arguments.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    before = resident()
    model = build(arguments)
    reference = build_reference(arguments) if arguments.pipeline == "rho1" else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    windows = np.memmap(arguments.tokens, "<u2", "r").reshape(-1, arguments.sequence)
    autocast = arguments.bf16 and (not distributed or arguments.strategy == "no_shard")

    seconds, losses, first_step_ns = [], [], None
    for step in range(arguments.steps):
        first = (step * world + rank) * arguments.batch
        tokens = torch.from_numpy(windows[first:first + arguments.batch].astype(np.int64)).to(arguments.device)
        begun = time.perf_counter()
        with torch.autocast(arguments.device, torch.bfloat16, enabled=autocast):
            logits = model(tokens)
        weights = None
        if reference is not None:
            with torch.no_grad():
                weights = kept(logits, token_losses(reference(tokens)[0], tokens, 1), tokens)
        loss = objective(logits, tokens, weights)
        del logits, weights
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begun)
        first_step_ns = first_step_ns or time.time_ns()

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    peak = torch.tensor([most, most - before], dtype=torch.int64, device=arguments.device)
    if arguments.device == "cuda":
        peak[:] = torch.cuda.max_memory_allocated()
    if world > 1:
        dist.all_reduce(peak, dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"step_seconds": seconds, "first_step_ns": first_step_ns, "peak_bytes": peak[0].item(),
                          "net_bytes": peak[1].item(), "losses": losses}))
    if distributed:
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # Gloo's threads occasionally abort the interpreter at exit, after the figures are printed


if __name__ == "__main__":
    main()
