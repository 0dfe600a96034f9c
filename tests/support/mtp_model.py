"""The multi-token-prediction Llama in plain PyTorch, with Meta's parameter names: a trunk whose last block is head 1,
and additional heads, one block each, on the same trunk output, or chained, or chained with one block that they share;
one norm and one output layer for all heads."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Shape:
    dim: int
    layers: int  # trunk and heads together
    heads: int
    kv_heads: int
    ffn_dim: int
    vocab_size: int
    future_tokens: int = 4
    future_heads: str = None  # "chained", "shared"; None: parallel
    future_offsets: list = None  # tokens ahead that each head predicts; None: 1, 2, 3, ...
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    rope_scaling: dict = None  # keys of transformers: rope_type "linear", "llama3" or "yarn", factor, …
    qkv_bias: bool = False
    o_bias: bool = False
    tie_word_embeddings: bool = False
    qk_norm: bool = False
    joint_qk_norm: bool = False
    post_norm: bool = False
    head_dim: int = None  # None: dim / heads
    sliding_window: int = None  # None: all tokens
    no_rope_layer_interval: int = None  # every block with a multiple of this number has no rotary positions
    embedding_multiplier: float = None  # of Granite, as the next three; None: 1
    attention_multiplier: float = None  # None: 1 / sqrt(head_dim)
    residual_multiplier: float = None
    logits_scaling: float = None

    @property
    def head_width(self):
        return self.head_dim or self.dim // self.heads

    def offset(self, k):
        return self.future_offsets[k - 1] if self.future_offsets else k


def scaled(x, factor):
    return x * factor if factor else x


class RMSNorm(nn.Module):
    """Computed in fp32 for any input type, then cast, then scaled."""

    def __init__(self, shape, width=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width or shape.dim))
        self.eps = shape.norm_eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rotate(x, angles):
    """Rotary positions on interleaved pairs (2i, 2i+1). x [B, S, heads, head_dim], angles [2, S, head_dim / 2]: cosines
    and sines. Without complex numbers, which torch.compile does not fuse."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = angles[:, None, :, None, :]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).type_as(x)


def frequencies_of(shape):
    """The angles' frequencies, scaled as by transformers' modeling_rope_utils.py."""
    half = shape.head_width // 2
    plain = shape.rope_theta ** (-torch.arange(half).float() / half)
    scaling = shape.rope_scaling
    if not scaling:
        return plain
    slow = plain / scaling["factor"]
    if scaling["rope_type"] == "linear":
        return slow
    if scaling["rope_type"] == "yarn":
        first, last = (half * math.log(scaling["original_max_position_embeddings"] / (2 * math.pi * scaling[beta])) /
                       math.log(shape.rope_theta) for beta in ("beta_fast", "beta_slow"))
        first, last = max(math.floor(first), 0), min(math.ceil(last), 2 * half - 1)
        kept = 1 - ((torch.arange(half) - first) / (last - first)).clamp(0, 1)
        return slow * (1 - kept) + plain * kept
    low, high, length = (scaling[key] for key in ("low_freq_factor", "high_freq_factor",
                                                  "original_max_position_embeddings"))
    wave = 2 * math.pi / plain
    smooth = (length / wave - low) / (high - low)
    between = (1 - smooth) * slow + smooth * plain
    return torch.where(wave > length / low, slow, torch.where(wave < length / high, plain, between))


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = shape.heads, shape.kv_heads, shape.head_width
        self.window, self.scale = shape.sliding_window, shape.attention_multiplier
        self.wq = nn.Linear(shape.dim, self.heads * self.head_dim, bias=shape.qkv_bias)
        self.wk = nn.Linear(shape.dim, self.kv_heads * self.head_dim, bias=shape.qkv_bias)
        self.wv = nn.Linear(shape.dim, self.kv_heads * self.head_dim, bias=shape.qkv_bias)
        self.wo = nn.Linear(self.heads * self.head_dim, shape.dim, bias=shape.o_bias)
        self.q_norm = RMSNorm(shape, self.head_dim) if shape.qk_norm else nn.Identity()
        self.k_norm = RMSNorm(shape, self.head_dim) if shape.qk_norm else nn.Identity()
        self.is_joint = shape.joint_qk_norm
        if self.is_joint:
            self.q_norm = RMSNorm(shape, self.heads * self.head_dim)
            self.k_norm = RMSNorm(shape, self.kv_heads * self.head_dim)

    def forward(self, x, angles):
        batch, length, _ = x.shape
        q, k = self.wq(x), self.wk(x)
        if self.is_joint:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = q.view(batch, length, self.heads, -1), k.view(batch, length, self.kv_heads, -1)
        if not self.is_joint:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, angles).transpose(1, 2), rotate(k, angles).transpose(1, 2)
        v = self.wv(x).view(batch, length, self.kv_heads, -1).transpose(1, 2)
        grouped = self.heads != self.kv_heads
        mask = None
        if self.window:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril().triu(1 - self.window)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, scale=self.scale,
                                               enable_gqa=grouped)
        return self.wo(mixed.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.w1 = nn.Linear(shape.dim, shape.ffn_dim, bias=False)
        self.w2 = nn.Linear(shape.ffn_dim, shape.dim, bias=False)
        self.w3 = nn.Linear(shape.dim, shape.ffn_dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, shape, number):
        super().__init__()
        self.is_post_norm, self.multiplier = shape.post_norm, shape.residual_multiplier
        self.is_rotated = not shape.no_rope_layer_interval or number % shape.no_rope_layer_interval != 0
        self.attention = Attention(shape)
        self.feed_forward = FeedForward(shape)
        self.attention_norm = RMSNorm(shape)
        self.ffn_norm = RMSNorm(shape)

    def forward(self, x, angles):
        if not self.is_rotated:
            angles = torch.stack((torch.ones_like(angles[0]), torch.zeros_like(angles[1])))
        if self.is_post_norm:
            x = x + scaled(self.attention_norm(self.attention(x, angles)), self.multiplier)
            return x + scaled(self.ffn_norm(self.feed_forward(x)), self.multiplier)
        x = x + scaled(self.attention(self.attention_norm(x), angles), self.multiplier)
        return x + scaled(self.feed_forward(self.ffn_norm(x)), self.multiplier)


class ChainedBlock(Block):
    """The block of DeepSeek-V3's MTP modules (arXiv 2412.19437, equations 21 and 22): it also reads a token."""

    def __init__(self, shape, number):
        super().__init__(shape, number)
        self.hnorm = RMSNorm(shape)
        self.enorm = RMSNorm(shape)
        self.eh_proj = nn.Linear(2 * shape.dim, shape.dim, bias=False)

    def forward(self, before, angles, embedded):
        return super().forward(self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(before)], -1)), angles)


