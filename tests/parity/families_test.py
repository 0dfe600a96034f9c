"""Small models of published families, each with a config.json as published by its authors: the imported model computes
the same as transformers, transformers computes the same from its export, and a run continues training it."""
import json
import shutil
import tomllib

import experiment
import pytest
import torch
from checkpoint import model_tensors
from compare import assert_tensors_equal
from hf_model import AutoModelForCausalLM, filled_with_draws, logits_of, open_llama, transformers
from mtp_model import Shape, model_of
from safetensors.torch import load_file

CLOSE = 1e-5  # of the largest logit
IDS = torch.arange(1, 49).view(2, 24) * 7 % experiment.VOCAB
SMALL = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4,
         "vocab_size": 512, "hidden_act": "silu", "initializer_range": 0.02, "use_cache": True,
         "transformers_version": "4.40.0"}
LLAMA = SMALL | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "bos_token_id": 1, "eos_token_id": 2,
                 "torch_dtype": "float16"}
LLAMA3 = LLAMA | {"attention_bias": False, "attention_dropout": 0.0, "mlp_bias": False, "pretraining_tp": 1,
                  "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 500000.0,
                  "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 510, "eos_token_id": 511,
                  "max_position_embeddings": 8192}
STRETCHED = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
             "rope_type": "llama3"}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
QWEN2 = SMALL | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "attention_dropout": 0.0,
                 "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072,
                 "max_window_layers": 24, "use_sliding_window": False, "max_position_embeddings": 131072,
                 "torch_dtype": "bfloat16", "bos_token_id": 511, "eos_token_id": 511}
QWEN3 = SMALL | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False,
                 "attention_dropout": 0.0, "head_dim": 32, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
                 "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "max_window_layers": 28,
                 "use_sliding_window": False, "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
                 "bos_token_id": 510, "eos_token_id": 511}
MISTRAL = SMALL | {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "attention_dropout": 0.0,
                   "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 7,
                   "tie_word_embeddings": False, "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
                   "bos_token_id": 1, "eos_token_id": 2}
SMOLLM3 = SMALL | {"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "attention_bias": False,
                   "attention_dropout": 0.0, "num_hidden_layers": 5, "num_key_value_heads": 2, "mlp_bias": False,
                   "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 5000000.0, "sliding_window": None,
                   "max_window_layers": 28, "use_sliding_window": False, "max_position_embeddings": 65536,
                   "pretraining_tp": 2, "torch_dtype": "bfloat16", "bos_token_id": None, "pad_token_id": 510,
                   "eos_token_id": 511}
OLMO2 = SMALL | {"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "attention_bias": False,
                 "attention_dropout": 0.0, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_scaling": None,
                 "rope_theta": 500000, "max_position_embeddings": 4096, "pad_token_id": 510, "torch_dtype": "float32",
                 "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": 511}
GRANITE = SMALL | {"architectures": ["GraniteForCausalLM"], "model_type": "granite", "attention_bias": False,
                   "attention_dropout": 0.1, "attention_multiplier": 0.015625, "embedding_multiplier": 12.0,
                   "logits_scaling": 8.0, "residual_multiplier": 0.22, "num_key_value_heads": 2, "mlp_bias": False,
                   "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000, "max_position_embeddings": 4096,
                   "tie_word_embeddings": True, "torch_dtype": "float32", "bos_token_id": 0, "eos_token_id": 0,
                   "pad_token_id": 0}
