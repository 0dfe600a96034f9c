"""`eval --text` compared with transformers and with a plain model of several heads: losses, tokens and bits per byte,
with adjacent and with overlapping windows."""
import json
import math
import tomllib

import pytest
import torch
from hf_model import logits_of, open_llama, random_llama, transformers
from mtp_model import Shape, model_of
from safetensors.torch import load_file

tokenizers = pytest.importorskip("tokenizers", reason="no tokenizers in .venv: `make setup-tests` installs it")
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402

WINDOW, HEADS = 32, 3
BEGIN, END = "<|begin|>", "<|end_of_text|>"
TEXT = "def f(x):\n    return 'é東' + x  # two  words of über\n" * 6 + "the end of 語"


def write_tokenizer(folder, begins):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    made.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=300, special_tokens=[END, BEGIN], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if begins:
        made.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A", pair="$A $B",
                                                             special_tokens=[(BEGIN, 1)])
    made.save(str(folder / "tokenizer.json"))
    config = {"eos_token": END, "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return made


def read_once(ids, stride, head):
    """{token's position: start of the first window that contains it}, for the tokens that the head can predict."""
    last = len(ids) - (WINDOW if stride < WINDOW else HEADS + 1)
    begins = [min(begin, last) for begin in range(0, len(ids), stride)]
    first = {at: next(begin for begin in begins if at < begin + WINDOW) for at in range(len(ids))}
    return {at: begin for at, begin in first.items() if at - begin >= head}


def wanted_of(ids, tokenizer, stride, head, logits_in):
    """Tokens, loss and bytes. The name of a byte-level token has one character per byte."""
    places = read_once(ids, stride, head)
    losses = [torch.log_softmax(logits_in(begin)[at - begin - head].double(), -1)[ids[at]].neg().item()
              for at, begin in places.items()]
    spelled = [tokenizer.id_to_token(ids[at]) for at in places if ids[at] > 1]
    return len(losses), sum(losses) / len(losses), sum(map(len, spelled))


@pytest.mark.parametrize("begins", [False, True], ids=["no-begin", "begin"])
def test_losses_and_bits_per_byte_are_those_of_a_plain_computation(place, begins):
    theirs = place.folder / "theirs"
    model = random_llama(max_position_embeddings=WINDOW)
    model.save_pretrained(theirs)
    tokenizer = write_tokenizer(theirs, begins)
    table = tomllib.loads(
        place.host("checkpoint", "import", "theirs", "-o", "ours", "--future-tokens", HEADS).out)["model"]
    shape = Shape(**{name: value for name, value in table.items() if name != "weights"})
    heads = model_of(shape, load_file(place.folder / "ours/model.safetensors"))
    ids = []
    (place.folder / "text").write_text(TEXT)

    def logits_in(head):
        def of_window(begin):
            window = torch.tensor([ids[begin:begin + WINDOW]])
            if head == 1:
                return logits_of(model, window)[0]
            with torch.no_grad():
                return heads(window)[head - 1][0]
        return of_window

    def ids_of(text):
        return tokenizer.encode(text).ids + [tokenizer.token_to_id(END)]
    cut = next(TEXT[:end] for end in range(len(TEXT), 0, -1) if len(ids_of(TEXT[:end])) % WINDOW == HEADS)
    for stride, text in ((WINDOW, TEXT), (WINDOW - 1, TEXT), (10, TEXT), (WINDOW, cut)):
        ids[:] = ids_of(text)
        assert ids[0] == 1 if begins else ids[0] > 1
        (place.folder / "text").write_text(text)
        more = [] if stride == WINDOW else ["--stride", stride]
        found = json.loads(place.host("eval", "ours", "--text", "text", "--json", *more).out)
        assert len(found) == HEADS
        for row in found:
            tokens, loss, size = wanted_of(ids, tokenizer, stride, row["head"], logits_in(row["head"]))
            assert (row["tokens"], row["bytes"]) == (tokens, size), (stride, row)
            assert row["loss"] == pytest.approx(loss, rel=1e-5), (stride, row)
            assert row["bits_per_byte"] == pytest.approx(tokens * loss / math.log(2) / size, rel=1e-5)
        if stride < WINDOW:  # else the last window depends on the number of heads
            as_it_is = json.loads(place.host("eval", "theirs", "--text", "text", "--json", *more).out)
            assert as_it_is == found[:1]
            assert found[0]["tokens"] == len(ids) - 1
            unread = 0 if begins else len(tokenizer.id_to_token(ids[0]))
            assert found[0]["bytes"] == len(TEXT.encode()) - unread


def bits_in_rolling_windows(model, ids, begin, longest):
    """Bits of `ids` under `model`, as lm-evaluation-harness sums them (loglikelihood_rolling): `begin` precedes the
    text, each window predicts the next `longest` tokens from at most that many, and the last one reads more context."""
    bits, tokens = 0.0, [begin, *ids]
    for first in range(0, len(ids), longest):
        last = min(first + longest, len(ids))
        start = max(0, last - longest)
        logits = torch.log_softmax(logits_of(model, torch.tensor([tokens[start:last]]))[0].double(), -1)
        bits -= sum(logits[at - start][ids[at]].item() for at in range(first, last)) / math.log(2)
    return bits


def test_bits_per_byte_of_a_run_are_those_of_lm_evaluation_harness_on_its_export(place):
    """The harness ends a text without an end_of_text, whose bits are subtracted here."""
    random_llama(max_position_embeddings=WINDOW).save_pretrained(place.folder / "theirs")
    write_tokenizer(place.folder / "theirs", begins=True)
    (place.folder / "train").write_text(TEXT * 20)
    place.run(data={"kind": "text", "files": ["train"], "tokenizer": {"kind": "file", "file": "theirs/tokenizer.json"}},
              model={"weights": "theirs", "future_tokens": 2, "new_heads": "copy"}, train__sequence_length=WINDOW,
              train__steps=5, optimizer__lr=1e-2, parallel__processes=1)
    place.host("checkpoint", "export", "trial", "-o", "export")
    model, tokenizer = (open_llama(place.folder / "export"),
                        transformers.AutoTokenizer.from_pretrained(place.folder / "export"))
    begin, end = (tokenizer.convert_tokens_to_ids(name) for name in (BEGIN, END))
    # Then the windows end where the text does, and its end_of_text is alone in the last one.
    ids = tokenizer.encode(TEXT * 3, add_special_tokens=False)
    ids = ids[:len(ids) // (WINDOW - 1) * (WINDOW - 1)]
    text = tokenizer.decode(ids)
    assert tokenizer.encode(text, add_special_tokens=False) == ids and len(ids) > 3 * WINDOW
    (place.folder / "text").write_text(text)
    row = json.loads(place.host("eval", "trial", "--text", "text", "--stride", WINDOW - 1, "--json").out)[0]
    bits = bits_in_rolling_windows(model, ids, begin, WINDOW - 1)
    last = torch.log_softmax(logits_of(model, torch.tensor([ids[1 - WINDOW:]]))[0][-1].double(), -1)
    assert row["tokens"] == len(ids) + 1 and row["bytes"] == len(text.encode())
    assert row["bits_per_byte"] * row["bytes"] == pytest.approx(bits - last[end].item() / math.log(2), rel=1e-5)
    (place.folder / "begun").write_text(BEGIN + text)
    again = json.loads(place.host("eval", "trial", "--text", "begun", "--stride", WINDOW - 1, "--json").out)[0]
    assert again == row, "a text that contains the BOS gets no second one"


def test_a_model_whose_logits_are_not_finite_has_no_loss(place):
    theirs = place.folder / "theirs"
    model = random_llama(max_position_embeddings=WINDOW)
    with torch.no_grad():
        model.model.norm.weight[:] = 3e38
    model.save_pretrained(theirs)
    write_tokenizer(theirs, begins=False)
    (place.folder / "text").write_text(TEXT)
    ended = place.host("eval", "theirs", "--text", "text", wanted=4)
    assert "theirs: the loss of the text is not finite" in ended.err
