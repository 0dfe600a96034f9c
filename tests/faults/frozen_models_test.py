"""Models and adapters that do not fit their place in an experiment: one message with table, found and wanted value."""
import pytest
from experiment import ONE_RANK, experiment

RECORD = '{"instruction": "Add 1 and 2.", "output": "3", "task_id": "t/%d", "is_correct": %s}\n'
CRITIC = {"plugin": "critic", "loss": "lambda_return", "lambda": 0.95}
SMALL = {"model__layers": 2, "model__future_tokens": 1, "train__steps": 2, **ONE_RANK}


def records(**changes):
    data = {"kind": "records", "files": ["a.jsonl"], "template": "plain"}
    return {"data": data, "model__vocab_size": None, **SMALL, **changes}


@pytest.fixture
def place_with_records(place):
    text = "".join(RECORD % (i, "true" if i % 2 else "false") for i in range(64))
    (place.folder / "a.jsonl").write_text(text)
    return place


def test_value_weights_of_another_vocabulary_or_width_are_refused(place_with_records):
    place = place_with_records
    place.run("--set", "name=critic", pipeline=CRITIC, **records())
    verifiable = {"pipeline": {"plugin": "verifiable"}, "value__weights": "run:critic"}
    place.run(**records(**verifiable))
    place.refuse_everywhere(4, r"\[value\] .*its vocabulary has \d+ ids, the policy's 512", **SMALL, **verifiable)
    place.refuse_everywhere(4, r"tok_embeddings\.weight.* shape \[\d+,64\], the model has \[\d+,32\]",
                            **records(**verifiable, value__model={"dim": 32}))


def test_scores_of_a_critic_are_refused_where_values_are_read(place_with_records):
    place = place_with_records
    pairs = "".join(RECORD % (i, right) for i in range(64) for right in ("true", "false"))
    (place.folder / "pairs.jsonl").write_text(pairs)
    data = {"kind": "records", "files": ["pairs.jsonl"], "template": "plain"}
    place.run("--set", "name=critic", **records(pipeline={"plugin": "critic"}, data=data))
    sigmoid = {"pipeline": {"plugin": "verifiable", "squash": "sigmoid"}, "value__weights": "run:critic"}
    place.refuse_everywhere(4, r"\[value\] .*its value head was trained on scores, .* wanted values; train the critic with",
                            **records(**sigmoid))
    place.run(**records(pipeline={"plugin": "verifiable", "critic": "score"}, value__weights="run:critic"))


def test_value_weights_without_a_value_head_are_refused(place):
    place.run("--set", "name=policy", **SMALL)
    place.refuse_everywhere(4, r"\[value\] .*wanted a model with one value head, found 0; train one with",
                            **SMALL, pipeline={"plugin": "verifiable"}, value__weights="run:policy")


@pytest.mark.parametrize("table", ["model", "reference"])
def test_a_critic_gives_no_model_that_predicts_tokens(place_with_records, table):
    place = place_with_records
    place.write({**experiment(**records(pipeline=CRITIC)), "name": "critic"}, "critic.toml")
    pipeline = {"plugin": "rho1"} if table == "reference" else {"plugin": "baseline"}
    place.refuse(2, r"experiment\.toml:\d+:\d+: the stage has no head that predicts tokens: found pipeline .critic",
                 **records(pipeline=pipeline, **{f"{table}__experiment": "critic.toml"}))
    assert not place.log.runs(), "the stage was trained first"


def test_a_critics_weights_are_refused_for_a_model_that_predicts_tokens(place_with_records):
    place = place_with_records
    place.run("--set", "name=critic", pipeline=CRITIC, **records())
    place.refuse_everywhere(4, r"is missing; .*a critic's model predicts no tokens: it goes into \[value\]",
                            **records(model__weights="run:critic"))


def test_a_reference_of_another_vocabulary_is_refused(place):
    place.run("--set", "name=other", **{**SMALL, "data": {"kind": "random"}, "model__vocab_size": 96})
    place.refuse_everywhere(4, r"\[reference\] .*its vocabulary has 96 ids, the policy's 512; both must share",
                            **SMALL, pipeline={"plugin": "rho1"}, reference__weights="run:other")


def test_an_adapter_for_another_base_is_refused(place):
    lora = {"plugin": "lora", "rank": 2}
    place.run("--set", "name=tuned", adapter=lora, **SMALL)
    place.run(adapter={**lora, "weights": "run:tuned"}, **SMALL)
    place.refuse(4, r"the fingerprint of the model it was trained on is \"[0-9a-f]{16}\", but here",
                 adapter={**lora, "weights": "run:tuned"}, seed=8, **SMALL | {"parallel__processes": 2})  # by the ranks


def test_cached_signals_of_one_shape_are_not_used_for_another(place):
    """The same tensors with a different number of heads are a different model."""
    place.run("--set", "name=other", **SMALL)
    rho1 = {**SMALL, "pipeline": {"plugin": "rho1"}, "reference__weights": "run:other"}
    excess = []
    for heads in (4, 2, 2):
        place.run(**rho1, reference__model={"heads": heads, "layers": 2, "future_tokens": 1})
        excess.append(place.log.metric("rho1/excess_mean"))
    assert excess[0] != excess[1], "signals of the reference with 4 heads were used for the one with 2"
    assert excess[1] == excess[2]
