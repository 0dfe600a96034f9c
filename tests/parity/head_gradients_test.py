"""The heads' gradients at the trunk's output ([log] heads_every_steps), compared with those that autograd computes in
plain PyTorch, over the whole model with all logits: a loss of one head alone, differentiated by what all heads read.
What is compared may not change what is trained."""
import itertools
import math
import re
from dataclasses import replace

import experiment
import numpy as np
import pytest
import records
import torch
from checkpoint import model_tensors
from compare import assert_tensors_equal
from mtp_model import Shape
from paths import cases_of
from reference import Recipe, Reference
from start import POLICY, READER, changes_for, write_start

CLOSE = 1e-5
CHAINED = replace(POLICY, future_heads="chained")
TIED = Shape(dim=64, layers=6, heads=4, kv_heads=2, ffn_dim=160, vocab_size=experiment.VOCAB, norm_eps=1e-6,
             future_tokens=3, tie_word_embeddings=True)
WEIGHTED = [1.0, 0.5, 0.3, 0.2]
# Shape, recipe, ranks, keys.
CASES = {
    "one rank": (POLICY, Recipe(steps=3), 1, {}),
    "two ranks": (POLICY, Recipe(steps=3), 2, {}),
    "accumulated": (POLICY, Recipe(steps=3, accumulation=2, head_weights=WEIGHTED), 1, {}),
    "accumulated on two ranks": (TIED, Recipe(steps=3, accumulation=2), 2, {"parallel__strategy": "shard_grad_op"}),
    "divided positions": (POLICY, Recipe(steps=3), 2, {"parallel__sequence": 2}),
    "divided features": (POLICY, Recipe(steps=3), 2, {"parallel__tensor": 2}),
    "sections": (POLICY, Recipe(steps=3, accumulation=2), 2, {"parallel__pipeline": 2}),
    "chained": (CHAINED, Recipe(steps=3, head_weights=WEIGHTED), 1, {}),
    "chained, accumulated": (CHAINED, Recipe(steps=3, accumulation=2), 2, {}),
    "chained, divided positions": (CHAINED, Recipe(steps=3), 2, {"parallel__sequence": 2}),
    "chained, divided features": (CHAINED, Recipe(steps=3), 2, {"parallel__tensor": 2}),
    "shared, accumulated": (replace(POLICY, future_heads="shared"), Recipe(steps=3, accumulation=2), 2, {}),
    "records, normalized by weights": (READER, Recipe(steps=3, data="records", normalize="weights"), 2, {}),
    "lora": (POLICY, Recipe(steps=3, adapter="lora", lora={"dora": True}), 2, {}),
    "without head 2": (POLICY, Recipe(steps=3, head_weights=[1.0, 0.0, 1.0, 1.0]), 1, {}),
}

SHORT = ["one rank", "accumulated on two ranks", "divided positions", "divided features", "sections",
         "chained, accumulated", "shared, accumulated", "records, normalized by weights", "lora", "without head 2"]


class ComparedHeads(Reference):
    """Notes the metrics of each step: {name: {step: value}}."""

    def __init__(self, *inputs):
        super().__init__(*inputs)
        self.metrics, self.trunks = {}, []
        trunk = self.model.trunk

        def kept(tokens):
            hidden, angles = trunk(tokens)
            self.trunks.append(hidden)
            return hidden, angles
        self.model.trunk = kept

    def _loss(self, step, batches):
        loss, gradients = self.differentiated(step, batches)
        products = {(j, k): sum((a * b).sum().item() for a, b in zip(gradients[j], gradients[k]))
                    for j, k in itertools.combinations_with_replacement(gradients, 2)}
        for (j, k), product in products.items():
            norms = math.sqrt(products[j, j] * products[k, k])
            if j == k:
                self.metrics.setdefault(f"heads/norm_{k}", {})[step] = norms ** 0.5
            elif norms > 0:
                self.metrics.setdefault(f"heads/cosine_{j}_{k}", {})[step] = product / norms
        return loss

    def differentiated(self, step, batches):
        """The loss, and {head: [its gradient at the trunk's output, fp64, of each micro-batch]}."""
        self.trunks.clear()
        loss = super()._loss(step, batches)
        return loss, {k: [g.double() for g in torch.autograd.grad(of_head, self.trunks, retain_graph=True)]
                      for k, of_head in self.head_losses.items()}


def wanted_metrics(place, shape, recipe):
    reference, batches = write_start(place.folder, shape, recipe, seed=11)
    compared = ComparedHeads(recipe, reference.model)
    compared.train(batches)
    return compared.metrics


def logged(place, run=None):
    run = run or place.log.newest()["id"]
    rows = place.log.query("SELECT name, step, value FROM metrics WHERE run_id = ? AND name LIKE 'heads/%'", run)
    metrics = {}
    for row in rows:
        metrics.setdefault(row["name"], {})[row["step"]] = row["value"]
    return metrics


