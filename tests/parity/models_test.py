"""Any checkpoint is a model: what a user may name for `generate`, `eval`, `checkpoint export` and weights, and that it
is bit for bit the model that the run would have saved if it had ended there."""
import json
import signal

import needs_torch  # noqa: F401
import pytest
import torch
from checkpoint import flip_bit, model_tensors
from compare import assert_tensors_equal
from experiment import ONE_RANK
from launchers import free_port
from lora import OPTIONS
from places import Place
from reference import filled
from runlog import step_folders
from safetensors.torch import load_file, save_file
from start import POLICY

TEXT = "Seven quick wizards jump over 42 boxes, and back.\n"
SAVES = {"checkpoint__every_steps": 3, "checkpoint__keep": 5, "train__steps": 6}
SMALL = {**ONE_RANK, "model__dim": 32, "model__heads": 2, "model__ffn_dim": 64, "model__layers": 3,
         "model__future_tokens": 2}
BYTES = {**SMALL, "model__vocab_size": None, "data": {"kind": "text", "files": ["text.txt"]}}
LORA = {"adapter__plugin": "lora", "adapter__rank": 8, "optimizer__lr": 1e-2}
LAYOUTS = {
    "one rank": ONE_RANK,
    "two ranks": {"parallel__strategy": "full_shard"},
    "replicas": {"parallel__strategy": "no_shard", "model__tie_word_embeddings": True},
    "chained": {**ONE_RANK, "model__future_heads": "chained"},
    "shared": {**ONE_RANK, "model__future_heads": "shared", "model__layers": 4, "model__future_tokens": 3},
    "lora": {**LORA, "adapter__dora": True},
    "lora bf16": {**ONE_RANK, **LORA, "parallel__precision": "bf16"},
    "last blocks": {**ONE_RANK, "adapter__train_last": 2, "parallel__precision": "bf16"},
}


def run_named(place, name, *arguments, **changes):
    return place.run("--set", f"name={name}", *arguments, **changes)


def exported(place, model, *options):
    target = place.folder / f"out-{len(list(place.folder.glob('out-*')))}"
    place.host("checkpoint", "export", model, "--to", "meta", *options, "-o", target)
    return target


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_checkpoint_is_the_model_of_a_run_that_ends_there(place, layout):
    changes = LAYOUTS[layout]
    place.run(**SAVES, **changes, timeout=120)
    place.run(**SAVES | {"train__steps": 3}, **changes, timeout=120)
    wanted = exported(place, "2")
    for name in ("1@3", "runs/1-trial/step-000003"):
        found = exported(place, name)
        assert_tensors_equal(load_file(found / "consolidated.00.safetensors"),
                             load_file(wanted / "consolidated.00.safetensors"))
        assert (found / "params.json").read_text() == (wanted / "params.json").read_text()
    assert_tensors_equal(load_file(exported(place, "1@6") / "consolidated.00.safetensors"),
                         load_file(exported(place, "1") / "consolidated.00.safetensors"))
    for ids in ("1@3", "2"):
        shown = place.host("generate", ids, "--ids", "3 4 5", "--max-tokens", 8)
        assert shown.out == place.host("generate", "runs/2-trial", "--ids", "3 4 5", "--max-tokens", 8).out


@pytest.mark.parametrize("adapter", [{}, LORA])
def test_a_checkpoint_is_initial_weights_and_a_reference(place, adapter):
    """The first loss of a run from run:NAME@STEP equals that of a run from the same tensors as a file, of which a table
    describes one head."""
    save_file(filled(POLICY, seed=3).state_dict(), place.folder / "weights.safetensors")
    run_named(place, "base", **SAVES, **adapter, model__weights="weights.safetensors")
    whole = exported(place, "base@3")
    losses = []
    for weights in ("run:base@3", "runs/1-base/step-000003", str(whole / "consolidated.00.safetensors")):
        shape = {"reference__model": {"layers": 2, "future_tokens": 1}} if weights.endswith(".safetensors") else {}
        run_named(place, "tuned", train__steps=1, pipeline__plugin="rho1", model__weights=weights,
                  reference__weights=weights, reference__heads="next", **shape)
        losses.append(place.log.losses())
    assert losses[0] == losses[1] == losses[2]


