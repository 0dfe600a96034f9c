"""A critic's calibration on its validation records, compared with the values of the saved model in plain PyTorch."""
import json
import re

import numpy as np
import pytest
import records
from checkpoint import model_tensors
from reference import filled
from start import READER, changes_for, write_start
from value_head import add_value_head, values_of, without_token_heads
from values_test import critic

BINS = 10


def train(place, loss="monte_carlo", ranks=2):
    """Values spread beyond 0 and 1, so that every bin has tokens and the outer ones have more than their range."""
    recipe = critic(loss, data="pairs" if loss == "pairwise" else "records", value_start=0.5)
    lines = records.write_records(place.folder, 24, unknown=True, seed=23)
    held_out = [{**line, "task_id": f"held-out-{line['task_id']}"} for line in lines]
    (place.folder / "held_out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in held_out))
    write_start(place.folder, READER, recipe, seed=12)
    keys = changes_for(READER, recipe, ranks)
    place.run(**keys, validation__files=["held_out.jsonl"], validation__batches=24 // keys["train__batch_size"],
              validation__every_steps=1)
    return lines


def saved_values(place, lines):
    """Values and outcomes of the answer tokens of answers that are known to be right or wrong."""
    model = add_value_head(without_token_heads(filled(READER, seed=0)), "linear", seed=0).requires_grad_(False)
    model.load_state_dict(model_tensors(place.log.folder()))
    batch = records.record_batch(lines, 0)
    counted = (batch.kind == records.ANSWER) & (batch.correct >= 0)[:, None]
    right = (batch.correct == 1)[:, None].expand_as(counted)
    return values_of(model, batch.tokens)[counted].numpy(), right[counted].numpy()


@pytest.mark.parametrize("ranks", [1, 2])
def test_bins_and_error_are_those_of_a_plain_computation(place, ranks):
    lines = train(place, ranks=ranks)
    values, right = saved_values(place, lines)
    assert values.min() < 0 and values.max() > 1, "tokens beyond both ends"
    edges = np.linspace(0, 1, BINS + 1)[1:-1]
    assert np.abs(values[:, None] - edges).min() > 1e-6, "no token is near an edge"
    bins, last = np.digitize(values, edges), max(place.log.losses())
    error = 0
    for bin_ in range(BINS):
        inside = bins == bin_
        found = {part: place.log.metric(f"valid/value/calibration/{bin_}/{part}").get(last)
                 for part in ("tokens", "value", "outcome")}
        if not inside.any():
            assert found == {"tokens": None, "value": None, "outcome": None}
            continue
        assert found["tokens"] == inside.sum()
        assert found["value"] == pytest.approx(values[inside].mean(), rel=1e-5, abs=1e-6)
        assert found["outcome"] == pytest.approx(right[inside].mean())
        error += inside.sum() * abs(right[inside].mean() - values[inside].mean())
    assert len(set(bins)) > 4
    assert place.log.metric("valid/value/calibration_error")[last] == pytest.approx(error / len(values), rel=1e-5)
    said = place.host("runs", "show", "1").out
    assert re.search(rf"calibration of value at step {last}\n.*tokens +value +outcome\n", said)
    assert len(re.findall(r"^ *\d\.\d to \d\.\d .*\d$", said, re.MULTILINE)) == len(set(bins))


def test_scores_have_no_calibration(place):
    train(place, "pairwise")
    assert not place.log.query("SELECT name FROM metric_names WHERE name LIKE '%calibration%'")
    assert "calibration" not in place.host("runs", "show", "1").out
