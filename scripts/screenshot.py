"""Makes pictures of the page for the docs, in headless Chromium. Needs a build and Debian's chromium.

`python scripts/screenshot.py DATABASE RUN,RUN,…` makes docs/ui.png, runs of that log in `wmtp-host ui`.
`python scripts/screenshot.py PAGE.html RESULT KEY FILTER` makes docs/growth.png, the plot of a result over a key on a
page of `wmtp-host report`, for the runs that match the filter."""
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
from browser import Browser  # noqa: E402
from host import Running  # noqa: E402

VIEW = "&smoothing=0.9&metric=valid/ce_head_1&metric=train/grad_norm"
MOST_BYTES = 200_000


def growth(page, result, key, runs):
    picture = ROOT / "docs/growth.png"
    with Browser(width=960, height=440) as browser:
        browser.open(f"{Path(page).resolve().as_uri()}#filter={runs}")
        browser.wait_for("Object.keys(state.configs).length > 0")
        browser.ask("byId('tab-parameters').click()")
        for id, value in (("parameter-result", result), ("parameter-key", key)):
            browser.ask(f"(() => {{ byId('{id}').value = '{value}'; "
                        f"byId('{id}').dispatchEvent(new Event('change')); }})()")
        browser.ask("byId('parameter-result').scrollIntoView()")
        time.sleep(1)
        browser.screenshot(picture)
    check_size(picture)


def live(database, runs):
    picture = ROOT / "docs/ui.png"
    place = Path(tempfile.mkdtemp())
    (place / "runs").mkdir()
    (place / "runs/wmtp.db").symlink_to(Path(database).resolve())
    running = Running("ui", "--port", "0", cwd=place)
    try:
        while not running.out.endswith("/\n"):
            assert running.code is None, str(running)
            time.sleep(0.05)
        with Browser(width=1280, height=760) as browser:
            browser.open(f"{running.out.strip()}#runs={runs}{VIEW}")
            browser.wait_for("[...Curves.charts.values()].filter((chart) => chart.graph).length === 2")
            time.sleep(1)
            browser.screenshot(picture)
    finally:
        running.kill()
        shutil.rmtree(place)
    check_size(picture)


def check_size(picture):
    size = picture.stat().st_size
    assert size <= MOST_BYTES, f"{picture} has {size} bytes, wanted at most {MOST_BYTES}"
    print(f"wrote {picture} ({size} bytes)")


if __name__ == "__main__":
    (growth if len(sys.argv) == 5 else live)(*sys.argv[1:])
