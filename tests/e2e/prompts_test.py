"""`[log] prompts`: the texts that a run writes at its validations, equal to those of `generate`, at no cost to its
numbers."""
import json

import pytest
from places import Place

TEXT = "Seven quick wizards jump over 42 boxes, and back.\n"
PROMPTS = ["Seven quick", "boxes,"]
LEARNS = {"model__dim": 32, "model__heads": 2, "model__ffn_dim": 64, "model__vocab_size": None,
          "train__steps": 70, "train__batch_size": 4, "optimizer__lr": 1e-2,
          "data": {"kind": "text", "files": ["text.txt"]},
          "validation": {"share": 0.1, "batches": 1, "every_steps": 30}}
ASKED = {**LEARNS, "log": {"prompts": PROMPTS, "prompt_tokens": 20}}


@pytest.fixture(scope="module")
def trained(program, tmp_path_factory):
    """Run 1 with prompts, run 2 without."""
    made = Place(tmp_path_factory.mktemp("trained"))
    (made.folder / "text.txt").write_text(TEXT * 120)
    made.run(**ASKED)
    made.run(**LEARNS)
    return made


def texts(place, run=1):
    return place.log.query("SELECT step, number, prompt, text FROM generations "
                           f"WHERE run_id = {run} ORDER BY step, number")


def test_each_validation_continues_each_prompt_as_generate_does(trained):
    rows = texts(trained)
    assert [(row["step"], row["number"], row["prompt"]) for row in rows] == [
        (step, number, prompt) for step in (0, 30, 60, 70) for number, prompt in enumerate(PROMPTS, 1)]
    for row in rows[-2:]:
        answer = json.loads(trained.host("generate", 1, "--prompt", row["prompt"], "--max-tokens", 20, "--json").out)
        assert row["text"] == answer["text"]
    assert rows[-2]["text"] == TEXT[len("Seven quick"):][:20], "the model has learnt the text"
    assert rows[0]["text"] != rows[-2]["text"]
    assert trained.log.folder(1).is_dir()
    assert not list(trained.folder.glob("runs/1-*/model-for-prompts*"))


def test_the_numbers_of_the_run_stay_the_same(trained):
    curves = [trained.log.query("SELECT name, step, value FROM metrics "
                                f"WHERE (name GLOB 'train/*' OR name GLOB 'valid/*') AND run_id = {run} "
                                "ORDER BY name, step")
              for run in (1, 2)]
    assert curves[0] == curves[1] and len(curves[0]) > 300
    assert texts(trained, run=2) == []


def test_the_texts_are_shown_and_exported(trained):
    shown = trained.host("runs", "show", 1).out
    assert "samples of the last step" in shown and " wizards jump over 4" in shown, shown
    assert "samples of the last step" not in trained.host("runs", "show", 2).out
    assert len(json.loads(trained.host("runs", "show", 1, "--json").out)["generations"]) == 8
    trained.host("export", 1, "--to", "json", "-o", "run.json")
    exported = json.loads((trained.folder / "run.json").read_text())[0]["generations"]
    assert [row["text"] for row in exported] == [row["text"] for row in texts(trained)]


def test_a_resumed_run_goes_on_with_its_texts(trained, tmp_path):
    place = Place(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT * 120)
    place.run(**{**ASKED, "train__steps": 40}, checkpoint__every_steps=40)
    place.host("run", place.folder / "experiment.toml", "--resume", "--set", "train.steps=70")
    shown = json.loads(place.host("runs", "show", 2, "--json").out)["generations"]
    assert [row["step"] for row in shown] == [step for step in (0, 30, 40, 60, 70) for _ in PROMPTS]


def test_what_cannot_be_continued_is_refused(place):
    (place.folder / "text.txt").write_text(TEXT * 120)
    place.refuse_everywhere(2, "prompts requires a tokenizer, which data of kind \"tokens\" lacks",
                            log={"prompts": ["a"]})
    place.refuse_everywhere(2, "found an empty prompt", **{**ASKED, "log": {"prompts": ["a", ""]}})
    place.refuse(2, r"\[log\] prompts: prompt 2 has more tokens than \[model\] max_sequence_length = 64; shorten it",
                 **{**ASKED, "model__max_sequence_length": 64, "log": {"prompts": ["a", "b" * 65]}})


def test_a_model_that_cannot_be_written_costs_the_texts_and_not_the_run(place):
    (place.folder / "text.txt").write_text(TEXT * 120)
    running = place.start(**{**ASKED, "train__steps": 150, "validation__every_steps": 120})
    running.wait_for_step(1)
    (place.log.folder() / "model-for-prompts").write_text("in the way")
    running.wait()
    assert running.code == 0 and running.err.count("log.prompts not continued") == 2, running
    assert [row["step"] for row in texts(place)] == [0, 0]
    assert [event["kind"] for event in place.log.events()] == ["prompts", "prompts"]
