"""Exports, opened by their target programs: pandas, TensorBoard, MLflow, DuckDB, Datasette. Each must find the log's
numbers, including NaN and infinities."""
import http.server
import json
import math
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from experiment import ONE_RANK
from launchers import free_port
from paths import ROOT

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")


def needs(*modules):
    return [pytest.importorskip(name, reason=f"no {name} in .venv: `make setup-tests` installs it") for name in modules]


@pytest.fixture(scope="module")
def logged(tmp_path_factory, program):
    """Two runs in a log, to which non-finite numbers and a long option are added."""
    from places import Place
    place = Place(tmp_path_factory.mktemp("exports"))
    place.tokens()
    place.run("--name", "first", train__steps=6, checkpoint__every_steps=3)
    place.run("--name", "second", train__steps=3, seed=8)
    log = sqlite3.connect(place.log.database)
    name, = log.execute("SELECT id FROM metric_names WHERE name = 'train/grad_norm'").fetchone()
    for step, kind in ((2, "nan"), (3, "inf"), (4, "-inf")):
        log.execute("UPDATE metric_values SET value = NULL, kind = ? WHERE run_id = 1 AND name_id = ? AND step = ?",
                    (kind, name, step))
    log.execute("INSERT INTO run_params VALUES (1, 'data.note', ?, NULL)", ("é" * 9000,))
    log.commit()
    log.close()
    return place


def points(place, run):
    """{metric: {step: number}} in the log."""
    rows = place.log.query("SELECT name, step, value, kind FROM metrics WHERE run_id = ?", run)
    found = {}
    for row in rows:
        found.setdefault(row["name"], {})[row["step"]] = float(row["kind"] or row["value"])
    return found


