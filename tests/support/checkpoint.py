"""Reads checkpoints of the host with the reference library of safetensors, and damages them on purpose."""
import json
import math

import needs_torch  # noqa: F401
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file


def model_tensors(run_folder, model="model"):
    """The finished model's tensors, by Meta's names."""
    files = sorted((run_folder / model).glob("*.safetensors"))
    assert files, f"{run_folder}/{model} holds no safetensors file"
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def adapter_tensors(run_folder):
    """The adapter's trained tensors, by full names."""
    return load_file(run_folder / "adapter/adapter.safetensors")


def state_tensors(step_folder, prefix):
    """Logical tensors `prefix/NAME` of a training checkpoint, assembled from the ranks' slices."""
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


def crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    total = 0xFFFFFFFF
    for byte in data:
        total = total >> 8 ^ table[(total ^ byte) & 0xFF]
    return total ^ 0xFFFFFFFF


def seal(folder, manifest):
    """Writes a manifest with a valid checksum, whatever its content, as an attacker could."""
    def text():
        return json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    manifest.pop("crc32c", None)
    manifest["crc32c"] = crc32c(text().encode())
    (folder / "manifest.json").write_text(text() + "\n")


def craft_dtype(folder, dtype):
    """Changes the dtype of the last rank's slice of a parameter and updates all checksums. Returns the names of the
    file and the tensor."""
    manifest = json.loads((folder / "manifest.json").read_text())
    changed = next(part for part in reversed(manifest["slices"])
                   if part["tensor"].startswith("param/") and part["begin"] > 0)
    file = folder / changed["file"]
    tensors = load_file(file)
    tensors[changed["entry"]] = tensors[changed["entry"]].to(getattr(torch, dtype))
    save_file(tensors, file)
    data = file.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    places = json.loads(data[8:begin])
    first, last = places[changed["entry"]]["data_offsets"]
    changed["crc32c"] = crc32c(data[begin + first:begin + last])
    manifest["files"][file.name] = {"bytes": len(data), "crc32c": crc32c(data[:begin])}
    seal(folder, manifest)
    return file.name, changed["tensor"]
