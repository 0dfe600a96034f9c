"""`export --to wandb` (offline) and `--to trackio`, with the real packages: every number of the log arrives once, also
from a run that is training, from one whose export was killed, and from one that was resumed. Only what the server of
W&B tells about a run that it has is played, by a module in place of wandb."""
import json
import math
import os
import re
import signal
import sqlite3
import sys
import time

import pytest
from experiment import ONE_RANK
from wandb_file import OfflineRun

WITH_PYTHON = {"WMTP_PYTHON": sys.executable}
ENDLESS = {**ONE_RANK, "train__steps": 200_000, "data": {"kind": "random"}, "log__every_steps": 20}
# What `import wandb` finds: its server is a file with the steps of a run.
SERVER = '''
import json, os
from types import SimpleNamespace

FILE = os.environ["PLAYED_SERVER"]


def setup():
    return SimpleNamespace(settings=SimpleNamespace(mode="online", wandb_dir="wandb"))


def Settings(**named):
    return named


class Run:
    offline, url, summary = False, "https://wandb.example/run", {}

    def __init__(self):
        self.steps = json.load(open(FILE)) if os.path.exists(FILE) else []
        self.step = self.steps[-1] + 1 if self.steps else 0

    def log(self, values, step):
        self.steps.append(step)

    def finish(self, exit_code):
        json.dump(self.steps, open(FILE, "w"))


def init(**named):
    assert named["resume"] == "allow"
    return Run()
'''


@pytest.fixture
def wandb(place, monkeypatch):
    pytest.importorskip("wandb", reason="no wandb in .venv: `make setup-tests` installs it")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    return place


def points(place, run):
    """{metric: {step: number}} of a run and those that it resumed."""
    found = {}
    for row in place.log.query("SELECT name, step, value, kind FROM v_curves WHERE run_id = ?", run):
        found.setdefault(row["name"], {})[row["step"]] = float(row["kind"] or row["value"])
    return found


def export(place, *arguments, wanted=0, **environment):
    return place.host("export", *arguments, wanted=wanted, env={**WITH_PYTHON, **environment})


def offline_run(place):
    folder, = (place.folder / "wandb").glob("offline-run-*")
    return OfflineRun(folder)


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name].keys() == values.keys(), name
        for step, value in values.items():
            assert found[name][step] == value or math.isnan(found[name][step]) and math.isnan(value), (name, step)


def assert_is_the_log(run, place, number):
    assert run.steps == sorted(set(run.steps)), "a step twice"
    assert_same({name: {step: float(value) for step, value in values.items()}
                 for name, values in run.history.items() if name != "_runtime"}, points(place, number))


def wait_until(condition, limit=30):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def steps_offline(place):
    return [step for folder in (place.folder / "wandb").glob("offline-run-*") if list(folder.glob("*.wandb"))
            for step in OfflineRun(folder).steps]


def test_wandb_gets_every_number_of_a_finished_run_once(wandb):
    wandb.run(train__steps=6)
    wandb.host("runs", "tag", "1", "--add", "paper", "first")
    wandb.host("runs", "note", "1", "a note")
    log = sqlite3.connect(wandb.log.database)
    name, = log.execute("SELECT id FROM metric_names WHERE name = 'train/grad_norm'").fetchone()
    for step, kind in ((2, "nan"), (3, "inf"), (4, "-inf")):
        log.execute("UPDATE metric_values SET value = NULL, kind = ? WHERE name_id = ? AND step = ?",
                    (kind, name, step))
    log.commit()
    log.close()
    assert "run 1 (trial) is in " in export(wandb, "trial", "--to", "wandb").out
    run = offline_run(wandb)
    assert (run.name, run.project, run.notes, run.tags) == ("trial", "wmtp-host", "a note", ["first", "paper"])
    assert run.config["model"]["dim"] == 64 and run.config["pipeline"]["plugin"] == "baseline"
    assert run.config["wmtp"]["id"] == 1 and run.config["wmtp"]["config_hash"]
    assert run.exit_code == 0 and run.summary["wmtp/status"] == "finished"
    assert_is_the_log(run, wandb, 1)
    shown = {row["step"]: row["time_ns"] / 1e9 for row in wandb.log.query(
        "SELECT step, time_ns FROM metrics WHERE name = 'train/loss'")}
    assert all(abs(run.times[step] - seconds) < 1 for step, seconds in shown.items())
    assert "is there already" in export(wandb, "trial", "--to", "wandb").out
    assert offline_run(wandb).steps == run.steps


