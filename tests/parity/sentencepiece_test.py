"""A tokenizer.model gives SentencePiece's ids, with its BOS before a text if the folder's files request it; such a
vocabulary as tokenizer.json gives the ids of the tokenizers library."""
import io
import json
from pathlib import Path

import pytest
from experiment import ONE_RANK
from hf_model import random_llama, transformers
from prepared import first_difference, peak_bytes, prepared
from texts import broken, code, mixed_text

sentencepiece = pytest.importorskip("sentencepiece", reason="no sentencepiece in .venv: `make setup-tests` installs it")
tokenizers = pytest.importorskip("tokenizers", reason="no tokenizers in .venv: `make setup-tests` installs it")

MARK = "\u2581"
UNK, BOS, EOS = 0, 1, 2
LLAMAS = dict(model_type="bpe", normalization_rule_name="identity", split_digits=True, remove_extra_whitespaces=False,
              allow_whitespace_only_pieces=True)
KINDS = {
    "llama": LLAMAS,
    "no-prefix": LLAMAS | dict(add_dummy_prefix=False),
    "nfkc": dict(model_type="bpe"),  # SentencePiece's defaults: strips spaces at the ends, and joins consecutive ones
}
LLAMA_CONFIG = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
PROMPT = "def f(x):\n    return 'é東' + x  # two  spaces\n"


def hard_text():
    return mixed_text(500_000) + code()[:700_000] + "a" * 5000 + " " * 3000 + "\n" * 2000 + " the end "


def trained(text, **settings):
    """The bytes of a tokenizer.model of 2,000 pieces."""
    made = io.BytesIO()
    lines = [line for line in text[:3_000_000].splitlines() if line and MARK not in line]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=made, vocab_size=2000,
                                             byte_fallback=True, character_coverage=0.99, minloglevel=2, num_threads=1,
                                             **settings)
    return made.getvalue()


@pytest.fixture(scope="module")
def llama_pieces():
    return trained(code()[:400_000], **KINDS["llama"])


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_library(place, llama_pieces, kind):
    """A model without normalization encodes U+2581 as bytes, so that it can be decoded; others do as the library."""
    text = hard_text() + ("" if kind == "no-prefix" else f"a{MARK}b {MARK}{MARK}\n")
    (place.folder / "llama.model").write_bytes(
        llama_pieces if kind == "llama" else trained(code()[:400_000], **KINDS[kind]))
    pieces = sentencepiece.SentencePieceProcessor(str(place.folder / "llama.model"))
    (place.folder / "tokenizer_config.json").write_text(json.dumps(LLAMA_CONFIG))
    found = prepared(place, text.encode(), tokenizer="llama.model")
    wanted = [BOS] + pieces.encode(text) + [EOS]
    assert found == wanted, first_difference(found, wanted, pieces)


def test_a_long_text_does_not_take_memory_in_proportion(place, llama_pieces):
    (place.folder / "llama.model").write_bytes(llama_pieces)
    peaks = [peak_bytes(place, code()[:size].encode(), tokenizer="llama.model") for size in (200_000, 2_200_000)]
    assert peaks[1] - peaks[0] < 10 * 2_000_000


def write_llama(place, config, pieces, vocab_size=2048):
    theirs = place.folder / "theirs"
    random_llama(vocab_size=vocab_size, bos_token_id=BOS, eos_token_id=EOS).save_pretrained(theirs)
    (theirs / "tokenizer.model").write_bytes(pieces)
    if config is not None:
        (theirs / "tokenizer_config.json").write_text(json.dumps(config))
    return theirs


def prompt_ids(place, model, prompt=PROMPT):
    found = place.host("generate", model, "--prompt", prompt, "--max-tokens", 2, "--json").out
    return json.loads(found)["prompt_ids"]


@pytest.mark.parametrize("begins", [True, False])
def test_a_prompt_begins_as_transformers_begins_it(place, llama_pieces, begins):
    """After an import, an export, and another import."""
    theirs = write_llama(place, LLAMA_CONFIG | {"add_bos_token": begins}, llama_pieces)
    wanted = transformers.AutoTokenizer.from_pretrained(theirs)(PROMPT)["input_ids"]
    assert (wanted[0] == BOS) == begins
    place.host("checkpoint", "import", "theirs", "-o", "ours")
    assert prompt_ids(place, "ours") == wanted
    place.host("checkpoint", "export", "ours", "-o", "again")
    assert transformers.AutoTokenizer.from_pretrained(place.folder / "again")(PROMPT)["input_ids"] == wanted
    place.host("checkpoint", "import", "again", "-o", "back")
    assert prompt_ids(place, "back") == wanted


