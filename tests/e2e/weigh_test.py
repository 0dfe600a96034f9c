"""`weigh`: what it prints, and what it refuses."""
import json
import re

from experiment import ONE_RANK, experiment

VALIDATED = {"validation__share": 0.2, "validation__batches": 1, "train__steps": 2} | ONE_RANK
DFT = '[pipeline]\nplugin = "dft"\n'
HIGH = '[pipeline]\nplugin = "formula"\nweight = "ce > quantile(ce, 0.5)"\n'


def files(place, **texts):
    for name, text in texts.items():
        (place.folder / f"{name}.toml").write_text(text)


def test_tables_and_texts(place):
    for name in ("code.py", "held_out.py"):
        (place.folder / name).write_text("def f(x):\n    return x + 1\n" * 60)
    place.run(model__vocab_size=None, data__kind="text", data__files=["code.py"], data__file=None, data__dtype=None,
              data__order=None, data__tokenizer={"kind": "byte"}, validation__files=["held_out.py"],
              **VALIDATED | {"validation__share": None})
    files(place, dft=DFT, high=HIGH)
    said = place.host("weigh", "trial", "--pipeline", "dft.toml", "--pipeline", "high.toml", "--show", 1).out
    assert re.search(r"^run 1 \('trial'\), step 2: \d+ tokens in 2 validation sequences\n", said)
    for group in ("all", "head 1", "head 4", "word start", "inside a word", "digits", "punctuation", "white space"):
        assert len(re.findall(rf"^ *(?:dft|high) +{group} ", said, re.MULTILINE)) == 2, group
    assert re.search(r"^ *dft +high +head 2 +0\.\d+ +-0\.\d+$", said, re.MULTILINE)
    assert "\nsequence 0, head 1\n" in said
    text, first, second = re.search(r"^ {6}(.*)\ndft {3}(.*)\nhigh {2}(.*)$", said, re.MULTILINE).groups()
    assert len(text) == len(first) == len(second) and text.endswith("↵")
    assert {" ", "·"} < set(second) <= set("· ▓█") and {"·"} < set(first) <= set("·░▒▓█")


def test_one_weighting_needs_no_comparison(place):
    place.run(**VALIDATED)
    files(place, dft=DFT)
    said = place.host("weigh", "1", "--pipeline", "dft.toml").out
    assert "rank_correlation" not in said and "sequence 0" not in said
    assert not re.search("word start|special", said), "ids without a tokenizer have no kinds"


def test_two_files_of_one_name_are_told_apart(place):
    place.run(**VALIDATED)
    files(place, dft=DFT)
    (place.folder / "other").mkdir()
    (place.folder / "other/dft.toml").write_text(HIGH)
    said = place.host("weigh", "1", "--pipeline", "dft.toml", "--pipeline", "other/dft.toml").out
    assert "other/dft.toml" in said


def test_the_reference_reads_the_validation_that_is_weighed(place):
    """Also where it has read other ids for an earlier command."""
    for seed, name in ((5, "a.bin"), (6, "b.bin"), (7, "tokens.bin")):
        place.tokens(windows=8, seed=seed)
        (place.folder / "tokens.bin").rename(place.folder / name)
    validated = VALIDATED | {"validation__share": None, "validation__files": ["a.bin"]}
    place.write({**experiment(**validated), "name": "reference"}, "reference.toml")
    place.run(**validated)
    files(place, high='[pipeline]\nplugin = "rho1"\n[reference]\nexperiment = "reference.toml"\n')
    place.host("run", "reference.toml")

    def weighed(file, *more):
        return json.loads(place.host("weigh", "trial", "--pipeline", "high.toml",
                                     "--set", f'validation.files=["{file}"]', *more, "--json").out)

    assert weighed("a.bin") != weighed("b.bin")
    assert weighed("b.bin") == weighed("b.bin", "--set", "reference.cache=false")


def test_set_changes_the_file_and_the_run(place):
    place.run(**VALIDATED)
    files(place, high=HIGH)
    changed = place.host("weigh", "trial", "--pipeline", "high.toml", "--set", "validation.batches=2", "--set",
                         'pipeline.weight="ce"').out
    assert "in 4 validation sequences" in changed
    place.refuse_command(2, r"--set pipeline\.wieght.*\n.*\n.*did you mean.*weight",
                         command=["weigh", "trial", "--pipeline", "high.toml", "--set", "pipeline.wieght=1"])


