"""A second implementation of the host's random numbers: Philox4x32-10 (Salmon et al., SC 2011), keyed by FNV-1a."""
import math

import numpy as np
import torch

WORD = (1 << 64) - 1


def name_key(name, seed):
    key = 0xCBF29CE484222325 ^ (seed * 0x9E3779B97F4A7C15 & WORD)
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001B3 & WORD
    return key


def philox(key, high, low):
    """Words [n, 4] of counters whose halves are the arrays `high` and `low` [n]."""
    half, bits = np.uint64(0xFFFFFFFF), np.uint64(32)
    c, k0, k1 = [low & half, low >> bits, high & half, high >> bits], key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> bits) ^ c[1] ^ np.uint64(k0), b & half, (a >> bits) ^ c[3] ^ np.uint64(k1), a & half]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, 1)


def unit(words):
    """Uniform in [0,1), with 24 bits."""
    return (words >> np.uint64(8)).astype(np.float64) * 2.0**-24


def drawn_uniform(name, shape, seed, bound):
    """U(-bound, bound), the initial values of a parameter: four elements per block."""
    count = math.prod(shape)
    block = np.arange((count + 3) // 4, dtype=np.uint64)
    numbers = unit(philox(name_key(name, seed), np.zeros_like(block), block).reshape(-1)[:count])
    return torch.tensor((2 * numbers - 1) * bound, dtype=torch.float32).view(shape)


def dropout_factors(name, p, seed, step, positions, shape):
    """[B, S, features], `shape`: 0 with probability p, else 1 / (1 - p), in the inputs of the layer of that name."""
    count = math.prod(shape[1:])
    block = np.arange((count + 3) // 4, dtype=np.uint64)
    rows = []
    for position in positions:
        high = np.full_like(block, (step << 40) ^ position)
        bits = philox(name_key(name, seed), high, block).reshape(-1)[:count]
        rows.append((bits >= int(p * 2**32)).reshape(shape[1:]))
    return torch.tensor(np.stack(rows), dtype=torch.float32) / (1 - p)


def drawn_for_tokens(stream, seed, step, positions, length, heads):
    """[B, length, heads] in [0,1): a pipeline's draws for the sequences at these positions of the run."""
    place = np.arange(length * heads, dtype=np.uint64)
    rows = []
    for position in positions:
        high = np.full_like(place, (step << 40) ^ position)
        rows.append(unit(philox(name_key(f"uniform {stream}", seed), high, place)[:, 0]).reshape(length, heads))
    return torch.tensor(np.stack(rows), dtype=torch.float32)
