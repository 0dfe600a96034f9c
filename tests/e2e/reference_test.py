"""The reference pages docs/metrics.md and docs/cli.md: complete, and equal to what the program logs and prints."""
import re
import subprocess
import sys

from experiment import ONE_RANK
from paths import HOST, ROOT

PLACEHOLDERS = {"I": r"\d", "J": r"\d+", "K": r"\d+", "R": r"\d+", "BIN": ".+", "NAME": ".+", "PHASE": r"[a-z_]+(\d+)?"}
# Names in the program's source: "train/loss", "time/" + phase, step.metric("rho1/…", …).
IN_ENGINE = re.compile(r'"((?:train|valid|perf|time|weights|guard|heads)/[a-z0-9_/]*)"')
IN_PLUGIN = re.compile(r'metric\("([^"]+)"')
# Named in the engine, but keys of its own sums.
NOT_LOGGED = {"weights/", "heads/product_"}


def glossary():
    """[(name, pattern)] of the page."""
    page = (ROOT / "docs/metrics.md").read_text()
    names = re.findall(r"^\| `([^`]+)` \| \S", page, flags=re.MULTILINE)
    assert len(names) == len(set(names)), "a name has two lines"

    def pattern(name):
        return re.compile("".join(PLACEHOLDERS.get(part, re.escape(part))
                                  for part in re.split(r"\b|(?<=_)|(?=_)|(?<=/)", name)))
    return [(name, pattern(name)) for name in names]


def in_source():
    """Names, and beginnings of names that end in / or _."""
    found = set()
    for room in ("step", "train"):
        for file in [*(ROOT / "host" / room).rglob("*.cpp"), *(ROOT / "host" / room).rglob("*.hpp")]:
            found |= set(IN_ENGINE.findall(file.read_text()))
    for file in [*(ROOT / "plugins").rglob("*.cpp"), *(ROOT / "plugins").rglob("*.hpp")]:
        found |= set(IN_PLUGIN.findall(file.read_text()))
    return found - NOT_LOGGED


def test_the_glossary_has_every_metric_of_the_source():
    lines = glossary()
    found = in_source()
    assert "train/loss" in found and "rho1/selection_ratio" in found

    def is_known(name):
        if name.endswith(("/", "_")):
            return any(line.startswith(name) for line, _ in lines)
        return any(pattern.fullmatch(name) for _, pattern in lines)
    assert [name for name in sorted(found) if not is_known(name)] == [], "docs/metrics.md lacks a line"


def test_the_glossary_has_every_metric_of_a_log(place):
    (place.folder / "text.txt").write_text("".join(f"line {i} of a text\n" for i in range(4000)))
    ended = place.run(train__steps=3, train__clip_norm=1.0, model__vocab_size=None,
                      data={"kind": "text", "files": ["text.txt"]},
                      validation={"share": 0.1, "batches": 2, "every_steps": 2})
    assert "finished after" in ended.out and len(ended.out.splitlines()) == 6, ended
    assert re.search(r"rank \d is the slowest: .* in \w+|ranks are equally fast", ended.out), ended
    ranks = place.log.query("SELECT DISTINCT rank, phase FROM rank_times")
    assert {row["rank"] for row in ranks} == {0, 1} and "forward" in {row["phase"] for row in ranks}
    logged = {row["name"] for row in place.log.query("SELECT name FROM metric_names")}
    assert {"train/clip_coef", "train/clip_ratio", "perf/waited_rank_1", "time/forward",
            "valid/ce_head_4"} <= logged, logged
    lines = glossary()
    assert [name for name in sorted(logged) if not any(pattern.fullmatch(name) for _, pattern in lines)] == []


def test_the_glossary_names_no_metric_that_does_not_exist():
    found = in_source()

    def exists(name):
        fixed = re.split("|".join(rf"\b{one}\b|(?<=_){one}(?=_|\b)" for one in PLACEHOLDERS), name)[0]
        return name in found or (fixed != name and any(one in (fixed, fixed.rstrip("/")) for one in found))
    assert [name for name, _ in glossary() if not exists(name)] == []


def test_the_page_of_commands_is_what_the_program_prints():
    made = subprocess.run([sys.executable, "-B", ROOT / "scripts/cli_reference.py", HOST], capture_output=True,
                          text=True, check=True).stdout
    assert made == (ROOT / "docs/cli.md").read_text(), \
        "docs/cli.md is outdated: scripts/cli_reference.py build/bin/wmtp-host > docs/cli.md"
