"""`make study`: its members differ only in the weighting, its table shows the content of the log, and nothing is
trained twice."""
import statistics
import subprocess
import sys
import tomllib

import pytest
from experiment import ONE_RANK, experiment
from paths import HOST, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import study  # noqa: E402

SMALL = study.Study(
    "a small one", {"train.steps": 4, "validation.every_steps": 2}, {"plain": "plain.toml", "half": "half.toml"},
    {"loss": "valid/loss"}, "valid/loss")


@pytest.fixture
def small(place, monkeypatch):
    records = {"kind": "records", "template": "plain",
               "arithmetic": {"problems": 400, "operations": ["negate", "add"], "max_operations": 1}}
    changes = dict(data=records, model__vocab_size=None, validation__batches=2, **ONE_RANK)
    place.write(experiment(name="plain", **changes), "plain.toml")
    place.write(experiment(name="half", pipeline={"plugin": "random", "keep": 0.5}, **changes), "half.toml")
    monkeypatch.setattr(study, "EXPERIMENTS", place.folder)
    return study.Log(place.log.database)


def cells(table, member):
    line = next(line for line in table.splitlines() if line.startswith(f"| {member} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_shows_means_and_differences_paired_by_seed(small, place):
    table = study.outcome(small, "small", SMALL, range(5, 7))
    losses = {row["name"]: list(place.log.metric("valid/loss", row["id"]).values())[-1] for row in place.log.runs()}
    plain, half = ([losses[f"small-{member}-{seed}"] for seed in (5, 6)] for member in ("plain", "half"))
    assert cells(table, "plain")[1].startswith(f"{statistics.mean(plain):.3f} ± ")
    difference = statistics.mean(b - a for a, b in zip(plain, half))
    assert cells(table, "half")[2].startswith(f"{difference:+.3f} ± ")


@pytest.mark.parametrize("freedom, t", [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)])
def test_quantiles_of_students_t_are_those_of_printed_tables(freedom, t):
    assert study.t_of(0.95, freedom) == pytest.approx(t, abs=5e-4)


def test_an_interval_counts_how_few_seeds_there_are():
    assert study.with_interval([1.0, 2.0, 3.0], 3) == "2.000 ± 2.484"  # 4.303 standard errors of 1/sqrt(3), not 1
    assert study.with_interval([1.0], 3) == "1.000"
    assert study.against([1.0, 5.0], [0.5, 3.5]) == "+1.000 ± 6.353"


def test_finished_runs_in_the_log_are_not_trained_again(small, place):
    first = study.outcome(small, "small", SMALL, range(5, 6))
    assert study.outcome(small, "small", SMALL, range(5, 6)) == first
    assert len(place.log.runs()) == 2
    study.outcome(small, "small", SMALL, range(5, 7))
    assert len(place.log.runs()) == 4


def test_a_value_after_some_seconds_lies_between_two_validations():
    until = study.seconds_until([(1, 2.0), (2, 2.0), (3, 4.0)])
    assert until == {0: 0.0, 1: 2.0, 2: 4.0, 3: 8.0}
    curve = [(0, 10.0), (2, 6.0), (3, 2.0)]
    assert study.value_at(curve, until, 2.0) == 8.0
    assert study.value_at(curve, until, 7.0) == 3.0
    assert study.value_at(curve, until, 99.0) == 2.0


@pytest.mark.parametrize("title", study.STUDIES)
def test_the_members_differ_only_in_the_weighting(title):
    shipped = study.STUDIES[title]
    settings = [word for key, value in shipped.settings.items() for word in ("--set", f"{key}={value}")]
    resolved = {}
    for member, file in shipped.members.items():
        ended = subprocess.run([HOST, "run", study.EXPERIMENTS / file, "--dry-run", *settings], cwd=ROOT, text=True,
                               capture_output=True)
        assert ended.returncode == 0, ended.stderr
        resolved[member] = tomllib.loads(ended.stdout)
    first = next(iter(resolved.values()))
    for member, found in resolved.items():
        for table in ("model", "data", "train", "optimizer", "schedule", "validation"):
            assert found[table] == first[table], f"{member}: [{table}]"