def test_wandb_follows_a_run_and_a_resumed_run_is_the_same_run(wandb):
    training = wandb.start(**ENDLESS).wait_for_step(20)
    following = wandb.start_command("export", "trial", "--to", "wandb", env=WITH_PYTHON)
    wait_until(lambda: steps_offline(wandb))
    assert following.code is None and training.code is None, "it follows the run"
    training.process.send_signal(signal.SIGTERM)
    assert training.wait().code == 75 and following.wait().code == 0, following
    first = offline_run(wandb)
    assert_is_the_log(first, wandb, 1)
    assert first.summary["wmtp/status"] == "interrupted" and first.exit_code == 75
    steps = wandb.log.last_step() + 40
    resumed = wandb.start("--resume", **ENDLESS).wait_for_step(steps)
    resumed.process.send_signal(signal.SIGTERM)
    assert resumed.wait().code == 75
    export(wandb, "2", "--to", "wandb")
    whole = offline_run(wandb)
    assert whole.id == first.id and max(whole.steps) > max(first.steps)
    assert_is_the_log(whole, wandb, 2)


def test_an_export_that_was_killed_is_completed_by_the_next_one(wandb):
    training = wandb.start(**ENDLESS).wait_for_step(20)
    following = wandb.start_command("export", "trial", "--to", "wandb", env=WITH_PYTHON)
    wait_until(lambda: steps_offline(wandb))
    following.kill()
    training.process.send_signal(signal.SIGTERM)
    assert training.wait().code == 75
    export(wandb, "trial", "--to", "wandb")
    assert_is_the_log(offline_run(wandb), wandb, 1)


def test_an_incomplete_folder_that_was_synced_is_not_replaced(wandb):
    wandb.run(**ONE_RANK, train__steps=3)
    export(wandb, "trial", "--to", "wandb")
    folder, = (wandb.folder / "wandb").glob("offline-run-*")
    (folder / "wmtp-complete").unlink()
    (folder / "run-x.wandb.synced").touch()
    assert "WANDB_MODE=online" in export(wandb, "trial", "--to", "wandb", wanted=2).err and folder.exists()


def test_a_run_on_the_server_is_continued_after_its_last_step(place, tmp_path):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/wandb.py").write_text(SERVER)
    place.run(**ONE_RANK, train__steps=8)
    (tmp_path / "server.json").write_text("[1, 2, 3]")
    played = {"PYTHONPATH": tmp_path / "modules", "PLAYED_SERVER": tmp_path / "server.json"}
    told = export(place, "trial", "--to", "wandb", **played).out
    assert told == "run 1 (trial) is at https://wandb.example/run, 5 steps sent\n"
    assert json.loads((tmp_path / "server.json").read_text()) == list(range(1, 9))
    export(place, "trial", "--to", "wandb", **played)
    assert json.loads((tmp_path / "server.json").read_text()) == list(range(1, 9))


def trackio_rows(place):
    """[(run, step, {metric: number})] of Trackio's own database, and the run's configuration; nothing before its tables
    are made."""
    database = sqlite3.connect(place.folder / "trackio/wmtp-host.db")
    if len(database.execute("SELECT name FROM sqlite_master WHERE name IN ('metrics', 'configs')").fetchall()) < 2:
        database.close()
        return [], {}
    rows = database.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
    config, = database.execute("SELECT config FROM configs").fetchone() or ["{}"]  # written after the steps
    database.close()
    return [(run, step, json.loads(metrics)) for run, step, metrics in rows], json.loads(config)


def trackio_curves(rows):
    found = {}
    for _, step, metrics in rows:
        for name, value in metrics.items():
            found.setdefault(name, {})[step] = float(
                {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}.get(value, value))
    return found


@pytest.fixture
def trackio(place, monkeypatch):
    pytest.importorskip("trackio", reason="no trackio in .venv: `make setup-tests` installs it")
    monkeypatch.setenv("TRACKIO_DIR", str(place.folder / "trackio"))
    return place


