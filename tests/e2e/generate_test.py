"""`wmtp-host generate` from a user's point of view: text that the model has learnt, equal to plain PyTorch's decoding,
and one clear message for each invalid prompt, model or option."""
import json
import re
import subprocess

import needs_torch  # noqa: F401
import numpy
import pytest
import torch
from checkpoint import model_tensors
from host import clean_environment
from mtp_model import Shape, model_of, token_losses
from paths import HOST
from places import Place

TEXT = "Seven quick wizards jump over 42 boxes, and back.\n"
SMALL = {"model__dim": 32, "model__heads": 2, "model__ffn_dim": 64, "model__layers": 5, "parallel__processes": 1}
LEARNS = {**SMALL, "model__vocab_size": None, "train__steps": 70, "train__batch_size": 4, "optimizer__lr": 1e-2,
          "data": {"kind": "text", "files": ["text.txt"]}}
CRITIC = {"plugin": "critic", "loss": "lambda_return", "lambda": 0.95}
RECORD = '{"instruction": "Add 1 and 2.", "output": "3", "task_id": "t/%d", "is_correct": true}\n'


@pytest.fixture(scope="module")
def trained(program, tmp_path_factory):
    """Runs 1 "wizards", of bytes, and 2 "ids", of tokens without a tokenizer."""
    made = Place(tmp_path_factory.mktemp("trained"))
    (made.folder / "text.txt").write_text(TEXT * 120)
    made.run("--set", "name=wizards", **LEARNS)
    made.tokens()
    made.run("--set", "name=ids", **SMALL, train__steps=1)
    return made


def answer(place, *arguments):
    return json.loads(place.host("generate", *arguments, "--json").out)


def plain_model(folder):
    params = json.loads((folder / "model/params.json").read_text())
    return model_of(Shape(
        dim=params["dim"], layers=params["n_layers"], heads=params["n_heads"], kv_heads=params["n_kv_heads"],
        ffn_dim=params["ffn_dim"], vocab_size=params["vocab_size"], future_tokens=params["n_future_tokens"],
        rope_theta=params["rope_theta"], norm_eps=params["norm_eps"], rope_scaling=params.get("rope_scaling"),
        qkv_bias=params.get("qkv_bias", False), tie_word_embeddings=params.get("tie_word_embeddings", False),
        future_heads=params.get("future_heads"), future_offsets=params.get("future_offsets")), model_tensors(folder))


def greedy_in_pytorch(folder, prompt, count):
    model, ids = plain_model(folder), list(prompt)
    with torch.no_grad():
        for _ in range(count):
            ids.append(model(torch.tensor([ids]))[0][0, -1].argmax().item())
    return ids[len(prompt):]


def test_a_learnt_text_is_continued(trained):
    ended = trained.host("generate", "wizards", "Seven quick", "--max-tokens", 30)
    assert ended.out == TEXT[11:41] + "\n"
    assert re.search(r"30 tokens in \d+ forward passes .*speculative with 4 heads.*tokens/s; ended by max_tokens",
                     ended.err), ended
    assert trained.host("generate", "wizards", "Seven quick", "--max-tokens", 30, "-q").err == ""


def test_drafts_save_passes_and_change_nothing(trained):
    fast = answer(trained, "wizards", "--prompt", "Seven", "--max-tokens", 48, "--compare")
    plain = answer(trained, "wizards", "--prompt", "Seven", "--max-tokens", 48, "--plain")
    assert fast["ids"] == plain["ids"] and fast["text"] == plain["text"]
    assert (fast["decoding"], plain["decoding"]) == ("speculative", "plain")
    assert plain["forwards"] == 48 and fast["forwards"] <= 48 / 1.8


def test_drafting_stops_where_it_takes_longer(place):
    """Heads of an untrained model agree by chance only, so drafts save nothing."""
    (place.folder / "text.txt").write_text(TEXT * 120)
    place.run(**(LEARNS | {"train__steps": 1}))
    plain, found = (answer(place, "1", "--prompt", "Seven", "--max-tokens", 200, *how) for how in (("--plain",), ()))
    assert found["ids"] == plain["ids"] and plain["forwards_with_drafts"] == 0
    assert 1 <= found["forwards_with_drafts"] < 0.75 * found["forwards"]
    said = place.host("generate", "1", "Seven", "--max-tokens", 200).err
    assert re.search(r"speculative with 4 heads in \d+ passes\)", said), said