@pytest.mark.soak
@pytest.mark.parametrize("case", cases_of(CASES, SHORT))
def test_products_of_the_heads_gradients_equal_pytorch(place, case):
    shape, recipe, ranks, keys = CASES[case]
    wanted = wanted_metrics(place, shape, recipe)
    changes = changes_for(shape, recipe, ranks) | keys
    if set(keys) & {"parallel__sequence", "parallel__tensor", "parallel__pipeline"}:
        changes["train__batch_size"] = recipe.sequences
    place.run(**changes, log__heads_every_steps=1)
    found = logged(place)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name].keys() == values.keys() == {1, 2, 3}, name
        for step, value in values.items():
            if name.startswith("heads/norm"):
                assert found[name][step] == pytest.approx(value, rel=CLOSE), (name, step)
            else:
                assert found[name][step] == pytest.approx(value, abs=CLOSE), (name, step)


SAMPLED = {
    "one rank": (POLICY, Recipe(steps=2, head_weights=WEIGHTED), 1, {}),
    "two ranks": (POLICY, Recipe(steps=2), 2, {}),
    "recomputed": (POLICY, Recipe(steps=2), 1, {"parallel__activation_checkpointing": "full"}),
    "leaps": (replace(POLICY, future_offsets=[1, 3, 5, 7]), Recipe(steps=2), 1, {}),
    "divided positions": (POLICY, Recipe(steps=2), 2, {"parallel__sequence": 2}),
    "divided features": (POLICY, Recipe(steps=2), 2, {"parallel__tensor": 2}),
    "sections": (POLICY, Recipe(steps=2), 2, {"parallel__pipeline": 2}),
    "chained": (CHAINED, Recipe(steps=2, head_weights=WEIGHTED), 1, {}),
    "chained, divided positions": (CHAINED, Recipe(steps=2), 2, {"parallel__sequence": 2}),
    "shared": (replace(POLICY, future_heads="shared"), Recipe(steps=2), 1, {}),
    "weighted": (POLICY, Recipe(steps=2, pipeline="formula", options={"weight": "(1 - exp(-ce))^2"},
                                normalize="weights"), 1, {}),
    "with a state": (POLICY, Recipe(steps=2, pipeline="frequency"), 1, {}),
    "label smoothing": (POLICY, Recipe(steps=2, auxiliary={"plugin": "label_smoothing"}), 1, {}),
    "divergence": (POLICY, Recipe(steps=2, auxiliary={"plugin": "reference_divergence"}), 1, {}),
}

SAMPLED_SHORT = ["two ranks", "recomputed", "leaps", "sections", "chained, divided positions", "divided features",
                 "weighted", "with a state", "divergence"]


def sampled(place, step, columns):
    """[sequences, positions, heads, columns] of the rows that a step's validation logged, NaN without one."""
    names = ", ".join(f"coalesce(1.0 * {name}, 'NaN') AS {name}" for name in columns)
    rows = place.log.query(f"SELECT {names} FROM samples LEFT JOIN sample_alignments "
                           "USING (run_id, step, sequence, position, head) WHERE step = ? "
                           "AND run_id = ? ORDER BY sequence, position, head", step, place.log.newest()["id"])
    found = np.array([[float(row[name]) for name in columns] for row in rows])
    return found.reshape(-1, experiment.SEQUENCE, POLICY.future_tokens, len(columns))


