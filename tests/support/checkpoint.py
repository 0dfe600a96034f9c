"""Reads what the host saved, with the reference library of safetensors, and damages it on purpose."""
import json
import math

import needs_torch  # noqa: F401
import torch
from safetensors import safe_open
from safetensors.torch import load_file


def step_folders(run_folder):
    """Whole checkpoints for resuming, oldest first."""
    return sorted(f for f in run_folder.glob("step-*") if f.name[5:].isdigit())


def model_tensors(run_folder):
    """The finished model, by Meta's names."""
    files = sorted((run_folder / "model").glob("*.safetensors"))
    assert files, f"{run_folder}/model holds no safetensors file"
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def adapter_tensors(run_folder):
    """What the adapter trained, by full names."""
    return load_file(run_folder / "adapter/adapter.safetensors")


def state_tensors(step_folder, prefix):
    """Logical tensors `prefix/NAME` of a checkpoint for resuming, put together from the ranks' slices."""
    manifest = json.loads((step_folder / "manifest.json").read_text())
    tensors, filled = {}, {}
    for part in manifest["slices"]:
        kind, _, name = part["tensor"].partition("/")
        if kind != prefix:
            continue
        if name not in tensors:
            tensors[name] = torch.empty(math.prod(part["shape"]))
            filled[name] = (part["shape"], 0)
        with safe_open(step_folder / part["file"], framework="pt") as file:
            tensors[name][part["begin"]:part["end"]] = file.get_tensor(part["entry"]).flatten().float()
        shape, done = filled[name]
        filled[name] = (shape, done + part["end"] - part["begin"])
    assert tensors, f"no slice of {prefix}/ in {step_folder}"
    for name, (shape, done) in filled.items():
        assert done == math.prod(shape), f"{prefix}/{name}: {done} of {math.prod(shape)} elements"
        tensors[name] = tensors[name].view(shape)
    return tensors


def flip_bit(file, position, bit=0):
    with open(file, "r+b") as opened:
        opened.seek(position)
        byte = opened.read(1)[0]
        opened.seek(position)
        opened.write(bytes([byte ^ (1 << bit)]))
