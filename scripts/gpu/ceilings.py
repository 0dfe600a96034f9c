"""Prints, as JSON, the versions of the libraries and the rates that this card reaches at most, of copies and matrix
products. Rates are medians, of random data, because products of zeros are faster; buffers are larger than the caches,
and take at most a quarter of the device's memory."""
import json
import os
import platform
import statistics

import torch

small = os.environ.get("WMTP_REHEARSAL") == "1"
free, total = torch.cuda.mem_get_info()
properties = torch.cuda.get_device_properties(0)


def seconds(run, repeats=2 if small else 20):
    run()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def copies():
    count = (1 << 20) if small else min(2 << 30, free // 8)
    here = torch.empty(count, dtype=torch.uint8, device="cuda").random_()
    there = torch.empty_like(here)
    pinned = torch.empty(min(count, 1 << 29), dtype=torch.uint8, pin_memory=True)
    part = there[:pinned.numel()]
    yield "copy on the device, read and written, GB/s", 2 * count / seconds(lambda: there.copy_(here)) / 1e9
    yield "copy from pinned memory, GB/s", pinned.numel() / seconds(lambda: part.copy_(pinned, non_blocking=True)) / 1e9
    yield "copy to pinned memory, GB/s", pinned.numel() / seconds(lambda: pinned.copy_(part, non_blocking=True)) / 1e9


def products():
    size = 64 if small else 8192
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32),
                        ("tf32", torch.float32)):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
        yield f"{name} product of {size}, TFLOP/s", 2 * size**3 / seconds(lambda: a @ b, 2 if small else 10) / 1e12
    torch.backends.cuda.matmul.allow_tf32 = False
    # The largest products of the 1.36B step: 16,384 tokens, width 2048, and its output layer.
    tokens, width = (128, 64) if small else (16384, 2048)
    for what, columns in (("feed-forward", 64 if small else 5632), ("output layer", 512 if small else 32000)):
        x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(columns, width, device="cuda", dtype=torch.bfloat16)
        yield (f"bf16 product of the {what}, {tokens} x {width} x {columns}, TFLOP/s",
               2 * tokens * width * columns / seconds(lambda: x @ w.t()) / 1e12)


versions = {"torch": torch.__version__, "CUDA of torch": torch.version.cuda, "cuDNN": torch.backends.cudnn.version(),
            "NCCL": ".".join(map(str, torch.cuda.nccl.version())), "python": platform.python_version(),
            "libc": " ".join(platform.libc_ver()), "cores": os.cpu_count()}
device = {"name": properties.name, "total_bytes": total, "free_bytes": free,
          "multiprocessors": properties.multi_processor_count, "capability": f"{properties.major}.{properties.minor}"}
print(json.dumps({"versions": versions, "device": device, "rates": dict([*copies(), *products()])}))
