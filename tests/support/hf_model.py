"""Small transformers models for the import and export tests, opened without a network."""
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

import needs_torch  # noqa: E402, F401
import pytest  # noqa: E402
import torch  # noqa: E402

transformers = pytest.importorskip("transformers", reason="no transformers in .venv: `make setup-tests` installs it")
transformers.logging.set_verbosity_error()

from transformers import (  # noqa: E402
    AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM)

SMALL = dict(vocab_size=512, hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
             max_position_embeddings=96)


def random_llama(seed=1, rounded_to=torch.float32, model_type="llama", **changes):
    """A Llama, or a Qwen2, in fp32."""
    kind, config = {"llama": (LlamaForCausalLM, LlamaConfig), "qwen2": (Qwen2ForCausalLM, Qwen2Config)}[model_type]
    return filled_with_draws(kind(config(**SMALL | changes)), seed, rounded_to)


def filled_with_draws(model, seed=1, rounded_to=torch.float32):
    """Weights large enough that attention and norms matter; transformers' own would hide a wrong order of rows."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn_like(parameter)
            parameter.copy_((1 + 0.3 * drawn if "norm" in name else 0.15 * drawn).to(rounded_to))
    return model.eval()


def open_llama(folder, **options):
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **options)
    wrong = {key: value for key, value in report.items() if value}
    assert not wrong, f"transformers reports keys or shapes that do not match: {wrong}"
    return model.eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.as_tensor(ids)).logits
