"""Ids of a tokenizer.json equal those of the tokenizers library: on code, on text in other scripts and on bytes that
are not UTF-8, which become U+FFFD; for the kinds of tokenizers that published models use."""
import json
import random
import time

import experiment
import numpy as np
import pytest
from places import assert_nothing_half_written
from prepared import TEXT, first_difference, peak_bytes, prepared
from texts import broken, code, mixed_text

tokenizers = pytest.importorskip("tokenizers", reason="no tokenizers in .venv: `make setup-tests` installs it")
from tokenizers import (  # noqa: E402
    AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split  # noqa: E402

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
END = "<|end_of_text|>"
WORDS = ByteLevel(add_prefix_space=False)
BYTES = ByteLevel(add_prefix_space=False, use_regex=False)
# Tokens that take in white space, found in the text or in the normalized text, and some that are white space.
SPACE_TAKERS = [AddedToken("<tool>", lstrip=True, normalized=False), AddedToken("==", rstrip=True, normalized=True),
                AddedToken("...", lstrip=True, rstrip=True, normalized=False), AddedToken("e\u0301", lstrip=True),
                AddedToken("\n\n", normalized=False), AddedToken("     ", normalized=True)]
KINDS = {
    "gpt2": dict(pre=WORDS),
    "prefix": dict(pre=ByteLevel(add_prefix_space=True)),
    "llama3": dict(pre=Sequence([Split(Regex(LLAMA3), "isolated"), BYTES]), ignore_merges=True, begin=True),
    "qwen2": dict(pre=Sequence([Split(Regex(QWEN2), "isolated"), BYTES]), normalizer=normalizers.NFC()),
    "smollm": dict(pre=Sequence([Digits(individual_digits=True), WORDS]), merges_as_text=True),
    "removed": dict(pre=Sequence([Split(Regex(LLAMA3), "removed", invert=True), BYTES])),
    "spaces": dict(pre=WORDS, tokens=SPACE_TAKERS),
    "spaces, nfc": dict(pre=WORDS, tokens=SPACE_TAKERS, normalizer=normalizers.NFC()),
    # As in SmolLM2 and DeepSeek: texts lose bytes that are no token, before any merge.
    "letters missing": dict(pre=Sequence([Digits(individual_digits=True), WORDS]), alphabet=()),
    "string": dict(pre=Sequence([Split(".", "isolated"), Digits(individual_digits=False), BYTES])),
}


@pytest.fixture(scope="module")
def text():
    """More than a megabyte, so that it is read in several parts."""
    longest = "a" * 5000 + " " * 3000 + "\n" * 2000 + "語" * 3000
    return (mixed_text(450_000) + code()[:560_000] + longest).encode() + broken(150_000) + b"the end \xe2\x82"


def trained(text, pre, ignore_merges=False, begin=False, merges_as_text=False, normalizer=None, tokens=("<tool>",),
            alphabet=pre_tokenizers.ByteLevel.alphabet()):
    made = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        made.normalizer = normalizer
    made.pre_tokenizer, made.decoder = pre, decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=[END, "<|begin|>"], show_progress=False,
                                  initial_alphabet=list(alphabet))
    # A part of the text yields as many merges as all of it, in a tenth of the time.
    made.train_from_iterator([(text[:60_000] + text[-500_000:-380_000]).decode(errors="replace")], trainer)
    made.add_tokens(list(tokens))
    if begin:
        made.post_processor = processors.TemplateProcessing(single="<|begin|> $A", pair="$A $B",
                                                            special_tokens=[("<|begin|>", 1)])
    said = json.loads(made.to_str())
    if merges_as_text:
        said["model"]["merges"] = [" ".join(pair) for pair in said["model"]["merges"]]
    return said


def write_tokenizer(folder, said, end=END):
    (folder / "tokenizer.json").write_text(json.dumps(said))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": end, "tokenizer_class": "PreTrainedTokenizerFast"}))
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_library(place, text, kind):
    tokenizer = write_tokenizer(place.folder, trained(text, **KINDS[kind]))
    began = time.monotonic()
    found = prepared(place, text)
    took = time.monotonic() - began
    wanted = tokenizer.encode(text.decode(errors="replace")).ids + [tokenizer.token_to_id(END)]
    assert found == wanted, first_difference(found, wanted, tokenizer)
    print(f"{kind}: {len(text) / took / 1e6:.2f} MB/s")


# Each has another meaning in PCRE2, or depends on what is before a cut of the text.
SPLITS = {
    "digits from the right": r"(?=(\d{3})+(?!\d))",
    "words": r"\w+",
    "other than words": r"[^\w\s]+|\W",
    "lines": r"^.+|\s+$",
    "BLOOM": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "Han": r"\p{Han}+|\p{^Han}",
    "intervals": r"a{,1}|\d{1,3}+",
    "white space": r"[\S]+",
    "behind a digit": r"(?<=[0-4])\d{2}|\d",
    "between digits": r"(?<=[1-4])(?=[3-7])",
}