def test_weights_in_bf16_give_the_text_of_the_rounded_weights(trained):
    found = answer(trained, "wizards", "--prompt", "over 42 b", "--max-tokens", 30, "--dtype", "bf16", "--compare")
    model = plain_model(trained.log.folder(1))
    ids = list(found["prompt_ids"])
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.copy_(weight.bfloat16())
        for _ in range(30):
            ids.append(model(torch.tensor([ids]))[0][0, -1].argmax().item())
    assert found["ids"] == ids[len(found["prompt_ids"]):]
    trained.refuse_command(2, "--dtype", command=["generate", "wizards", "a", "--dtype", "fp16"])


def test_the_speed_up_is_measured_against_plain_decoding(trained):
    found = answer(trained, "wizards", "--prompt", "Seven", "--max-tokens", 48, "--compare")
    assert found["plain_forwards"] == 48 and found["forwards"] <= 48 / 1.8
    assert found["plain_seconds"] > 0 and found["speed_up"] == pytest.approx(found["plain_seconds"] / found["seconds"])
    ended = trained.host("generate", "wizards", "Seven", "--max-tokens", 48, "--compare")
    assert ended.out == trained.host("generate", "wizards", "Seven", "--max-tokens", 48).out, \
        "the text stands there once"
    assert re.search(r"\d per pass.*\n.*same ids in 48 forward passes, .* s: speed-up [\d.]+", ended.err), ended
    trained.refuse_command(2, "--compare needs speculative decoding",
                           command=["generate", "wizards", "a", "--compare", "--plain"])
    trained.refuse_command(2, "--compare needs speculative decoding",
                           command=["generate", "wizards", "a", "--compare", "--temperature", "1"])


def drafts_in_pytorch(folder, ids):
    """By position of `ids`: of the tokens after the next one that are drafted without a gap, whether each is right. A
    token is drafted by the first head that reaches it, from the position where this head predicts it."""
    model = plain_model(folder)
    with torch.no_grad():
        logits = model(torch.tensor([ids]))
    offsets = [model.shape.offset(k) for k in range(1, len(logits) + 1)]
    drafts = []
    for i in range(len(ids)):
        right = []
        for target in range(i + 2, min(i + offsets[-1] + 1, len(ids))):
            head = next(k for k, offset in enumerate(offsets) if i + offset >= target)
            source = target - offsets[head]
            if source < 0:
                break
            right.append(logits[head][0, source].argmax().item() == ids[target])
        drafts.append(right)
    return drafts


def expect_validated_drafts(place, model, number, vocabulary, offsets):
    """A text that begins with one token and that the model continues greedily, as it was generated."""
    found = answer(place, model, "--prompt", "o", "--max-tokens", 61, "--compare")
    ids = [*found["prompt_ids"], *found["ids"]]
    for name, some in (("ids", list(TEXT.encode()) * 20), ("generated", ids)):
        numpy.array(some, "<u2").tofile(place.folder / f"{name}.bin")
    place.run(**SMALL | {"model__layers": len(offsets) + 1}, model__weights=f"run:{model}",
              model__vocab_size=vocabulary, model__future_tokens=len(offsets), model__future_offsets=offsets, data={
                  "kind": "tokens", "files": ["ids.bin"], "dtype": "uint16"}, train__sequence_length=len(ids),
              train__steps=1, train__batch_size=1, validation={"files": ["generated.bin"], "batches": 1})
    assert place.log.metric("valid/accuracy_head_1")[0] == 1
    drafts = drafts_in_pytorch(place.log.folder(number), ids)
    for head, offset in enumerate(offsets[1:], 2):
        of_head = [all(right[:offset - 1]) for right in drafts if len(right) >= offset - 1]
        assert place.log.metric(f"valid/accept_head_{head}")[0] == pytest.approx(
            sum(of_head) / len(of_head), abs=1e-12), head
    assert place.log.metric("valid/tokens_per_pass")[0] == pytest.approx(
        (len(found["ids"]) - 1) / (found["forwards"] - 1), abs=1e-12), \
        "without the prompt's pass, which yields the first token"


