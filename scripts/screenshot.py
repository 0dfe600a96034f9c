"""Makes docs/ui.png, a picture of the live page: `python scripts/screenshot.py DATABASE RUN,RUN,…`.

It shows runs of that log in `wmtp-host ui`, in headless Chromium. Needs a build and Debian's chromium."""
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
from browser import Browser  # noqa: E402
from host import Running  # noqa: E402

VIEW = "&smoothing=0.9&metric=train/loss&metric=train/grad_norm"
MOST_BYTES = 200_000


def main(database, runs):
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
    size = picture.stat().st_size
    assert size <= MOST_BYTES, f"{picture} has {size} bytes, wanted at most {MOST_BYTES}"
    print(f"wrote {picture} ({size} bytes)")


if __name__ == "__main__":
    main(*sys.argv[1:])
