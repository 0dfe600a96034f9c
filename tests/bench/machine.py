"""On which processor figures are measured, and whether other processes used it meanwhile."""
import contextlib
import os
import resource
import time

BUSY = 0.05  # of all cores, from which figures say more about other processes than about ours
INSTRUCTIONS = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "BF16", "avx512_fp16": "FP16", "amx_tile": "AMX",
                "asimd": "NEON", "sve": "SVE", "bf16": "BF16"}


def processor():
    """'AMD EPYC (family 25, model 17; AVX2, AVX-512, BF16), 2 cores': what decides which kernels are taken."""
    with open("/proc/cpuinfo") as lines:
        about = dict([part.strip() for part in line.split(":", 1)] for line in lines if ":" in line)
    flags = set(about.get("flags", about.get("Features", "")).split())
    kind = [f"family {about['cpu family']}, model {about['model']}"] if "cpu family" in about else []
    kind.append(", ".join(name for flag, name in INSTRUCTIONS.items() if flag in flags))
    return f"{about.get('model name', os.uname().machine)} ({'; '.join(filter(None, kind))}), {os.cpu_count()} cores"


def _busy_seconds():
    """Of all processes, without those that wait for a disk."""
    with open("/proc/stat") as lines:
        user, nice, system = map(int, next(lines).split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _own_seconds():
    return sum(getattr(resource.getrusage(who), name) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
               for name in ("ru_utime", "ru_stime"))


@contextlib.contextmanager
def watched(what):
    """Warns if other processes than this one and its ended children used the cores meanwhile."""
    begun, all_before, own_before = time.monotonic(), _busy_seconds(), _own_seconds()
    yield
    others = _busy_seconds() - all_before - (_own_seconds() - own_before)
    share = others / ((time.monotonic() - begun) * os.cpu_count())
    if share > BUSY:
        print(f"warning: during {what}, other processes used {share:.0%} of the cores: its figures are not comparable",
              flush=True)