class MultiTokenLlama(nn.Module):
    def __init__(self, shape, activation_checkpointing=False):
        super().__init__()
        self.shape = shape
        self.activation_checkpointing = activation_checkpointing
        self.detach_heads = False  # whether trunk, head 1 and embedding learn from head 1 only
        self.tok_embeddings = nn.Embedding(shape.vocab_size, shape.dim)
        of_head_1 = shape.layers - shape.future_tokens + 1
        self.layers = nn.ModuleList(Block(shape, number) for number in range(1, of_head_1 + 1))
        extra = ChainedBlock if shape.future_heads else Block
        stored = min(shape.future_tokens - 1, 1) if shape.future_heads == "shared" else shape.future_tokens - 1
        self.extra_heads = nn.ModuleList(extra(shape, of_head_1) for _ in range(stored))
        self.norm = RMSNorm(shape)
        self.output = nn.Linear(shape.dim, shape.vocab_size, bias=False)
        if shape.tie_word_embeddings:
            self.output.weight = self.tok_embeddings.weight

    @property
    def blocks(self):
        return [*self.layers, *self.extra_heads]

    def fill(self, seed):
        """N(0, 0.02), with wo and w2 scaled by 1/sqrt(2 layers); norms one. The seed applies to a model on the CPU."""
        generator = torch.Generator().manual_seed(seed) if self.norm.weight.device.type == "cpu" else None
        for name, parameter in self.named_parameters():
            if parameter.ndim == 1 and not name.endswith("bias"):
                nn.init.ones_(parameter)
                continue
            shrink = math.sqrt(2 * self.shape.layers) if name.endswith(("wo.weight", "w2.weight")) else 1
            nn.init.normal_(parameter, 0, 0.02 / shrink, generator=generator)
        return self

    def _run(self, block, *inputs):
        if self.activation_checkpointing:
            return checkpoint(block, *inputs, use_reentrant=False)
        return block(*inputs)

    def trunk(self, tokens):
        """Hidden states [B, S, dim], the input of all heads, and the angles of the rotary positions."""
        phases = torch.outer(torch.arange(tokens.shape[1]).float(), frequencies_of(self.shape))
        stretch = (self.shape.rope_scaling or {}).get("attention_factor", 1.0)  # of yarn
        angles = (stretch * torch.stack((phases.cos(), phases.sin()))).to(tokens.device)
        hidden = scaled(self.tok_embeddings(tokens), self.shape.embedding_multiplier)
        for block in self.layers[:self.shape.layers - self.shape.future_tokens]:
            hidden = self._run(block, hidden, angles)
        return hidden, angles

    def forward(self, tokens):
        """Logits of each head, [B, S, vocabulary]; head k (from 1) at position s predicts token s + shape.offset(k)."""
        hidden, angles = self.trunk(tokens)
        outputs = [self._run(self.layers[-1], hidden, angles)]
        seen = torch.Tensor.detach if self.detach_heads else lambda below: below
        for k in range(2, self.shape.future_tokens + 1):
            head = self.extra_heads[0 if self.shape.future_heads == "shared" else k - 2]
            if self.shape.future_heads:  # at position s it reads token s + k - 1; past the end, any token
                read = self.tok_embeddings(F.pad(tokens, (0, k - 1))[:, k - 1:])
                before = seen(outputs[0]) if k == 2 else outputs[-1]
                outputs.append(self._run(head, before, angles, seen(read)))
            else:
                outputs.append(self._run(head, seen(hidden), angles))
        logits = [self.output(self.norm(output)) for output in outputs]
        return [of_head / self.shape.logits_scaling for of_head in logits] if self.shape.logits_scaling else logits


def model_of(shape, tensors):
    """The model with a file's tensors."""
    model = MultiTokenLlama(shape)
    if shape.tie_word_embeddings:
        assert "output.weight" not in tensors, "the file contains a tied matrix twice"
        tensors = tensors | {"output.weight": tensors["tok_embeddings.weight"]}
    model.load_state_dict(tensors)
    return model.eval()


def tensors_of(model):
    """The tensors of the model's file: a tied matrix once, by the embedding's name."""
    return {name: value for name, value in model.state_dict().items()
            if name != "output.weight" or not model.shape.tie_word_embeddings}


def token_losses(logits, labels, offset):
    """Cross entropy of a head for the tokens it can predict, [B, S - offset], fp32."""
    length = labels.shape[1] - offset
    return F.cross_entropy(logits[:, :length].flatten(0, 1).float(), labels[:, offset:].flatten(),
                           reduction="none").view(-1, length)