def test_validation_counts_the_drafts_that_decoding_accepts(trained):
    expect_validated_drafts(trained, "wizards", 1, 258, [1, 2, 3, 4])


def test_heads_that_leap_draft_by_looking_back_and_change_nothing(place):
    """Three heads draft as many tokens as five that follow one another."""
    (place.folder / "text.txt").write_text(TEXT * 120)
    offsets = [1, 3, 5]
    place.run("--set", "name=leaps", **LEARNS | {"model__layers": 4}, model__future_tokens=3,
              model__future_offsets=offsets)
    found = [answer(place, "1", "--prompt", "Seven", "--max-tokens", 48, how) for how in ("--compare", "--plain")]
    assert [one["ids"] for one in found] == 2 * [greedy_in_pytorch(place.log.folder(), found[0]["prompt_ids"], 48)]
    assert found[0]["forwards"] <= 48 / 3.2, "more than one token for each head"
    (place.folder / "held.txt").write_text(TEXT)
    rows = json.loads(place.host("eval", "1", "--text", "held.txt", "--json").out)
    ids = torch.tensor([[*TEXT.encode(), 257]])
    with torch.no_grad():
        logits = plain_model(place.log.folder())(ids)
    wanted = [token_losses(head, ids, offset).mean().item() for head, offset in zip(logits, offsets)]
    assert [row["loss"] for row in rows] == pytest.approx(wanted, rel=1e-4)
    expect_validated_drafts(place, "leaps", 1, 258, offsets)


@pytest.mark.parametrize("prompt", ["Seven", "over 42 b", "z", "nothing of the kind was ever read: 0 ~ ", "\n\n"])
def test_ids_are_those_of_pytorch(trained, prompt):
    """With --compare: it ends with an error unless plain decoding gives the same ids as speculative decoding."""
    count = 20
    found = answer(trained, "wizards", "--prompt", prompt, "--max-tokens", count, "--compare")
    assert found["prompt_ids"] == list(prompt.encode()) and found["plain_forwards"] == count
    assert found["ids"] == greedy_in_pytorch(trained.log.folder(1), found["prompt_ids"], count)


def test_ids_of_a_tied_model_with_biases_and_stretched_positions_are_those_of_pytorch(place):
    (place.folder / "text.txt").write_text(TEXT * 120)
    place.run(**LEARNS, model__tie_word_embeddings=True, model__qkv_bias=True, model__kv_heads=1, model__rope_scaling={
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32})
    found = answer(place, "1", "--prompt", "over 42 b", "--max-tokens", 30, "--compare")
    assert found["ids"] == greedy_in_pytorch(place.log.folder(), found["prompt_ids"], 30)


@pytest.mark.parametrize("heads", ["chained", "shared"])
def test_chained_heads_draft_one_after_another_and_change_nothing(place, heads):
    (place.folder / "text.txt").write_text(TEXT * 120)
    place.run(**LEARNS, model__future_heads=heads)
    found = [answer(place, "1", "--prompt", "Seven", "--max-tokens", 48, how) for how in ("--compare", "--plain")]
    assert [one["ids"] for one in found] == 2 * [greedy_in_pytorch(place.log.folder(), found[0]["prompt_ids"], 48)]
    assert [one["decoding"] for one in found] == ["speculative", "plain"] and found[0]["forwards"] <= 48 / 1.8

    (place.folder / "held.txt").write_text(TEXT)
    rows = json.loads(place.host("eval", "1", "--text", "held.txt", "--json").out)
    ids = torch.tensor([[*TEXT.encode(), 257]])  # ends with the end of text
    with torch.no_grad():
        logits = plain_model(place.log.folder())(ids)
    wanted = [token_losses(head, ids, k).mean().item() for k, head in enumerate(logits, 1)]
    assert [row["loss"] for row in rows] == pytest.approx(wanted, rel=1e-4)


