"""`weigh` compared with numpy, from what a run's log says about the same tokens: losses and the reference's losses."""
import json
import re

import numpy as np
import pytest
import records
from experiment import ONE_RANK
from reference import Recipe
from start import POLICY, READER, RHO1_KEYS, changes_for, keys_of, write_frozen, write_start

SEQUENCES, HEADS = 4, 4
FORMULA = "(excess > 0) * (1 - exp(-ce))"
WEIGHTINGS = {
    "formula": f'[pipeline]\nplugin = "formula"\nweight = "{FORMULA}"\n',
    "rho1": '[pipeline]\nplugin = "rho1"\nkeep = 0.3\n',
}
REFERENCE = '[reference]\nweights = "reference.safetensors"\nmodel = {dim = 64, layers = 2, ffn_dim = 192, ' \
            'future_tokens = 1}\n'
NAMED = REFERENCE.replace("[reference]", "[references.amateur]")
KINDS = [("white space", r"\s"), ("digits", r"\d"), ("word", r"[^\W\d]"), ("punctuation", r".")]


def train(place, **changes):
    """A run whose log has every validation token at its last step."""
    write_frozen(place.folder)
    keys = {**keys_of(POLICY, "model"), **RHO1_KEYS, "train__steps": 3, "train__batch_size": SEQUENCES,
            "validation__share": 0.2, "validation__batches": 1, "log__samples": SEQUENCES} | ONE_RANK | changes
    place.run(**keys)


def logged(place, column, heads=HEADS):
    """[tokens, heads]: a column of the log's samples at the last step, NaN where a head has no target."""
    rows = place.log.query(f"SELECT {column} AS value FROM samples WHERE step = (SELECT max(step) FROM samples) "
                           "ORDER BY sequence, position, head")
    return np.array([np.nan if row["value"] is None else row["value"] for row in rows]).reshape(-1, heads)


def weigh(place, *names, run="trial", more=(), show=SEQUENCES):
    for name in names:
        (place.folder / f"{name}.toml").write_text(WEIGHTINGS[name] + REFERENCE)
    files = [word for name in names for word in ("--pipeline", f"{name}.toml")]
    return json.loads(place.host("weigh", run, *files, "--json", "--show", show, *more).out)


def weights_in(answer, place_of=0, heads=HEADS):
    """[tokens, heads]"""
    found = [np.nan if token["weights"][place_of] is None else token["weights"][place_of] for token in answer["tokens"]]
    return np.array(found).reshape(-1, heads)


def rho1(excess, keep):
    """By head: the tokens whose excess loss is at least the quantile, within the sdk's tolerance."""
    weights = np.full(excess.shape, np.nan)
    for head in range(excess.shape[1]):
        known = ~np.isnan(excess[:, head])
        scores = excess[known, head].astype(np.float32)
        limit = np.quantile(scores, 1 - keep)
        weights[known, head] = scores >= limit - (1e-5 + 1.3e-6 * abs(limit))
    return weights


def wanted_shares(weights, losses, among):
    w, l = weights[among], losses[among]
    everything = ~np.isnan(weights)
    return {"tokens": among.sum(), "token_share": among.sum() / everything.sum(),
            "weight_share": w.sum() / weights[everything].sum(),
            "effective_share": w.sum() ** 2 / (len(w) * (w ** 2).sum()), "zero_share": (w == 0).mean(),
            "loss": l.mean(), "weighted_loss": (w * l).sum() / w.sum(), "zero_loss": l[w == 0].mean()}


