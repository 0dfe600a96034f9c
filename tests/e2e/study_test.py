"""`wmtp-host study`: members with seeds, trained to the end whatever happens, and what their differences show."""
import csv
import io
import json
import re
import shutil
import statistics
import subprocess
import sys
import tomllib

import pytest
from experiment import ONE_RANK, experiment
from host import IN_A_SAVE
from paths import HOST, ROOT, TEST_PLUGINS
from runlog import RunLog

STUDY = """
[study]
metric = "valid/loss"
better = "lower"
also = ["valid/ce_head_1"]
seeds = [5, 6]
pilot = [1, 2]

[study.set]
train.steps = STEPS

[study.budgets]
seconds = ["shortest"]

[[study.members]]
name = "plain"
experiment = "plain.toml"

[[study.members]]
name = "half of them"
experiment = "plain.toml"
pipeline = {plugin = "random", keep = 0.5}
"""
RECORDS = {"kind": "records", "template": "plain",
           "arithmetic": {"problems": 400, "operations": ["negate", "add"], "max_operations": 1}}
CHANGES = dict(data=RECORDS, model__vocab_size=None, validation__batches=2, validation__every_steps=2, **ONE_RANK)


def write(place, text=STUDY, steps=4, **changes):
    place.write(experiment(name="plain", **{**CHANGES, **changes}), "plain.toml")
    return place.write(text.replace("STEPS", str(steps)), "small.toml")


def last_losses(place):
    """{(name, seed): the last validation's loss} of finished runs."""
    return {(run["name"], run["seed"]): list(place.log.metric("valid/loss", run["id"]).values())[-1]
            for run in place.log.runs() if run["status"] == "finished"}


def test_a_study_trains_its_members_and_compares_them_seed_by_seed(place):
    study = write(place)
    ended = place.host("study", study, "-o", "report", timeout=120)
    losses = last_losses(place)
    assert sorted(losses) == [("small-halfofthem", 5), ("small-halfofthem", 6), ("small-plain", 5), ("small-plain", 6)]
    plain, half = ([losses[f"small-{member}", seed] for seed in (5, 6)] for member in ("plain", "halfofthem"))
    differences = [b - a for a, b in zip(plain, half)]
    rows = list(csv.DictReader(io.StringIO((place.folder / "report/small.csv").read_text())))
    row = next(row for row in rows if row["member"] == "half of them" and row["role"] == "primary"
               and row["budget"] == "the end")
    assert float(row["difference"]) == pytest.approx(statistics.mean(differences), rel=1e-12)
    assert float(row["effect"]) == pytest.approx(statistics.mean(differences) / statistics.stdev(plain), rel=1e-9)
    assert re.search(r"\| half of them \| .* \| (not distinguishable|better|worse) \|\n", ended.out), ended
    assert "| plain |" in ended.out and ended.out.startswith("valid/loss (lower is better) at the end, seeds 5 and 6")
    assert "Begun" in ended.out and "step" not in ended.out.split("|")[0], "only the report is on stdout"
    for name in ("small.md", "small.json", "small-curves.svg", "small-differences.svg"):
        assert (place.folder / "report" / name).stat().st_size > 0, name

    (kept,) = place.log.query("SELECT report, curves, differences FROM study_reports WHERE study = 'small'")
    assert json.loads(kept["report"])["analysis"] == json.loads((place.folder / "report/small.json").read_text())[
        "analysis"]
    assert kept["curves"] == (place.folder / "report/small-curves.svg").read_text()

    typo = place.host("plan", write(place, STUDY.replace("valid/ce_head_1", "valid/ce_haed_1")))
    assert "no run of the log has the metric \"valid/ce_haed_1\"; did you mean valid/ce_head_1?" in typo.err
    study = write(place)
    again = place.host("study", study, "--json")
    assert len(place.log.runs()) == 4, "nothing is trained twice"
    found = json.loads(again.out)
    assert [one["seed"] for one in found["results"]] == [5, 5, 6, 6]
    assert all(one["operations_per_step"] > 0 and one["seconds"][-1] > 0 for one in found["results"])


