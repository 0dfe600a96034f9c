"""Where a step's time goes, by kind of operation, and how fast each kind is: `python tests/bench/profile_bench.py
[CASE...]`.

Records one rank, by default of two threads, with perf (Debian's linux-perf), assigns each sample to a kind by the
function's name, and divides the operations or bytes of the kind by its time. Operations: those of `plan`, attention's
apart. Bytes: what a kind must read and write once. Limits: bare matrix products, which the run measures, and a copy in
memory. Then the time line of a block, from the trace of one step.
"""
import argparse
import collections
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import MODELS, Case, write_inputs
from host import users_environment
from paths import HOST
from runlog import RunLog

CASES = {f"{model}-{precision}": Case(model, precision, 1, batch, strategy="no_shard", checkpointing="none",
                                      steps=steps)
         for model, batch, steps in (("small", 4, 60), ("wide", 4, 12)) for precision in ("fp32", "bf16")}
CASES["nano-fp32"] = Case("nano", "fp32", 1, 12, strategy="no_shard", checkpointing="none", steps=600, sequence=64)
KINDS = [  # the first that fits a function or its library
    ("matrix products", r"perf-\d+\.map|mkl_|dnnl|brgemm"),
    ("attention", r"tiled_(for|back)ward|attention_|vector_tile|::multiply|::transpose<|causal_softmax"),
    ("cross entropy", r"cross_entropy"),
    ("AdamW, gradient norm, bf16 copy", r"adam|norm_part|reduced_float_copy"),
    ("SwiGLU, norms, rotation", r"swiglu|rms_norm|::rotate"),
    ("adding dW of bf16", r"::accumulate<"),
    ("adding residuals and heads", r"add_kernel"),
    ("one thread waits for the other", r"libgomp"),
    ("the rest", ""),
]


def seconds_by_kind(data, begin, end, step_seconds):
    """Of the samples between two times of the wall clock."""
    text = subprocess.run(["perf", "script", "-i", data, "-F", "time,ip,sym,dso"], capture_output=True, text=True,
                          check=True).stdout
    counts = collections.Counter()
    for line in filter(None, text.splitlines()):
        if begin <= float(line.split(":", 1)[0]) <= end:
            counts[next(kind for kind, pattern in KINDS if re.search(pattern, line))] += 1
    return {kind: count / counts.total() * step_seconds for kind, count in counts.items()}


def work_by_kind(case, operations):
    """{kind: (operations, bytes)} of a step; one of both is 0."""
    shape, tokens, size = MODELS[case.model], case.batch * case.sequence, 2 if case.precision == "bf16" else 4
    dim, ffn, blocks, heads = shape["dim"], shape["ffn_dim"], shape["layers"], shape["future_tokens"]
    attention = 7 * tokens * case.sequence * dim * blocks  # 2 products forward and 5 backward, of half of all pairs
    matrices = blocks * (4 * dim * dim + 3 * dim * ffn) + dim * shape["vocab_size"]
    parameters = matrices + dim * shape["vocab_size"]
    per_block = 8 * ffn + 2 * 5 * dim + 8 * dim  # SwiGLU and its gradient, two norms, q and k rotated twice
    return {
        "matrix products": (operations - 12 * tokens * case.sequence * dim * blocks, 0),  # `plan` counts all pairs
        "attention": (attention, 0),
        "cross entropy": (0, 3 * heads * tokens * shape["vocab_size"] * size),
        "AdamW, gradient norm, bf16 copy": (0, parameters * (4 * 8 + (6 if size == 2 else 0))),
        "SwiGLU, norms, rotation": (0, blocks * tokens * per_block * size),
        "adding dW of bf16": (0, parameters * (8 + 2) if size == 2 else 0),
    }


def copied_per_second():
    """Bytes read and written."""
    import torch
    source = torch.ones(64 << 20)
    target, best = torch.empty_like(source), float("inf")
    for _ in range(10):
        begun = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - begun)
    return 2 * source.nbytes / best


