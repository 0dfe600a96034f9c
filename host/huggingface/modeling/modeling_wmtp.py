"""A model exported by wmtp-host with all its heads, for transformers.

    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
    model(ids, output_heads=True).head_logits[k - 1]  # [B, S, vocabulary]
    model.future_offsets[k - 1]  # head k at position s predicts the token at s + this

Head 1 is the model that transformers knows. The blocks of heads 2, 3, ... are in mtp_heads.safetensors, under Meta's
names and with Meta's order of rows; all heads share the final norm and the output layer. A parallel head reads the
input of head 1's block, a chained head the output of the head before and the embedding of the token before the one that
it predicts. Shared heads are chained heads with one block.
"""
import json
from dataclasses import dataclass

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import BASE_CLASS as Base
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import cached_file

NAMES = {"attention.wq": "self_attn.q_proj", "attention.wk": "self_attn.k_proj", "attention.wv": "self_attn.v_proj",
         "attention.wo": "self_attn.o_proj", "attention.q_norm": "self_attn.q_norm",
         "attention.k_norm": "self_attn.k_norm",
         "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj", "feed_forward.w3": "mlp.up_proj",
         "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
OLMO2_NAMES = NAMES | {"attention_norm": "post_attention_layernorm", "ffn_norm": "post_feedforward_layernorm"}
ROTATED = ("attention.wq", "attention.wk", "attention.q_norm", "attention.k_norm")


@dataclass
class MultiTokenOutput(CausalLMOutputWithPast):
    head_logits: tuple = None


def rows_in_halves(tensor, width):
    """Meta rotates rows 2i and 2i + 1 of a head together, transformers rows i and i + width / 2."""
    pairs = tensor.view(-1, width // 2, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape)


class Head(nn.Module):
    """The block of one of the heads 2, 3, ..."""

    def __init__(self, model, is_chained):
        super().__init__()
        config, last = model.config, model.model.layers[-1]
        self.block = type(last)(config, len(model.model.layers) - 1)
        if is_chained:
            norm, eps = type(model.model.norm), config.rms_norm_eps
            self.hnorm, self.enorm = norm(config.hidden_size, eps=eps), norm(config.hidden_size, eps=eps)
            self.eh_proj = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)

    def load(self, tensors, width):
        names = OLMO2_NAMES if hasattr(self.block, "post_feedforward_layernorm") else NAMES
        own = {}
        for name, tensor in tensors.items():
            layer, _, kind = name.rpartition(".")
            if layer in names:
                own[f"block.{names[layer]}.{kind}"] = rows_in_halves(tensor, width) if layer in ROTATED else tensor
            else:
                own[name] = tensor
        self.load_state_dict(own)


class MultiTokenForCausalLM(Base):
    @classmethod
    def from_pretrained(cls, folder, *arguments, **options):
        loaded = super().from_pretrained(folder, *arguments, **options)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        of_hub = {key: options[key] for key in ("cache_dir", "revision", "token", "local_files_only") if key in options}
        with open(cached_file(folder, "mtp_heads.json", **of_hub)) as file:
            heads = json.load(file)
        model.is_chained = heads.get("future_heads", "parallel") != "parallel"
        model.num_heads = heads["n_future_tokens"]
        model.future_offsets = heads.get("future_offsets") or list(range(1, model.num_heads + 1))
        model.load_heads(load_file(cached_file(folder, "mtp_heads.safetensors", **of_hub)))
        return loaded

    def load_heads(self, tensors):
        by_head = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            number, _, name = rest.partition(".")
            if kind == "extra_heads":
                by_head.setdefault(int(number), {})[name] = tensor
        last = self.model.layers[-1]
        weight = last.self_attn.q_proj.weight
        self.extra_heads = nn.ModuleList()
        for _, own in sorted(by_head.items()):
            head = Head(self, self.is_chained)
            head.load(own, last.self_attn.head_dim)
            self.extra_heads.append(head.to(device=weight.device, dtype=weight.dtype).eval())

    def forward(self, *arguments, output_heads=False, **options):
        """`output_heads`: also the logits of every head, for whole sequences without a cache."""
        if not output_heads:
            return super().forward(*arguments, **options)
        seen = {}
        last = self.model.layers[-1]
        hooks = [last.register_forward_pre_hook(lambda _, args, kwargs: seen.update(input=args[0], kwargs=kwargs),
                                                with_kwargs=True),
                 last.register_forward_hook(lambda _, args, output: seen.update(output=output))]
        try:
            known = super().forward(*arguments, **options, use_cache=False)
        finally:
            for hook in hooks:
                hook.remove()
        outputs = [tensor_of(seen["output"])]
        ids = options.get("input_ids", arguments[0] if arguments else None)
        for ahead in range(1, self.num_heads):
            head = self.extra_heads[min(ahead, len(self.extra_heads)) - 1]  # one if they are shared
            hidden = self._chained_input(head, outputs[-1], ids, ahead) if self.is_chained else seen["input"]
            outputs.append(tensor_of(head.block(hidden, **seen["kwargs"])))
        divisor = getattr(self.config, "logits_scaling", 1)  # of Granite
        logits = tuple(self.lm_head(self.model.norm(output)) / divisor for output in outputs)
        return MultiTokenOutput(**known, head_logits=logits)

    def _chained_input(self, head, before, ids, ahead):
        """Past the end there is no token to read: those positions have no meaning."""
        read = nn.functional.pad(ids, (0, ahead))[:, ahead:]
        embedded = self.model.embed_tokens(read)
        return head.eh_proj(torch.cat([head.enorm(embedded), head.hnorm(before)], -1))


def tensor_of(output):
    """Blocks of older versions of transformers return a tuple."""
    return output[0] if isinstance(output, tuple) else output