def test_members_are_not_judged_by_another_quantity(place):
    """A mean over other heads, and a training loss of other weights, also among the values of a tuning."""
    more = """
[[study.members]]
name = "more heads"
experiment = "plain.toml"
model = {layers = 5, future_tokens = 3}
"""
    weights = place.host("plan", write(place, STUDY.replace("valid/loss", "train/loss")), wanted=2)
    assert ('small.toml: [study] metric: "train/loss" is another quantity in member "half of them" than in "plain": '
            "the weights or the heads differ; compare valid/ce_head_1") in weights.err, weights
    assert '"valid/loss" is another quantity in member "more heads"' in place.host(
        "plan", write(place, STUDY + more), wanted=2).err
    by_head_1 = STUDY.replace('["valid/ce_head_1"]', '["valid/loss"]').replace('"valid/loss"\n', '"valid/ce_head_1"\n')
    place.host("plan", write(place, by_head_1 + more))
    tuned = STUDY + """
[[study.members]]
name = "tuned"
experiment = "plain.toml"
tune.model.future_tokens = [1, 2]
[study.tuning]
seeds = [3]
set.data.arithmetic.problems = 300
"""
    refused = place.host("plan", write(place, tuned), wanted=2)
    assert re.search(r'small.toml:\d+:\d+: tune.model.future_tokens changes what "valid/loss"', refused.err), refused


def test_results_of_other_machines_are_joined_and_not_counted_twice(place):
    study = write(place)
    whole = json.loads(place.host("study", study, "--json", timeout=120).out)
    for part, seed in (("a.json", 5), ("b.json", 6)):
        results = [one for one in whole["results"] if one["seed"] == seed]
        (place.folder / part).write_text(json.dumps({**whole, "results": results}))
    joined = place.host("study", study, "--results", "a.json", "--results", "b.json")
    assert joined.out == place.host("study", study).out and "warning" not in joined.err
    continued = place.host("study", study, "--known", "a.json", "--db", "other.db", "--json", timeout=120)
    found = json.loads(continued.out)
    assert [(one["member"], one["seed"]) for one in found["results"]] == [
        ("plain", 5), ("half of them", 5), ("plain", 6), ("half of them", 6)]
    assert [one["metrics"] for one in found["results"]] == [one["metrics"] for one in whole["results"]]
    assert found["results"][:2] == whole["results"][:2] and found["plan"] == whole["plan"]
    assert [run["seed"] for run in RunLog(place.folder / "other.db").runs()] == [6, 6], "only what they lack"
    changed = write(place, STUDY.replace("keep = 0.5", "keep = 0.6").replace("seeds = [5, 6]", "seeds = [5, 6, 7]"))
    refused = place.host("study", changed, "--known", "a.json", wanted=4)
    assert re.search(r'--known: \S+small.toml is not the study of these results: \S+half of them.pipeline.keep: "0.5" '
                     r'then, "0.6" now; leave', refused.err), refused
    study = write(place)
    refused = place.host("study", study, "--results", "a.json", "--results", "a.json", wanted=4)
    assert re.search(r'a.json: member "plain" with seed 5 is there already', refused.err), refused
    (place.folder / "c.json").write_text(json.dumps({**whole, "results": [{**whole["results"][0], "steps": [1]}]}))
    (place.folder / "e.json").write_text("{}")
    assert "e.json: wanted results as" in place.host("study", study, "--results", "e.json", wanted=4).err
    (place.folder / "d.json").write_text(json.dumps({**whole, "plan": {"estimate": {"members": 3}}}))
    assert 'its "plan" is not' in place.host("study", study, "--results", "d.json", wanted=4).err
    assert "tokens has" in place.host("study", study, "--results", "c.json", wanted=4).err