def spans_of(trace):
    """[(microseconds from the step's begin, duration, name)] of kernels and products, but none inside of another."""
    work = re.compile(r"wmtp::|aten::(add_?|mul|copy_|index_select|index_add_|_fused_adamw_)$")
    found = []
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "cpu_op"]
    first = min(event["ts"] for event in events)
    for event in sorted(events, key=lambda event: event["ts"]):
        begin = event["ts"] - first
        if work.match(event["name"]) and not (found and begin < found[-1][0] + found[-1][1]):
            found.append((begin, event["dur"], event["name"].split("::")[1]))
    return found


def time_line(spans, border):
    """Of the second block of which the kernel `border` begins or ends each half."""
    at = [index for index, (_, _, name) in enumerate(spans) if name == border]
    block = spans[at[2]:at[4]] if border == "norm" else spans[at[2] + 1:at[4] + 1]
    duration = block[-1][0] + block[-1][1] - block[0][0]
    between = duration - sum(length for _, length, _ in block)
    return f"{', '.join(f'{name} {length:.0f}' for _, length, name in block)}; between them {between:.0f}"


def measure(name, case, threads):
    with tempfile.TemporaryDirectory(prefix="wmtp-bench-") as folder:
        folder = Path(folder)
        write_inputs(folder, case)
        command = ["perf", "record", "-F", "997", "-e", "cpu-clock", "-k", "CLOCK_REALTIME", "-o", "perf.data", HOST,
                   "run", "bench.toml", "-q", "--set", f"log.profile_step={case.steps - 2}"]
        subprocess.run(command, cwd=folder, env=users_environment({"OMP_NUM_THREADS": threads}), check=True,
                       capture_output=True)
        log = RunLog(folder / "runs/wmtp.db")
        seconds = statistics.median(list(log.metric("perf/step_seconds").values())[2:])
        share = statistics.median(list(log.metric("perf/mfu").values())[2:])
        plan = subprocess.run([HOST, "plan", "bench.toml", "--json", "--like", str(log.newest()["id"])], cwd=folder,
                              env=users_environment(), check=True, capture_output=True, text=True)
        operations = json.loads(plan.stdout)["cluster"]["strategies"][0]["operations"]
        logged = [row["time_ns"] / 1e9 for row in log.query(
            "SELECT time_ns FROM metrics WHERE run_id = ? AND name = 'train/loss' ORDER BY step", log.newest()["id"])]
        spent = seconds_by_kind(folder / "perf.data", logged[1], logged[-1], seconds)
        spans = spans_of(next(folder.glob("runs/*/profile-0000.json")))
    print(f"{name}, {threads} threads: {seconds * 1e3:.0f} ms a step; bare products "
          f"{operations / seconds / share / 1e9:,.0f} GFLOP/s\n")
    print("| | share | ms | GFLOP or GB | GFLOP/s or GB/s |\n| --- | --- | --- | --- | --- |")
    work = work_by_kind(case, operations)
    for kind, _ in KINDS:
        time_of = spent.get(kind, 0)
        if time_of < 0.002 * seconds:
            continue
        done, moved = work.get(kind, (0, 0))
        amount = f"{done / 1e9:,.1f} GFLOP" if done else f"{moved / 1e9:.2f} GB" if moved else ""
        rate = f"{done / time_of / 1e9:,.0f}" if done else f"{moved / time_of / 1e9:.1f}" if moved else ""
        print(f"| {kind} | {100 * time_of / seconds:.0f}% | {1e3 * time_of:.1f} | {amount} | {rate} |")
    print(f"\nA block forward, microseconds: {time_line(spans, 'norm')}")
    print(f"and backward: {time_line(spans, 'norm_backward')}\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"unknown cases: {', '.join(unknown)}")
    if not shutil.which("perf"):
        sys.exit("profile_bench.py needs perf: install Debian's linux-perf")
    print(f"a copy in memory: {copied_per_second() / 1e9:.1f} GB/s read and written\n")
    for name in arguments.cases or CASES:
        measure(name, CASES[name], arguments.threads)


if __name__ == "__main__":
    main()
