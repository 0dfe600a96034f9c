"""All heads outside of this program: the code exported for transformers, and head 2 as a draft of EAGLE-3, compute the
same logits as the plain model in PyTorch."""
import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hf_model import AutoModelForCausalLM, logits_of, open_llama, transformers
from mtp_model import MultiTokenLlama, Shape, rotate, tensors_of
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
LLAMA = Shape(dim=64, layers=6, heads=4, kv_heads=2, ffn_dim=160, vocab_size=512, rope_theta=5000.0, norm_eps=1e-6,
              future_tokens=3)
MULTIPLIERS = {"embedding_multiplier": 3.7, "attention_multiplier": 0.1, "residual_multiplier": 0.4,
               "logits_scaling": 1.7}
SHAPES = {"llama": LLAMA, "llama3, tied": replace(LLAMA, rope_scaling=LLAMA3, tie_word_embeddings=True),
          "chained": replace(LLAMA, future_heads="chained"), "qwen2": replace(LLAMA, qkv_bias=True),
          "qwen3, chained": replace(LLAMA, qk_norm=True, head_dim=32, future_heads="chained"),
          "mistral": replace(LLAMA, sliding_window=7),
          "olmo2": replace(LLAMA, joint_qk_norm=True, post_norm=True),
          "shared": replace(LLAMA, layers=7, future_tokens=4, future_heads="shared"),
          "leaps": replace(LLAMA, future_offsets=[1, 3, 5]),
          "granite": replace(LLAMA, tie_word_embeddings=True, **MULTIPLIERS),
          "granite, chained": replace(LLAMA, future_heads="chained", **MULTIPLIERS),
          "smollm3": replace(LLAMA, no_rope_layer_interval=2, tie_word_embeddings=True),
          "smollm3, chained": replace(LLAMA, no_rope_layer_interval=3, future_heads="chained")}
CLOSE = 1e-5  # of the largest logit
IDS = torch.arange(1, 49).view(2, 24) * 7 % LLAMA.vocab_size


def write_model(folder, shape):
    """A saved model with large random weights; returns it in PyTorch."""
    model = MultiTokenLlama(shape).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn_like(parameter)
            parameter.copy_(1 + 0.3 * drawn if "norm" in name and parameter.ndim == 1 else 0.15 * drawn)
    folder.mkdir()
    save_file(tensors_of(model), folder / "model.safetensors")
    params = {"dim": shape.dim, "n_layers": shape.layers, "n_heads": shape.heads, "n_kv_heads": shape.kv_heads,
              "n_future_tokens": shape.future_tokens, "rope_theta": shape.rope_theta, "norm_eps": shape.norm_eps,
              "max_seq_len": 64}
    for key in ("future_heads", "future_offsets", "rope_scaling", "qkv_bias", "qk_norm", "head_dim", "sliding_window",
                "joint_qk_norm", "post_norm", "no_rope_layer_interval", "tie_word_embeddings", *MULTIPLIERS):
        if getattr(shape, key):
            params[key] = getattr(shape, key)
    (folder / "params.json").write_text(json.dumps(params))
    return model


def assert_close(found, wanted):
    largest = wanted.abs().max().item()
    assert largest > 0.5, "logits this small would hide a mistake"
    error = (found - wanted).abs().max().item() / largest
    assert error <= CLOSE, f"logits differ by {error:.2e} of the largest > {CLOSE:.0e}"


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Code that transformers copies from a folder before it imports it stays in the test's folder."""
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))


@pytest.mark.parametrize("kind", SHAPES)
def test_transformers_computes_all_heads_with_the_exported_code(place, modules, kind):
    shape = SHAPES[kind]
    ours = write_model(place.folder / "ours", shape)
    with torch.no_grad():
        wanted = ours(IDS)
    ended = place.host("checkpoint", "export", "ours", "--modeling", "-o", "theirs")
    assert f"heads 2 to {shape.future_tokens} are only in mtp_heads.safetensors" in ended.err
    model = AutoModelForCausalLM.from_pretrained(place.folder / "theirs", trust_remote_code=True).eval()
    with torch.no_grad():
        found = model(IDS, output_heads=True)
    assert len(found.head_logits) == shape.future_tokens
    assert model.future_offsets == [shape.offset(k) for k in range(1, shape.future_tokens + 1)]
    for of_head, wanted_of_head in zip(found.head_logits, wanted):
        assert_close(of_head, wanted_of_head)
    assert_close(found.logits, wanted[0])
    assert_close(logits_of(model, IDS), wanted[0])
    written = model.generate(IDS[:1], max_new_tokens=2, do_sample=False)
    assert written[0, IDS.shape[1]] == wanted[0][0, -1].argmax()

    of_vllm = json.loads((place.folder / "theirs/model.safetensors.index.json").read_text())["weight_map"]
    with safe_open(place.folder / "theirs/model.safetensors", "pt") as main:
        assert set(of_vllm) == set(main.keys()), "vLLM loads every file that no index leaves out"
    plain = open_llama(place.folder / "theirs")
    assert type(plain) is not type(model) and type(plain).__module__.startswith("transformers.models.")
    assert_close(logits_of(plain, IDS), wanted[0])
    said = place.host("checkpoint", "import", "theirs", "-o", "again").out
    assert (f"future_offsets = {json.dumps(shape.future_offsets, separators=(',', ':'))}\n" in said) == bool(
        shape.future_offsets), said
    stated = [json.loads((place.folder / name / "params.json").read_text()) for name in ("ours", "again")]
    assert stated[0].get("future_offsets") == stated[1].get("future_offsets") == shape.future_offsets
    again, first = load_file(place.folder / "again/model.safetensors"), tensors_of(ours)
    assert set(again) == set(first) and all(torch.equal(again[name], first[name]) for name in first)