def test_results_of_other_data_or_models_are_not_mixed_with_new_ones(place):
    study = write(place)
    whole = json.loads(place.host("study", study, "--json", timeout=120).out)
    assert whole["inputs"]["plain"]["data"] and list(whole["inputs"]["half of them"]) == ["pipeline"]
    other = {**whole, "inputs": {**whole["inputs"], "plain": {**whole["inputs"]["plain"], "data": "other"}}}
    (place.folder / "whole.json").write_text(json.dumps(other))
    (place.folder / "part.json").write_text(json.dumps({**other, "results": whole["results"][:3]}))
    refused = place.host("study", study, "--known", "part.json", wanted=4)
    assert re.search(r'reads other data or models here .*: plain.data: "other" then, .* of another study', refused.err)
    for option in ("--known", "--results"):
        shown = place.host("study", study, option, "whole.json")
        assert "warning" in shown.err and "reads other data or models here" in shown.err, shown


def test_a_stopped_study_continues_and_a_change_after_the_first_run_is_named(place):
    study = write(place, steps=12, checkpoint__every_steps=3)
    running = place.start_command("study", study, env=IN_A_SAVE).stop_in_a_save()
    assert "the same command continues it" in running.err
    assert len(place.log.runs()) == 1

    write(place, STUDY.replace("seeds = [5, 6]", "seeds = [6, 5, 7]"), steps=12)
    ended = place.host("study", study, timeout=300)
    assert len(last_losses(place)) == 6
    assert "**Changed after the first run**" in ended.out
    assert "- seeds: [5,6] then, [6,5,7] now" in ended.out
    parents = place.log.query("SELECT parent_run FROM runs WHERE seed = 5 AND name = 'small-plain' ORDER BY id")
    assert [row["parent_run"] for row in parents] == [None, 1], "what was begun is continued"


def test_a_run_that_diverges_is_a_result_and_a_failed_one_is_not(place):
    text = STUDY + """
[[study.members]]
name = "diverges"
experiment = "plain.toml"
optimizer.lr = 1e30
guard.max_in_a_row = 1

[[study.members]]
name = "fails"
experiment = "plain.toml"
pipeline = {plugin = "faulty", fault = "exception", step = 1}
"""
    study = write(place, text)
    plugins = ("--plugin-dir", TEST_PLUGINS)
    ended = place.host("study", study, *plugins, wanted=3, timeout=120)
    assert re.search(r"\| diverges \| - \|.*diverged in 2 of 2 seeds", ended.out), ended
    assert re.search(r"\| fails \| - \|.*missing in 2 of 2 seeds", ended.out), ended
    diverged = [run for run in place.log.runs() if run["name"] == "small-diverges"]
    assert [run["exit_code"] for run in diverged] == [5, 5]
    again = place.host("study", study, *plugins, wanted=3, timeout=120)
    assert again.err.count("diverged, which is its result") == 2
    assert len([run for run in place.log.runs() if run["name"] == "small-diverges"]) == 2


def test_a_stage_that_diverges_is_no_result_of_its_members(place):
    """Neither of their runs, nor of their tuning."""
    text = STUDY.replace('pipeline = {plugin = "random", keep = 0.5}',
                         'pipeline = {plugin = "rho1"}\nreference.experiment = "reference.toml"')
    tuned = text + "tune.optimizer.lr = [1e-3]\n[study.tuning]\nseeds = [8]\nset.data.arithmetic.problems = 300\n"
    study = write(place, text)
    place.write(experiment(name="reference", **{**CHANGES, "optimizer__lr": 1e30, "guard__max_in_a_row": 1}),
                "reference.toml")
    ended = place.host("study", study, wanted=5, timeout=120)
    assert "reference.toml did not finish" in ended.err and "missing in 2 of 2 seeds" in ended.out, ended
    assert len([run for run in place.log.runs() if run["name"] == "reference"]) == 1, "not for each seed again"
    ended = place.host("study", write(place, tuned), wanted=5, timeout=120)
    assert "a run of the tuning failed" in ended.err, ended