MULTIPLIERS = ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling")
FAMILIES = {
    "Llama 1": LLAMA | {"max_position_embeddings": 2048, "max_sequence_length": 2048, "pad_token_id": 0,
                        "rms_norm_eps": 1e-06, "tie_word_embeddings": False},
    "Llama 2": LLAMA | {"_name_or_path": "meta-llama/Llama-2-7b-hf", "max_position_embeddings": 4096,
                        "pretraining_tp": 1, "num_key_value_heads": 4, "rms_norm_eps": 1e-05, "rope_scaling": None,
                        "tie_word_embeddings": False},
    "Llama 3": LLAMA3,
    "Llama 3.1": LLAMA3 | {"rope_scaling": STRETCHED, "max_position_embeddings": 131072,
                           "eos_token_id": [509, 510, 511]},
    "Llama 3.2": LLAMA3 | {"rope_scaling": STRETCHED | {"factor": 32.0}, "tie_word_embeddings": True, "head_dim": 16,
                           "max_position_embeddings": 131072},
    "TinyLlama": LLAMA | {"max_position_embeddings": 2048, "num_key_value_heads": 1, "pretraining_tp": 1,
                          "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0, "attention_bias": False,
                          "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    "Llama with attention_bias": LLAMA3 | {"attention_bias": True},
    "SmolLM": LLAMA | {"_name_or_path": "HuggingFaceTB/SmolLM-135M", "attention_bias": False, "attention_dropout": 0.0,
                       "hidden_size": 72, "num_attention_heads": 9, "num_key_value_heads": 3, "pretraining_tp": 1,
                       "max_position_embeddings": 2048, "rms_norm_eps": 1e-05, "rope_scaling": None,
                       "rope_theta": 10000.0, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0},
    "SmolLM2": LLAMA | {"is_llama_config": True, "num_key_value_heads": 2, "rope_interleaved": False,
                        "rope_theta": 100000, "rope_scaling": None, "rms_norm_eps": 1e-05, "pad_token_id": 2,
                        "max_position_embeddings": 8192, "tie_word_embeddings": True, "pretraining_tp": 1,
                        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}, "torch_dtype": "bfloat16"},
    "Qwen2": QWEN2 | {"tie_word_embeddings": True},
    "Qwen2.5 with yarn": QWEN2 | {"tie_word_embeddings": True, "rope_theta": 1000.0, "rope_scaling": YARN},
    "Llama with yarn": LLAMA3 | {"rope_scaling": YARN | {"attention_factor": 1.5, "beta_fast": 2.5, "beta_slow": 0.5},
                                 "rope_theta": 10000.0},
    "Llama with DeepSeek's yarn":
        LLAMA3 | {"rope_scaling": YARN | {"mscale": 1.3, "mscale_all_dim": 0.4, "beta_fast": 4}},
    "Qwen3": QWEN3 | {"tie_word_embeddings": True},
    "Qwen3-8B": QWEN3 | {"tie_word_embeddings": False, "head_dim": 16},
    "Qwen3 with attention_bias": QWEN3 | {"tie_word_embeddings": False, "attention_bias": True},
    "SmolLM3": SMOLLM3 | {"no_rope_layer_interval": 2, "no_rope_layers": [1, 0, 1, 0, 1], "tie_word_embeddings": True,
                          "layer_types": ["full_attention"] * 5},
    "SmolLM3, head 1 without positions": SMOLLM3 | {"no_rope_layer_interval": 5, "tie_word_embeddings": False},
    "OLMo2": OLMO2,
    "OLMo2, grouped queries": OLMO2 | {"num_key_value_heads": 2, "attention_bias": True},
    "Granite": GRANITE,
    "Granite with other multipliers": GRANITE | {
        "tie_word_embeddings": False, "attention_bias": True, "num_hidden_layers": 1, "attention_multiplier": 0.3,
        "embedding_multiplier": 3.7, "residual_multiplier": 1.4, "logits_scaling": 0.7},
    "Granite with transformers' multipliers": {k: v for k, v in GRANITE.items() if k not in MULTIPLIERS},
    "Mistral": MISTRAL,
    "Mistral with head_dim": MISTRAL | {"head_dim": 32},
    "Qwen2.5": QWEN2 | {"tie_word_embeddings": False, "use_mrope": False, "max_position_embeddings": 32768},
}