def test_metas_own_folder_begins_texts_with_a_bos(place, llama_pieces):
    """Meta's program adds a BOS although no file requests it. Our export in that format states its tokenizer."""
    write_llama(place, None, llama_pieces)
    place.host("checkpoint", "import", "theirs", "-o", "ours")
    without = prompt_ids(place, "ours")
    assert without[0] != BOS, "no file requests it, and transformers adds none either"
    place.host("checkpoint", "export", "ours", "-o", "meta", "--to", "meta")
    place.host("checkpoint", "import", "meta", "-o", "same")
    assert prompt_ids(place, "same") == without
    params = json.loads((place.folder / "meta/params.json").read_text())
    (place.folder / "meta/params.json").write_text(
        json.dumps({key: params[key] for key in params if key != "tokenizer"}))
    place.host("checkpoint", "import", "meta", "-o", "metas")
    assert prompt_ids(place, "metas") == [BOS] + without
    place.host("checkpoint", "export", "metas", "-o", "hf")
    assert transformers.AutoTokenizer.from_pretrained(place.folder / "hf")(PROMPT)["input_ids"] == [BOS] + without


def test_a_model_trained_here_adds_no_bos_unless_add_bos_token_is_set(place):
    """With a BOS, `eval --text` also counts the text's first token."""
    (place.folder / "text").mkdir()
    (place.folder / "text/a.py").write_text("".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(900)))
    data = {"kind": "text", "files": ["text/*.py"], "tokenizer": {"kind": "bpe", "vocab_size": 300}}
    place.run(**ONE_RANK, data=data, model__vocab_size=None, train__steps=2)
    pieces = sentencepiece.SentencePieceProcessor(str(place.log.folder() / "model/tokenizer.model"))
    place.host("checkpoint", "export", "trial", "-o", "hf")
    said = json.loads((place.folder / "hf/tokenizer_config.json").read_text())
    assert said["add_bos_token"] is False and said["tokenizer_class"] == "PreTrainedTokenizerFast"
    opened = transformers.AutoTokenizer.from_pretrained(place.folder / "hf")
    assert opened("x + 1")["input_ids"] == pieces.encode("x + 1")
    place.host("checkpoint", "import", "hf", "-o", "back")
    for model in ("trial", "back"):
        assert prompt_ids(place, model, "def f1(x):\n") == pieces.encode("def f1(x):\n")
    (place.folder / "held.py").write_text("def f7(x):\n    return x + 7\n")
    tokens = {}
    for begins in (False, True):
        (place.folder / "hf/tokenizer_config.json").write_text(json.dumps(said | {"add_bos_token": begins}))
        place.host("checkpoint", "import", "hf", "-o", f"begins-{begins}")
        rows = json.loads(place.host("eval", f"begins-{begins}", "--text", "held.py", "--json").out)
        tokens[begins] = rows[0]["tokens"]
    assert tokens[False] == len(pieces.encode((place.folder / "held.py").read_text()))
    assert tokens[True] == tokens[False] + 1


def test_a_config_that_means_something_else_leaves_the_tokenizer_out(place, llama_pieces):
    write_llama(place, LLAMA_CONFIG | {"add_eos_token": True}, llama_pieces)
    ended = place.host("checkpoint", "import", "theirs", "-o", "ours")
    assert "no tokenizer is imported" in ended.err and "add_eos_token is true, wanted false" in ended.err
    (place.folder / "theirs/tokenizer_config.json").write_text(json.dumps(LLAMA_CONFIG | {"bos_token": "<begin>"}))
    place.host("checkpoint", "import", "theirs", "-o", "named")
    place.refuse_command(4, "tokenizer.model has no piece <begin>", command=["generate", "named", "a"])


def test_tokens_that_transformers_adds_to_a_model_are_refused(place, llama_pieces):
    """Except for a pad_token, which no text contains."""
    theirs = write_llama(place, LLAMA_CONFIG | {"pad_token": "<pad>"}, llama_pieces)
    place.host("checkpoint", "import", "theirs", "-o", "pads")
    assert len(prompt_ids(place, "pads")) > 1
    new = {"2000": {"content": "<|im_end|>", "special": True}}
    for config, older, wanted in (
            ({"added_tokens_decoder": new}, None, r"has no piece <\|im_end\|>, which tokenizer_config.json"),
            ({"additional_special_tokens": ["<|im_end|>"]}, None, r"has no piece <\|im_end\|>"),
            ({}, {"<|im_end|>": 2000}, r"has no piece <\|im_end\|>.*; use a tokenizer.json"),
            ({"eos_token": "<unk>"}, None, "ends texts with </s>, but the eos_token of .* is <unk>")):
        (theirs / "tokenizer_config.json").write_text(json.dumps(LLAMA_CONFIG | config))
        if older:
            (theirs / "added_tokens.json").write_text(json.dumps(older))
        data = {"kind": "text", "files": ["text"], "tokenizer": {"kind": "file", "file": "theirs/tokenizer.model"}}
        (place.folder / "text").write_text("a text\n" * 100)
        place.refuse(4, wanted, data=data, model__vocab_size=2000)
        (theirs / "added_tokens.json").unlink(missing_ok=True)