def test_the_plan_says_what_seeds_can_show_and_is_kept(place):
    study = write(place)
    first = place.host("plan", study)
    assert "4 runs to train, one after another: hours unknown" in first.out and "[study] pilot" in first.out
    pilot = place.host("study", study, "--pilot", timeout=120)
    assert sorted({seed for _, seed in last_losses(place)}) == [1, 2]
    planned = json.loads(place.host("plan", study, "--json").out)
    losses = last_losses(place)
    differences = [losses["small-pilot-halfofthem", seed] - losses["small-pilot-plain", seed] for seed in (1, 2)]
    member = planned["members"]["half of them"]
    assert member["deviation"] == pytest.approx(statistics.stdev(differences), rel=1e-9)
    assert member["smallest_difference"] == pytest.approx(11.549888 * member["deviation"], rel=1e-5)
    assert planned["hours"] > 0 and planned["memory_bytes"] > 0 and "The smallest difference" in pilot.out

    ended = place.host("study", study, timeout=120)
    assert re.search(r"Planned \S+, before the first run: \S+ hours, all runs with its seeds \S+; "
                     r"these came to \S+ hours", ended.out), ended
    assert "- half of them: planned to show" in ended.out and "Changed" not in ended.out
    late = place.host("plan", study)
    assert "is not stored" in late.err
    assert len(place.log.query("SELECT * FROM study_plans")) == 2


def test_a_plan_counts_what_the_stages_take_that_the_log_lacks(place):
    text = STUDY.replace('pipeline = {plugin = "random", keep = 0.5}',
                         'pipeline = {plugin = "rho1"}\nreference.experiment = "reference.toml"')
    study = write(place, text, steps=20)
    place.write(experiment(name="reference", **{**CHANGES, "train__steps": 40}), "reference.toml")
    plan = place.host("plan", study)
    assert "4 runs to train, and once reference.toml, one after another: hours unknown" in plan.out
    place.host("study", study, "--pilot", timeout=120)
    place.write(experiment(name="reference", **{**CHANGES, "train__steps": 60}), "reference.toml")
    plan = json.loads(place.host("plan", study, "--json").out)
    (stage,) = plan["stages"]
    plain = plan["members"]["plain"]
    assert stage["file"] == "reference.toml" and stage["steps"] == 60
    assert stage["operations_per_step"] == pytest.approx(plain["operations_per_step"])
    assert stage["seconds"] > 0
    runs = sum(one["seconds"] * (one["runs"] - one["runs_in_log"]) for one in plan["members"].values())
    assert plan["hours"] == pytest.approx((runs + stage["seconds"]) / 3600)
    assert re.search(r"to train, and once reference.toml \(about \d+ s\), one after", place.host("plan", study).out)
    place.host("study", study, timeout=120)
    assert json.loads(place.host("plan", study, "--json").out)["stages"] == []


def test_a_study_ends_at_a_stop_where_all_is_decided(place):
    text = STUDY.replace("seeds = [5, 6]", "seeds = [5, 6, 7, 8]\nstop_at = [3]").replace(
        'pipeline = {plugin = "random", keep = 0.5}', "optimizer.lr = 1e-9").replace('seconds = ["shortest"]', "")
    study = write(place, text, steps=20, optimizer__lr=1e-2)
    ended = place.host("study", study, timeout=120)
    assert sorted({seed for _, seed in last_losses(place)}) == [5, 6, 7]
    assert "each look decides at 2.5%, and this one did" in ended.out and "| worse |" in ended.out, ended


def test_a_study_continues_no_shorter_run_and_takes_none_of_other_ranks(place):
    """A shorter run may have lowered its learning rate, and the steps of more ranks read more sequences."""
    study = write(place)
    place.host("run", "plain.toml", "--set", "seed=5", "--set", "train.steps=2")
    place.host("run", "plain.toml", "--set", "seed=6", "--set", "train.steps=4", "--nproc", 2)
    ended = place.host("study", study, timeout=120)
    assert "missing" not in ended.out and "to continue" not in ended.err, ended
    assert [(run["world_size"], run["status"], run["parent_run"]) for run in place.log.runs()[2:]] == \
        4 * [(1, "finished", None)]