@pytest.fixture(scope="module")
def unsplit():
    """A tokenizer whose tokens span everything, so that each cut is seen in the ids, and more than a megabyte of
    text."""
    draw = random.Random(4)
    words = mixed_text(30_000) + "नमस्ते दुनिया e\u0301 你好。x²\u180eb\n\nab aab  \n" * 30
    digits = "".join(draw.choice("0123456789") for _ in range(1_200_000))
    return trained(words.encode() + digits[:20_000].encode(), pre=BYTES), words + digits


@pytest.mark.parametrize("kind", SPLITS)
def test_a_split_cuts_where_the_library_does(place, unsplit, kind):
    said, text = unsplit
    split = {"type": "Split", "pattern": {"Regex": SPLITS[kind]}, "behavior": "Isolated", "invert": False}
    tokenizer = write_tokenizer(place.folder, said | {"pre_tokenizer": {
        "type": "Sequence", "pretokenizers": [split, said["pre_tokenizer"]]}})
    if "digit" not in kind:
        text = text[:60_000]
    if kind == "digits from the right":  # looks at all digits that follow
        text = " ".join(text[at:at + 11] for at in range(0, 200_000, 11))
    found, wanted = prepared(place, text.encode()), tokenizer.encode(text).ids + [tokenizer.token_to_id(END)]
    assert found == wanted, first_difference(found, wanted, tokenizer)


def test_a_very_long_word_does_not_take_quadratic_time(place):
    """One word of 3 MB, which must be read completely, and whose pairs must not be scanned for each merge."""
    tokenizer = write_tokenizer(place.folder, trained(b"the quick brown fox" * 100, **KINDS["llama3"]))
    text = b"thequickbrownfox" * 200_000
    began = time.monotonic()
    found = prepared(place, text)
    assert time.monotonic() - began < 30
    assert tokenizer.decode(found).encode() == text


def test_a_text_that_brings_its_first_and_last_token_gets_no_second_one(place, text):
    """In training, in `generate` and in `eval`."""
    from hf_model import random_llama
    theirs = place.folder / "theirs"
    random_llama(vocab_size=4096, bos_token_id=1, eos_token_id=0).save_pretrained(theirs)
    tokenizer = write_tokenizer(theirs, trained(text, **KINDS["llama3"]))
    write_tokenizer(place.folder, json.loads(tokenizer.to_str()))
    plain, begun = "def f(x): return x", f"<|begin|>def f(x): return x{END}"
    wanted = tokenizer.encode(plain).ids + [tokenizer.token_to_id(END)]
    assert wanted[0] == 1 and prepared(place, plain.encode()) == wanted
    for old in place.folder.glob("runs/cache/*/train.bin"):
        old.unlink()
    assert prepared(place, begun.encode()) == wanted

    (place.folder / "records.jsonl").write_text("".join(
        json.dumps({"prompt": prompt, "completion": completion}) + "\n"
        for prompt, completion in (("def", " f(x): return x"), ("<|begin|>def", f" f(x): return x{END}"),
                                   ("def" + END, ""))))
    data = {"kind": "records", "files": ["records.jsonl"], "tokenizer": TEXT["data"]["tokenizer"]}
    place.host("data", "prepare", place.write(**TEXT | {"data": data}))
    file, = place.folder.glob("runs/cache/*/records.ids")
    of_prompt_alone = [1, *tokenizer.encode("def", add_special_tokens=False).ids, 0, 0]
    assert np.fromfile(file, "<u2").tolist() == wanted + wanted + of_prompt_alone, "an answer is at least its end"

    place.host("checkpoint", "import", "theirs", "-o", "ours")
    tokens = []
    for content in (plain, begun):
        (place.folder / "held.txt").write_text(content)
        tokens.append(json.loads(place.host("eval", "ours", "--text", "held.txt", "--json").out)[0]["tokens"])
        prompt = json.loads(
            place.host("generate", "ours", "--prompt", content, "--max-tokens", 1, "--json").out)["prompt_ids"]
        assert prompt[:-1] == wanted[:len(prompt) - 1] and prompt[1] != 1
    assert tokens[0] == tokens[1] == len(wanted) - 1


def test_a_long_text_without_spaces_has_the_ids_of_the_library(place):
    """Cut where no token spans, and as a whole where every two letters can be in one."""
    draw = random.Random(2)
    letters = "".join(draw.choice("ACGT") for _ in range(60_000))
    text = letters + "".join(draw.choice("acgtxyz-é語") for _ in range(60_000)) + letters[:5000] * 3
    tokenizer = write_tokenizer(place.folder, trained(text.encode(), pre=BYTES))
    found = prepared(place, text.encode())
    wanted = tokenizer.encode(text).ids + [tokenizer.token_to_id(END)]
    assert found == wanted, first_difference(found, wanted, tokenizer)


