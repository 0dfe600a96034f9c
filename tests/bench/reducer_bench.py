"""no_shard against c10d::Reducer on the same model in C++ (reducer_bench.cpp): both make alternating steps in one job
of two ranks, so that the steps of a pair are some hundred milliseconds apart. Reports the median ratio with its 95%
interval; the losses of both sides must agree up to rounding. Measured twice: with the host's exchange through shared
memory, and with the sockets that the Reducer's Gloo uses."""
import argparse
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from bench import free_port, interval_of_median  # noqa: E402
from host import users_environment  # noqa: E402
from paths import HOST  # noqa: E402

RANKS, NOT_COUNTED = 2, 3


def steps_of(exchange, pairs):
    port = free_port()
    ranks = [subprocess.Popen([str(HOST.parent / "reducer_bench"), exchange, str(pairs + NOT_COUNTED)],
                              env=users_environment({"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS,
                                                     "LOCAL_WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1",
                                                     "MASTER_PORT": port}),
                              stdout=subprocess.PIPE, text=True) for rank in range(RANKS)]
    text = [rank.communicate()[0] for rank in ranks][0]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("a rank of reducer_bench failed")
    steps = {}
    for line in text.splitlines():
        step, side, seconds, loss = line.split()
        steps.setdefault(int(step), {})[side] = (float(seconds), float(loss))
    return [steps[number] for number in sorted(steps)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    pairs = parser.parse_args().pairs
    for exchange in ("memory", "sockets"):
        steps = steps_of(exchange, pairs)
        apart = max(abs(step["host"][1] / step["plain"][1] - 1) for step in steps)
        if apart > 1e-4:
            raise SystemExit(f"the losses of both sides are {apart:.1e} apart: they do not train the same model")
        counted = steps[NOT_COUNTED:]
        host, plain = (1e3 * statistics.median(step[side][0] for step in counted) for side in ("host", "plain"))
        ratios = sorted(step["host"][0] / step["plain"][0] for step in counted)
        ratio, (low, high) = statistics.median(ratios), interval_of_median(ratios)
        print(f"no_shard through {exchange} against c10d::Reducer, {pairs} pairs: {host:.1f} : {plain:.1f} ms a step, "
              f"ratio {ratio:.3f} ({low:.3f} to {high:.3f}), wanted <= 1.01 {'yes' if ratio <= 1.01 else 'NO'}",
              flush=True)


if __name__ == "__main__":
    main()