def test_a_tokenizer_of_another_vocabulary_is_not_used(place, llama_pieces, json_of_llama):
    theirs = write_llama(place, LLAMA_CONFIG, llama_pieces)
    random_llama(vocab_size=512).save_pretrained(theirs)
    place.host("checkpoint", "import", "theirs", "-o", "ours")
    place.refuse_command(4, "its tokenizer has 2,000 ids, the model 512", command=["generate", "ours", "a"])
    (theirs / "tokenizer.model").unlink()
    (theirs / "tokenizer.json").write_text(json_of_llama)
    ended = place.host("checkpoint", "import", "theirs", "-o", "json")
    assert "no tokenizer is imported: theirs/tokenizer.json has 3,000 ids, the model 512" in ended.err
    place.refuse_command(4, "has no tokenizer", command=["generate", "json", "a"])


@pytest.fixture(scope="module")
def json_of_llama():
    """In the form of Llama 2's tokenizer.json: merges of a vocabulary trained here; the ids of bytes start at 3."""
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=3000, special_tokens=names, limit_alphabet=400,
                                             show_progress=False)
    made.train_from_iterator([hard_text()[:1_000_000]], trainer)
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                                   special_tokens=[("<s>", BOS)])
    said = json.loads(made.to_str())
    said["added_tokens"] = [one | {"normalized": False} for one in said["added_tokens"][:3]]
    said["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    said["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, replace]}
    said["pre_tokenizer"] = None
    said["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return json.dumps(said)


WAYS = {"llama-2": None, "first": "first", "always": "always", "never": "never", "gemma": None, "phi-3": None}


def added(said, contents, **changes):
    """Entries for tokens; a piece of the vocabulary keeps its id."""
    free = max(len(said["model"]["vocab"]), *(one["id"] + 1 for one in said["added_tokens"]))
    ids = {}
    for content in contents:
        ids[content] = said["model"]["vocab"].get(content, free)
        free += ids[content] == free
    return [{"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": False} | changes for content, id in ids.items()]


@pytest.mark.parametrize("way", WAYS)
def test_the_same_vocabulary_in_json_has_the_librarys_ids(place, json_of_llama, way):
    text = ((hard_text() + f"<s>a{MARK}b</s> c</s></s>d <0x41>\nc c <|end|>  c c{MARK * 2}\n\n\n").encode()
            + broken(100_000))
    said = json.loads(json_of_llama)
    if way == "llama-2":  # as its file has them
        said["model"]["merges"] = [" ".join(pair) for pair in said["model"]["merges"]]
    if way == "gemma":
        said["normalizer"] = said["normalizer"]["normalizers"][1]
        said["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                                 "invert": False}
        said["added_tokens"] += added(said, ["\n\n", MARK * 2, "c c"], normalized=False)
    if way == "phi-3":
        said["added_tokens"] += added(said, ["<|end|>", "..."], rstrip=True)
        said["added_tokens"] += added(said, ["c c", "=="], normalized=True)
        said["added_tokens"] += added(said, ["----"], lstrip=True, normalized=True)
    if WAYS[way]:
        said["normalizer"] = None
        said["pre_tokenizer"] = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": WAYS[way], "split": False}
    (place.folder / "tokenizer.json").write_text(json.dumps(said))
    (place.folder / "tokenizer_config.json").write_text(json.dumps(LLAMA_CONFIG))
    tokenizer = tokenizers.Tokenizer.from_file(str(place.folder / "tokenizer.json"))
    found = prepared(place, text)
    wanted = tokenizer.encode(text.decode(errors="replace")).ids + [EOS]
    assert found == wanted, first_difference(found, wanted, tokenizer)


@pytest.mark.parametrize("kind", ["LlamaTokenizer", "PreTrainedTokenizerFast"])
def test_add_prefix_space_false_has_its_effect_in_transformers(place, json_of_llama, kind):
    """Its class for a Llama adds no space before a text; the general one takes the file as it is."""
    (place.folder / "tokenizer.json").write_text(json_of_llama)
    (place.folder / "tokenizer_config.json").write_text(
        json.dumps(LLAMA_CONFIG | {"tokenizer_class": kind, "add_prefix_space": False}))
    wanted = transformers.AutoTokenizer.from_pretrained(place.folder)(PROMPT)["input_ids"] + [EOS]
    assert prepared(place, PROMPT.encode()) == wanted


def test_a_tinyllama_keeps_its_json(place, llama_pieces, json_of_llama):
    """It precedes tokenizer.model, and its template determines whether a BOS is added."""
    theirs = write_llama(place, LLAMA_CONFIG, llama_pieces, vocab_size=4096)
    (theirs / "tokenizer.json").write_text(json_of_llama)
    ended = place.host("checkpoint", "import", "theirs", "-o", "ours")
    assert "kept" not in ended.err
    assert not Path(place.folder / "ours/tokenizer.model").exists()
    wanted = tokenizers.Tokenizer.from_file(str(theirs / "tokenizer.json")).encode(PROMPT).ids
    assert prompt_ids(place, "ours") == wanted and wanted[0] == BOS
    place.host("checkpoint", "export", "ours", "-o", "again")
    again = transformers.AutoTokenizer.from_pretrained(place.folder / "again")
    assert again(PROMPT)["input_ids"] == wanted
    turn = "a</s>b"  # whose b the class of its configuration would not begin with a space
    assert again(turn)["input_ids"] == tokenizers.Tokenizer.from_file(str(theirs / "tokenizer.json")).encode(turn).ids