def test_a_long_text_of_a_sentencepiece_model_does_not_take_memory_in_proportion(place):
    vocab = {name: id for id, name in enumerate(["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
                                                + list("abcdefghijklmnopqrstuvwxyz\u2581"))}
    merges = [["\u2581", "t"], ["a", "n"], ["e", "r"], ["t", "h"]]
    vocab |= {"".join(pair): len(vocab) + i for i, pair in enumerate(merges)}
    said = {"added_tokens": [], "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "vocab": vocab, "merges": merges}}
    said["added_tokens"] = [{"id": 2, "content": "</s>", "special": True}]
    (place.folder / "tokenizer.json").write_text(json.dumps(said))
    (place.folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    draw = random.Random(1)
    small, large = ("".join(draw.choice(("then ", "an ", "other ", "hand ")) for _ in range(count)).encode()
                    for count in (400_000, 2_000_000))
    assert peak_bytes(place, large) - peak_bytes(place, small) < 2 * (len(large) - len(small))


def test_a_large_tokenizer_json_takes_a_few_times_its_size(place):
    """A document of JSON values takes 70 times the size of such a file."""
    said = trained(b"the quick brown fox" * 100, pre=BYTES, tokens=())
    write_tokenizer(place.folder, said)
    small = peak_bytes(place, b"text " * 100)
    free = max(said["model"]["vocab"].values()) + 10
    said["model"]["vocab"] |= {f"{number:x}": free + number for number in range(16**4, 16**4 + 300_000)}
    said["model"]["merges"] += [["a", "b"]] * 300_000
    said["model"]["vocab"].setdefault("ab", free)
    text = json.dumps(said)
    (place.folder / "tokenizer.json").write_text(text)
    assert peak_bytes(place, b"text " * 100, model__vocab_size=600_000) - small < 10 * len(text)


def test_truncation_and_padding_change_nothing(place, text):
    """As in transformers, which applies its own arguments instead."""
    said = trained(text, **KINDS["llama3"]) | {
        "truncation": {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                    "pad_type_id": 0, "pad_token": END}}
    write_tokenizer(place.folder, said)
    line = b"def f(x):\n    return x + 12345\n"
    from hf_model import transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(place.folder)
    assert prepared(place, line) == tokenizer(line.decode())["input_ids"] + [tokenizer.eos_token_id]


# One of each step that refuses: reading the file, and compiling its expressions. The others are in
# tests/unit/tokenizer/tokenizer_json_test.cpp.
REFUSED = {
    "normalizer is .NFKC.": lambda said: said.update(normalizer={"type": "NFKC"}),
    "pre_tokenizer: unsupported expression": lambda said: said.update(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "(x"}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "use_regex": False}]}),
}


def test_other_tokenizers_than_byte_level_bpe_are_refused_by_name(place, text):
    said = json.dumps(trained(text[-300_000:], **KINDS["gpt2"]))
    (place.folder / "text").mkdir()
    (place.folder / "text/one").write_text("text")
    write_tokenizer(place.folder, json.loads(said))
    for message, change in REFUSED.items():
        changed = json.loads(said)
        change(changed)
        (place.folder / "tokenizer.json").write_text(json.dumps(changed))
        place.refuse_command(4, f"tokenizer.json: {message}", command=["data", "prepare", place.write(**TEXT)])
    (place.folder / "tokenizer.json").write_text(said.replace('"id": 0', '"id": 0, "id": 0', 1))
    place.refuse_command(4, "occurs twice in one object", command=["data", "prepare", place.write(**TEXT)])
    write_tokenizer(place.folder, json.loads(said), end="<none>")
    place.refuse_command(4, "its eos_token .<none>. is not one of the added",
                         command=["data", "prepare", place.write(**TEXT)])
    (place.folder / "tokenizer_config.json").unlink()
    place.refuse_command(4, "must contain the eos_token", command=["data", "prepare", place.write(**TEXT)])
    write_tokenizer(place.folder, json.loads(said))
    place.refuse_command(4, "the tokenizer has .* ids, the model 300", command=[
        "data", "prepare", place.write(**TEXT | {"model__vocab_size": 300})])
    assert_nothing_half_written(place.folder)


