"""The parts of first_gpu.sh. Each is a function that adds rows to its table; what takes longer than the part's time, or
than this machine allows, is a row `not measured` with the reason."""
import gzip
import importlib.util
import json
import os
import re
import shutil
import statistics
import subprocess
import threading

import model
import step_trace
from model import REHEARSAL, ROOT
from part import python
from runlog import RunLog, step_folders

# Milliseconds of the step of baseline-1b3.toml on an H200 (2026-11-28, docs/decisions/0037-cuda-kernels.md).
ON_H200 = {"products": 243.1, "attention": 63.3, "norm": 7.2, "SwiGLU": 10.6, "rotation": 5.0, "cross entropy": 4.3,
           "AdamW": 11.2, "gradient norm": 1.6}


def measured_ceilings(part, seconds=90):
    text = part.text_of("ceilings", python(ROOT / "scripts/gpu/ceilings.py"), seconds)
    if text is None:
        return None
    found = json.loads(text.strip().splitlines()[-1])
    part.figures["ceilings"] = found
    return found


def device_bytes(part):
    text = part.text_of("device", python("-c", "import torch; print(*torch.cuda.mem_get_info())"), 60)
    if text is None:
        return 0, 0
    free, total = text.split()[-2:]
    return int(free), int(total)


def doctor_rows(part, text):
    for line in text.splitlines():
        cells = re.split(r"  +", line.strip(), maxsplit=1)
        if len(cells) == 2:
            part.row(*cells)


def facts(part):
    if shutil.which("nvidia-smi"):
        fields = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit,mig.mode.current"
        part.step("nvidia-smi", ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], 20,
                  show=lambda text: text.strip().splitlines()[0])
        part.ended(["nvidia-smi", "-q"], 20)
        part.ended(["nvidia-smi", "topo", "-m"], 20)
    else:
        part.not_measured("nvidia-smi", "is not in PATH")
    if found := measured_ceilings(part):
        part.row("device", found["device"]["name"], f"{found['device']['free_bytes'] / 2**30:.1f} of "
                 f"{found['device']['total_bytes'] / 2**30:.1f} GiB free")
        part.row("versions", ", ".join(f"{name} {value}" for name, value in found["versions"].items()))
        for name, rate in found["rates"].items():
            part.row(name, f"{rate:,.1f}")
    for words in (["doctor"], ["doctor", "--device", "cuda"]):
        if ended := part.step(" ".join(words), [part.host, *words], 120):
            doctor_rows(part, ended.text)


def sanitized(part, tool):
    if not shutil.which("compute-sanitizer"):
        part.not_measured(tool, "compute-sanitizer is not in PATH")
        return
    # Calls that fail as intended are no faults: doctor fills the device, and NCCL asks for kernels of other devices.
    only_accesses = ["--report-api-errors", "no"] if tool == "memcheck" else []
    part.step(tool, ["compute-sanitizer", "--tool", tool, *only_accesses, "--kernel-name", "kns=wmtp",
                     "--target-processes", "all", "--error-exitcode", "9", part.host, "doctor", "--device", "cuda"],
              100,
              show=lambda text: (re.findall(r"ERROR SUMMARY.*|RACECHECK SUMMARY.*", text) or [""])[-1])


def full_device(part, folder):
    """More activations than the device has memory: exit code 8, within seconds."""
    file = folder / "baseline-1b3.toml"
    _, total = device_bytes(part)
    row = model.value_of(file, "sequence_length") * model.value_of(file, "dim") * 2  # bytes of one sequence in bf16
    part.step("full device: exit code 8", [part.host, "--db", part.work / "full.db", "run", file, "--set",
                                           f"train.batch_size={total // row + 1}"], 90, wanted=8,
              show=lambda text: re.search(r"out of memory[^;]*|$", text)[0][:120])