def test_keys_are_tuned_with_seeds_and_data_of_their_own(place):
    text = STUDY + """
[[study.members]]
name = "tuned"
experiment = "plain.toml"
tune.optimizer.lr = [1e-9, 1e-2]

[[study.members]]
name = "wide"
experiment = "plain.toml"
tune.train.batch_size = [8]

[study.tuning]
seeds = [8]
set.data.arithmetic.problems = 300
"""
    study = write(place, text, steps=20)
    ended = place.host("study", study, "--jobs", "2", "-o", "report", timeout=240)
    assert "tuned tuned: optimizer.lr=0.01, the best of 2 choices" in ended.err
    rates = place.log.query("SELECT r.seed, p.value_num AS lr FROM runs AS r JOIN run_params AS p ON p.run_id = r.id "
                            "WHERE r.name LIKE 'small-%tuned' AND p.key = 'optimizer.lr' ORDER BY r.id")
    assert sorted((row["seed"], row["lr"]) for row in rates) == [(5, 1e-2), (6, 1e-2), (8, 1e-9), (8, 1e-2)]
    assert "optimizer.lr=0.01 |" in ended.out
    report = json.loads((place.folder / "report/small.json").read_text())
    tried = {(one["member"], *one["choice"]): one["values"] for one in report["tried"]}
    assert sorted(tried) == [("tuned", "optimizer.lr=0.01"), ("tuned", "optimizer.lr=1e-9"),
                             ("wide", "train.batch_size=8")]
    assert tried["tuned", "optimizer.lr=0.01"][0] < tried["tuned", "optimizer.lr=1e-9"][0]
    assert re.search(r"\| tuned \| optimizer.lr=1e-9: \S+; optimizer.lr=0.01: \S+ \|", ended.out)
    operations = {one["member"]: one["operations_per_step"] for one in report["results"]}
    assert operations["wide"] == 4 * operations["plain"], "those of the values that were chosen"
    plan = json.loads(place.host("plan", study, "--json").out)
    assert {name: (one["runs"], one["runs_in_log"]) for name, one in plan["members"].items()} == {
        "plain": (2, 2), "half of them": (2, 2), "tuned": (4, 4), "wide": (3, 3)}
    assert plan["members"]["half of them"]["paired_seeds"] == plan["members"]["tuned"]["paired_seeds"] == [5, 6]


def test_known_results_serve_a_study_with_more_members_seeds_and_values_of_tuned_keys(place):
    tuned = """
[[study.members]]
name = "tuned"
experiment = "plain.toml"
tune.optimizer.lr = [1e-9]

[study.tuning]
seeds = [8]
set.data.arithmetic.problems = 300
"""
    first = place.host("study", write(place, STUDY + tuned), "--json", timeout=120).out
    (place.folder / "a.json").write_text(first)
    more = '[[study.members]]\nname = "fast"\nexperiment = "plain.toml"\noptimizer.lr = 2e-2\n'
    text = (STUDY + tuned.replace("[1e-9]", "[1e-9, 1e-2]") + more).replace("seeds = [5, 6]", "seeds = [5, 6, 7]")
    found = json.loads(place.host("study", write(place, text), "--known", "a.json", "--db", "b.db", "--json",
                                  timeout=120).out)
    trained = sorted((run["name"], run["seed"]) for run in RunLog(place.folder / "b.db").runs())
    assert trained == sorted([("small-plain", 7), ("small-halfofthem", 7), ("small-tuning-tuned", 8),
                              *(("small-tuned", seed) for seed in (5, 6, 7)),
                              *(("small-fast", seed) for seed in (5, 6, 7))]), "tuned has a better rate now"
    assert {one["choice"][0] for one in found["results"] if one["member"] == "tuned"} == {"optimizer.lr=0.01"}
    assert [one["values"] for one in found["tried"]][0] == json.loads(first)["tried"][0]["values"]
    assert any(change.startswith("seeds: [5,6] then") for change in found["plan"]["changes"]), found["plan"]
    (place.folder / "b.json").write_text(json.dumps(found))
    again = place.host("study", "small.toml", "--known", "b.json", "--db", "c.db", "--json")
    assert json.loads(again.out)["results"] == found["results"] and not RunLog(place.folder / "c.db").runs()