def test_code_for_one_head_is_refused(place):
    write_model(place.folder / "ours", replace(LLAMA, future_tokens=1))
    place.refuse_command(2, "it has one head", command=["checkpoint", "export", "ours", "--modeling", "-o", "theirs"])
    place.refuse_command(2, "--modeling applies only to --to hf",
                         command=["checkpoint", "export", "ours", "--modeling", "--to", "meta", "-o", "theirs"])


def in_halves(x, angles):
    """Rotary positions on elements i and i + width / 2, as transformers, vLLM and SGLang pair them."""
    pairs = torch.stack(x.chunk(2, -1), -1).flatten(-2)
    return torch.cat(rotate(pairs, angles).unflatten(-1, (-1, 2)).unbind(-1), -1)


class Eagle3(nn.Module):
    """The draft model of EAGLE-3 as in SafeAILab/EAGLE and vLLM (llama_eagle3.py), written from their descriptions."""

    def __init__(self, tensors, config):
        super().__init__()
        self.tensors, self.config = tensors, config

    def norm(self, x, name):
        return F.rms_norm(x, (x.shape[-1],), self.tensors[f"{name}.weight"], self.config["rms_norm_eps"])

    def linear(self, x, name):
        return F.linear(x, self.tensors[f"{name}.weight"])

    def forward(self, target_states, embedded, angles):
        """`target_states`: three hidden states of the target at s; `embedded`: of the tokens at s + 1."""
        assert self.config["norm_before_residual"] is False
        batch, length, _ = embedded.shape
        residual = hidden = self.linear(torch.cat(target_states, -1), "fc")
        both = torch.cat([self.norm(embedded, "midlayer.input_layernorm"), self.norm(hidden, "midlayer.hidden_norm")],
                         -1)
        width = self.config["head_dim"]
        q, k, v = (self.linear(both, f"midlayer.self_attn.{name}_proj").view(batch, length, -1, width)
                   for name in "qkv")
        q, k, v = (x.transpose(1, 2) for x in (in_halves(q, angles), in_halves(k, angles), v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        hidden = residual + self.linear(mixed.transpose(1, 2).reshape(batch, length, -1), "midlayer.self_attn.o_proj")
        normed = self.norm(hidden, "midlayer.post_attention_layernorm")
        gate, up = (self.linear(normed, f"midlayer.mlp.{name}_proj") for name in ("gate", "up"))
        hidden = hidden + self.linear(F.silu(gate) * up, "midlayer.mlp.down_proj")
        return self.linear(self.norm(hidden, "norm"), "lm_head")


@pytest.mark.parametrize("kind", ["llama", "llama3, tied"])
def test_head_2_is_a_draft_of_eagle3(place, kind):
    shape = SHAPES[kind]
    ours = write_model(place.folder / "ours", shape)
    written = place.host("checkpoint", "export", "ours", "--to", "eagle3", "-o", "draft")
    assert ("the heads after it leave by --to hf --modeling" in written.err) == (shape.future_tokens > 2), written
    config = json.loads((place.folder / "draft/config.json").read_text())
    tensors = load_file(place.folder / "draft/model.safetensors")
    place.host("checkpoint", "export", "ours", "-o", "target")
    target = open_llama(place.folder / "target")
    assert config["architectures"] == ["LlamaForCausalLMEagle3"] and config["draft_vocab_size"] == shape.vocab_size
    ids = config["eagle_aux_hidden_state_layer_ids"]
    assert [one + 1 for one in config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]] == ids
    with torch.no_grad():
        states = target(IDS, output_hidden_states=True).hidden_states  # [j]: the input of block j
        _, angles = ours.trunk(IDS)
        embedded = target.get_input_embeddings()(F.pad(IDS, (0, 1))[:, 1:])
        found = Eagle3(tensors, config)([states[j] for j in ids], embedded, angles)
        assert_close(found, ours(IDS)[1])
        assert_close(Eagle3(tensors, config)([states[j] for j in ids], torch.randn_like(embedded), angles), found)


def test_a_draft_in_bf16_is_the_rounded_one(place):
    write_model(place.folder / "ours", LLAMA)
    place.host("checkpoint", "export", "ours", "--to", "eagle3", "-o", "draft")
    place.host("checkpoint", "export", "ours", "--to", "eagle3", "--dtype", "bf16", "-o", "rounded")
    rounded = load_file(place.folder / "rounded/model.safetensors")
    for name, tensor in load_file(place.folder / "draft/model.safetensors").items():
        assert torch.equal(rounded[name], tensor.bfloat16()), name


@pytest.mark.parametrize("kind, found",
                         [("chained", "chained heads"), ("shared", "shared heads"), ("qwen2", "qkv_bias"),
                          ("mistral", "sliding_window"), ("leaps", r"future_offsets \[1, 3, 5\]")])
def test_other_models_are_no_drafts_of_eagle3(place, kind, found):
    write_model(place.folder / "ours", SHAPES[kind])
    place.refuse_command(2, f"found {found}", command=["checkpoint", "export", "ours", "--to", "eagle3", "-o", "draft"])
