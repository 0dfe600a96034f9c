"""Response times of the live page with a hundred runs of ten thousand steps: `python tests/bench/ui_bench.py`.

Prints the time from the browser's first request to the table and the first curves on its screen (wanted: under 1 s), the
server's time for a refresh while a run writes (wanted: under 100 ms), and both again with all hundred runs selected."""
import http.client
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from browser import CHROMIUM, Browser  # noqa: E402
from host import Running  # noqa: E402
from made_log import MadeLog  # noqa: E402

RUNS, STEPS, REFRESHES = 100, 10_000, 20
DRAWN = "[...Curves.charts.values()].filter((chart) => chart.graph).length >= 3 && Curves.charts.get('train/loss').curves.length"


def make(folder):
    log = MadeLog(folder / "wmtp.db")
    for seed in range(RUNS):
        run = log.run(f"run{seed}", seed=seed, status="running" if seed == RUNS - 1 else "finished")
        log.curves(run, STEPS, seed=seed, level=3 + seed / 100)
    return log, run


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
        answer, taken, size = server.ask(f"/api/refresh?epoch={at['epoch']}&version={at['version']}&since={at['cursor']}"
                                         f"&events_since={at['event_cursor']}&runs={chosen}{names}&smoothing=0.9")
        assert len(answer["new"]) == 2, answer
        at = answer
        times.append(taken)
        sizes.append(size)
    return f"median {statistics.median(times):.1f} ms, most {max(times):.1f} ms, {max(sizes):,} bytes at most"


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


if __name__ == "__main__":
    main()