def test_json_contains_everything(trained):
    found = answer(trained, "wizards", "--prompt", "Seven", "--max-tokens", 7)
    assert list(found) == ["model", "prompt_ids", "ids", "text", "end", "decoding", "heads", "tokens", "forwards",
                           "forwards_with_drafts", "tokens_per_forward", "seconds", "tokens_per_second"]
    assert found["text"] == " quick " and found["tokens"] == len(found["ids"]) == 7 and found["heads"] == 4
    assert found["tokens_per_forward"] == found["tokens"] / found["forwards"] and found["end"] == "max_tokens"
    assert found["seconds"] > 0 and found["model"].endswith("1-wizards/model")


def test_a_model_is_found_by_number_name_and_folder(trained):
    wanted = answer(trained, "wizards", "Seven", "--max-tokens", 5)["ids"]
    for model in ("1", "runs/1-wizards", "runs/1-wizards/model"):
        assert answer(trained, model, "Seven", "--max-tokens", 5)["ids"] == wanted
    (trained.folder / "begun.txt").write_text("Seven")
    assert answer(trained, "1", "--prompt-file", "begun.txt", "--max-tokens", 5)["ids"] == wanted


def test_every_end_token_that_a_model_names_ends_a_text(trained):
    """In config.json or in generation_config.json; in drafts, in answers to a suite, without a tokenizer, and in a run
    that starts from the model."""
    trained.host("checkpoint", "export", "wizards", "-o", "theirs")
    folder = trained.folder / "theirs"
    config = json.loads((folder / "config.json").read_text()) | {"eos_token_id": [257, ord("4")]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [257, ord("x")]}))
    trained.host("checkpoint", "import", "theirs", "-o", "ours")
    for options in ([], ["--plain"]):
        first = answer(trained, "ours", "--prompt", "Seven quick", "--max-tokens", 40, *options)
        assert (first["text"], first["end"]) == (" wizards jump over 4", "end_of_text")
        assert answer(trained, "ours", "--prompt", "over 42", "--max-tokens", 40, *options)["text"] == " box"
    (trained.folder / "suite.jsonl").write_text('{"instruction": "Seven quick", "output": " wizards jump over 4"}\n')
    shown = trained.host("eval", "ours", "--suite", "suite.jsonl", "--template", "none", "--max-tokens", 40).out
    assert re.search(r"pass@1 +1\.0", shown), shown
    trained.host("checkpoint", "export", "ours", "-o", "again")
    assert json.loads((trained.folder / "again/config.json").read_text())["eos_token_id"] == config["eos_token_id"]

    trained.run("--set", "name=tuned", **{**LEARNS, "model__weights": "ours", "train__steps": 1, "optimizer__lr": 1e-6},
                validation={"share": 0.1, "batches": 1, "every_steps": 1},
                log={"prompts": ["over 42"], "prompt_tokens": 40})
    texts = trained.log.query("SELECT text FROM generations ORDER BY step DESC LIMIT 1")
    assert [row["text"] for row in texts] == [" box"]
    trained.host("checkpoint", "export", "tuned", "-o", "tuned-hf")
    written = json.loads((trained.folder / "tuned-hf/generation_config.json").read_text())
    assert written["eos_token_id"] == [257, ord("x"), ord("4")], "transformers ends texts by this file"

    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    trained.host("checkpoint", "import", "theirs", "-o", "without")
    ids = " ".join(str(byte) for byte in b"over 42")
    assert bytes(answer(trained, "without", "--ids", ids, "--max-tokens", 40)["ids"]) == b" box"
    (folder / "generation_config.json").write_text('{"eos_token_id": "4"}')
    trained.refuse_command(4, "generation_config.json.*eos_token_id is .*wanted an id",
                           command=["checkpoint", "import", "theirs", "-o", "refused"])


def test_a_seed_draws_the_same_text_again(trained):
    def drawn(seed):
        return answer(trained, "wizards", "Seven", "--max-tokens", 40, "--temperature", 3, "--top-p", 0.99,
                      "--seed", seed)
    first = drawn(1)
    assert first["ids"] == drawn(1)["ids"] != drawn(2)["ids"]
    assert first["decoding"] == "sampled" and first["forwards"] == len(first["ids"])
    narrow = answer(trained, "wizards", "Seven", "--max-tokens", 40, "--temperature", 3, "--top-p", 1e-9)
    assert narrow["ids"] == answer(trained, "wizards", "Seven", "--max-tokens", 40)["ids"]


