"""Pushes runs to an MLflow tracking server: mlflow_push.py INPUT URI. INPUT has the runs as `wmtp-host export --to
json` writes them, and their ids. A run is found again by its tag wmtp.id; one that is complete on the server is
skipped, one that is not is deleted and pushed again. Prints a line for each run; a failure is one line on stderr."""
import json
import math
import os
import shlex
import sys
from datetime import datetime

EXPERIMENT = "wmtp-host"
LONGEST_PARAM, LONGEST_TAG = 6000, 5000  # of MLflow 2 and later
METRICS, PARAMS = 1000, 100              # in one request
COLUMNS = ("pipeline", "adapter", "status", "exit_code", "config_hash", "seed", "world_size", "strategy", "precision",
           "device", "host", "version", "parent_run", "tokens_per_second", "mfu", "tags", "note", "git_commit")
STATUS = {"running": "RUNNING", "finished": "FINISHED", "interrupted": "KILLED"}


def cut(text, longest):
    return text if len(text) <= longest else text[:longest - 1] + "…"


def milliseconds(time):
    return int(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000) if time else None


def number(row):
    if row["value"] is not None:
        return row["value"]
    return {"nan": math.nan, "inf": sys.float_info.max, "-inf": -sys.float_info.max}[row["kind"]]


def parts(items, size):
    return (items[at:at + size] for at in range(0, len(items), size))


def push(client, entities, experiment, run, key):
    known = client.search_runs([experiment], f"tags.`wmtp.id` = '{key}'")
    if any(one.data.tags.get("wmtp.complete") == "1" for one in known):
        return f"run {run['id']} ({run['name']}) is there already"
    for one in known:
        client.delete_run(one.info.run_id)
    tags = {"mlflow.runName": run["name"], "mlflow.source.name": "wmtp-host", "wmtp.id": key,
            "wmtp.run_id": str(run["id"])}
    tags |= {f"wmtp.{column}": str(run[column]) for column in COLUMNS if run[column] not in (None, "")}
    made = client.create_run(experiment, start_time=milliseconds(run["started_at"]), run_name=run["name"],
                             tags={name: cut(text, LONGEST_TAG) for name, text in tags.items()})
    there = made.info.run_id
    for some in parts(run["params"], PARAMS):
        client.log_batch(there, params=[entities.Param(one["key"], cut(one["value_text"], LONGEST_PARAM))
                                        for one in some])
    for some in parts(run["metrics"], METRICS):
        client.log_batch(there, metrics=[
            entities.Metric(one["name"], number(one), one["time_ns"] // 1_000_000, one["step"]) for one in some])
    if run["status"] != "running":
        client.set_terminated(there, STATUS.get(run["status"], "FAILED"), milliseconds(run["ended_at"]))
        client.set_tag(there, "wmtp.complete", "1")  # last: a push that was killed before it is repeated
    return f"run {run['id']} ({run['name']}) is {there} of experiment {EXPERIMENT}"


def deleted(experiment, uri):
    return (f"the experiment {experiment.name} was deleted there; restore it (MLFLOW_TRACKING_URI={shlex.quote(uri)} "
            f"mlflow experiments restore --experiment-id {experiment.experiment_id}, or MlflowClient.restore_experiment"
            f"(\"{experiment.experiment_id}\")), or name another server with --push")


def main():
    file, uri = sys.argv[1:]
    # Seven, the client's default, take over two minutes, longer than a run waits for a server that is not there.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    try:
        from mlflow import MlflowClient, entities
    except ImportError as error:
        sys.exit(f"MLflow's client is missing ({error}): pip install mlflow, or name a Python that has it in "
                 "WMTP_PYTHON")
    with open(file, encoding="utf-8") as text:
        given = json.load(text)
    try:
        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(EXPERIMENT)  # also one that was deleted
        if found and found.lifecycle_stage != "active":
            sys.exit(deleted(found, uri))
        experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT)
        for run in given["runs"]:
            print(push(client, entities, experiment, run, given["ids"][str(run["id"])]), flush=True)
    except Exception as error:  # of the client, whose kinds differ between versions
        sys.exit(" ".join(str(error).split())[:500])


main()