def killed_and_resumed(part, folder):
    """A run killed by SIGKILL after a checkpoint, resumed, against one that was not: equal losses, bit for bit."""
    steps, every, at = (100, 5, 8) if REHEARSAL else (400, 50, 120)  # the signal must arrive before the end
    settings = [word for setting in (
        f"model.dim={64 if REHEARSAL else 256}", "model.ffn_dim=512", "model.layers=6", "model.heads=2",
        "model.vocab_size=1000", "train.batch_size=2", "train.sequence_length=64", f"train.steps={steps}",
        f"checkpoint.every_steps={every}") for word in ("--set", setting)]
    command = [part.host, "--db", part.work / "kill.db", "run", folder / "baseline-1b3.toml", *settings, "--name"]
    log = RunLog(part.work / "kill.db")
    what = "killed, resumed: equal losses"
    if part.text_of(what, [*command, "whole"], 120) is None:
        return
    wanted, before = log.losses(), log.newest_id()
    killed = part.ended([*command, "killed"], 120,
                        until=lambda: log.last_step(before) >= at and step_folders(part.work / f"{before + 1}-killed"))
    if killed is None or killed.code is not None:
        part.check(what, False, "the run ended before it was killed", killed.last_line() if killed else "no time left")
        return
    first = log.losses()
    if part.text_of(what, [*command, "killed", "--resume"], 120) is None:
        return
    second = log.losses()
    different = [step for step, loss in (first | second).items() if loss != wanted[step]]
    part.check(what, not different and first.keys() | second.keys() == wanted.keys(),
               f"killed after step {max(first)}, resumed from {min(second) - 1}, "
               f"{len(different)} of {steps} losses differ")


def kernels(part):
    if ended := part.step("each kernel against the CPU, and twice", [part.host, "doctor", "--device", "cuda"], 120):
        doctor_rows(part, ended.text)


