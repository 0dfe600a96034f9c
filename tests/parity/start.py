"""Inputs of the runs in these tests: weights of the policy and of frozen models as files for the experiment, and data
in which no token lies so close to a threshold that rounding decides."""
import json
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain, cycle, islice

import experiment
import numpy as np
import records
from lora import add_lora
from mtp_model import Shape, tensors_of
from reference import MARGIN, Reference, filled
from safetensors.torch import save_file
from value_head import add_value_head, spread_values, without_token_heads

POLICY = Shape(dim=64, layers=5, heads=4, kv_heads=4, ffn_dim=192, vocab_size=experiment.VOCAB)
FROZEN = Shape(dim=64, layers=2, heads=4, kv_heads=4, ffn_dim=192, vocab_size=experiment.VOCAB, future_tokens=1)
READER = Shape(dim=64, layers=4, heads=4, kv_heads=2, ffn_dim=160, vocab_size=records.VOCAB, future_tokens=2)
JUDGE = Shape(dim=48, layers=3, heads=4, kv_heads=4, ffn_dim=128, vocab_size=records.VOCAB, future_tokens=1)


def keys_of(shape, prefix):
    """Keys of the fields that are set: without flags that are off and without a missing scaling."""
    said = {name: value for name, value in vars(shape).items() if value is not None and value is not False}
    return {f"{prefix}__{name}": value for name, value in said.items()}


POLICY_KEYS = {"model__weights": "weights.safetensors", **keys_of(POLICY, "model")}
REFERENCE_KEYS = {"reference__weights": "reference.safetensors", **keys_of(FROZEN, "reference__model")}
# Features that the policy may have and the reference lacks must be turned off explicitly.
PLAIN_REFERENCE = {"reference__model__qkv_bias": False, "reference__model__tie_word_embeddings": False,
                   "reference__model__rope_scaling": {"rope_type": "default"}}
RHO1_KEYS = {"pipeline__plugin": "rho1", **REFERENCE_KEYS}
RECORD_KEYS = {"data__kind": "records", "data__files": ["records.jsonl"], "data__template": "plain", "data__file": None,
               "data__dtype": None}
PACKED_KEYS = {"data__packing": True}
DOCUMENT_KEYS = {"data__kind": "text", "data__files": ["documents.txt"], "data__separator": records.SEPARATOR,
                 "data__file": None, "data__dtype": None, "data__tokenizer": {"kind": "byte"}}
DATA_KEYS = {"windows": {}, "records": RECORD_KEYS, "pairs": RECORD_KEYS, "packed": RECORD_KEYS | PACKED_KEYS,
             "documents": DOCUMENT_KEYS | PACKED_KEYS, "weighted": RECORD_KEYS,
             "weighted-packed": RECORD_KEYS | PACKED_KEYS}


def changes_for(shape, recipe, ranks=2):
    """The keys of the experiment that correspond to the recipe."""
    changes = {
        "model__weights": "weights.safetensors", "seed": recipe.seed,
        "train__steps": recipe.steps, "train__batch_size": recipe.sequences // ranks,
        "train__sequence_length": recipe.sequence_length,
        "train__gradient_accumulation": recipe.accumulation, "train__normalize": recipe.normalize,
        "train__head_weights": recipe.head_weights, "train__clip_norm": recipe.clip_norm, "train__norm": recipe.norm,
        "train__detach_heads": recipe.detach_heads or None, "parallel__processes": ranks,
        "train__ema": recipe.ema or None, "optimizer__name": recipe.optimizer, "optimizer__momentum": recipe.momentum,
        "optimizer__lr": recipe.lr, "optimizer__weight_decay": recipe.weight_decay,
        "optimizer__value_head_lr": recipe.value_head_lr,
        "schedule__decay": recipe.decay if recipe.schedule == "wsd" else None,
        "schedule__name": recipe.schedule, "schedule__warmup_steps": recipe.warmup_steps,
        "schedule__min_lr_ratio": recipe.min_lr_ratio, "schedule__stable_steps": recipe.stable_steps or None,
        "parallel__strategy": "full_shard", "parallel__precision": "fp32",
        "pipeline__plugin": recipe.pipeline, **{f"pipeline__{name}": value for name, value in recipe.options.items()},
        "adapter__plugin": recipe.adapter, **{f"adapter__{name}": value for name, value in (recipe.lora or {}).items()},
        **keys_of(shape, "model"),
    }
    changes |= DATA_KEYS[recipe.data]
    if recipe.rows and recipe.data == "windows":  # steps read each window of a token file at most once
        read = recipe.steps * recipe.sequences * recipe.accumulation
        changes |= {"train__steps": None, "train__epochs": read / recipe.rows}
    if recipe.groups:
        changes["optimizer__groups"] = recipe.groups
    if recipe.train:
        changes["adapter__train"] = recipe.train
    if recipe.optimizer != "sgd":
        changes |= {"optimizer__betas": list(recipe.betas), "optimizer__eps": recipe.eps}
    if recipe.auxiliary:
        changes |= {f"auxiliary_loss__{name}": value for name, value in recipe.auxiliary.items()}
    if reads_reference(recipe):
        frozen = frozen_shape(recipe, shape.vocab_size)
        changes |= REFERENCE_KEYS | PLAIN_REFERENCE | keys_of(frozen, "reference__model")
        changes |= {"reference__heads": recipe.heads}
    for name, differs in recipe.references.items():
        prefix = f"references__{name}"
        changes |= {f"{prefix}__weights": f"{name}.safetensors"} | {
            key.replace("reference", prefix, 1): value for key, value in PLAIN_REFERENCE.items()}
        changes |= keys_of(replace(FROZEN, vocab_size=shape.vocab_size, **differs), f"{prefix}__model")
    if reads_judge(recipe):
        changes |= {"value__weights": "judge"}
    return changes