EVALUATED = """
[study]
metric = "eval/greedy/high"
better = "higher"
also = ["eval/greedy", "eval/drawn", "valid/loss"]
seeds = [5, 6]
pilot = [1, 2]

[study.evaluations.greedy]
suite = "data/{seed}/test.jsonl"
judge = "judge.py"
max_tokens = 3

[study.evaluations.drawn]
suite = "data/{seed}/test.jsonl"
temperature = 2
max_tokens = 3

[study.set]
train.steps = 30
data.files = ["data/{seed}/train.jsonl"]
validation.files = ["data/{seed}/test.jsonl"]

[[study.members]]
name = "quick"
experiment = "plain.toml"

[[study.members]]
name = "slow"
experiment = "plain.toml"
optimizer.lr = 1e-9
"""
EVALUATED_JUDGE = """import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"passed": asked["answer"] in (asked["record"]["completion"], "7")}))
"""


def write_evaluated(place, text=EVALUATED):
    """The answer of seed S is always S."""
    for seed in (1, 2, 5, 6):
        folder = place.folder / f"data/{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, groups in (("train", ["a"] * 64), ("test", ["low", "high", "high"])):
            (folder / f"{name}.jsonl").write_text("".join(
                json.dumps({"task_id": f"{group}/{name}{number}", "prompt": "seed:", "completion": str(seed)}) + "\n"
                for number, group in enumerate(groups)))
    (place.folder / "judge.py").write_text(EVALUATED_JUDGE)
    changes = {**CHANGES, "data": {"kind": "records"}, "model__layers": 1, "model__future_tokens": 1}
    place.write(experiment(name="plain", **{**changes, "optimizer__lr": 1e-2}), "plain.toml")
    return place.write(text, "small.toml")


def test_a_metric_may_be_an_evaluation_and_each_seed_has_data_of_its_own(place):
    study = write_evaluated(place)
    pilot = place.host("study", study, "--pilot", timeout=240)
    assert "The smallest difference in eval/greedy/high" in pilot.out
    ended = place.host("study", study, "--json", timeout=240)
    found = {(one["member"], one["seed"]): one for one in json.loads(ended.out)["results"]}
    assert len(found) == 4
    for seed in (5, 6):
        quick, slow = found["quick", seed], found["slow", seed]
        assert quick["steps"] == [30] and quick["metrics"]["eval/greedy/high"] == [1.0], "it has learned its own seed"
        assert slow["metrics"]["eval/greedy/high"] == [0.0] == slow["metrics"]["eval/greedy"]
        assert 0 <= quick["metrics"]["eval/drawn"][0] <= 1 and quick["metrics"]["valid/loss"][0] < 1
    logged = place.log.query("SELECT count(*) AS n, count(DISTINCT run_id) AS runs FROM evaluations")
    assert logged == [{"n": 16, "runs": 8}], "two of each run, also of the pilot's"
    again = place.host("study", study, "-o", "report")
    assert place.log.query("SELECT count(*) AS n FROM evaluations") == [{"n": 16}], "nothing is evaluated twice"
    assert again.out.startswith("eval/greedy/high (higher is better) at the end") and "| slow | 0 ± 0 |" in again.out
    (place.folder / "judge.py").write_text(EVALUATED_JUDGE.replace('"7"', '"8"'))
    changed = place.host("study", study)
    assert place.log.query("SELECT count(*) AS n FROM evaluations") == [{"n": 20}], "another judge decides anew"
    assert re.search(r"\*\*Changed after the first run\*\*.*\n- evaluations.greedy.judge: ", changed.out)


