"""Response times of the live page with a hundred runs of ten thousand steps: `python tests/bench/ui_bench.py`.

Prints the time from the browser's first request to the table and the first curves on its screen (wanted: under 1 s),
the server's time for a refresh while a run writes (wanted: under 100 ms), and both again with all hundred runs
selected. Then, with a log of a thousand short runs of real experiments, the server's time for the first answers of
`runs` and `configs` (wanted: under 100 ms), and for the next ones. Last, with a log of a hundred thousand runs, the
server's peak memory after one client has read all runs, and after 32 at once."""
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from browser import CHROMIUM, Browser  # noqa: E402
from host import Running  # noqa: E402
from made_log import MadeLog  # noqa: E402
from paths import HOST, ROOT  # noqa: E402

RUNS, STEPS, REFRESHES = 100, 10_000, 20
MANY, SERVERS = 1000, 7
MOST, CLIENTS = 100_000, 32
DRAWN = ("[...Curves.charts.values()].filter((chart) => chart.graph).length >= 3 "
         "&& Curves.charts.get('train/loss').curves.length")


def make(folder):
    log = MadeLog(folder / "wmtp.db")
    for seed in range(RUNS):
        run = log.run(f"run{seed}", seed=seed, status="running" if seed == RUNS - 1 else "finished")
        log.curves(run, STEPS, seed=seed, level=3 + seed / 100)
    return log, run


def flat(tables, prefix=""):
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def make_many(folder):
    """With all keys of rho-1's experiment, of which seed, learning rate and name differ."""
    file = ROOT / "experiments/rho1.toml"
    resolved = subprocess.run([HOST, "run", file, "--dry-run"], capture_output=True, text=True, check=True).stdout
    params = dict(flat(tomllib.loads(resolved)))
    log = MadeLog(folder / "wmtp.db")
    for number in range(MANY):
        name = f"run{number % 50}"
        run = log.run(name, seed=number % 3, experiment_toml=file.read_text(),
                      params={**params, "seed": number % 3, "optimizer.lr": number / 1e5, "name": name})
        log.curves(run, 20, seed=number)
        if number % 10 == 0:
            log.execute("INSERT INTO run_tags VALUES (?, 'paper')", run)
    print(f"{MANY:,} runs of {len(params)} keys, {(folder / 'wmtp.db').stat().st_size / 2**20:.0f} MiB")
    log.close()


class Server:
    def __init__(self, folder):
        self.running = Running("ui", "--db", "wmtp.db", "--port", "0", cwd=folder)
        while not self.running.out.endswith("/\n"):
            assert self.running.code is None, str(self.running)
            time.sleep(0.01)
        self.address = self.running.out.strip()

    def ask(self, path):
        """Answer, milliseconds, bytes."""
        connection = http.client.HTTPConnection(self.address.split("/")[2])
        begin = time.perf_counter()
        connection.request("GET", path)
        body = connection.getresponse().read()
        taken = (time.perf_counter() - begin) * 1000
        connection.close()
        return json.loads(body), taken, len(body)


def refreshes(server, log, writing, runs):
    """Milliseconds of refreshes, each after a new step of one run."""
    chosen = ",".join(map(str, runs))
    names = "&name=train/loss&name=valid/loss&name=perf/tokens_per_second"
    at, times, sizes = server.ask("/api/runs")[0], [], []
    server.ask(f"/api/curves?runs={chosen}{names}")
    for _ in range(REFRESHES):
        log.next_step += 1
        for name in ("train/loss", "perf/tokens_per_second"):
            log.metric(writing, name, [3.0], first_step=log.next_step)
        answer, taken, size = server.ask(
            f"/api/refresh?epoch={at['epoch']}&version={at['version']}&since={at['cursor']}"
            f"&events_since={at['event_cursor']}&runs={chosen}{names}&smoothing=0.9")
        assert len(answer["new"]) == 2, answer
        at = answer
        times.append(taken)
        sizes.append(size)
    return f"median {statistics.median(times):.1f} ms, most {max(times):.1f} ms, {max(sizes):,} bytes at most"


def first_answers(folder):
    """Milliseconds of the first and the second answers, each of a new server."""
    times = {}
    for _ in range(SERVERS):
        server = Server(folder)
        for place in ("first", "next"):
            for path in ("runs", "configs"):
                times.setdefault((place, path), []).append(server.ask(f"/api/{path}")[1])
        server.running.kill()
    return ", ".join(f"{place} answer of {path}: median {statistics.median(taken):.1f} ms, most {max(taken):.1f}"
                     for (place, path), taken in times.items())


def make_most(folder):
    log = MadeLog(folder / "wmtp.db")
    log.run("copied")
    log.execute("CREATE TEMP TABLE one AS SELECT * FROM runs")
    log.execute("UPDATE one SET id = NULL")
    log.execute("WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
                "INSERT INTO runs SELECT one.* FROM n, one", MOST)
    log.close()


def memory_of_clients(folder):
    server = Server(folder)

    def peak():
        status = Path(f"/proc/{server.running.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def drained():
        """Bytes of an answer, of which little is held here."""
        connection = http.client.HTTPConnection(server.address.split("/")[2])
        connection.request("GET", "/api/runs")
        answer = connection.getresponse()
        return sum(len(piece) for piece in iter(lambda: answer.read(1 << 20), b""))
    size = drained() / 2**20
    one, threads = peak(), [threading.Thread(target=drained) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{MOST:,} runs, an answer of {size:.0f} MiB: {one:.0f} MiB with one client, {peak():.0f} MiB with {CLIENTS}")
    server.running.kill()


def first_paint(folder, runs):
    """With a new server and a new browser."""
    server = Server(folder)
    try:
        with Browser() as browser:
            where = f"#runs={','.join(map(str, runs))}" if runs else ""
            browser.call("Page.addScriptToEvaluateOnNewDocument", source="""
              addEventListener("DOMContentLoaded", () => {
                const watch = () => {
                  const table = document.querySelector("#run-table tbody tr");
                  if (table && !window.tableAt) window.tableAt = performance.now();
                  const drawn = %s;
                  if (drawn) window.curvesAt = performance.now(); else requestAnimationFrame(watch);
                };
                watch();
              });""" % DRAWN)
            browser.open(server.address + where)
            browser.wait_for("window.curvesAt")
            return browser.ask("[tableAt, curvesAt]")
    finally:
        server.running.kill()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, writing = make(folder)
        log.next_step = STEPS
        print(f"{RUNS} runs of {STEPS:,} steps, {(folder / 'wmtp.db').stat().st_size / 2**20:.0f} MiB")
        every = list(range(1, RUNS + 1))
        for title, runs in (("newest five", []), ("all runs", every)):
            if CHROMIUM:
                table, curves = first_paint(folder, runs)
                print(f"{title}: table after {table:.0f} ms, curves after {curves:.0f} ms")
            server = Server(folder)
            print(f"{title}: refresh {refreshes(server, log, writing, runs or every[-5:])}")
            server.running.kill()
        log.close()
    with tempfile.TemporaryDirectory() as name:
        make_many(Path(name))
        print(first_answers(Path(name)))
        if CHROMIUM:
            table, curves = first_paint(Path(name), [])
            print(f"table after {table:.0f} ms, curves after {curves:.0f} ms")
    with tempfile.TemporaryDirectory() as name:
        make_most(Path(name))
        memory_of_clients(Path(name))


if __name__ == "__main__":
    main()
