"""`eval --text` compared with transformers and with a plain model of several heads: losses, tokens and bits per byte,
with adjacent and with overlapping windows."""
import json
import math
import tomllib

import pytest
import torch
from hf_model import logits_of, random_llama
from mtp_model import Shape, model_of
from safetensors.torch import load_file

tokenizers = pytest.importorskip("tokenizers", reason="no tokenizers in .venv: `make setup` installs it")
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
    last = len(ids) - WINDOW if stride < WINDOW else len(ids)
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
    table = tomllib.loads(place.host("checkpoint", "import", "theirs", "-o", "ours", "--future-tokens", HEADS).out)["model"]
    shape = Shape(**{name: value for name, value in table.items() if name != "weights"})
    heads = model_of(shape, load_file(place.folder / "ours/model.safetensors"))
    (place.folder / "text").write_text(TEXT)
    ids = tokenizer.encode(TEXT).ids + [tokenizer.token_to_id(END)]
    assert ids[0] == 1 if begins else ids[0] > 1

    def logits_in(head):
        def of_window(begin):
            window = torch.tensor([ids[begin:begin + WINDOW]])
            if head == 1:
                return logits_of(model, window)[0]
            with torch.no_grad():
                return heads(window)[head - 1][0]
        return of_window

    for stride in (WINDOW, WINDOW - 1, 10):
        more = [] if stride == WINDOW else ["--stride", stride]
        found = json.loads(place.host("eval", "ours", "--text", "text", "--json", *more).out)
        assert len(found) == HEADS
        for row in found:
            tokens, loss, size = wanted_of(ids, tokenizer, stride, row["head"], logits_in(row["head"]))
            assert (row["tokens"], row["bytes"]) == (tokens, size), (stride, row)
            assert row["loss"] == pytest.approx(loss, rel=1e-5), (stride, row)
            assert row["bits_per_byte"] == pytest.approx(tokens * loss / math.log(2) / size, rel=1e-5)
        if stride < WINDOW:
            assert found[0]["tokens"] == len(ids) - 1
            unread = 0 if begins else len(tokenizer.id_to_token(ids[0]))
            assert found[0]["bytes"] == len(TEXT.encode()) - unread