def test_a_model_of_no_run_needs_whole_experiments(place):
    place.run(**VALIDATED)
    model = place.log.folder() / "model"
    model.rename(place.folder / "elsewhere")
    files(place, dft=DFT, whole='extends = "experiment.toml"\n' + DFT)
    place.refuse_command(2, "elsewhere is of no run in .* must be a whole experiment", r"dft\.toml:1:1: .*name",
                         command=["weigh", "elsewhere", "--pipeline", "dft.toml"])
    said = place.host("weigh", "elsewhere", "--pipeline", "whole.toml").out
    assert said.startswith("elsewhere, step 2: ")


def test_bad_input_is_refused(place):
    place.run(**VALIDATED)
    unvalidated = place.write(name="unvalidated.toml", **VALIDATED | {"validation": None})
    place.host("run", unvalidated, "--name", "unvalidated")
    files(place, dft=DFT, nothing="[train]\nsteps = 3\n", broken="[pipeline\n",
          lacks='[pipeline]\nplugin = "rho1"\n', odd='[pipeline]\nplugin = "focal"\ngama = 2.0\n',
          critic='[pipeline]\nplugin = "critic"\nloss = "monte_carlo"\n',
          negative='[pipeline]\nplugin = "formula"\nweight = "ce - 100"\n',
          stage='[pipeline]\nplugin = "rho1"\n[reference]\nexperiment = "base.toml"\n')
    (place.folder / "base.toml").write_text((place.folder / "experiment.toml").read_text().replace("trial", "base"))

    def refuse(code, message, *more, run="trial", file="dft.toml"):
        place.refuse_command(code, message, command=["weigh", run, "--pipeline", file, *more])
    refuse(2, 'no run "tril" .*did you mean "trial"', run="tril")
    refuse(2, "missing.toml", file="missing.toml")
    refuse(2, r"broken\.toml:1:", file="broken.toml")
    refuse(2, r"pipeline", file="nothing.toml")
    refuse(2, r"odd\.toml:3:1: .*gama", file="odd.toml")
    refuse(2, r"lacks\.toml:2:.*reference", file="lacks.toml")
    refuse(2, r"critic\.toml: \[pipeline\] plugin = \"critic\" trains value heads and gives tokens no weights",
           file="critic.toml")
    refuse(4, "stage.toml: reference: base.toml has no finished run .*--set reference.weights=run:NAME",
           file="stage.toml")
    refuse(3, "plugin formula: weigh.*not negative", file="negative.toml")
    refuse(2, "run 2 .* has no validation data.*--set", run="unvalidated")
    refuse(2, "--head 5: the model has 4 heads", "--head", "5")
    place.refuse_command(2, "--pipeline is required", command=["weigh", "trial"])


def test_a_weighting_of_the_data_reads_them(place):
    """In records, which the run itself read without their weights."""
    for name, first in (("sums", 0), ("others", 40)):
        lines = [{"instruction": f"{i}+1", "output": f"is {i + 1}", "weight": i % 3} for i in range(first, first + 40)]
        (place.folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    place.run(model__vocab_size=None, data__kind="records", data__files=["sums.jsonl"], data__file=None,
              data__dtype=None, data__order=None, data__template="plain", validation__files=["others.jsonl"],
              **VALIDATED | {"validation__share": None})
    files(place, weights='[pipeline]\nplugin = "formula"\nweight = "data_weight * bytes"\n')
    [shares, *_] = json.loads(place.host("weigh", "1", "--pipeline", "weights.toml", "--json").out)["shares"]
    assert 0 < shares["zero_share"] < 1 and shares["effective_share"] < 1


def test_the_auxiliary_loss_of_the_run_has_no_part(place):
    place.run("--name", "base", **ONE_RANK, train__steps=1)
    place.run(**VALIDATED, reference__weights="run:base", auxiliary_loss={"plugin": "reference_divergence"})
    files(place, dft=DFT)
    assert "all" in place.host("weigh", "trial", "--pipeline", "dft.toml").out
