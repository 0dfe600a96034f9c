"""Reads the file that W&B writes offline: the log format of LevelDB, whose records are protocol buffers of the wandb
package."""
import json
from pathlib import Path

HEADER, BLOCK, FRAME = 7, 32768, 7  # bytes: ":W&B" and a version; a block; checksum, length and type of a fragment
LAST_FRAGMENT = {1, 4}              # a whole record, or the end of one


def records(file):
    from wandb.proto import wandb_internal_pb2
    data, position, record = Path(file).read_bytes(), HEADER, b""
    if not data:  # not yet
        return
    assert data.startswith(b":W&B")
    while position + FRAME <= len(data):
        left = BLOCK - position % BLOCK
        if left < FRAME:
            position += left
            continue
        length, kind = int.from_bytes(data[position + 4:position + 6], "little"), data[position + 6]
        if position + FRAME + length > len(data):  # half a record, so far
            return
        record += data[position + FRAME:position + FRAME + length]
        position += FRAME + length
        if kind in LAST_FRAGMENT:
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


class OfflineRun:
    """id, name, project, tags, notes, config, summary, exit_code (None: not finished),
    history: {metric: {step: value}}"""

    def __init__(self, folder):
        file, = Path(folder).glob("run-*.wandb")
        self.config, self.summary, self.history, self.times, self.exit_code, self.steps = {}, {}, {}, {}, None, []
        for record in records(file):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                run = record.run
                self.id, self.name, self.project = run.run_id, run.display_name, run.project
                self.tags, self.notes = list(run.tags), run.notes
                self._update(self.config, run.config)
            elif kind == "config":
                self._update(self.config, record.config)
            elif kind == "summary":
                self._update(self.summary, record.summary)
            elif kind == "exit":
                self.exit_code = record.exit.exit_code
            elif kind == "history":
                self._take(record.history)

    @staticmethod
    def _update(values, message):
        for item in message.update:
            values["/".join([item.key, *item.nested_key]).strip("/")] = json.loads(item.value_json)

    def _take(self, history):
        values = {"/".join([item.key, *item.nested_key]).strip("/"): json.loads(item.value_json)
                  for item in history.item}
        step = values.pop("_step", history.step.num)
        self.steps.append(step)
        self.times[step] = values.pop("_timestamp")
        for name, value in values.items():
            self.history.setdefault(name, {})[step] = value