def test_an_adapter_goes_on_from_a_checkpoint_and_leaves_as_peft(place):
    run_named(place, "lora", **SAVES, **LORA)
    run_named(place, "short", **SAVES | {"train__steps": 3}, **LORA)
    run_named(place, "from", **LORA, train__steps=1, adapter__weights="run:lora@3")
    first = place.log.losses()
    run_named(place, "from", **LORA, train__steps=1, adapter__weights="run:short")
    assert place.log.losses() == first
    for run in ("lora@3", "short"):
        place.host("checkpoint", "export", run, "--to", "peft", "--base-name", "some/base", "-o", run)
    assert_tensors_equal(load_file(place.folder / "lora@3/adapter_model.safetensors"),
                         load_file(place.folder / "short/adapter_model.safetensors"))
    config = json.loads((place.folder / "lora@3/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "some/base"
    assert sorted(config["target_modules"]) == sorted(f"{name[1]}_proj" for name in OPTIONS["targets"])
    place.host("checkpoint", "merge", "runs/1-lora/step-000003", "-o", "merged")
    assert_tensors_equal(load_file(place.folder / "merged/model.safetensors"), model_tensors(place.log.folder(2)))


def test_an_exported_adapter_brings_the_tokenizer_of_its_model(place):
    (place.folder / "text.txt").write_text(TEXT * 120)
    place.run(**BYTES, **LORA, train__steps=1)
    place.host("checkpoint", "export", "trial", "--to", "peft", "-o", "peft")
    place.host("checkpoint", "export", "trial", "-o", "hf")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (place.folder / "peft" / name).read_text() == (place.folder / "hf" / name).read_text()
    place.refuse_command(2, "--base-name applies only to --to peft",
                         command=["checkpoint", "export", "trial", "--base-name", "some/base", "-o", "other"])


@pytest.fixture(scope="module")
def texts(program, tmp_path_factory):
    """Run 1 "wizards" of a byte model, with checkpoints at steps 20, 40 and 60."""
    made = Place(tmp_path_factory.mktemp("texts"))
    (made.folder / "text.txt").write_text(TEXT * 120)
    made.run("--set", "name=wizards", **BYTES, train__steps=60, train__batch_size=4, optimizer__lr=1e-2,
             checkpoint__every_steps=20, checkpoint__keep=3)
    return made


def test_a_model_is_named_by_its_run_a_step_or_a_folder(texts):
    final = texts.host("generate", "wizards", "Seven").out
    for name in ("1", "runs/1-wizards", "runs/1-wizards/", "runs/1-wizards/model", "wizards@60", "1@60"):
        assert texts.host("generate", name, "Seven").out == final, name
    early = texts.host("generate", "wizards@20", "Seven").out
    assert early != final and early == texts.host("generate", "runs/1-wizards/step-000020", "Seven").out


def test_losses_of_a_checkpoint_are_measured_and_not_logged(texts):
    measured = texts.host("eval", "wizards@20", "--text", "text.txt", "--json")
    assert "not logged" in measured.err
    early = json.loads(measured.out)[0]["loss"]
    assert early > json.loads(texts.host("eval", "wizards", "--text", "text.txt", "--json").out)[0]["loss"]
    assert len(texts.log.query("SELECT DISTINCT run_id FROM v_text_losses")) == 1


def test_a_hugging_face_folder_is_read_as_it_is(texts):
    texts.host("checkpoint", "export", "wizards", "-o", "hf")
    assert texts.host("generate", "hf", "Seven").out == texts.host("generate", "wizards", "Seven").out
    losses = [json.loads(texts.host("eval", model, "--text", "text.txt", "--json").out) for model in ("hf", "wizards")]
    assert losses[0] == losses[1] and len(losses[0]) == 2
    (texts.folder / "hf/tokenizer.json").write_text('{"model": {"type": "Mystery"}}')
    texts.refuse_command(4, "has no tokenizer that this program can read.*Mystery.*--ids",
                         command=["generate", "hf", "Seven"])


@pytest.mark.parametrize("code, shown, name", [
    (4, "has no checkpoint of step 21; it has those of 60, 40 and 20", "wizards@21"),
    (4, "has no checkpoint that was saved at a validation; .*keep_best = true", "wizards@best"),
    (2, 'found "last" after the @, wanted a step or "best"', "wizards@last"),
    (2, 'did you mean "wizards"', "wizard@20"),
    (4, "contains no model: wanted params.json", "."),
])
def test_a_name_without_a_model_is_refused(texts, code, shown, name):
    texts.refuse_command(code, shown, command=["generate", name, "a"])


def test_folders_of_adapters_are_refused_with_the_commands_that_make_models(place):
    run_named(place, "lora", **SAVES, **LORA)
    place.refuse_command(4, "contains an adapter without its model; `wmtp-host checkpoint merge",
                         command=["generate", "runs/1-lora/adapter", "--ids", "1"])
    place.host("checkpoint", "export", "lora", "--to", "peft", "-o", "peft")
    place.refuse_command(4, "contains a PEFT adapter; `wmtp-host checkpoint import peft",
                         command=["eval", "peft", "--text", "tokens.bin"])


def test_a_damaged_checkpoint_is_no_model(place):
    place.run(**SAVES, **SMALL)
    folder = place.log.folder() / "step-000003"
    flip_bit(folder / "rank-0000.safetensors", (folder / "rank-0000.safetensors").stat().st_size - 100)
    for command in (["generate", folder, "--ids", "1"], ["checkpoint", "export", folder, "-o", "x"]):
        place.refuse_command(4, "the file is damaged", command=command)
    place.refuse(4, "the file is damaged", **SMALL, model__weights="run:trial@3")


def test_a_partial_checkpoint_needs_the_base_that_it_was_trained_on(place):
    save_file(filled(POLICY, seed=3).state_dict(), place.folder / "weights.safetensors")
    place.run(**SAVES, **LORA, model__weights="weights.safetensors")
    save_file(filled(POLICY, seed=4).state_dict(), place.folder / "weights.safetensors")
    place.refuse_command(4, "was trained from .*weights.safetensors, whose content has changed",
                         command=["generate", "trial@3", "--ids", "1"])
    (place.folder / "weights.safetensors").unlink()
    place.refuse_command(4, "was trained from .*weights.safetensors, which is not there",
                         command=["generate", "trial@3", "--ids", "1"])


def test_a_foreign_launcher_takes_what_a_command_has_joined(place):
    place.run(**SAVES, **ONE_RANK, **LORA)
    ranks = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    place.refuse(4, "`wmtp-host checkpoint merge runs/1-trial/step-000003 -o DIR` does", **ONE_RANK,
                 model__weights="run:trial@3", env=ranks | {"MASTER_PORT": str(free_port())})
    place.host("generate", "trial@3", "--ids", "1")
    place.run(**ONE_RANK, model__weights="run:trial@3", train__steps=1,
              env=ranks | {"MASTER_PORT": str(free_port())})


def test_an_interrupted_run_is_its_newest_checkpoint_and_a_resumed_run_is_one(place):
    running = place.start(**SMALL, train__steps=100000, data={"kind": "random"}).wait_for_step(2)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait().code == 75
    step = int(step_folders(place.log.folder())[0].name[5:])
    ended = place.host("generate", "trial", "--ids", "1")
    assert f"run 1 ('trial') is interrupted: its model is that of step {step}" in ended.err
    assert place.host("generate", "runs/1-trial", "--ids", "1").out == ended.out
    place.host("checkpoint", "export", "trial", "-o", "hf")
    run_named(place, "tuned", **SMALL, train__steps=1, model__weights="run:trial")
    running = place.start("--resume", **SMALL, train__steps=100000, data={"kind": "random"}).wait_for_step(step + 2)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait().code == 75
    assert place.host("generate", f"trial@{step}", "--ids", "1").out == ended.out


def test_a_run_that_a_guard_ended_is_its_newest_checkpoint(place):
    place.run(**SMALL, wanted=5, guard__grad_norm=1e-9, guard__max_in_a_row=3, checkpoint__every_steps=1)
    newest = int(step_folders(place.log.folder())[-1].name[5:])
    ended = place.host("generate", "trial", "--ids", "1")
    assert f"its model is that of step {newest}" in ended.err


VALIDATED = {**BYTES, "train__steps": 12, "train__batch_size": 4, "validation__every_steps": 2,
             "validation__share": 0.2, "checkpoint__keep": 1, "optimizer__lr": 0.05, "checkpoint__keep_best": True}


def steps_of(folder):
    return sorted(int(path.name[5:]) for path in folder.glob("step-*"))


def test_the_best_checkpoint_is_kept_and_has_a_name(place):
    (place.folder / "text.txt").write_text(TEXT * 120)
    # Diverges after some steps, so that the last is not the best.
    place.run(**VALIDATED | {"optimizer__lr": 3.0, "schedule__name": "linear", "schedule__warmup_steps": 8,
                             "checkpoint__every_steps": 6})
    losses = {step: loss for step, loss in place.log.metric("valid/ce_head_1").items() if step > 0}
    best = min(losses, key=losses.get)
    assert best < 12, losses
    assert steps_of(place.log.folder()) == [best, 12]
    ended = place.host("generate", "trial@best", "Seven")
    assert f"at step {best}" in ended.err
    assert ended.out == place.host("generate", f"trial@{best}", "Seven").out
    rows = {row["step"]: row for row in json.loads(place.host("checkpoint", "list", "trial", "--json").out)}
    assert rows[best]["best"] == "best" and rows[12]["best"] is None
    deleted = [row for row in rows.values() if row["state"] == "deleted"]
    listed = place.host("checkpoint", "list", "trial").out
    assert deleted and listed.endswith(f"not listed: {len(deleted)} deleted; --json has them\n"), listed
    for step in (best, 12):
        assert (rows[step]["valid_loss"], rows[step]["valid_step"]) == (losses[step], step)
        assert rows[step]["train_loss"] == place.log.losses()[step]
        assert 0 < rows[step]["epoch"] <= rows[12]["epoch"]


def test_the_last_checkpoint_can_be_the_best(place):
    """Also where it is one of those that are saved every few steps."""
    (place.folder / "text.txt").write_text(TEXT * 120)
    place.run(**VALIDATED | {"optimizer__lr": 1e-3, "checkpoint__every_steps": 6})
    losses = place.log.metric("valid/ce_head_1")
    assert min(losses, key=losses.get) == 12, losses
    assert f"{losses[12]:.4f} at step 12" in place.host("generate", "trial@best", "Seven").err
    last = json.loads(place.host("checkpoint", "list", "trial", "--json").out)[-1]
    assert (last["best"], last["valid_loss"], last["valid_step"]) == ("best", losses[12], 12)


def test_the_best_is_found_across_a_stop(place):
    """A resumed run saves a new best only if it is better than those before the stop."""
    (place.folder / "text.txt").write_text(TEXT * 120)
    changes = {**VALIDATED, "checkpoint__keep": 9, "optimizer__lr": 1e-3}
    place.run(**changes | {"train__steps": 6})
    place.run("--resume", **changes)
    resumed = json.loads((place.log.folder() / "step-000012/manifest.json").read_text())
    place.run(**changes)
    steps = steps_of(place.log.folder())
    assert steps == [2, 4, 6, 8, 10, 12]
    manifest = json.loads((place.log.folder() / "step-000012/manifest.json").read_text())
    assert resumed["state"]["results"] == manifest["state"]["results"]
    assert torch.tensor(resumed["state"]["results"]["best_loss"]) > 0


def test_keep_best_without_validation_is_refused(place):
    place.refuse(2, "keep_best lacks .validation. every_steps", checkpoint__keep_best=True)