def test_trackio_gets_every_number_of_a_finished_run_once(trackio):
    trackio.run(train__steps=6)
    trackio.host("runs", "tag", "1", "--add", "paper")
    assert "6 steps sent" in export(trackio, "trial", "--to", "trackio").out
    rows, config = trackio_rows(trackio)
    assert_same(trackio_curves(rows), points(trackio, 1))
    assert config["model.dim"] == 64 and config["wmtp.status"] == "finished" and config["tags"] == ["paper"]
    assert "is there already" in export(trackio, "trial", "--to", "trackio").out
    assert trackio_rows(trackio)[0] == rows


def test_trackio_follows_a_run_and_completes_one_whose_export_was_killed(trackio):
    training = trackio.start(**ENDLESS).wait_for_step(20)
    database = trackio.folder / "trackio/wmtp-host.db"
    for end in ("killed", "to the end"):
        following = trackio.start_command("export", "trial", "--to", "trackio", env=WITH_PYTHON)
        sent = len(trackio_rows(trackio)[0]) if database.exists() else 0
        wait_until(lambda: database.exists() and len(trackio_rows(trackio)[0]) > sent
                   and trackio_rows(trackio)[1].get("wmtp.status") == "running")
        if end == "killed":
            following.kill()
    training.process.send_signal(signal.SIGTERM)
    assert training.wait().code == 75 and following.wait().code == 0, following
    rows, config = trackio_rows(trackio)
    steps = [step for _, step, _ in rows]
    assert steps == sorted(set(steps)) and len({run for run, _, _ in rows}) == 1
    assert_same(trackio_curves(rows), points(trackio, 1))
    assert config["wmtp.status"] == "interrupted"


def test_a_missing_package_is_refused_with_the_command_that_installs_it(place):
    place.run(**ONE_RANK, train__steps=2)
    bare = place.folder / "python"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S "$@"\n')
    bare.chmod(0o755)
    for package in ("wandb", "trackio"):
        refused = export(place, "trial", "--to", package, wanted=2, WMTP_PYTHON=bare, PYTHONPATH="").err
        assert f"-m pip install {package}" in refused and "WMTP_PYTHON" in refused
    assert "WMTP_PYTHON" in export(place, "trial", "--to", "wandb", wanted=2, WMTP_PYTHON="/absent/python").err
    assert "writes no file" in export(place, "trial", "--to", "wandb", "-o", "x", wanted=2).err


def test_a_refusal_of_wandb_is_told_in_its_words(wandb):
    wandb.run(**ONE_RANK, train__steps=2)
    nobody = {"HOME": wandb.folder, "NETRC": wandb.folder / "netrc", "WANDB_CONFIG_DIR": wandb.folder / "config"}
    assert "wandb login" in export(wandb, "trial", "--to", "wandb", wanted=2, WANDB_MODE="online", WANDB_API_KEY="",
                                   **nobody).err
    assert "W&B is disabled" in export(wandb, "trial", "--to", "wandb", wanted=2, WANDB_MODE="disabled").err


def test_a_run_is_followed_into_wandb_by_its_own_key(wandb):
    ended = wandb.run(train__steps=6, log={"wandb": True}, env=WITH_PYTHON)
    assert "trial: wandb: run 1 (trial) is in " in ended.err
    assert_is_the_log(offline_run(wandb), wandb, 1)


def test_a_tracker_that_fails_is_a_warning_and_not_the_runs_failure(place):
    ended = place.run(train__steps=2, log={"wandb": True, "mlflow": "http://127.0.0.1:9"},
                      env={"WMTP_PYTHON": "/usr/bin/python3"})
    assert re.search(r"warning: .*not all of the run is in wandb: .*send the rest with `wmtp-host export 1 --to wandb`",
                     ended.err), ended
    assert "export 1 --to mlflow --push http://127.0.0.1:9" in ended.err
    assert place.log.newest()["status"] == "finished"


def test_a_missing_tracker_is_known_before_the_first_step(place):
    log, python = {"wandb": True, "trackio": True, "mlflow": "http://127.0.0.1:9"}, {"WMTP_PYTHON": "/usr/bin/python3"}
    missing = [f"warning: [log] {name}: /usr/bin/python3 has no {name}, so the run will not be there; name a Python "
               f"that has {name} in WMTP_PYTHON" for name in ("wandb", "trackio", "mlflow")]
    before = place.run("--dry-run", log=log, env=python).err
    ended = place.run(train__steps=2, log=log, env=python).err
    for warning in missing:
        assert warning in before
        assert ended.index(warning) < ended.index("not all of the run is in")
    assert "[log]" not in place.run("--dry-run", env=python).err