def cuda_tests(part):
    """Several at a time, if Python has pytest-xdist: they use little of a GPU."""
    tests = [ROOT / "tests/parity/cuda_test.py", *(["-k", "memory_is_in_the_log"] if REHEARSAL else [])]
    options = ["-q", "-rfEs", "-p", "no:cacheprovider", "--basetemp", part.work / "pytest", "--rootdir", ROOT / "tests",
               "-c", ROOT / "tests/pytest.ini"]
    workers = min(8, len(os.sched_getaffinity(0)) // 2)
    if importlib.util.find_spec("xdist") and workers > 1:
        options += ["-p", "xdist.plugin", "-n", workers]
    ended = part.ended(python("-m", "pytest", *options, *tests), 240,
                       env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": 1, "PYTHONDONTWRITEBYTECODE": 1})
    if ended is None:
        part.not_measured("cuda_test.py", "no time left")
    else:
        said = ended.last_line() if not ended.timed_out else "no end after 240 s"
        part.check("cuda_test.py", ended.code == 0 and "passed" in said, f"{ended.seconds:.0f} s", said)
        for line in re.findall(r"^(?:FAILED|ERROR|SKIPPED) .*", ended.text, re.MULTILINE):
            part.row(line[:150])


def correct(part):
    folder = model.experiments(part.work)
    kernels(part)
    cuda_tests(part)
    killed_and_resumed(part, folder)
    full_device(part, folder)
    for tool in ("memcheck", "racecheck"):
        sanitized(part, tool)


class Power:
    """Watts of the card while this exists, sampled twice a second; none without nvidia-smi."""

    def __init__(self):
        self.watts, self.done = [], threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self):
        if shutil.which("nvidia-smi"):
            self.thread.start()
        return self

    def _sample(self):
        while not self.done.wait(0.5):
            said = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=power.draw", "--format=csv,noheader,nounits"],
                                  capture_output=True, text=True, check=False).stdout
            if found := re.match(r"[\d.]+", said):
                self.watts.append(float(found[0]))

    def __exit__(self, *_):
        self.done.set()
        if self.thread.is_alive():
            self.thread.join(5)

    def text(self):
        """The mean of the upper half: that of training, not of the start."""
        upper = sorted(self.watts)[len(self.watts) // 2:]
        return f"{statistics.mean(upper):.0f} W" if upper else "no power"


def token_file(part, file, steps):
    """Random tokens for that many steps of this experiment."""
    import numpy as np
    count = steps * model.value_of(file, "batch_size") * model.value_of(file, "sequence_length")
    path = part.work / f"ids-{steps}.bin"
    np.random.default_rng(1).integers(0, model.value_of(file, "vocab_size"), count).astype("<u2").tofile(path)
    return path


def shown(figures):
    return [f"{figures['tokens_per_second']:,.0f} tokens/s", f"{1e3 * figures['step_seconds']:.1f} ms",
            f"MFU {figures.get('mfu', 0):.3f}", f"{figures['peak'].get('allocated', 0) / 2**30:.1f} GiB allocated"]


def measured(part, name, file, *settings, **options):
    """Trains, and adds a row: speed, memory, launches and waits of one step, power."""
    with Power() as power:
        figures = part.train(name, file, *settings, profile=True, **options)
    if not figures:
        return None
    of_step = step_trace.summary(figures["profile"]) if figures["profile"] else {"kernels": 0}
    counts = (f"{of_step['kernels']:,} launches, {of_step['waits']} waits" if of_step["kernels"]
              else "no launches counted: the profile has no activity of the device")
    part.row(name, *shown(figures), counts, power.text())
    part.figures[name] = {**figures, "trace": of_step, "watts": power.watts}
    return figures


def peer(part, name, file, *words, distributed=False):
    """Trains the same shape with PyTorch, and adds a row. Returns its tokens/s, or None."""
    steps, of = 4 if REHEARSAL else 15, lambda key: model.value_of(file, key)  # noqa: E731
    ffn_dim = 256 * -(-8 * of("dim") // (3 * 256))
    command = python(ROOT / "tests/bench/peer.py", "--tokens", token_file(part, file, steps), "--device", "cuda",
                     "--bf16", "--steps", steps, "--batch", of("batch_size"), "--sequence", of("sequence_length"),
                     "--dim", of("dim"), "--layers", of("layers"), "--heads", of("heads"), "--ffn-dim", ffn_dim,
                     "--vocab", of("vocab_size"))
    env = {"TORCHINDUCTOR_CACHE_DIR": part.work / "inductor", "TRITON_CACHE_DIR": part.work / "triton"}
    if distributed:
        env |= {"WORLD_SIZE": 1, "RANK": 0, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29599}
    ended = part.ended([*command, *words], 100, env=env)
    if ended is None:
        part.not_measured(name, "no time left; run this part again")
    elif "out of memory" in ended.text:
        part.not_measured(name, "out of memory")
    elif ended.code != 0:
        part.check(name, False, f"no end after {ended.seconds:.0f} s" if ended.timed_out else ended.last_line())
    else:
        result = json.loads(next(line for line in ended.text.splitlines() if line.startswith("{")))
        seconds = statistics.median(result["step_seconds"][steps // 3:])
        rate = of("batch_size") * of("sequence_length") / seconds
        part.row(name, f"{rate:,.0f} tokens/s", f"{1e3 * seconds:.1f} ms", "",
                 f"{result['peak_bytes'] / 2**30:.1f} GiB allocated")
        part.figures[name] = {"tokens_per_second": rate, "step_seconds": seconds, "peak_bytes": result["peak_bytes"]}
        return rate
    return None


def peers(part, file):
    """The tokens/s of PyTorch's forms, by checkpointing. FSDP2's is compiled block by block, as torchtitan does."""
    can_compile = bool(shutil.which("cc") or shutil.which("gcc")) and not REHEARSAL
    rates = {}
    for key, words in (("full", ["--checkpointing"]), ("none", [])):
        rates[key] = [peer(part, f"PyTorch-FSDP2-{key}", file, *words, distributed=True)]
        if can_compile:
            rates[key].append(peer(part, f"PyTorch-FSDP2-compiled-{key}", file, *words, "--compile", distributed=True))
    if can_compile:
        rates["none"].append(peer(part, "PyTorch-compiled-autocast", file, "--compile"))
    else:
        part.not_measured("PyTorch-compiled", "a rehearsal" if REHEARSAL else "torch.compile needs a C compiler")
    import torch
    if not hasattr(torch.nn.functional, "linear_cross_entropy"):
        part.not_measured("PyTorch's fused linear cross entropy", f"torch {torch.__version__} has none")
    return {key: max((rate for rate in of if rate), default=None) for key, of in rates.items()}


def speed(part):
    folder = model.experiments(part.work)
    base, rho1 = folder / "baseline-1b3.toml", folder / "rho1-1b3.toml"
    ours = {"full": measured(part, "baseline-full-checkpointing", base),
            "none": measured(part, "baseline-no-checkpointing", base, "parallel.activation_checkpointing='none'")}
    for key, fastest in peers(part, base).items():
        if ours[key] and fastest:
            part.row(f"compared with the fastest peer, checkpointing {key}",
                     f"{ours[key]['tokens_per_second'] / fastest:.2f} times its speed")
    kept = measured(part, "rho1-kept-losses", model.on_repeated_tokens(rho1, "rho1-kept", token_file(part, base, 6)))
    if kept and ours["full"]:
        part.row("rho-1 compared with the baseline",
                 f"{kept['step_seconds'] / ours['full']['step_seconds']:.2f} of its step")
    for name, setting in (("lora", "adapter.plugin='lora'"), ("chained-heads", "model.future_heads='chained'"),
                          ("not-deterministic", "parallel.deterministic=false")):
        measured(part, name, base, setting)


def plan_json(part, what, file, *words):
    text = part.text_of(what, [part.host, "plan", file, "--json", *words], 60)
    return text and json.loads(text[text.index("{"):])


def planned(part, file, *settings):
    """This experiment's row of `plan`; None, with a row that says why."""
    found = plan_json(part, f"plan of {file.stem}", file, *[word for one in settings for word in ("--set", one)])
    return found and next(row for row in found["memory"] if row["this_one"])


def mebibytes(count):
    return f"{count / 2**20:,.1f}"


def compare_memory(part, name, file, *settings):
    plan = planned(part, file, *settings)
    figures = plan and part.train(name, file, *settings, steps=5, skip=2, seconds=100)
    if not figures:
        return
    used, peak = figures["phases"], figures["peak"]
    wanted = plan["bytes"]["allocated"]
    part.row(name, f"peak: plan {mebibytes(wanted)} MiB", f"allocated {mebibytes(peak['allocated'])}",
             f"ratio {peak['allocated'] / wanted:.3f}", f"reserved {mebibytes(peak['reserved'])}",
             f"of the device {mebibytes(peak['device_used'])}")
    for phase, categories in plan["phases"].items():
        of = used.get(phase, {})
        cells = [f"{category} {mebibytes(wanted)} : {mebibytes(of.get(category, 0))}"
                 for category, wanted in categories.items() if max(wanted, of.get(category, 0)) >= 1 << 16]
        if of:
            part.row(f"{name}, {phase}, MiB planned : used", ", ".join(cells))
    part.figures[name] = {"plan": plan, "used": used, "peak": peak}


def memory(part):
    folder = model.experiments(part.work)
    base = folder / "baseline-1b3.toml"
    compare_memory(part, "reference-0.2B", folder / "reference-1b3.toml")
    compare_memory(part, "baseline-1.36B", base)
    compare_memory(part, "baseline-1.36B-no-checkpointing", base, "parallel.activation_checkpointing='none'")
    free, _ = device_bytes(part)
    room = free - (1 << 30) if free > 8 << 30 else free // 2  # for kernels, the libraries' workspaces, unusable blocks
    found = plan_json(part, "plan --fit", base, "--fit", f"{max(room, 1 << 20) / 2**30:.3f}GiB")
    if not found:
        return
    largest = found["fit"]["largest"]
    if not largest:
        part.check("plan --fit", False, "no batch fits")
        return
    part.row("plan --fit", f"{room / 2**30:.1f} GiB", f"batch_size {largest['batch_size']}")
    batch = largest["batch_size"] if not REHEARSAL else min(largest["batch_size"], 16)
    name = "the-largest-that-fits"
    compare_memory(part, name, base, f"train.batch_size={batch}")
    part.failed = part.failed or name not in part.figures


def profile_rows(part, name, figures):
    """Where the time of a profiled step goes."""
    of = step_trace.summary(figures["profile"])
    part.figures[name] = of | {"step_seconds": figures["step_seconds"]}
    if name == "baseline":
        kept = gzip.compress(figures["profile"].read_bytes())
        if len(kept) <= 15 << 20:
            (part.out / f"{part.name}-trace.json.gz").write_bytes(kept)
    if not of["kernels"]:
        part.not_measured(name, "the profile has no activity of the device: CUPTI does not work here")
        return
    part.row(name, f"step {1e3 * figures['step_seconds']:.1f} ms", f"in the profile {of['span_ms']:.1f} ms",
             f"idle {of['idle_ms']:.1f} ms", f"{of['kernels']:,} launches", f"{of['copies']} copies",
             f"{of['waits']} waits of {of['waited_ms']:.1f} ms")
    for kind, spent in of["milliseconds"].items():
        known = ON_H200.get(kind) if name == "baseline" else None
        part.row(f"{name}: {kind}", f"{spent:.2f} ms", f"on an H200 {known} ms" if known else "")
    for gap, before, after in of["gaps"]:
        part.row(f"{name}: gap", f"{gap:.3f} ms", f"{before} -> {after}")
    for kernel, count, spent in of["largest"][:8]:
        part.row(f"{name}: kernel", f"{spent:.2f} ms", f"{count} times", kernel[:90])


def profile(part):
    folder = model.experiments(part.work)
    cases = {"baseline": (folder / "baseline-1b3.toml", ()),
             "no-checkpointing": (folder / "baseline-1b3.toml", ("parallel.activation_checkpointing='none'",)),
             "rho1": (folder / "rho1-1b3.toml", ())}
    for name, (file, settings) in cases.items():
        figures = part.train(name, file, *settings, steps=12, profile=True, seconds=90)
        if not figures:
            continue
        if not figures["profile"]:
            part.check(name, False, "the run wrote no profile")
            continue
        profile_rows(part, name, figures)
    found = measured_ceilings(part)
    if found:
        part.row("ceilings", *[f"{name} {rate:,.0f}" for name, rate in found["rates"].items()
                               if "device" in name or "bf16" in name])
    if ended := part.step("rates of each kernel", [part.host, "doctor", "--device", "cuda"], 120):
        doctor_rows(part, "\n".join(re.findall(r"^(?:.* speed|speed|copies) +.*", ended.text, re.MULTILINE)))


def documents(part):
    """Short documents in JSON lines, several of them in each sequence."""
    path = part.work / "documents.jsonl"
    words = "the quick brown fox jumps over a lazy dog while seven wizards make toxic brew".split()
    with open(path, "w") as lines:
        for i in range(200 if REHEARSAL else 40_000):
            length = (4 if REHEARSAL else 100) + i % 7
            text = " ".join(words[(i * 7 + j * j) % len(words)] for j in range(length))
            lines.write(json.dumps({"text": text}) + "\n")
    return path


def kinds_of_attention(part):
    text = part.text_of("attention", python(ROOT / "scripts/gpu/attention.py"), 60)
    if text is None:
        return
    part.figures["attention"] = json.loads(text.strip().splitlines()[-1])
    for kind, of in part.figures["attention"].items():
        if "error" in of:
            part.not_measured(f"attention: {kind}", of["error"])
        else:
            part.row(f"attention: {kind}", f"{of['microseconds']:.0f} us", f"{of['TFLOP/s']:.0f} TFLOP/s",
                     "equal bits when repeated" if of["repeated bits"] else "different bits when repeated",
                     f"{of['distance']:.0e} from fp64" if "distance" in of else "")


def brief(part):
    """What matters most, in about four minutes, for a device that is lent by the minute."""
    folder = model.experiments(part.work)
    base = folder / "baseline-1b3.toml"
    kernels(part)
    for name, settings in (("baseline", ()), ("no-checkpointing", ("parallel.activation_checkpointing='none'",))):
        figures = part.train(name, base, *settings, steps=18, profile=True)
        if figures:
            part.row(f"{name}: speed", *shown(figures))
        if figures and figures["profile"]:
            profile_rows(part, name, figures)
    kinds_of_attention(part)
    cuda_tests(part)
    killed_and_resumed(part, folder)
    peer(part, "PyTorch-FSDP2-none", base, distributed=True)


def switches(part):
    """None of the optimizations of decision 0038 is implemented. These pairs measure what they would save at most, and
    what the settings that exist cost: A B B A, each the median step of a run."""
    kinds_of_attention(part)
    folder = model.experiments(part.work)
    base, rho1 = folder / "baseline-1b3.toml", folder / "rho1-1b3.toml"
    text = model.on_text(base, "text", documents(part))
    repeated = model.on_repeated_tokens(rho1, "rho1-kept", token_file(part, base, 6))
    pairs = {"parallel.deterministic = false": (base, (), ("parallel.deterministic=false",)),
             "data.packing, whose attention reads the lengths of documents":
                 (text, (), ("data.packing=true",)),
             "weights known before the heads, not uniform (0038: one wait per head)":
                 (base, (), ("pipeline.plugin='random'",)),
             "rho-1: losses of the reference kept, or computed in each step":
                 (repeated, (), ("reference.cache=false",))}
    for what, (file, without, with_it) in pairs.items():
        times = {False: [], True: []}
        for index, on in enumerate((False, True) if REHEARSAL else (False, True, True, False)):
            name = f"{'with' if on else 'without'}-{index}"
            figures = part.train(name, file, *(with_it if on else without), steps=14, seconds=40)
            if figures:
                times[on].append(figures["step_seconds"])
        if times[False] and times[True]:
            a, b = (statistics.mean(times[on]) for on in (False, True))
            part.row(what, f"without {1e3 * a:.2f} ms", f"with {1e3 * b:.2f} ms", f"ratio {b / a:.3f}",
                     f"{len(times[False])} and {len(times[True])} runs")
            part.figures[what] = {"without": times[False], "with": times[True]}