def test_ids_go_in_and_come_out(trained):
    ended = trained.host("generate", "ids", "--ids", "3 1 4", "--max-tokens", 6)
    ids = [int(word) for word in ended.out.split()]
    assert ids == greedy_in_pytorch(trained.log.folder(2), [3, 1, 4], 6)
    assert answer(trained, "ids", "--ids", "3 1 4", "--max-tokens", 6)["text"] is None


def test_a_text_ends_at_the_maximum_length(trained):
    found = answer(trained, "wizards", "--prompt", "Seven", "--max-tokens", 1000)
    assert found["end"] == "max_sequence_length" and len(found["prompt_ids"] + found["ids"]) == 64 + 1
    assert answer(trained, "wizards", "--prompt", "x" * 64)["tokens"] == 1


@pytest.mark.parametrize("code, shown, arguments", [
    (2, "the prompt is missing", ["wizards"]),
    (2, "found more than one prompt", ["wizards", "a", "--prompt", "b"]),
    (2, "the prompt is empty", ["wizards", ""]),
    (2, "--ids is empty", ["ids", "--ids", ""]),
    (2, "'x' is not a valid id", ["ids", "--ids", "1 x"]),
    (2, "512 is not a valid id of this model", ["ids", "--ids", "511 512"]),
    (2, "the prompt has 65 tokens, but the model accepts at most 64", ["wizards", "x" * 65]),
    (2, "--prompt-file: nowhere.txt does not exist", ["wizards", "--prompt-file", "nowhere.txt"]),
    (2, "--top-p is 0.0, wanted more than 0", ["wizards", "a", "--temperature", "1", "--top-p", "0"]),
    (2, "--top-p is 1.5, wanted more than 0 and at most 1", ["wizards", "a", "--temperature", "1", "--top-p", "1.5"]),
    (2, "--temperature is -1.0, wanted 0", ["wizards", "a", "--temperature=-1"]),
    (2, "--temperature", ["wizards", "a", "--temperature", "nan"]),
    (2, "--top-p requires a --temperature above 0", ["wizards", "a", "--top-p", "0.5"]),
    (2, "--seed requires a --temperature above 0", ["wizards", "a", "--seed", "5"]),
    (2, "--max-tokens", ["wizards", "a", "--max-tokens", "0"]),
    (2, 'did you mean "wizards"', ["wizard", "a"]),
    (2, "does not exist", ["runs/7-gone", "a"]),
    (2, "is not a folder", ["text.txt", "a"]),
    (4, "contains no model: wanted params.json", ["runs", "a"]),
    (4, "has no tokenizer.*--ids", ["ids", "a"]),
])
def test_an_impossible_request_is_refused(trained, code, shown, arguments):
    trained.refuse_command(code, shown, command=["generate", *arguments])


def test_a_run_that_ended_before_its_first_checkpoint_has_no_model(place):
    place.run("--set", "name=ended", **SMALL, wanted=5, guard__grad_norm=1e-9, guard__max_in_a_row=1)
    place.refuse_command(4, r"run 1 \('ended'\) has no model and no checkpoint: it is .*--resume",
                         command=["generate", "ended", "--ids", "1"])


SUMS = {"What is 1 + 2?": "3.", "What is 2 + 5?": "It is 7.", "Who are you?": "A\nmodel <|im_start|>."}


def ask(place, *arguments):
    return place.host("generate", "sums", *arguments, "--max-tokens", 60)