def test_a_plan_passes_over_seeds_of_other_runs_which_have_no_data_here(place):
    study = write_evaluated(place)
    place.host("run", "plain.toml", "--set", "seed=9", "--set", "train.steps=2",
               "--set", 'data.files=["data/5/train.jsonl"]',
               "--set", 'validation.files=["data/5/test.jsonl"]')
    assert "4 runs to train" in place.host("plan", study).out


def test_results_of_a_seed_whose_data_were_other_ones_are_not_continued(place):
    study = write_evaluated(place)
    whole = json.loads(place.host("study", study, "--json", timeout=240).out)
    (place.folder / "part.json").write_text(json.dumps({**whole, "results": whole["results"][:3]}))
    file = place.folder / "data/6/train.jsonl"
    file.write_text(file.read_text().replace("seed:", "Seed:"))
    refused = place.host("study", study, "--known", "part.json", wanted=4)
    assert 'the data of member "quick" with seed 6' in refused.err and "seed 5" not in refused.err, refused
    file.unlink()
    (place.folder / "whole.json").write_text(json.dumps(whole))
    assert "seed 6" not in place.host("study", study, "--results", "whole.json").err


def test_a_tuning_makes_the_evaluation_that_decides_and_no_other(place):
    tuned = "tune.optimizer.lr = [1e-9, 8e-3]\n\n[study.tuning]\nseeds = [1]"
    study = write_evaluated(place, EVALUATED.replace("optimizer.lr = 1e-9", tuned))
    assert "optimizer.lr=0.008: 1" in place.host("study", study, timeout=240).out
    made = place.log.query("SELECT substr(r.name, 7) AS run, count(*) AS n FROM evaluations e "
                           "JOIN runs r ON r.id = e.run_id GROUP BY 1")
    assert made == [{"run": "quick", "n": 4}, {"run": "slow", "n": 4}, {"run": "tuning-slow", "n": 2}]


def test_mistakes_of_evaluations_are_refused_before_anything_runs(place):
    for old, new, wanted in (
            ("greedy/high", "greedy/hihg", r'no task_id begins with "hihg/".*groups: high and low'),
            ('judge = "judge.py"', 'judge = "gone.py"', r"small.toml:9:\d+: judge: .*gone.py: no such"),
            ("{seed}/test", "{sed}/test", r"data/\{sed\}/test.jsonl"),
            ("{seed}/train", "{sed}/train", r"no file matches .*/data/\{sed\}/train.jsonl")):
        study = write_evaluated(place, EVALUATED.replace(old, new, 1))
        ended = place.host("study", study, wanted=None)
        assert ended.code in (2, 4) and re.search(wanted, ended.err), ended
    assert not (place.folder / "runs/wmtp.db").exists() or not place.log.runs()


def test_mistakes_are_refused_with_their_places_before_anything_runs(place):
    study = write(place, STUDY.replace('pipeline = {plugin = "random", keep = 0.5}',
                                       'pipeline = {plugin = "random", keep = 2}\nmodel.haeds = 4')
                  .replace('experiment = "plain.toml"', 'experiment = "gone.toml"', 1))
    refused = place.refuse_command(2, r"small.toml:22:\d+: .*keep", r"small.toml:23:\d+: .*haeds",
                                   r"small.toml:15:\d+: member \"plain\"", "gone.toml: no such file",
                                   command=["study", study])
    assert refused.err.count("no such file") == 1
    for command in ("study", "plan"):
        broken = write(place, STUDY.replace("better", "beter"))
        assert "did you mean" in place.host(command, broken, wanted=2).err
    assert "train it with `wmtp-host study FILE`" in place.host("run", write(place), wanted=2).err
    without = write(place, validation=None, validation__batches=None, validation__every_steps=None)
    assert "has no [validation]" in place.host("study", without, wanted=2).err
    assert "one experiment" in place.host("plan", write(place), "--nproc", "2", wanted=2).err
    assert "--pilot" in place.host("study", write(place, STUDY.replace("pilot = [1, 2]", "")), "--pilot", wanted=2).err