def test_an_experiment_names_the_file_and_nothing_that_follows_from_it(place):
    def refuse(message, **changes):
        tables = experiment.experiment(**TEXT)
        tables["data"]["tokenizer"] = {"kind": "file", "file": "tokenizer.json"} | changes.pop("tokenizer", {})
        tables["model"] |= changes
        place.refuse_command(2, message, command=["run", place.write(tables)])
    refuse("vocab_size", tokenizer={"vocab_size": 512})
    refuse("files", tokenizer={"files": ["a"]})
    tables = experiment.experiment(**TEXT)
    del tables["data"]["tokenizer"]["file"]
    place.refuse_command(2, "lacks file", command=["run", place.write(tables)])
    tables = experiment.experiment(**TEXT)
    del tables["model"]["vocab_size"]
    place.refuse_command(2, "lacks vocab_size", command=["run", place.write(tables)])


def test_an_export_names_the_class_that_reads_a_byte_level_tokenizer_as_it_is(place, text):
    """Transformers rebuilds it by the class that its file names: GPT2Tokenizer splits by GPT-2's pattern."""
    from hf_model import random_llama, transformers
    theirs = place.folder / "theirs"
    random_llama(vocab_size=4096).save_pretrained(theirs)
    write_tokenizer(theirs, trained(text, **KINDS["llama3"]))
    config = json.loads((theirs / "tokenizer_config.json").read_text())
    (theirs / "tokenizer_config.json").write_text(json.dumps(config | {"tokenizer_class": "GPT2Tokenizer"}))
    place.host("checkpoint", "import", "theirs", "-o", "ours")
    prompt = "[\n    12345, f(x)\n"
    found = json.loads(place.host("generate", "ours", "--prompt", prompt, "--max-tokens", 1, "--json").out)
    place.host("checkpoint", "export", "ours", "-o", "again")
    opened = transformers.AutoTokenizer.from_pretrained(place.folder / "again")
    assert opened(prompt, add_special_tokens=False)["input_ids"] == [one for one in found["prompt_ids"] if one != 1]
    assert opened.eos_token == END


def test_a_model_keeps_its_tokenizer_through_import_and_export(place, text):
    """An imported model encodes a prompt to the library's ids, including the template's prefix, and transformers opens
    both after an export; the same holds for a run that uses the tokenizer's file."""
    from hf_model import random_llama, transformers
    theirs = place.folder / "theirs"
    random_llama(vocab_size=4096, bos_token_id=1, eos_token_id=[0, 7]).save_pretrained(theirs)
    tokenizer = write_tokenizer(theirs, trained(text, **KINDS["llama3"]))
    prompt = "We're <tool> at 12345\u3000東京, né?  <|end_of_text|>\n\n"
    table = place.host("checkpoint", "import", "theirs", "-o", "ours").out
    assert "[model]" in table
    found = json.loads(place.host("generate", "ours", "--prompt", prompt, "--max-tokens", 5, "--json").out)
    assert found["prompt_ids"] == tokenizer.encode(prompt).ids and found["prompt_ids"][0] == 1
    ended = found["end"] == "end_of_text"
    assert found["text"] == tokenizer.decode(found["ids"]) or ended
    place.host("checkpoint", "export", "ours", "-o", "again")
    config = json.loads((place.folder / "again/config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"]) == (1, [0, 7])
    opened = transformers.AutoTokenizer.from_pretrained(place.folder / "again")
    assert opened(prompt)["input_ids"] == found["prompt_ids"] and opened.eos_token == END
    (place.folder / "text").mkdir()
    (place.folder / "text/one").write_bytes(text[-400_000:])
    run = TEXT | {"model__weights": "theirs", "model__layers": 3, "model__future_tokens": 1, "model__kv_heads": 2,
                  "model__ffn_dim": 160, "model__rope_theta": 5000.0, "model__norm_eps": 1e-6, "train__steps": 1}
    run["data"] = TEXT["data"] | {"tokenizer": {"kind": "file", "file": "theirs/tokenizer.json"}}
    place.run(**run)
    again = json.loads(place.host("generate", "trial", "--prompt", prompt, "--max-tokens", 5, "--json").out)
    assert again["prompt_ids"] == found["prompt_ids"]
    place.host("checkpoint", "export", "trial", "-o", "out")
    assert transformers.AutoTokenizer.from_pretrained(place.folder / "out")(prompt)["input_ids"] == found["prompt_ids"]
    assert json.loads((place.folder / "out/config.json").read_text())["eos_token_id"] == [0, 7]


def test_an_unsupported_tokenizer_does_not_prevent_the_import_of_its_model(place, text):
    from hf_model import random_llama
    random_llama(vocab_size=4096).save_pretrained(place.folder / "theirs")
    said = trained(text[-300_000:], **KINDS["gpt2"]) | {"normalizer": {"type": "NFKC"}}
    write_tokenizer(place.folder / "theirs", said)
    ended = place.host("checkpoint", "import", "theirs", "-o", "ours")
    assert "no tokenizer is imported: " in ended.err and "normalizer is" in ended.err
    place.refuse_command(4, "has no tokenizer", command=["generate", "ours", "--prompt", "x"])