def reads_reference(recipe):
    read = str(recipe.options) + str(recipe.auxiliary)
    return recipe.pipeline in ("rho1", "mean_excess") or "ref" in read or "rho1" in read


def reads_judge(recipe):
    return recipe.pipeline == "verifiable" and not recipe.options.get("joint")


def frozen_shape(recipe, vocab_size):
    return replace(FROZEN, vocab_size=vocab_size, **recipe.frozen)


def write_frozen(folder, sharp=1.0, shape=FROZEN, name="reference", seed=4):
    model = filled(shape, seed, sharp).requires_grad_(False)
    save_file(model.state_dict(), folder / f"{name}.safetensors")
    return model


def write_named(folder, recipe, vocab_size):
    return {name: write_frozen(folder, recipe.sharp, replace(FROZEN, vocab_size=vocab_size, **differs), name, seed)
            for seed, (name, differs) in enumerate(recipe.references.items(), 20)}


def write_judge(folder, kind="mlp"):
    """Writes the folder `judge` with a value model, as saved by a critic."""
    model = spread_values(add_value_head(without_token_heads(filled(JUDGE, seed=5)), kind, seed=0), 6, 0.2)
    target = folder / "judge"
    target.mkdir(exist_ok=True)
    save_file(model.state_dict(), target / "model.safetensors")
    params = {"dim": JUDGE.dim, "n_layers": JUDGE.layers, "n_heads": JUDGE.heads, "n_kv_heads": JUDGE.kv_heads,
            "n_future_tokens": JUDGE.future_tokens, "rope_theta": JUDGE.rope_theta, "norm_eps": JUDGE.norm_eps,
            "value_heads": [{"name": "value", "kind": kind, "meaning": "value"}]}
    (target / "params.json").write_text(json.dumps(params))
    return model.requires_grad_(False)


def start_model(folder, shape, recipe):
    """Writes weights.safetensors and returns the model with these weights."""
    model = filled(shape, 3, recipe.sharp)
    save_file(tensors_of(model), folder / "weights.safetensors")
    is_critic = recipe.pipeline == "critic"
    if is_critic:
        without_token_heads(model)
    if recipe.adapter == "lora":
        add_lora(model, recipe.lora or {}, recipe.seed)
    if recipe.adapter == "frozen":
        model.requires_grad_(False)
    if trains := ["extra_heads.*"] if recipe.adapter == "heads" else recipe.train:
        for name, parameter in model.named_parameters():
            of_adapter = recipe.adapter == "lora" and parameter.requires_grad
            parameter.requires_grad_(of_adapter or any(fnmatchcase(name, pattern) for pattern in trains))
    if is_critic or recipe.options.get("joint"):
        add_value_head(model, recipe.options.get("head", "linear"), recipe.seed)
        if recipe.value_start:
            given = filled(shape, 3, recipe.sharp).state_dict()
            spread_values(model, 8, recipe.value_start)
            save_file(given | model.value_heads.state_dict(prefix="value_heads."), folder / "weights.safetensors")
    return model


def write_batches(folder, recipe, seed):
    count = recipe.steps * recipe.sequences * recipe.accumulation
    rows = recipe.rows or count
    if recipe.data == "windows":
        ids = experiment.write_tokens(folder, rows, seed).reshape(rows, -1)
        return records.window_batches(ids[np.arange(count) % rows], recipe.sequence_length, recipe.sequences)
    if recipe.data == "documents":
        rows = records.write_documents(folder, count * recipe.sequence_length, recipe.sequence_length, seed)
        return [records.document_batch(chain(*rows[first:first + recipe.sequences]), first)
                for first in range(0, count, recipe.sequences)]
    weighted = recipe.data.startswith("weighted")
    if recipe.data.endswith("packed"):
        lines = records.write_records(folder, 4 * rows, seed=seed, weighted=weighted)
        packs, rates = records.packed(lines, recipe.sequence_length), records.pass_rates(lines)
        packs *= -(-count // len(packs))
        return [records.record_batch(list(chain(*packs[first:first + recipe.sequences])), first, rates)
                for first in range(0, count, recipe.sequences)]
    lines = records.write_records(folder, rows, unknown=recipe.data == "records", seed=seed, weighted=weighted)
    return records.record_batches(list(islice(cycle(lines), count)), recipe.sequences)


def write_start(folder, shape, recipe, seed):
    """Writes weights, frozen models and data; returns the reference that starts from them, and its micro-batches."""
    frozen = (write_frozen(folder, recipe.sharp, frozen_shape(recipe, shape.vocab_size)) if reads_reference(recipe)
              else None)
    judge = write_judge(folder) if reads_judge(recipe) else None
    named = write_named(folder, recipe, shape.vocab_size)
    return (Reference(recipe, start_model(folder, shape, recipe), frozen, judge, named),
            write_batches(folder, recipe, seed))


def train_reference(folder, shape, recipe):
    """Writes the inputs of a run, and trains on them with PyTorch."""
    for seed in range(11, 61):
        reference, batches = write_start(folder, shape, recipe, seed)
        if result := reference.train(batches):
            return result
    raise AssertionError(f"no data keeps every token {MARGIN:.0e} from its threshold")
