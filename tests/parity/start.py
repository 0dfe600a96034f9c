"""What a run of these tests starts from: weights of the policy and of the reference model as files that the experiment
names, and token ids for which no token of rho-1 lies so near its threshold that rounding decides."""
import experiment
from lora import add_lora
from mtp_model import Shape
from reference import Reference, filled
from safetensors.torch import save_file

POLICY = Shape(dim=64, layers=5, heads=4, kv_heads=4, ffn_dim=192, vocab_size=experiment.VOCAB)
FROZEN = Shape(dim=64, layers=2, heads=4, kv_heads=4, ffn_dim=192, vocab_size=experiment.VOCAB, future_tokens=1)
MARGIN = 1e-5


def keys_of(shape, prefix):
    names = ("dim", "layers", "heads", "kv_heads", "ffn_dim", "vocab_size", "future_tokens", "rope_theta", "norm_eps")
    return {f"{prefix}__{name}": getattr(shape, name) for name in names}


POLICY_KEYS = {"model__weights": "weights.safetensors", **keys_of(POLICY, "model")}
RHO1_KEYS = {"pipeline__plugin": "rho1", "reference__weights": "reference.safetensors",
             **keys_of(FROZEN, "reference__model")}


def write_frozen(folder):
    model = filled(FROZEN, seed=4).requires_grad_(False)
    save_file(model.state_dict(), folder / "reference.safetensors")
    return model


def train_reference(folder, shape, recipe):
    """Writes weights.safetensors, reference.safetensors and tokens.bin, and trains from them with PyTorch."""
    frozen = write_frozen(folder) if recipe.pipeline == "rho1" else None
    for seed in range(11, 61):
        model = filled(shape, seed=3)
        save_file(model.state_dict(), folder / "weights.safetensors")
        if recipe.lora is not None:
            add_lora(model, recipe.lora, experiment.BASE["seed"])
        ids = experiment.write_tokens(folder, recipe.steps * recipe.sequences * recipe.accumulation, seed)
        result = Reference(recipe, model, frozen).train(ids)
        if result.margin > MARGIN:
            return result
    raise AssertionError(f"no token ids keep every token {MARGIN:.0e} from its threshold")
