"""A profile of one step (`log.profile_step`, a Chrome trace) as numbers: milliseconds by kind of operation, launches,
waits of the host, and the longest times in which the device did nothing."""
import json
import re
from collections import defaultdict

# The first that matches a kernel's name. Ours are in the namespace wmtp.
KINDS = (("attention", r"flash|fmha|sdp|attention"), ("products", r"gemm|nvjet|cutlass|xmma|cublas|splitK"),
         ("cross entropy", r"wmtp.*cross_entropy"), ("norm", r"wmtp.*rms_norm"), ("SwiGLU", r"wmtp.*swiglu"),
         ("rotation", r"wmtp.*rotate"), ("sums of parts, dropout", r"wmtp"), ("collectives", r"nccl"),
         ("AdamW", r"adam"), ("gradient norm", r"norm|foreach"),
         ("embedding, selection", r"index|gather|scatter|embedding"), ("copies", r"memcpy|memset|copy"),
         ("other elementwise", r"elementwise|vectorized"), ("reductions", r"reduce"))
WAITS = re.compile(r"cu(da)?(Stream|Device|Event|Ctx)Synchronize")


def kind_of(name):
    return next((kind for kind, pattern in KINDS if re.search(pattern, name, re.IGNORECASE)), "other")


def summary(file):
    """Of the trace in `file`; "kernels" is 0 if it has no activity of a device."""
    with open(file) as text:
        events = [event for event in json.load(text)["traceEvents"] if event.get("ph") == "X"]
    work = sorted((event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")),
                  key=lambda event: event["ts"])
    milliseconds, by_name = defaultdict(float), defaultdict(lambda: [0, 0.0])
    gaps, end, last = [], None, None
    for event in work:
        kind = "copies" if event["cat"] != "kernel" else kind_of(event["name"])
        milliseconds[kind] += event["dur"] / 1e3
        by_name[event["name"]][0] += 1
        by_name[event["name"]][1] += event["dur"] / 1e3
        if end is not None and event["ts"] > end:
            gaps.append(((event["ts"] - end) / 1e3, short(last), short(event["name"])))
        if end is None or event["ts"] + event["dur"] > end:
            end, last = event["ts"] + event["dur"], event["name"]
    waits = [event["dur"] / 1e3 for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")
             and WAITS.match(event["name"])]
    return {"kernels": sum(event["cat"] == "kernel" for event in work),
            "copies": sum(event["cat"] != "kernel" for event in work),
            "waits": len(waits), "waited_ms": sum(waits),
            "span_ms": (end - work[0]["ts"]) / 1e3 if work else 0,
            "idle_ms": sum(gap for gap, _, _ in gaps),
            "milliseconds": dict(sorted(milliseconds.items(), key=lambda item: -item[1])),
            "gaps": sorted(gaps, reverse=True)[:5],
            "largest": sorted(([name, *of] for name, of in by_name.items()), key=lambda row: -row[2])[:30]}


def short(name):
    return re.sub(r"<.*|\(.*", "", name.removeprefix("void "))[:50]