SHIPPED = sorted((ROOT / "experiments/study").glob("*.toml"))
SHIPPED = [file for file in SHIPPED if "study" in tomllib.loads(file.read_text())]
# The command that writes a study's data, for the first seeds: those of the tuning, and the first that decides.
SCRIPT = re.compile(r"^#   python3 (experiments/\S+ \w+(?: \d+){2,4})[\d ]* (.*)$", re.MULTILINE)
SCRIPTED = [file for file in SHIPPED if SCRIPT.search(file.read_text())]
STEPS = {"paths": 10000, "blocksworld": 10000, "wrong_answers": 1000, "heads": 600, "path_star": 8000}  # or 500


@pytest.mark.parametrize("file", [one for one in SHIPPED if one not in SCRIPTED], ids=lambda file: file.stem)
def test_the_members_of_shipped_studies_differ_only_in_the_weighting(file):
    resolved = {}
    study = tomllib.loads(file.read_text())["study"]
    for member in study["members"]:
        settings = [word for table, keys in study["set"].items() for key, value in keys.items()
                    for word in ("--set", f"{table}.{key}={value}")]
        ended = subprocess.run([HOST, "run", file.parent / member["experiment"], "--dry-run", *settings], cwd=ROOT,
                               text=True, capture_output=True)
        assert ended.returncode == 0, ended.stderr
        resolved[member["name"]] = tomllib.loads(ended.stdout)
    first = next(iter(resolved.values()))
    for member, found in resolved.items():
        for table in ("model", "data", "train", "optimizer", "schedule", "validation"):
            assert found[table] == first[table], f"{member}: [{table}]"


def with_its_data(file, folder):
    """The study or, if a script writes its data, a copy of it with the first seeds' data, or part of them if many."""
    written = SCRIPT.search(file.read_text())
    if not written:
        return file
    shutil.copytree(ROOT / "experiments", folder / "experiments")
    fewer = ["--graphs", "1000"] if file.stem == "path_star" else []
    subprocess.run([sys.executable, *written[1].split(), *written[2].split(), *fewer], cwd=folder, check=True)
    return folder / file.relative_to(ROOT)


@pytest.mark.parametrize("file", SCRIPTED, ids=lambda file: file.stem)
def test_shipped_studies_whose_data_a_script_writes_are_planned(file, tmp_path):
    study = with_its_data(file, tmp_path)
    ended = subprocess.run([HOST, "plan", study, "--json", "--db", tmp_path / "log.db"], cwd=tmp_path, text=True,
                           capture_output=True)
    assert ended.returncode == 0, ended.stderr
    steps = [one["steps"] for one in json.loads(ended.stdout)["members"].values()]
    assert steps and set(steps) == {STEPS.get(file.stem, 500)}


@pytest.mark.parametrize("file", sorted((ROOT / "docs/studies").glob("*.json")), ids=lambda file: file.stem)
def test_the_page_shows_the_committed_results(file, tmp_path):
    study = with_its_data(ROOT / f"experiments/study/{file.stem}.toml", tmp_path)
    ended = subprocess.run([HOST, "study", study, "--results", file], cwd=ROOT, text=True, capture_output=True)
    assert ended.returncode == 0 and "is not the study" not in ended.stderr, ended.stderr
    own_page = file.with_suffix(".md")  # of a study with many tables
    page = (ROOT / "docs/studies.md").read_text() + (own_page.read_text() if own_page.exists() else "")
    tables = re.findall(r"(?:^\|.*\n)+", ended.stdout, re.MULTILINE)
    assert tables and all(table in page for table in tables), ended.stdout


def test_committed_results_are_shown_without_their_data(tmp_path):
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    ended = subprocess.run([HOST, "study", "experiments/study/heads.toml", "--results",
                            ROOT / "docs/studies/heads.json"], cwd=tmp_path, text=True, capture_output=True)
    assert ended.returncode == 0 and "| 8 parallel |" in ended.stdout, ended.stderr
    assert re.search("not compared with the data of the results: .*no file matches", ended.stderr)
