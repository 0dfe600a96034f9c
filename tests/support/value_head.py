"""Value heads in plain PyTorch on the normed trunk output of mtp_model, with the host's names and initial values."""
import math

import torch
import torch.nn.functional as F
from philox import drawn_uniform
from torch import nn


class Layer(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)  # [out, in], [1, out]

    def forward(self, x):
        return x @ self.weight.T + self.bias[0]


def add_value_head(model, kind, seed):
    """Adds a head named "value" to the model. Its last layer is initialized to zero, the others like torch's Linear:
    weights and biases within 1/sqrt(in)."""
    dim = model.shape.dim
    widths = {"linear": [dim, 1], "mlp": [dim, dim // 4, dim // 8, 1]}[kind]
    layers = [Layer(*(drawn_uniform(f"value_heads.value.{i}.{part}", shape, seed, 1 / math.sqrt(inner))
                      for part, shape in (("weight", (outer, inner)), ("bias", (1, outer)))))
              for i, (inner, outer) in enumerate(zip(widths, widths[1:]))]
    for parameter in layers[-1].parameters():
        nn.init.zeros_(parameter)
    model.value_heads = nn.ModuleDict({"value": nn.ModuleList(layers)})
    return model


def spread_values(model, seed, deviation):
    """Random weights for a head's layers, so that values differ from zero."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.value_heads.parameters():
        nn.init.normal_(parameter, 0, deviation, generator=generator)
    return model


def without_token_heads(model):
    """A value model: the trunk alone."""
    del model.extra_heads, model.output, model.layers[-1]
    return model


def values_of(model, tokens, factors=None):
    """[B, S]: V_t is the value after token t. `factors(name, shape)`: of the inputs of a layer, by its name."""
    x = model.norm(model.trunk(tokens)[0])
    for i, layer in enumerate(model.value_heads["value"]):
        x = F.gelu(x) if i > 0 else x
        x = layer(x * factors(f"value_heads.value.{i}", x.shape) if factors else x)
    return x.squeeze(-1)