@pytest.mark.parametrize("template", ["chatml", "alpaca"])
def test_a_model_of_records_answers_questions_by_the_template_of_its_training(place, template):
    """Its answers end as training taught: at the text <|im_end|>, of which this tokenizer makes ten tokens, or at the
    end of the text."""
    lines = [{"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
             if template == "chatml" else {"instruction": question, "output": answer}
             for question, answer in SUMS.items()]
    (place.folder / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines * 8))
    data = {"kind": "records", "files": ["sums.jsonl"]} | ({"template": "chatml"} if template == "chatml" else {})
    place.run("--name", "sums", model__dim=32, model__heads=2, model__ffn_dim=64, model__layers=5,
              model__vocab_size=None, parallel__processes=1, train__steps=150, train__batch_size=6,
              train__sequence_length=256, optimizer__lr=1e-2, data=data)
    assert json.loads((place.folder / "runs/1-sums/model/params.json").read_text())["template"] == template
    for question, answer in SUMS.items():
        assert ask(place, "--chat", question).out == answer + "\n"
        assert ask(place, "--chat", question, "--plain").out == answer + "\n"
        found = json.loads(ask(place, "--chat", question, "--compare", "--json").out)
        assert (found["text"], found["end"]) == (answer, "end_of_text")
    turns = [{"role": "user", "content": "What is 1 + 2?"}]
    (place.folder / "turns.json").write_text(json.dumps(turns))
    assert ask(place, "--chat-file", "turns.json").out == "3.\n"
    piped = subprocess.run([HOST, "generate", "sums", "--chat-file", "-"], input=json.dumps(turns), text=True,
                           capture_output=True, cwd=place.folder, env=clean_environment(), timeout=60)
    assert piped.stdout == "3.\n", piped
    suite = [{"messages": [{"role": "user", "content": question}], "answer": answer}
             for question, answer in SUMS.items()]
    questions = [{"question": question, "answer": answer} for question, answer in SUMS.items()]
    wrong = [suite[0] | {"answer": "4"}]
    for name, rows, known in (("m", suite, 3), ("l", lines, 3), ("q", questions, 3), ("w", wrong, 0)):
        (place.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        score = json.loads(place.host("eval", "sums", "--suite", name, "--json", "--max-tokens", 60).out)
        assert (score["passed"], score["samples"]) == (known, len(rows)), (name, score)
    other = "alpaca" if template == "chatml" else "chatml"
    assert ask(place, "--chat", "What is 1 + 2?", "--template", other).out != "3.\n"
    if template == "alpaca":
        place.refuse_command(2, "neither a system prompt nor several turns",
                             command=["generate", "sums", "--chat", "Hi", "--system", "x"])


def test_a_model_without_a_template_names_the_choice(trained):
    trained.refuse_command(4, "the model has no chat template", "--template chatml, alpaca or plain",
                           command=["generate", "wizards", "--chat", "Hi"])
    assert trained.host("generate", "wizards", "--chat", "Hi", "--template", "chatml", "--max-tokens", 2).out


def test_a_critic_generates_no_text(place):
    (place.folder / "a.jsonl").write_text("".join(RECORD % i for i in range(64)))
    place.run(**SMALL, pipeline=CRITIC, train__steps=1, model__vocab_size=None,
              data={"kind": "records", "files": ["a.jsonl"], "template": "plain"})
    place.refuse_command(4, "no token heads.*it is a critic's", command=["generate", "trial", "a"])


def test_a_model_contains_its_sentencepiece_tokenizer(place):
    (place.folder / "text.txt").write_text((TEXT + "abcdefghijklmnopqrstuvwxyz \u00e9\u2581\n") * 120)
    data = {**LEARNS["data"], "tokenizer": {"kind": "bpe", "vocab_size": 330}}
    place.run(**{**LEARNS, "data": data, "train__steps": 60})
    (place.folder / "text.txt").unlink()
    found = answer(place, "trial", "Seven quick", "--max-tokens", 6)
    assert found["text"] and found["text"] in (TEXT * 2)[11:]
    assert answer(place, "trial", "\u00e9\u2581")["prompt_ids"]
    (place.folder / "bad.txt").write_bytes(b"ab\xff")
    place.refuse_command(2, "not UTF-8 at byte 2", command=["generate", "trial", "--prompt-file", "bad.txt"])
    (place.log.folder() / "model/tokenizer.model").unlink()
    place.refuse_command(4, "tokenizer.model", command=["generate", "trial", "Seven"])


def test_a_damaged_model_generates_no_text(trained, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    for file in (trained.log.folder(1) / "model").iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    with open(model / "model.safetensors", "r+b") as opened:
        opened.seek(-9, 2)
        opened.write(b"\x7f")
    trained.refuse_command(4, "model.safetensors", command=["generate", model, "a"])