def equal(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


def test_trackios_way_of_reading_finds_every_number(logged):
    """Trackio's import_csv reads with pandas, needs a column "step", and takes every other numeric column as a
    metric."""
    pandas, = needs("pandas")
    logged.host("export", "first", "--to", "wide", "-o", "wide.csv")
    table = pandas.read_csv(logged.folder / "wide.csv")
    wanted = points(logged, 1)
    assert set(table.columns) == {"step", "timestamp", *wanted}
    for name, values in wanted.items():
        found = dict(zip(table.step, pandas.to_numeric(table[name], errors="raise")))
        assert all(equal(found[step], value) for step, value in values.items()), name
    assert pandas.to_datetime(table.timestamp).is_monotonic_increasing
    assert "one run" in logged.host("export", "first", "second", "--to", "wide", wanted=2).err


def test_trackio_imports_the_wide_csv(logged):
    needs("trackio")
    logged.host("export", "first", "--to", "wide", "-o", "imported.csv")
    script = "import trackio; trackio.import_csv('imported.csv', project='imported')"
    imported = subprocess.run([sys.executable, "-c", script], cwd=logged.folder, capture_output=True, text=True,
                              timeout=60, env={**os.environ, "TRACKIO_DIR": str(logged.folder / "trackio")})
    assert imported.returncode == 0, imported.stderr
    (database,) = (logged.folder / "trackio").rglob("*.db")
    rows = sqlite3.connect(database).execute("SELECT step, metrics FROM metrics").fetchall()
    wanted = points(logged, 1)["train/lr"]
    found = {step: value for step, text in rows for name, value in json.loads(text).items() if name.endswith("lr")}
    assert found == wanted


@pytest.mark.parametrize("store", ["sqlite:///", "file:"])
def test_runs_are_pushed_through_mlflows_client_once(logged, monkeypatch, store):
    mlflow, = needs("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 wants this for folders
    uri = f"{store}{logged.folder}/tracking.{store[0]}"
    for told in (r"run 1 \(first\) is [0-9a-f]{32} of experiment wmtp-host\nrun 2",
                 r"run 1 \(first\) is there already\nrun 2"):
        pushed = logged.host("export", "first", "second", "--to", "mlflow", "--push", uri,
                             env={"WMTP_PYTHON": sys.executable})
        assert re.match(told, pushed.out), pushed
    client = mlflow.MlflowClient(tracking_uri=uri)
    runs = client.search_runs([client.get_experiment_by_name("wmtp-host").experiment_id])
    assert sorted(run.info.run_name for run in runs) == ["first", "second"]
    first = next(run for run in runs if run.info.run_name == "first")
    assert first.info.status == "FINISHED" and first.data.params["model.dim"] == "64"
    losses = {one.step: one.value for one in client.get_metric_history(first.info.run_id, "train/loss")}
    assert losses == points(logged, 1)["train/loss"]
    norms = {one.step: one.value for one in client.get_metric_history(first.info.run_id, "train/grad_norm")}
    assert math.isnan(norms[2]) and norms[3] == sys.float_info.max
    refused = logged.host("export", "first", "--to", "mlflow", "--push", uri, env={"WMTP_PYTHON": "/absent/python"},
                          wanted=2)
    assert "WMTP_PYTHON" in refused.err
    client.delete_experiment(first.info.experiment_id)
    refused = logged.host("export", "second", "--to", "mlflow", "--push", uri, env={"WMTP_PYTHON": sys.executable},
                          wanted=2)
    found = re.search(r"the experiment wmtp-host was deleted there; restore it \((.*) mlflow experiments restore "
                      r"--experiment-id (\d+), or MlflowClient.restore_experiment\(\"\2\"\)\)", refused.err)
    assert found and found[1] == f"MLFLOW_TRACKING_URI={uri}" and found[2] == first.info.experiment_id, refused
    client.restore_experiment(found[2])
    assert "is there already" in logged.host("export", "second", "--to", "mlflow", "--push", uri,
                                             env={"WMTP_PYTHON": sys.executable}).out
    assert "--push applies only" in logged.host("export", "first", "--to", "json", "--push", uri, wanted=2).err


class MlflowServer(http.server.BaseHTTPRequestHandler):
    """The requests of MLflow's client for a run, answered as by an empty server and kept in `received`."""
    received = []

    def answer(self, body):
        path = urllib.parse.urlsplit(self.path).path.removeprefix("/api/2.0/mlflow/")
        self.received.append((path, body))
        run = {"info": {"run_id": "f" * 32, "experiment_id": "7", "status": "RUNNING", "start_time": 1}, "data": {}}
        answers = {"experiments/create": {"experiment_id": "7"}, "runs/create": {"run": run},
                   "runs/update": {"run_info": run["info"]},
                   "experiments/get-by-name": {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}}
        self.send_response(404 if path == "experiments/get-by-name" else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answers.get(path, {})).encode())

    def do_GET(self):
        self.answer(None)

    def do_POST(self):
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def log_message(self, *_):
        pass


def test_a_run_is_pushed_to_a_server(logged):
    needs("mlflow")
    MlflowServer.received.clear()
    with http.server.HTTPServer(("127.0.0.1", 0), MlflowServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        logged.host("export", "first", "--to", "mlflow", "--push", f"http://127.0.0.1:{server.server_port}",
                    env={"WMTP_PYTHON": sys.executable})
        server.shutdown()
    created, = (body for path, body in MlflowServer.received if path == "runs/create")
    assert {"key": "mlflow.runName", "value": "first"} in created["tags"]
    sent = [one for path, body in MlflowServer.received if path == "runs/log-batch" for one in body.get("metrics", [])]
    assert {(one["key"], one["step"]) for one in sent} == {
        (name, step) for name, of in points(logged, 1).items() for step in of}
    ended, = (body for path, body in MlflowServer.received if path == "runs/update")
    assert ended["status"] == "FINISHED"


def test_pandas_reads_the_csv(logged):
    pandas, = needs("pandas")
    logged.host("export", "first", "second", "--to", "csv", "-o", "metrics.csv")
    table = pandas.read_csv(logged.folder / "metrics.csv")
    assert list(table.columns) == ["run_id", "run", "step", "name", "value", "kind", "time_ns", "segment"]
    assert table.value.dtype == "float64" and table.time_ns.dtype == "int64" and set(table.run) == {"first", "second"}
    for run in (1, 2):
        wanted = points(logged, run)
        rows = table[table.run_id == run]
        assert len(rows) == sum(map(len, wanted.values()))
        assert all(equal(row.value, wanted[row.name_][row.step])
                   for row in rows.rename(columns={"name": "name_"}).itertuples())
    norms = table[(table.run_id == 1) & (table.name == "train/grad_norm")].set_index("step").value
    assert math.isnan(norms[2]) and norms[3] == math.inf and norms[4] == -math.inf


def test_pandas_and_duckdb_read_the_log_itself(logged):
    pandas, = needs("pandas")
    connection = sqlite3.connect(f"file:{logged.log.database}?mode=ro", uri=True)
    table = pandas.read_sql("SELECT * FROM v_metrics WHERE run_id = 2 AND name = 'train/loss' ORDER BY step",
                            connection)
    connection.close()
    assert table.value.tolist() == list(logged.log.losses(2).values())


def test_duckdb_reads_the_log_itself(logged):
    duckdb, extension = needs("duckdb", "duckdb_extension_sqlite_scanner")
    from pathlib import Path
    files = list(Path(extension.__file__).parent.rglob("sqlite_scanner.duckdb_extension"))
    if not files or files[0].parent.name != f"v{duckdb.__version__}":
        pytest.skip(f"the sqlite scanner in .venv is not the one of DuckDB {duckdb.__version__}")
    connection = duckdb.connect()
    connection.load_extension(str(files[0]))
    connection.execute(f"ATTACH '{logged.log.database}' AS log (TYPE sqlite, READ_ONLY)")
    rows = connection.execute("SELECT step, value FROM log.metrics WHERE run_id = 2 AND name = 'train/loss' "
                              "ORDER BY step").fetchall()
    assert dict(rows) == logged.log.losses(2)
    assert connection.execute("SELECT count(*) FROM log.runs").fetchone() == (2,)
    log = logged.log
    for (view,) in sqlite3.connect(log.database).execute("SELECT name FROM sqlite_schema WHERE type = 'view'"):
        rows = connection.execute(f"SELECT * FROM sqlite_query('log', 'SELECT * FROM {view}')").fetchall()
        assert len(rows) == log.query(f"SELECT count(*) AS n FROM {view}")[0]["n"], view
    call = re.search(r"`(FROM sqlite_query.*)`", (ROOT / "db/README.md").read_text())[1]
    assert connection.execute(call).fetchall() == \
        [(row["name"], row["valid_loss"]) for row in log.query("SELECT name, valid_loss FROM v_runs")]
    connection.close()


@pytest.mark.parametrize("how", [[], ["--immutable"]])
def test_datasette_serves_the_log_itself(logged, tmp_path, how):
    needs("datasette")
    port = free_port()
    with open(tmp_path / "datasette", "w+") as output:
        serving = subprocess.Popen([sys.executable, "-m", "datasette", "serve", "--port", str(port), *how,
                                    logged.log.database], stdout=output, stderr=output, cwd=tmp_path)
        try:
            def rows(page):
                for _ in range(300):
                    try:
                        with urllib.request.urlopen(f"http://127.0.0.1:{port}/wmtp/{page}", timeout=10) as answer:
                            return json.load(answer)
                    except urllib.error.HTTPError as error:
                        pytest.fail(f"{page}: {error.read().decode()}")
                    except urllib.error.URLError:
                        assert serving.poll() is None, (tmp_path / "datasette").read_text()
                        time.sleep(0.1)
                pytest.fail((tmp_path / "datasette").read_text())

            runs = rows("v_runs.json?_shape=objects&_sort=id")["rows"]
            assert [(run["id"], run["status"]) for run in runs] == [(1, "finished"), (2, "finished")]
            losses = rows("v_metrics.json?_shape=objects&run_id=2&name=train/loss&_size=max")["rows"]
            assert {row["step"]: row["value"] for row in losses} == logged.log.losses(2)
        finally:
            serving.terminate()
            serving.wait()


def test_json_has_every_row_of_the_run(logged):
    text = logged.host("export", "1", "--to", "json").out
    run, = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    for table in ("run_params", "run_plugins", "metrics", "memory", "checkpoints", "events"):
        wanted = logged.log.query(f"SELECT count(*) AS n FROM {table} WHERE run_id = 1")[0]["n"]
        assert len(run[table.removeprefix("run_")]) == wanted, table
    assert run["checkpoints"] and run["memory"] and run["resolved_toml"]
    for row in run["metrics"]:
        assert equal(float(row["kind"] or row["value"]), points(logged, 1)[row["name"]][row["step"]])


def events_in(folder):
    event_accumulator, = needs("tensorboard.backend.event_processing.event_accumulator")
    reader = event_accumulator.EventAccumulator(str(folder), size_guidance=dict.fromkeys(
        ("scalars", "tensors"), 0))
    reader.Reload()
    return reader


def assert_scalars(reader, wanted, skip=()):
    numpy, = needs("numpy")
    tags = [tag for tag in reader.Tags()["scalars"] if not tag.startswith("memory/")]
    assert sorted(tags) == sorted(wanted)
    for tag in tags:
        found = {event.step: event.value for event in reader.Scalars(tag)}
        assert found.keys() == wanted[tag].keys(), tag
        assert all(equal(float(found[step]), float(numpy.float32(value))) for step, value in wanted[tag].items()), tag


def test_tensorboard_reads_the_events(logged):
    logged.host("export", "first", "second", "--to", "tensorboard", "-o", "board")
    for folder, run in (("1-first", 1), ("2-second", 2)):
        reader = events_in(logged.folder / "board" / folder)
        assert_scalars(reader, points(logged, run))
        shown = {row["step"]: row["time_ns"] for row in logged.log.query(
            "SELECT step, time_ns FROM metrics WHERE run_id = ? AND name = 'train/loss'", run)}
        assert all(abs(event.wall_time - shown[event.step] / 1e9) < 1e-5 for event in reader.Scalars("train/loss"))
        resident = logged.log.query("SELECT max(bytes) AS most FROM memory WHERE run_id = ? AND rank = 1 "
                                    "AND phase = 'peak' AND category = 'resident'", run)[0]["most"]
        assert max(event.value for event in reader.Scalars("memory/rank_1/resident")) \
            == pytest.approx(resident, rel=1e-6)
        text = reader.Tensors("experiment")[0].tensor_proto.string_val[0].decode()
        assert "[pipeline]" in text


def test_tensorboard_shows_the_options_of_a_run(logged):
    metadata, = needs("tensorboard.plugins.hparams.metadata")
    logged.host("export", "second", "--to", "tensorboard", "-o", "options")
    reader = events_in(logged.folder / "options/2-second")
    content = reader.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    values = metadata.parse_session_start_info_plugin_data(content).hparams
    assert values["pipeline.plugin"].string_value == "baseline" and values["seed"].number_value == 8
    content = reader.summary_metadata["_hparams_/session_end_info"].plugin_data.content
    assert metadata.parse_session_end_info_plugin_data(content).status == 1


def test_mlflow_opens_the_file_and_finds_every_number(logged):
    mlflow, _, _ = needs("mlflow", "sqlalchemy", "alembic")
    ended = logged.host("export", "first", "second", "--to", "mlflow", "-o", "mlflow.db")
    assert "run 1: parameter data.note" in ended.err and "run 2" not in ended.err
    file = logged.folder / "mlflow.db"
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{file}")  # migrates it to its own schema
    experiment = client.get_experiment_by_name("wmtp-host")
    found = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(found) == {"first", "second"}
    migrated = sqlite3.connect(file)
    assert migrated.execute("SELECT version_num FROM alembic_version").fetchone() != ("acf3f17fdcc7",)
    migrated.close()
    largest = 1.7976931348623157e308
    for name, id in (("first", 1), ("second", 2)):
        run, row = found[name], logged.log.query("SELECT * FROM runs WHERE id = ?", id)[0]
        assert run.info.status == "FINISHED" and run.info.start_time < run.info.end_time + 1
        assert run.data.tags["wmtp.config_hash"] == row["config_hash"] and run.data.tags["wmtp.run_id"] == str(id)
        assert run.data.tags.get("mlflow.source.git.commit", "") == row["git_commit"]
        params = {p["key"]: p["value_text"] for p in logged.log.query(
            "SELECT key, value_text FROM run_params WHERE run_id = ?", id)}
        if id == 1:
            assert params.pop("data.note").startswith(run.data.params.pop("data.note")[:-1])
        assert run.data.params == params
        wanted = points(logged, id)
        for metric, values in wanted.items():
            history = {point.step: point.value for point in client.get_metric_history(run.info.run_id, metric)}
            assert history.keys() == values.keys(), metric
            for step, value in values.items():
                value = math.copysign(largest, value) if math.isinf(value) else value
                assert equal(history[step], value), (metric, step)
            assert equal(run.data.metrics[metric], history[max(history)])
        memory = [key for key in run.data.metrics if key.startswith("system/")]
        assert sorted(memory) == ["system/rank_0_memory_usage_megabytes", "system/rank_1_memory_usage_megabytes"]


def test_an_existing_target_is_refused(logged):
    for format in ("csv", "json", "tensorboard", "mlflow"):
        taken = logged.folder / f"taken-{format}"
        taken.write_text("mine")
        ended = logged.host("export", "first", "--to", format, "-o", taken, wanted=2)
        assert "already exists" in ended.err and taken.read_text() == "mine"
    assert not list(logged.folder.glob("*.tmp-*"))
    assert "needs -o PATH" in logged.host("export", "first", "--to", "mlflow", wanted=2).err
    assert "first" in logged.host("export", "frist", "--to", "csv", wanted=2).err


def test_events_for_tensorboard_are_written_during_training(place):
    place.run(**ONE_RANK, train__steps=8, log__tensorboard="board", checkpoint__every_steps=4)
    reader = events_in(place.folder / "board/1-trial")
    assert_scalars(reader, points(place, 1))
    shown = place.log.query("SELECT step, time_ns FROM metrics WHERE name = 'train/loss'")
    times = {event.step: event.wall_time for event in reader.Scalars("train/loss")}
    assert all(abs(times[row["step"]] - row["time_ns"] / 1e9) < 1e-5 for row in shown)


def test_a_resumed_run_has_a_file_of_its_own(place):
    import signal
    endless = {**ONE_RANK, "train__steps": 200_000, "data": {"kind": "random"}, "log__tensorboard": "board"}
    running = place.start(**endless)
    running.wait_for_step(3)
    assert events_in(place.folder / "board/1-trial").Scalars("train/loss"), "nothing while it runs"
    running.process.send_signal(signal.SIGTERM)
    assert running.wait().code == 75
    resumed = place.start("--resume", **endless)
    resumed.wait_for_step(place.log.last_step() + 2)
    resumed.process.send_signal(signal.SIGTERM)
    assert resumed.wait().code == 75
    for run in (1, 2):
        assert_scalars(events_in(place.folder / f"board/{run}-trial"), points(place, run))


def test_a_folder_that_cannot_be_written_stops_no_training(place):
    (place.folder / "board").write_text("no folder")
    ended = place.run(**ONE_RANK, train__steps=3, log__tensorboard="board")
    event, = [one for one in place.log.events() if one["kind"] == "sink_failed"]
    assert event["level"] == "warning" and "board" in event["message"] and "board" in ended.err
    assert len(place.log.losses()) == 3