def published(folder, config):
    """A model of the family's class in transformers, saved with the authors' config.json instead of transformers'."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    model = filled_with_draws(AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(folder)).float())
    model.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config | {"torch_dtype": "float32"}))
    (folder / "generation_config.json").unlink(missing_ok=True)
    return open_llama(folder)


def assert_close(found, wanted):
    largest = wanted.abs().max().item()
    assert largest > 0.5, "logits this small would hide a mistake"
    error = (found - wanted).abs().max().item() / largest
    assert error <= CLOSE, f"logits differ by {error:.2e} of the largest > {CLOSE:.0e}"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_imported_trained_and_exported(place, family):
    config = FAMILIES[family]
    theirs = published(place.folder / "theirs", config)
    wanted = logits_of(theirs, IDS)
    said = tomllib.loads(place.host("checkpoint", "import", "theirs", "-o", "ours").out)
    table = said["model"]
    all_biased = config.get("attention_bias", False)
    assert table.get("qkv_bias", False) == (config["model_type"] == "qwen2" or all_biased)
    assert table.get("o_bias", False) == all_biased
    assert table.get("qk_norm", False) == (config["model_type"] == "qwen3")
    for key in ("joint_qk_norm", "post_norm"):
        assert table.get(key, False) == (config["model_type"] == "olmo2")
    assert table.get("sliding_window") == (7 if config["model_type"] == "mistral" else None)
    assert table.get("no_rope_layer_interval") == config.get("no_rope_layer_interval")
    for key in MULTIPLIERS:
        assert table.get(key) == config.get(key, 1.0 if config["model_type"] == "granite" else None)
    assert table.get("head_dim") == (32 if config.get("head_dim") == 32 else None), "16 is the quotient"
    assert table.get("tie_word_embeddings", False) == config["tie_word_embeddings"]
    assert ("rope_scaling" in table) == (config.get("rope_scaling") is not None)
    shape = Shape(**{name: value for name, value in table.items() if name != "weights"})
    tensors = load_file(place.folder / "ours/model.safetensors")
    with torch.no_grad():
        assert_close(model_of(shape, tensors)(IDS)[0], wanted)

    as_it_is, imported = [place.host("generate", folder, "--ids", "3 5 7", "--max-tokens", 8).out
                          for folder in ("theirs", "ours")]
    assert as_it_is == imported

    place.host("checkpoint", "export", "ours", "-o", "again")
    assert_close(logits_of(open_llama(place.folder / "again"), IDS), wanted)
    again = json.loads((place.folder / "again/config.json").read_text())
    for key in ("model_type", "architectures", "tie_word_embeddings", "max_position_embeddings", "eos_token_id"):
        assert again[key] == config[key], key
    assert again.get("attention_bias", False) == all_biased
    assert all(again.get(key) == table.get(key) for key in MULTIPLIERS)
    assert again.get("no_rope_layers") == config.get("no_rope_layers", again.get("no_rope_layers"))

    place.run(**{f"model__{key}": value for key, value in table.items()}, **experiment.ONE_RANK, train__steps=2,
              optimizer__lr=1e-3)
    trained = model_tensors(place.log.folder())
    place.host("checkpoint", "export", "trial", "-o", "trained")
    with torch.no_grad():
        assert_close(logits_of(open_llama(place.folder / "trained"), IDS), model_of(shape, trained)(IDS)[0])
    with pytest.raises(AssertionError):
        assert_tensors_equal(trained, tensors)


def test_a_trained_granite_writes_what_its_export_writes_in_transformers(place):
    """With drafts of two more heads, which are copies of the first one."""
    published(place.folder / "theirs", GRANITE | {"vocab_size": 258})
    (place.folder / "text").write_text("def f(x):\n    return x + 1\n" * 100)
    place.run(data={"kind": "text", "files": ["text"]}, train__steps=3, optimizer__lr=1e-3, parallel__processes=1,
              model={"weights": "theirs", "future_tokens": 3, "new_heads": "copy"})
    place.host("checkpoint", "export", "trial", "-o", "trained")
    model = open_llama(place.folder / "trained")
    found = json.loads(place.host("generate", "trial", "--prompt", "def f(", "--max-tokens", 24, "--json").out)
    prompt, written = torch.tensor([found["prompt_ids"]]), found["ids"]
    wanted = model.generate(prompt, max_new_tokens=24, do_sample=False)[0, prompt.shape[1]:]
    assert len(written) > 3 and written == wanted[:len(written)].tolist()


# Keys whose place or combination decides what transformers computes.
CONFIGS = {
    "rope_theta in rope_scaling": LLAMA3 | {"rope_scaling": STRETCHED | {"rope_theta": 1000.0}},
    "rope_theta in a default rope_scaling": LLAMA3 | {"rope_scaling": {"rope_type": "default", "rope_theta": 1000.0}},
    "an empty rope_scaling":
        LLAMA3 | {"rope_scaling": {}, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}},
    "blocks without the window": MISTRAL | {"layer_types": ["full_attention"] * 3, "head_dim": 16},
    "blocks with the window": MISTRAL | {"layer_types": ["sliding_attention"] * 3, "head_dim": 16},
}


def imported_logits(place, source="theirs", target="ours"):
    """Of head 1 of the imported model, computed in PyTorch, and the table of its shape."""
    table = tomllib.loads(place.host("checkpoint", "import", source, "-o", target).out)["model"]
    shape = Shape(**{name: value for name, value in table.items() if name != "weights"})
    with torch.no_grad():
        return model_of(shape, load_file(place.folder / target / "model.safetensors"))(IDS)[0], table


@pytest.mark.parametrize("case", CONFIGS)
def test_a_config_means_what_it_means_in_transformers(place, case):
    wanted = logits_of(published(place.folder / "theirs", CONFIGS[case]), IDS)
    assert_close(imported_logits(place)[0], wanted)


def test_the_single_file_counts_where_an_older_index_is_left(place):
    theirs = place.folder / "theirs"
    published(theirs, LLAMA3).save_pretrained(theirs, max_shard_size="60KB")
    assert (theirs / "model.safetensors.index.json").exists()
    newer = filled_with_draws(open_llama(theirs), seed=2)
    newer.save_pretrained(place.folder / "newer")
    shutil.copy(place.folder / "newer/model.safetensors", theirs)
    wanted = logits_of(newer, IDS)
    assert torch.equal(logits_of(open_llama(theirs), IDS), wanted), "what transformers reads"
    assert_close(imported_logits(place)[0], wanted)


def test_a_folder_with_config_json_and_params_json_is_read_by_the_names_of_its_tensors(place):
    """As Mistral publishes its models: both files, and the tensors once more under Meta's names."""
    theirs = place.folder / "theirs"
    wanted = logits_of(published(theirs, MISTRAL | {"rope_theta": 1000.0}), IDS)
    (theirs / "params.json").write_text(json.dumps({
        "dim": 64, "n_layers": 3, "head_dim": 16, "hidden_dim": 160, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-05,
        "vocab_size": 512}))
    found, table = imported_logits(place)
    assert_close(found, wanted)
    shutil.copy(place.folder / "ours/model.safetensors", theirs / "consolidated.safetensors")
    shutil.copy(theirs / "config.json", place.folder / "ours")
    losses = []
    for weights in ("ours", "theirs"):
        found, _ = imported_logits(place, weights, "from-" + weights)
        assert_close(found, wanted)
        place.run(**{f"model__{key}": value for key, value in (table | {"weights": weights}).items()},
                  **experiment.ONE_RANK, train__steps=1)
        losses.append(place.log.losses()[1])
    assert losses[0] == losses[1]
