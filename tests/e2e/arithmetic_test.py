"""Generated arithmetic through the three stages: a policy, a critic on it, and a policy weighted by the critic. Small
versions of the experiments in experiments/."""
import pytest
from experiment import ONE_RANK, experiment
from places import Place

ARITHMETIC = {"problems": 400, "operations": ["negate", "add"], "max_operations": 2}
VERIFIABLE = dict(pipeline={"plugin": "verifiable", "critic": "score"}, value__experiment="critic.toml",
                  data__select="correct")


def tables(**more):
    return experiment(**{
        "data": {"kind": "records", "template": "plain", "arithmetic": ARITHMETIC}, "model__vocab_size": None,
        "model__layers": 3, "model__future_tokens": 1, "train__steps": 4, "train__batch_size": 8,
        "train__sequence_length": 112, "validation__batches": 2, **ONE_RANK, **more})


@pytest.fixture(scope="module")
def trained(program, tmp_path_factory):
    """A place in which the three stages have run, and what that printed; its log has the runs 1 to 3."""
    place = Place(tmp_path_factory.mktemp("stages"))
    place.write({**tables(data__select="correct"), "name": "policy"}, "policy.toml")
    place.write({**tables(model__experiment="policy.toml", pipeline={"plugin": "critic"}), "name": "critic"},
                "critic.toml")
    return place, place.host("run", place.write(tables(**VERIFIABLE)))


def test_policy_critic_and_verifiable_run_one_after_another(trained):
    place, _ = trained
    assert [row["name"] for row in place.log.runs()][:3] == ["policy", "critic", "trial"]
    assert 0 <= place.log.metric("valid/pair/accuracy", 2)[4] <= 1
    assert place.log.metric("td/std", 3)[4] >= 0
    assert 0 <= place.log.metric("valid/exact_match", 3)[4] <= 1


def test_held_out_problems_are_held_out_of_every_stage(trained):
    place, ended = trained
    counts = [int(line.split(" records to train on")[0].split()[-1]) for line in ended.err.splitlines()
              if "records to train on" in line]
    everything = ARITHMETIC["problems"] * 2
    assert counts and all(count < everything for count in counts), ended.err
    ended = place.host("run", "experiment.toml")
    assert ended.err.count("is reused") == 1, "the critic's finished run answers for its policy too"
