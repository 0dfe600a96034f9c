"""LoRA, rsLoRA, DoRA and LoRA+ in plain PyTorch, beside the linear layers of mtp_model, and the host's keyed draws."""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

OPTIONS = {"rank": 8, "alpha": 16.0, "targets": ["wq", "wk", "wv", "wo"], "rslora": False, "dora": False,
           "plus_ratio": 1.0}


class LoraLinear(nn.Module):
    """Its parameters have the host's names: weight (frozen), lora_A, lora_B, magnitude."""

    def __init__(self, linear, name, options, seed):
        super().__init__()
        rank = options["rank"]
        self.scale = options["alpha"] / (math.sqrt(rank) if options["rslora"] else rank)
        self.weight = nn.Parameter(linear.weight.detach().clone(), requires_grad=False)
        bound = 1 / math.sqrt(linear.in_features)
        self.lora_A = nn.Parameter(drawn_uniform(f"{name}.lora_A", (rank, linear.in_features), seed, bound))
        self.lora_B = nn.Parameter(torch.zeros(linear.out_features, rank))
        self.magnitude = nn.Parameter(self.weight.norm(dim=1)[None]) if options["dora"] else None

    def merged(self):
        whole = self.weight + (self.lora_B @ self.lora_A) * self.scale
        return whole if self.magnitude is None else whole * (self.magnitude / whole.norm(dim=1)[None]).T

    def forward(self, x):
        y = F.linear(x, self.weight) + F.linear(F.linear(x, self.lora_A), self.lora_B) * self.scale
        if self.magnitude is None:
            return y
        return y * (self.magnitude / (self.weight + self.scale * self.lora_B @ self.lora_A).detach().norm(dim=1))


def add_lora(model, changes, seed):
    """Freezes the model and puts LoRA beside its targets, heads too."""
    options = {**OPTIONS, **changes}
    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        parent, _, last = name.rpartition(".")
        if isinstance(module, nn.Linear) and last in options["targets"]:
            setattr(model.get_submodule(parent), last, LoraLinear(module, name, options, seed))
    return model


def drawn_uniform(name, shape, seed, bound):
    """U(-bound, bound) as the host draws it: Philox4x32-10 keyed by FNV-1a of the name, four elements a block."""
    word = (1 << 64) - 1
    key = 0xCBF29CE484222325 ^ (seed * 0x9E3779B97F4A7C15 & word)
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001B3 & word
    count = math.prod(shape)
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    block = np.arange((count + 3) // 4, dtype=np.uint64)
    zero = np.zeros_like(block)
    c, k0, k1 = [block & low, block >> high, zero, zero], key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> high) ^ c[1] ^ np.uint64(k0), b & low, (a >> high) ^ c[3] ^ np.uint64(k1), a & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    unit = (np.stack(c, 1).reshape(-1)[:count] >> np.uint64(8)).astype(np.float64) * 2.0**-24
    return torch.tensor((2 * unit - 1) * bound, dtype=torch.float32).view(shape)
