"""LoRA, rsLoRA, DoRA and LoRA+ in plain PyTorch, for the linear layers of mtp_model."""
import math
from fnmatch import fnmatchcase

import torch
import torch.nn.functional as F
from philox import drawn_uniform
from torch import nn

OPTIONS = {"rank": 8, "alpha": 16.0, "targets": ["wq", "wk", "wv", "wo"], "rslora": False, "dora": False,
           "plus_ratio": 1.0}


class LoraLinear(nn.Module):
    """A linear layer with the host's parameter names: weight and bias (frozen), lora_A, lora_B, magnitude."""

    def __init__(self, linear, name, options, seed):
        super().__init__()
        rank = options["rank"]
        self.scale = options["alpha"] / (math.sqrt(rank) if options["rslora"] else rank)
        self.weight = nn.Parameter(linear.weight.detach().clone(), requires_grad=False)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone(), requires_grad=False)
        bound = 1 / math.sqrt(linear.in_features)
        self.lora_A = nn.Parameter(drawn_uniform(f"{name}.lora_A", (rank, linear.in_features), seed, bound))
        self.lora_B = nn.Parameter(torch.zeros(linear.out_features, rank))
        self.magnitude = nn.Parameter(self.weight.norm(dim=1)[None]) if options["dora"] else None

    def merged(self):
        whole = self.weight + (self.lora_B @ self.lora_A) * self.scale
        return whole if self.magnitude is None else whole * (self.magnitude / whole.norm(dim=1)[None]).T

    def forward(self, x):
        y = F.linear(x, self.weight) + F.linear(F.linear(x, self.lora_A), self.lora_B) * self.scale
        if self.magnitude is not None:
            y = y * (self.magnitude / (self.weight + self.scale * self.lora_B @ self.lora_A).detach().norm(dim=1))
        return y if self.bias is None else y + self.bias


def add_lora(model, changes, seed):
    """Freezes the model and adds LoRA to its target layers, also in the heads. A target is a pattern of a layer's name,
    or of the end of the name."""
    options = {**OPTIONS, **changes}
    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        parent, _, last = name.rpartition(".")
        chosen = any(fnmatchcase("." + name, "*." + target) for target in options["targets"])
        if isinstance(module, nn.Linear) and chosen and last != "output":
            setattr(model.get_submodule(parent), last, LoraLinear(module, name, options, seed))
    return model