@pytest.mark.soak
@pytest.mark.parametrize("case", cases_of(SAMPLED, SAMPLED_SHORT))
def test_samples_have_the_inner_products_of_each_position(place, case):
    shape, recipe, ranks, keys = SAMPLED[case]
    reference, _ = write_start(place.folder, shape, recipe, seed=11)
    place.tokens(windows=40)
    changes = changes_for(shape, recipe, ranks) | keys
    if set(keys) & {"parallel__sequence", "parallel__tensor", "parallel__pipeline"}:
        changes["train__batch_size"] = recipe.sequences
    of_rank = changes["train__batch_size"]
    place.run(**changes, validation={"share": 0.2, "batches": recipe.sequences // of_rank}, log__samples=of_rank,
              log__heads_every_steps=1)
    for step in (0, recipe.steps):
        if step and recipe.pipeline == "frequency":
            continue  # its counts are those of the steps before
        if step:
            reference.model.load_state_dict(model_tensors(place.log.folder()))
        tokens = sampled(place, step, ["token_id"])[:, :, 0, 0].astype(np.int64)
        found = sampled(place, step, ["loss", "product", "cosine"])
        compared = ComparedHeads(recipe, reference.model, reference.frozen)
        # Of another rank's sequences only the number matters.
        all_rows = np.concatenate([tokens] * (recipe.sequences // len(tokens)))
        [batch] = records.window_batches(all_rows.flatten(), recipe.sequence_length, recipe.sequences)
        _, gradients = compared.differentiated(max(step, 1), [batch])
        first = gradients[1][0][:len(tokens)]
        for k, [gradient] in gradients.items():
            other, offset = gradient[:len(tokens)], shape.offset(k)
            products = (first * other).sum(-1)
            cosines = products / (first.norm(dim=-1) * other.norm(dim=-1))
            of_head = found[:, :, k - 1]
            assert np.isnan(of_head[:, :offset]).all() and not np.isnan(of_head[:, offset:]).any()
            np.testing.assert_allclose(of_head[:, offset:, 1], products[:, :-offset], rtol=1e-4,
                                       atol=1e-5 * products.abs().max())
            np.testing.assert_allclose(of_head[:, offset:, 2], cosines[:, :-offset] if k > 1 else 1, atol=CLOSE)


def test_samples_of_a_run_that_compares_no_heads_have_no_products(place):
    changes = {"train__steps": 2, "parallel__processes": 1, "validation": {"share": 0.2, "batches": 1}}
    place.run(**changes)
    assert np.isnan(sampled(place, 2, ["cosine"])).all()
    weights = sampled(place, 2, ["weight", "loss"])
    place.run(**changes, log__heads_every_steps=2)
    np.testing.assert_array_equal(sampled(place, 2, ["weight", "loss"]), weights)
    for step in (0, 2):
        found = sampled(place, step, ["cosine"])[..., 0]
        assert np.nanmax(np.abs(found)) <= 1 and np.nanmin(found[:, :, 1:]) < 0
        assert (found[:, 1:, 0] == 1).all()


@pytest.mark.parametrize("heads", ["parallel", "chained"])
def test_a_comparison_changes_nothing_and_is_in_every_nth_step(place, heads):
    changes = {"train__steps": 7, "parallel__processes": 2, "model__future_heads": heads}
    place.run(**changes)
    assert not logged(place), "nothing is compared unless it is asked for"
    losses, model = place.log.losses(), model_tensors(place.log.folder())
    place.run(**changes, log__heads_every_steps=3)
    found = logged(place)
    assert len(found) == 4 + 6 and all(list(values) == [3, 6] for values in found.values())
    assert place.log.losses() == losses
    assert_tensors_equal(model_tensors(place.log.folder()), model)
    shown = place.host("runs", "show", place.log.newest()["id"]).out
    assert re.search(r"cosines of the heads' gradients at step 6\nhead +1 +2 +3 +4 +norm\n +1 +1 ", shown), shown
    place.run(**changes, log__heads_every_steps=3)
    assert logged(place) == found


def test_layouts_agree(place):
    shared = {"train__steps": 2, "log__heads_every_steps": 1, "train__gradient_accumulation": 1}
    place.run(**shared, parallel__processes=1, train__batch_size=4)
    one = logged(place)
    for changes in ({"parallel__processes": 2, "train__batch_size": 2, "parallel__strategy": "full_shard"},
                    {"parallel__processes": 1, "train__batch_size": 2, "train__gradient_accumulation": 2},
                    {"parallel__processes": 2, "train__batch_size": 4, "parallel__sequence": 2},
                    {"parallel__processes": 2, "train__batch_size": 4, "parallel__tensor": 2},
                    {"parallel__processes": 4, "train__batch_size": 2, "parallel__strategy": "no_shard",
                     "parallel__sequence": 2}):
        place.run(**shared | changes)
        other = logged(place)
        for name, values in one.items():
            assert other[name] == pytest.approx(values, rel=1e-6, abs=1e-6), (name, changes)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_resumed_run_logs_the_same(place, precision):
    changes = {"train__steps": 12, "parallel__processes": 1, "parallel__precision": precision,
               "log__heads_every_steps": 1}
    place.tokens(windows=24)
    place.run(**changes)
    wanted = logged(place)
    place.stopped_run(**changes)
    first = logged(place)
    place.host("run", "experiment.toml", "--resume")
    second = logged(place)
    assert {name: first[name] | second[name] for name in wanted} == wanted


def test_norms_know_nothing_of_the_loss_scale(place):
    place.tokens(windows=120)
    changes = {"train__steps": 3, "parallel__processes": 1, "log__heads_every_steps": 1}
    place.run(**changes)
    wanted = logged(place)
    place.run(**changes, parallel__precision="fp16")
    found = logged(place)
    assert found.keys() == wanted.keys() and all(found.values())
    for name, values in found.items():
        same = {step: wanted[name][step] for step in values}
        assert values == (pytest.approx(same, abs=0.02) if "cosine" in name else pytest.approx(same, rel=0.05)), name


def test_what_cannot_be_compared_is_refused(place):
    def refused(*words, code=2, **changes):
        text = place.refuse(code, words[0], **changes).err
        for word in words:
            assert re.search(word, text), text
    refused("heads_every_steps has no effect", "remove it", pipeline={"plugin": "critic"}, log__heads_every_steps=10)
    refused("heads_every_steps has no effect with train.detach_heads", log__heads_every_steps=10,
            train__detach_heads=True)
    refused("heads_every_steps", "found 10, which is not a multiple of every_steps = 4", log__heads_every_steps=10,
            log__every_steps=4)
    refused("no head sends a gradient to the trunk's output", "train a head or the trunk", log__heads_every_steps=1,
            adapter={"plugin": "full", "train": ["output.weight"]})
    refused("train head 1 or the trunk", log__heads_every_steps=1, model__future_heads="chained",
            adapter={"plugin": "full", "train": ["extra_heads.*"]})