def ranks(values):
    """From 1, equal values with their mean rank."""
    return np.array([(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values])


def assert_shares(found, weights, losses, group, among):
    row, = [row for row in found if row["group"] == group]
    for name, value in wanted_shares(weights, losses, among).items():
        assert row[name] == pytest.approx(value, rel=1e-5), (group, name)


def test_shares_and_overlaps_are_those_of_the_logged_losses(place):
    train(place)
    losses, reference = logged(place, "loss"), logged(place, "reference_loss")
    excess, known = losses - reference, ~np.isnan(losses)
    wanted = [(excess > 0) * (1 - np.exp(-losses)), rho1(excess, 0.3)]
    answer = weigh(place, "formula", "rho1")
    assert answer["model"] == "run 1 ('trial')" and answer["step"] == 3 and answer["sequences"] == SEQUENCES
    for index, (name, weights) in enumerate(zip(("formula", "rho1"), wanted)):
        found = weights_in(answer, index)
        assert np.array_equal(np.isnan(found), ~known)
        np.testing.assert_allclose(found[known], weights[known], rtol=1e-5, atol=1e-6)
        shares = [row for row in answer["shares"] if row["weighting"] == name]
        assert [row["group"] for row in shares] == ["all", *(f"head {k}" for k in range(1, HEADS + 1))]
        assert_shares(shares, weights, losses, "all", known)
        for head in range(HEADS):
            assert_shares(shares, weights, losses, f"head {head + 1}", known & (np.arange(HEADS) == head))
    assert len(answer["overlaps"]) == 1 + HEADS
    for row in answer["overlaps"]:
        assert (row["weighting"], row["other"]) == ("formula", "rho1")
        heads = np.arange(HEADS) == int(row["group"][-1]) - 1 if row["group"] != "all" else np.full(HEADS, True)
        a, b = (weights[known & heads] for weights in wanted)
        assert row["common"] == pytest.approx(np.minimum(a / a.sum(), b / b.sum()).sum(), rel=1e-5)
        assert row["rank_correlation"] == pytest.approx(np.corrcoef(ranks(a), ranks(b))[0, 1], rel=1e-5)


@pytest.mark.parametrize("offsets", [[1, 2, 3, 4], [1, 3, 5, 7]])
def test_a_run_weighed_by_itself_has_the_weights_of_its_log(place, offsets):
    """Two ranks: the threshold is over the batches of both."""
    train(place, parallel__processes=2, train__batch_size=2, validation__batches=2, log__samples=2,
          model__future_offsets=offsets)
    (place.folder / "own.toml").write_text('extends = "experiment.toml"\n')
    answer = json.loads(place.host("weigh", "trial", "--pipeline", "own.toml", "--json", "--show", 2).out)
    assert answer["sequences"] == SEQUENCES
    np.testing.assert_array_equal(weights_in(answer), logged(place, "weight"))
    found = np.array([np.nan if token["loss"] is None else token["loss"] for token in answer["tokens"]])
    np.testing.assert_allclose(found.reshape(-1, HEADS), logged(place, "loss"), rtol=1e-6)
    by_sequence = np.isnan(found).reshape(2, -1, HEADS)
    for head, offset in enumerate(offsets):
        assert (by_sequence[:, :, head] == (np.arange(by_sequence.shape[1]) < offset)).all(), "no source before it"


OF_RECORDS = {
    "td": Recipe(pipeline="verifiable", data="records", options={"mode": "td", "whiten": False}),
    "joint": Recipe(pipeline="verifiable", data="records", options={"joint": True, "whiten": False}),
    "prompts": Recipe(pipeline="prompt_weight", data="records", options={"weight": 0.3}),
    "alignment": Recipe(pipeline="formula", data="records", options={"weight": "1 + min(0, alignment)"}),
    "shuffled": Recipe(pipeline="shuffled", data="records", options={"inner": {"plugin": "focal"}}),
    "lora": Recipe(pipeline="mile", data="records", adapter="lora", lora={}, lr=1e-2),
}


def train_on_records(place, recipe, **changes):
    lines = records.write_records(place.folder, 2 * SEQUENCES, seed=31)
    held_out = [{**line, "task_id": f"held-out-{line['task_id']}"} for line in lines]
    (place.folder / "held_out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in held_out))
    write_start(place.folder, READER, recipe, seed=12)
    keys = changes_for(READER, recipe, ranks=1) | {
        "train__steps": 3, "train__batch_size": SEQUENCES, "validation__files": ["held_out.jsonl"],
        "validation__batches": 1, "log__samples": SEQUENCES, "checkpoint__every_steps": 3}
    place.run(**keys | changes)


@pytest.mark.parametrize("case", OF_RECORDS)
def test_a_run_on_records_weighed_by_itself_has_the_weights_of_its_log(place, case):
    train_on_records(place, OF_RECORDS[case])
    (place.folder / "own.toml").write_text('extends = "experiment.toml"\n')
    for model in ("trial", "trial@3"):
        answer = json.loads(place.host("weigh", model, "--pipeline", "own.toml", "--json", "--show", SEQUENCES).out)
        np.testing.assert_allclose(weights_in(answer, heads=2), logged(place, "weight", heads=2), rtol=1e-5, atol=1e-7)


def test_a_value_head_that_the_model_lacks_is_refused(place):
    train_on_records(place, OF_RECORDS["prompts"])
    (place.folder / "joint.toml").write_text('[pipeline]\nplugin = "verifiable"\njoint = true\n')
    place.refuse_command(4, "the model has no value head 'value', which pipeline 'verifiable' trains and reads",
                         command=["weigh", "trial", "--pipeline", "joint.toml"])
    (place.folder / "critic.toml").write_text('[pipeline]\nplugin = "verifiable"\n')
    place.refuse_command(2, r"critic\.toml:2:10: .*no \[value\]",
                         command=["weigh", "trial", "--pipeline", "critic.toml"])


def test_a_token_that_one_weighting_leaves_out_has_weight_zero_in_it(place):
    """prompt_weight also weighs prompts."""
    train_on_records(place, OF_RECORDS["prompts"])
    for name in ("prompt_weight", "baseline"):
        (place.folder / f"{name}.toml").write_text(f'[pipeline]\nplugin = "{name}"\n')
    answer = json.loads(place.host("weigh", "trial", "--pipeline", "prompt_weight.toml", "--pipeline", "baseline.toml",
                                   "--json", "--show", SEQUENCES).out)
    a, b = (weights_in(answer, index, heads=2) for index in range(2))
    assert (np.isnan(b) & ~np.isnan(a)).any()
    a, b = (weights[~np.isnan(a)] for weights in (a, np.nan_to_num(b)))
    wanted = np.minimum(a / a.sum(), b / b.sum()).sum()
    assert answer["overlaps"][0]["common"] == pytest.approx(wanted, rel=1e-5)


def test_the_step_of_the_model_decides_what_changes_over_a_run(place):
    train(place, train__steps=5, checkpoint__every_steps=2, checkpoint__keep=9)
    (place.folder / "progress.toml").write_text('[pipeline]\nplugin = "formula"\nweight = "progress"\n')
    for run, folder, step in (("trial", None, 5), ("trial@2", None, 2), ("trial@4", "step-000004", 4),
                              ("trial", "model", 5)):
        model = run if folder is None else str(place.log.folder() / folder)
        answer = json.loads(place.host("weigh", model, "--pipeline", "progress.toml", "--json", "--show", 1).out)
        weights = weights_in(answer)
        assert answer["step"] == step and answer["model"] == "run 1 ('trial')"
        np.testing.assert_allclose(weights[~np.isnan(weights)], (step - 1) / 4, rtol=1e-6)


def test_a_state_goes_from_batch_to_batch(place):
    """truncation drops what is above the running quantile, which the first batch sets."""
    train(place, validation__batches=2)
    (place.folder / "truncation.toml").write_text(
        '[pipeline]\nplugin = "truncation"\ndrop = 0.2\nwarmup_steps = 1\n')
    answer = json.loads(place.host("weigh", "trial", "--pipeline", "truncation.toml", "--json", "--show", 8).out)
    assert answer["sequences"] == 2 * SEQUENCES
    weights = weights_in(answer)
    losses = np.array([np.nan if token["loss"] is None else token["loss"] for token in answer["tokens"]])
    losses = losses.reshape(weights.shape)
    half = len(weights) // 2
    for head in range(HEADS):
        first, second = losses[:half, head], losses[half:, head]
        assert np.nanmin(weights[:half, head]) == 1, "nothing is dropped before there is a quantile"
        limit = np.nanquantile(first, 0.8)
        far = np.abs(second - limit) > 1e-4
        kept = np.where(np.isnan(second), np.nan, second < limit)
        np.testing.assert_array_equal(weights[half:, head][far], kept[far])


def kinds_of(text):
    """By position of a text whose tokens are bytes."""
    kinds = []
    for at, letter in enumerate(text):
        kind = next(kind for kind, pattern in KINDS if re.fullmatch(pattern, letter, re.DOTALL))
        before = text[at - 1] if at > 0 else ""
        inside = re.fullmatch(r"\w", before) is not None
        kinds.append({"word": "inside a word" if inside else "word start"}.get(kind, kind))
    return kinds


def test_kinds_of_tokens_are_those_of_their_text(place):
    text = "def f_1(x2):\n    return 12 + x  # a sum, or so\n" * 60
    for name in ("code.py", "held_out.py"):
        (place.folder / name).write_text(text)
    train(place, model__vocab_size=None, data__kind="text", data__files=["code.py"], data__file=None, data__dtype=None,
          data__order=None, data__tokenizer={"kind": "byte"}, validation__share=None,
          validation__files=["held_out.py"], pipeline__plugin="formula", pipeline__weight="ce", reference=None)
    (place.folder / "ce.toml").write_text('[pipeline]\nplugin = "formula"\nweight = "ce"\n')
    answer = json.loads(place.host("weigh", "trial", "--pipeline", "ce.toml", "--json", "--show", SEQUENCES).out)
    losses = logged(place, "loss")
    kinds = []
    for sequence in range(answer["sequences"]):
        ids = [token["token_id"] for token in answer["tokens"] if token["sequence"] == sequence and token["head"] == 1]
        shown = kinds_of("".join(chr(i) for i in ids if i < 256))
        kinds += [shown.pop(0) if i < 256 else "special" for i in ids]
    kinds = np.array(kinds)
    for kind in set(kinds):
        found, = [row for row in answer["shares"] if row["group"] == kind]
        wanted = losses[(kinds == kind)[:, None] & ~np.isnan(losses)]
        assert found["tokens"] == len(wanted)
        assert found["loss"] == pytest.approx(wanted.mean(), rel=1e-5)
        assert found["weight_share"] == pytest.approx(wanted.sum() / np.nansum(losses), rel=1e-5)
    assert sum(row["tokens"] for row in answer["shares"] if row["group"] in set(kinds)) == (~np.isnan(losses)).sum()


def test_a_reference_is_read_by_any_name(place):
    train(place)
    weights = []
    for name, tables in (("ref", REFERENCE), ("amateur_loss", NAMED)):
        file = place.folder / "named.toml"
        file.write_text(f'[pipeline]\nplugin = "formula"\nweight = "{name} * exp(-ce)"\n' + tables)
        answer = json.loads(place.host("weigh", "trial", "--pipeline", file, "--json", "--show", SEQUENCES).out)
        weights.append(weights_in(answer))
    np.testing.assert_array_equal(*weights)
