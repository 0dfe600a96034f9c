"""Sends runs to a tracker through its own Python package: tracker_bridge.py wandb|trackio. Standard input is a socket
with lines of JSON: {"run": …} begins a run, {"step", "seconds", "values"} is a complete step, {"status", "exit_code"} a
new status, {"end": true} ends the run; after each run there is an answer, {"result": …}. {"failed": …} is the last
answer.

A step that the tracker has is not sent again, so that a call continues where an earlier one, or one for the run that
this run resumed, was ended. The offline folders of W&B cannot be continued: an incomplete one is replaced."""
import json
import os
import shutil
import socket
import sys
from pathlib import Path

PROJECT = "wmtp-host"


class Refused(Exception):
    pass


def nested(config):
    """{"model.dim": 64} -> {"model": {"dim": 64}}: W&B's filters address keys of nested tables with dots."""
    tables = {}
    for key, value in config.items():
        *path, last = key.split(".")
        table = tables
        for name in path:
            table = table.setdefault(name, {})
        table[last] = value
    return tables


class Wandb:
    # A file in an offline folder: the run of the log whose steps are all there, and its status.
    COMPLETE = "wmtp-complete"

    def __init__(self, run):
        import wandb
        settings = wandb.setup().settings
        if settings.mode == "disabled":
            raise Refused("W&B is disabled (WANDB_MODE, or `wandb disabled`); enable it, or set WANDB_MODE=offline")
        self.first, self.sent, self.run = 0, 0, None
        if settings.mode == "offline" and self.is_complete_offline(Path(settings.wandb_dir), run):
            return
        self.id, self.status, self.exit_code = run["id"], run["status"], run["exit_code"]
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), id=run["key"], resume="allow", name=run["name"],
            config={**nested(run["config"]), "wmtp": run["about"]}, tags=run["tags"], notes=run["note"],
            settings=wandb.Settings(console="off", disable_git=True, disable_code=True, x_disable_stats=True))
        self.first = self.run.step

    def is_complete_offline(self, folder, run):
        for earlier in folder.glob(f"offline-run-*-{run['key']}"):
            mark = earlier / self.COMPLETE
            if mark.exists() and mark.read_text() == f"{run['id']} {run['status']}":
                return True
            if list(earlier.glob("*.synced")):
                raise Refused(f"{earlier} was synced before the run was complete, and W&B cannot append to it offline; "
                              "export with WANDB_MODE=online, which continues the run on the server")
            shutil.rmtree(earlier)
        return False

    def send(self, step, seconds, values):
        if self.run and step >= self.first:
            self.run.log({**values, "_timestamp": seconds}, step=step)
            self.sent += 1

    def set_status(self, status, exit_code):
        self.status, self.exit_code = status, exit_code

    def finish(self):
        if not self.run:
            return "is there already"
        self.run.summary["wmtp/status"] = self.status
        self.run.finish(exit_code=0 if self.status == "finished" else self.exit_code or 1)
        if not self.run.offline:
            return f"is at {self.run.url}, {self.sent} steps sent"
        folder = Path(self.run.dir).parent
        (folder / self.COMPLETE).write_text(f"{self.id} {self.status}")
        return f"is in {folder}, {self.sent} steps written; `wandb sync {folder}` uploads it"


class Trackio:
    def __init__(self, run):
        self.sent, self.name = 0, f"{run['name']}-{run['key'][:8]}"  # Trackio finds a run again by its name
        self.described = run
        self.open()
        # The only place where Trackio, local or remote, tells what it has of a resumed run.
        if not hasattr(self.run, "_next_step"):
            raise Refused("this version of trackio does not tell the last step of a run; install trackio 0.43")
        self.first = self.run._next_step

    def open(self):
        import trackio
        described = self.described
        self.run = trackio.init(
            project=PROJECT, name=self.name, resume="allow", embed=False, auto_log_gpu=False, auto_log_cpu=False,
            config={**described["config"], **{f"wmtp.{name}": one for name, one in described["about"].items()},
                    "wmtp.status": described["status"], "tags": described["tags"], "note": described["note"]})

    def send(self, step, seconds, values):
        if step >= self.first:
            self.run.log(values, step=step)
            self.sent += 1

    def set_status(self, status, exit_code):
        """Trackio has no status of its own, and writes a configuration with the first step after `init`."""
        self.run.finish()
        self.described = {**self.described, "status": status}
        self.open()

    def finish(self):
        self.run.finish()
        return f"is {self.name} of project {PROJECT}, {self.sent} steps sent" if self.sent else "is there already"


def bridge(tracker, lines, answer):
    current = None
    for line in lines:
        message = json.loads(line)
        if "run" in message:
            run = message["run"]
            current = tracker(run)
        elif "step" in message:
            current.send(message["step"], message["seconds"],
                         {name: float(one) for name, one in message["values"].items()})
        elif "status" in message:
            current.set_status(message["status"], message["exit_code"])
        else:
            answer({"result": f"run {run['id']} ({run['name']}) {current.finish()}"})


def main():
    package = sys.argv[1]
    connection = socket.socket(fileno=0)

    def answer(message):
        connection.sendall((json.dumps(message) + "\n").encode())

    sys.stdout = sys.stderr  # what the packages print
    try:
        __import__(package)
    except ImportError as error:
        answer({"failed": f"{sys.executable} has no {package} ({error}): {sys.executable} -m pip install {package}, or "
                          "name a Python that has it in WMTP_PYTHON"})
        return
    try:
        bridge({"wandb": Wandb, "trackio": Trackio}[package], connection.makefile(encoding="utf-8"), answer)
    except Exception as error:  # of the package, whose kinds differ between versions
        answer({"failed": f"{package}: " + " ".join(str(error).split())[:500]})


main()
