"""Chats become the ids of apply_chat_template of transformers, and the loss is on the tokens of the assistant: those of
return_assistant_tokens_mask, for a template without {% generation %} those of a copy with it. Two published kinds of
templates, ChatML (Qwen) and Llama 3, and a plain one, on chats of several turns with difficult texts, with tokenizers
whose tokens span the beginning of an answer, normalize the text or add spaces to it."""
import json
import os
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from places import assert_nothing_half_written
from texts import code, mixed_text

transformers = pytest.importorskip("transformers", reason="no transformers in .venv: `make setup-tests` installs it")
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402
from tokenizers.pre_tokenizers import ByteLevel, Metaspace, Sequence, Split  # noqa: E402

WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]

CHATML = """{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
LLAMA3 = """{{- bos_token }}
{%- for message in messages %}
    {%- if message.role not in ['system', 'user', 'assistant'] %}
        {{- raise_exception('no role ' + message.role) }}
    {%- endif %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' \
+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MARKED = """{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}
        {{- message.content + '<|im_end|>' }}
        {%- endgeneration %}
        {{- '\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
"""
# As SmolLM3's: the mark begins before the prompt for an answer, which the template also writes alone.
MARKED_PROMPT = MARKED.replace("""        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}
""", """        {%- generation %}
        {{- '<|im_start|>assistant\\n' }}
""") + """{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
PLAIN = ("{% for m in messages %}{{ m.role + ': ' + m.content + ' ' }}{% endfor %}"
         "{% if add_generation_prompt %}assistant: {% endif %}")
# The same with {% generation %} around what an answer adds to the chat before it and the prompt for it.
WITH_MARKS = {
    CHATML: CHATML.replace("""    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
""", """    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}{% generation %}{{ message.content + '<|im_end|>' + '\\n' }}{% endgeneration %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
"""),
    LLAMA3: LLAMA3.replace("""    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' \
+ message['content'] | trim + '<|eot_id|>' }}
""", """    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}
    {%- else %}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
"""),
    PLAIN: "{% for m in messages %}{{ m.role + ': ' }}{% if m.role == 'assistant' %}{% generation %}"
           "{{ m.content + ' ' }}{% endgeneration %}{% else %}{{ m.content + ' ' }}{% endif %}{% endfor %}",
}
ENTRY = np.dtype([("offset", "<i8"), ("problem", "<i8"), ("turns", "<i8"), ("length", "<i4"), ("prompt", "<i4"),
                  ("difficulty", "<i4"), ("correct", "i1"), ("held_out", "i1"), ("unused", "V2")])
PYTHON = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # which has jinja2
ROLES = {"human": "user", "gpt": "assistant", "system": "system"}


def byte_level(pre_tokenizer, normalizer=None):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer:
        made.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator([code()[:60_000] + mixed_text(20_000)], trainer)
    return made.to_str()


def marked(normalizer, pre_tokenizer):
    """As Llama 2's: spaces as U+2581, and bytes for other characters."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = Metaspace()
    names = ["<unk>", *SPECIAL] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=names, limit_alphabet=300, show_progress=False)
    made.train_from_iterator([code()[:60_000] + mixed_text(20_000)], trainer)
    said = json.loads(made.to_str())
    said["added_tokens"] = [one | {"normalized": False} for one in said["added_tokens"][:1 + len(SPECIAL)]]
    said["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    return json.dumps(said | {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": None})


SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
TOKENIZERS = {
    "words": lambda: byte_level(
        Sequence([Split(Regex(WORDS), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])),
    "gpt2": lambda: byte_level(ByteLevel(add_prefix_space=False)),
    "nfc": lambda: byte_level(ByteLevel(add_prefix_space=False), normalizers.NFC()),
    "prefix": lambda: byte_level(ByteLevel(add_prefix_space=True)),
    "llama2": lambda: marked({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, SPACES]},
                             None),
    "metaspace": lambda: marked(None, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first",
                                       "split": False}),
}


@pytest.fixture(scope="module")
def tokenizer_json():
    return TOKENIZERS["words"]()


def write_tokenizer(folder, tokenizer_json, template, beside=False):
    """`beside`: in chat_template.jinja, as by newer versions of transformers."""
    is_llama = "bos_token" in template
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|eot_id|>" if is_llama else "<|im_end|>",
              "bos_token": {"__type": "AddedToken", "content": "<|begin_of_text|>"} if is_llama else None}
    (folder / "tokenizer.json").write_text(tokenizer_json)
    (folder / "tokenizer_config.json").write_text(json.dumps(config | ({} if beside else {"chat_template": template})))
    if beside:
        (folder / "chat_template.jinja").write_text(template)
    return transformers.AutoTokenizer.from_pretrained(folder)


def chats(count, seed=3):
    """With all kinds of spaces at the ends of texts, which templates trim and tokens may span."""
    draw = random.Random(seed)
    text = mixed_text(60_000, seed)

    def content():
        begin = draw.randrange(len(text) - 200)
        return text[begin:begin + draw.randint(1, 200)]
    made = []
    for _ in range(count):
        turns = draw.randint(1, 4)
        system = [("system", content())] if draw.random() < 0.3 else []
        made.append(system + [(role, content()) for _ in range(turns) for role in ("human", "gpt")])
    return made


def messages_of(chat):
    return [{"role": ROLES[speaker], "content": text} for speaker, text in chat]


def write_lines(place, lines, name="chats.jsonl"):
    (place.folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def tables(**data):
    return {"data": {"kind": "records", "files": ["chats.jsonl"],
                     "tokenizer": {"kind": "file", "file": "tokenizer.json"}} | data,
            "model__vocab_size": 258 if data.get("tokenizer") == {"kind": "byte"} else 4096,
            "parallel__processes": 1, "train__sequence_length": 4096}


def prepared(place, **data):
    """[(ids, whether each is an answer's)] of the records, in file order."""
    for old in place.folder.glob("runs/cache/*/records.ids"):
        old.unlink()
    place.host("data", "prepare", place.write(**tables(**data)), env=PYTHON)
    file, = place.folder.glob("runs/cache/*/records.ids")
    ids, turns = np.fromfile(file, "<u2"), np.fromfile(file.with_name("records.turns"), "<i4")
    found = []
    for entry in np.fromfile(file.with_name("records.index"), ENTRY):
        length, bounds = entry["length"], [entry["prompt"]]
        if entry["turns"] >= 0:
            for turn in turns[entry["turns"]:]:
                bounds.append(turn)
                if turn == length:
                    break
        answers = np.zeros(length, bool)
        for begin, end in zip(bounds[::2], bounds[1::2] + [length]):
            answers[begin:end] = True
        found.append((ids[entry["offset"]:entry["offset"] + length].tolist(), answers.astype(int).tolist()))
    return found


def wanted(tokenizer, messages, **more):
    encoded = tokenizer.apply_chat_template(messages, chat_template=WITH_MARKS[tokenizer.chat_template], tokenize=True,
                                            return_dict=True, return_assistant_tokens_mask=True, **more)
    ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, **more)
    assert encoded["input_ids"] == ids
    return ids, encoded["assistant_masks"]


def assert_equal_masks(place, tokenizer, lists, **marks):
    write_lines(place, [{"messages": messages} for messages in lists])
    found = prepared(place, **marks)
    assert len(found) == len(lists)
    for messages, record in zip(lists, found):
        assert record == wanted(tokenizer, messages), messages


@pytest.mark.parametrize("template,beside", [(CHATML, False), (LLAMA3, True)], ids=["chatml", "llama3"])
def test_ids_and_answers_are_those_of_transformers(place, tokenizer_json, template, beside):
    tokenizer = write_tokenizer(place.folder, tokenizer_json, template, beside)
    assert_equal_masks(place, tokenizer, [messages_of(chat) for chat in chats(150)])


@pytest.mark.parametrize("kind", [kind for kind in TOKENIZERS if kind != "words"])
@pytest.mark.parametrize("template", [LLAMA3, PLAIN], ids=["llama3", "plain"])
def test_a_token_with_a_character_of_an_answer_belongs_to_it(place, kind, template):
    """Of GPT-2's words, the last newline before an answer of Llama 3 is a token of its own; alone, both newlines are
    one. In the plain template, the space before an answer is part of its first token."""
    tokenizer = write_tokenizer(place.folder, TOKENIZERS[kind](), template)
    lists = [[{**one, "content": one["content"].strip() or "x"} for one in messages_of(chat)]
             for chat in chats(60, seed=6)]
    lists += [messages_of([("human", "Hi"), ("gpt", answer), ("human", "e\u0301"), ("gpt", "Bye.")])
              for answer in ("Hello.", "e\u0301a", "yes \u0958 no", "x")]
    assert_equal_masks(place, tokenizer, lists)


def test_answers_marked_in_the_template_are_those_of_transformers(place, tokenizer_json):
    tokenizer = write_tokenizer(place.folder, tokenizer_json, MARKED)
    lists = [[{**one, "content": one["content"].strip() or "x"} for one in messages_of(chat)]
             for chat in chats(100, seed=4)]
    write_lines(place, [{"messages": messages} for messages in lists])
    for messages, (ids, answers) in zip(lists, prepared(place)):
        encoded = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True,
                                                return_assistant_tokens_mask=True)
        assert ids == encoded["input_ids"], messages
        assert answers == encoded["assistant_masks"], messages


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_an_answer_to_a_string_continues_its_prompt(place, kind):
    """Where no token spans both, the ids are those of the whole text: no tokenizer adds a space before the answer."""
    tokenizer = write_tokenizer(place.folder, TOKENIZERS[kind](), CHATML)
    draw, text = random.Random(5), mixed_text(60_000, 5)
    lines = []
    for _ in range(300):
        begin = draw.randrange(len(text) - 100)
        cut, end = begin + draw.randint(1, 60), begin + draw.randint(61, 100)
        lines.append({"prompt": text[begin:cut], "completion": text[cut:end]})
    write_lines(place, lines)
    compared = 0
    for line, (ids, answers) in zip(lines, prepared(place), strict=True):
        asked, whole = (tokenizer(part, add_special_tokens=False)["input_ids"]
                        for part in (line["prompt"], line["prompt"] + line["completion"]))
        if whole[:len(asked)] != asked:
            continue
        compared += 1
        assert ids == whole + [tokenizer.eos_token_id], line
        assert answers.index(1) == len(asked)
    assert compared > 150


def tiny_model(place, lines, steps=1, **data):
    """Keeps the tokenizer and the template of its data."""
    write_lines(place, lines)
    place.run("--name", "tiny", env=PYTHON, data={
        "kind": "records", "files": ["chats.jsonl"], "tokenizer": {"kind": "file", "file": "tokenizer.json"}} | data,
        model__vocab_size=4096, model__dim=16, model__heads=2, model__layers=2, model__future_tokens=1,
        train__steps=steps, train__batch_size=1, train__sequence_length=4096 if steps == 1 else 64,
        parallel__processes=1, optimizer__lr=1e-2)


def prompt_ids(place, chat, *options):
    (place.folder / "chat.json").write_text(json.dumps(chat))
    said = place.host("generate", "tiny", "--chat-file", "chat.json", "--max-tokens", 1, "--json", *options, env=PYTHON)
    return json.loads(said.out)["prompt_ids"]


@pytest.mark.parametrize("template,beside", [(CHATML, False), (LLAMA3, True), (MARKED, False),
                                             (MARKED_PROMPT, False), (PLAIN, False)],
                         ids=["chatml", "llama3", "marked", "marked prompt", "plain"])
def test_a_prompt_has_the_ids_of_transformers_and_of_training(place, tokenizer_json, template, beside):
    tokenizer = write_tokenizer(place.folder, tokenizer_json, template, beside)
    lists = [[{**one, "content": one["content"].strip() or "x"} for one in messages_of(chat)]
             for chat in chats(8, seed=9)]
    tiny_model(place, [{"messages": messages} for messages in lists])
    for messages, (ids, answers) in zip(lists, prepared(place)):
        found = prompt_ids(place, messages[:-1])
        wanted_ids = tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=True, return_dict=False)
        assert template == MARKED or found == wanted_ids, "MARKED writes no prompt for an answer"
        last = len(answers) - (answers[::-1] + [0]).index(0, answers[::-1].index(1))  # where its last answer begins
        assert template in (PLAIN, MARKED_PROMPT) or found == ids[:last], \
            "in PLAIN a token spans the space before an answer, in MARKED_PROMPT an answer begins with its prompt"


# As Qwen3's: something that is no part of the content precedes the last answer.
THOUGHT = "('<think>\\n\\n</think>\\n\\n' if loop.last and message.role == 'assistant' else '')"
WITH_THOUGHT = CHATML.replace("+ message.content", f"+ {THOUGHT} + message.content")


def test_what_a_template_writes_before_an_answer_is_no_part_of_the_answer(place, tokenizer_json):
    write_tokenizer(place.folder, tokenizer_json, WITH_THOUGHT)
    tiny_model(place, [{"messages": messages_of([("human", "2+2?"), ("gpt", "4")])}], steps=150)
    (place.folder / "suite.jsonl").write_text(json.dumps({"question": "2+2?", "answer": "4"}) + "\n")
    found = place.host("eval", "tiny", "--suite", "suite.jsonl", "--temperature", 0, "--max-tokens", 20, "--json",
                       env=PYTHON)
    assert json.loads(found.out)["pass_at"] == {"1": 1.0}, found
    assert place.host("generate", "tiny", "--chat", "2+2?", "--max-tokens", 20, env=PYTHON).out.strip() == "4"


def test_an_end_that_the_tokenizer_hides_is_refused(place):
    """As in older files of Llama 2, whose end is normalized, and transformers reads as if it were not."""
    said = json.loads(TOKENIZERS["llama2"]())
    for token in said["added_tokens"]:
        token["normalized"] = True
    write_tokenizer(place.folder, json.dumps(said), PLAIN.replace("m.content + ' '", "m.content + '<|im_end|>'"))
    write_lines(place, [{"messages": messages_of([("human", "Hi"), ("gpt", "Hello.")])}])
    refuse(place, "tokenizer.json: the chat template writes .<.im_end.>., which is no token there")


def test_a_prompt_that_no_answer_begins_with_is_named(place, tokenizer_json):
    """As DeepSeek-R1-Distill's, which ends in <think>."""
    write_tokenizer(place.folder, tokenizer_json, CHATML.replace("assistant\\n' }}", "assistant\\n<think>' }}"))
    write_lines(place, [{"messages": messages_of([("human", "Hi"), ("gpt", "Hello.")])}])
    refuse(place, "its prompt for an answer ends in .<think>., which the answer in a chat does not begin with")


def test_a_prompt_keeps_the_order_of_the_keys_of_tools(place, tokenizer_json):
    tokenizer = write_tokenizer(place.folder, tokenizer_json, CHATML)
    hi, hello = messages_of([("human", "Hi"), ("gpt", "Hello.")])
    tools = [{"type": "function", "function": {"name": "add", "arguments": {"z": 1, "a": [2.5, None]}}}]
    tiny_model(place, [{"messages": [hi, hello], "tools": tools}])
    assert prompt_ids(place, {"messages": [hi], "tools": tools}) == tokenizer.apply_chat_template(
        [hi], tools=tools, add_generation_prompt=True, return_dict=False)


def test_a_question_and_a_system_prompt_are_messages(place, tokenizer_json):
    tokenizer = write_tokenizer(place.folder, tokenizer_json, CHATML)
    hi, be_kind = {"role": "user", "content": "Hi"}, {"role": "system", "content": "Be kind."}
    tiny_model(place, [{"messages": [hi, {"role": "assistant", "content": "Hello."}]}])
    for options, messages in ((["--chat", "Hi"], [hi]), (["--chat", "Hi", "--system", "Be kind."], [be_kind, hi])):
        said = json.loads(place.host("generate", "tiny", *options, "--json", "--max-tokens", 1, env=PYTHON).out)
        assert said["prompt_ids"] == tokenizer.apply_chat_template(messages, add_generation_prompt=True,
                                                                   return_dict=False)
    ask = ["generate", "tiny", "--max-tokens", "1"]
    place.refuse_command(2, "the chat begins with a system message", env=PYTHON,
                         command=[*ask, "--chat-file", chat_file(place, [be_kind, hi]), "--system", "x"])
    place.refuse_command(4, "chat.json: messages.1..role: found the string .assistant., wanted a message that the "
                         "assistant answers", env=PYTHON,
                         command=[*ask, "--chat-file", chat_file(place, [hi, {"role": "assistant", "content": "x"}])])
    place.refuse_command(4, "chat.json: messages: missing, wanted a list of at least one message", env=PYTHON,
                         command=[*ask, "--chat-file", chat_file(place, "Hi")])
    place.refuse_command(2, "--system requires --chat", command=[*ask, "Hi", "--system", "x"])
    place.refuse_command(2, "found more than one prompt", command=[*ask, "Hi", "--chat", "Hi"])


def chat_file(place, chat):
    (place.folder / "chat.json").write_text(json.dumps(chat))
    return "chat.json"


def test_every_format_of_a_chat_is_recognised(place, tokenizer_json):
    tokenizer = write_tokenizer(place.folder, tokenizer_json, CHATML)
    chat = chats(1)[0][:1] + [("human", "Hi"), ("gpt", "Hello."), ("human", "Bye"), ("gpt", "See you.")]
    chat = chat if chat[0][0] == "system" else chat[1:]
    messages = messages_of(chat)
    ids, answers = wanted(tokenizer, messages)
    last = wanted(tokenizer, messages)[1]
    first_end = answers.index(0, answers.index(1))
    last[:first_end] = [0] * first_end
    write_lines(place, [{"conversations": [{"from": speaker, "value": text} for speaker, text in chat], "id": 1}])
    assert prepared(place) == [(ids, answers)]
    write_lines(place, [{"prompt": messages[:-1], "completion": messages[-1:]}])
    assert prepared(place) == [(ids, last)]
    wrong = messages[:-1] + [{"role": "assistant", "content": "No."}]
    pair = [(ids, last), wanted(tokenizer, wrong)]
    for line in ({"chosen": messages, "rejected": wrong},
                 {"prompt": messages[:-1], "chosen": messages[-1:], "rejected": wrong[-1:]}):
        write_lines(place, [line])
        found = prepared(place)
        assert [record[0] for record in found] == [record[0] for record in pair]
        assert found[0][1] == last
        assert sum(found[1][1]) < sum(pair[1][1])
    write_lines(place, [{"instruction": "Hi", "output": "Hello."}])
    assert prepared(place, template="chat") == [wanted(tokenizer, messages_of([("human", "Hi"), ("gpt", "Hello.")]))]


def test_descriptions_of_tools_keep_the_order_of_their_keys(place, tokenizer_json):
    tokenizer = write_tokenizer(place.folder, tokenizer_json, CHATML)
    tools = [{"type": "function",
              "function": {"name": "add", "description": "<b>", "arguments": {"z": 1, "a": [2.5, None]}}}]
    messages = messages_of([("human", "Hi"), ("gpt", "Hello.")])
    write_lines(place, [{"messages": messages, "tools": tools}])
    assert prepared(place) == [wanted(tokenizer, messages, tools=tools)]


# Writes what a message lacks, so that a field that is null or missing is seen.
CALLS = """{{ tools is none }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.content is none %}!{% endif %}
{%- if m.tool_calls %}{{ m.tool_calls[0].function | tojson }}{% endif %}{% if m.tool_calls is defined %}+{% endif %};
{%- endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""


def test_fields_that_are_null_are_those_that_transformers_leaves_out(place, tokenizer_json):
    tokenizer = write_tokenizer(place.folder, tokenizer_json, CALLS)
    call = [{"type": "function", "function": {"name": "f", "arguments": {"a": [1.5, None, True, "é"]}}}]
    messages = [{"role": "user", "content": "q", "name": None},
                {"role": "assistant", "content": None, "tool_calls": call}, {"role": "tool", "content": "r"},
                {"role": "assistant", "content": "done", "tool_calls": None}]
    for tools in (None, [], call):
        write_lines(place, [{"messages": messages, "tools": tools}])
        (ids, _), = prepared(place)
        assert ids == tokenizer.apply_chat_template(messages, tools=tools, return_dict=False)


def test_arguments_of_a_call_that_are_json_in_a_string_are_the_object(place, tokenizer_json):
    """As OpenAI writes them; a template would write the string once more as JSON."""
    tokenizer = write_tokenizer(place.folder, tokenizer_json, CALLS)

    def chat(arguments):
        call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
        return [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    arguments = {"z": 1, "a": "é"}
    write_lines(place, [{"messages": chat(json.dumps(arguments))}, {"messages": chat("no JSON")}])
    assert [ids for ids, _ in prepared(place)] == [
        tokenizer.apply_chat_template(chat(given), return_dict=False) for given in (arguments, "no JSON")]


@pytest.mark.parametrize("messages, tools, what", [
    ([{"role": "developer", "content": "Answer in French."}, {"role": "user", "content": "Hi"}], None,
     "message 1 .developer."),
    ([{"role": "user", "content": "Hi"}], [{"type": "function", "function": {"name": "add"}}], "tools"),
    ([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<think>no</think> Hello ."},
      {"role": "user", "content": " Bye"}], None, "")])
def test_what_a_template_does_not_write_of_a_chat_is_named(place, tokenizer_json, messages, tools, what):
    """Templates trim, and leave out the reasoning of all answers but the last."""
    template = ("{% for m in messages if m.role != 'developer' %}{{ m.role + ': ' + m.content.split('</think>')[-1] "
                "| trim + ' ' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}")
    write_tokenizer(place.folder, tokenizer_json, template)
    write_lines(place, [{"messages": messages + [{"role": "assistant", "content": "  Bye. "}], "tools": tools}])
    ended = place.host("data", "prepare", place.write(**tables()), env=PYTHON)
    assert bool(what) == ("leaves something out" in ended.err), ended
    assert re.search(rf"leaves something out of 1 record, in the first {what}, so that", ended.err) or not what, ended


def test_an_empty_list_of_calls_is_none(place):
    messages = messages_of([("human", "Hi"), ("gpt", "Hello.")])
    found = []
    for calls in ({}, {"tool_calls": []}):
        write_lines(place, [{"messages": [one | calls for one in messages]}])
        found += prepared(place, template="chatml", tokenizer={"kind": "byte"})
    assert found[0] == found[1]


def test_chats_with_tools_have_their_own_template(place, tokenizer_json):
    with_tools = "{{ tools | length }} tools: " + PLAIN
    templates = [{"name": "default", "template": PLAIN}, {"name": "tool_use", "template": with_tools}]
    write_tokenizer(place.folder, tokenizer_json, PLAIN)
    file = place.folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": templates}))
    tokenizer = transformers.AutoTokenizer.from_pretrained(place.folder)
    messages, tools = messages_of([("human", "Hi"), ("gpt", "Hello.")]), [
        {"type": "function", "function": {"name": "f"}}]
    write_lines(place, [{"messages": messages, "tools": given} for given in (tools, None, [])])
    assert [ids for ids, _ in prepared(place)] == [
        tokenizer.apply_chat_template(messages, tools=given, return_dict=False) for given in (tools, None, [])]
    write_tokenizer(place.folder, tokenizer_json, PLAIN, beside=True)
    (place.folder / "additional_chat_templates").mkdir()
    (place.folder / "additional_chat_templates/tool_use.jinja").write_text(with_tools)
    refuse(place, "chats.jsonl:1: tools: found tools, wanted none: their template .*tool_use.jinja is not read")


def test_a_call_of_a_tool_is_refused_by_chatml(place, tokenizer_json):
    write_tokenizer(place.folder, tokenizer_json, PLAIN)
    call = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": {"name": "f"}}]}
    write_lines(place, [{"messages": [{"role": "user", "content": "q"}, call]}])
    refuse(place, "chats.jsonl:1: message 2: template .chatml. writes a role and a content", template="chatml")


def test_chatml_needs_neither_a_template_nor_jinja(place):
    write_lines(place, [
        {"messages": messages_of([("human", "Hi"), ("gpt", "Hello."), ("human", "Bye"), ("gpt", "See you.")])}])
    (ids, answers), = prepared(place, template="chatml", tokenizer={"kind": "byte"})
    text = ("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
            "<|im_start|>assistant\nSee you.<|im_end|>")
    assert bytes(ids[:-1]).decode() == text and ids[-1] == 257
    assert bytes(np.array(ids[:-1], np.uint8)[np.array(answers[:-1], bool)]).decode() \
        == "Hello.<|im_end|>See you.<|im_end|>"
    assert answers[-1] == 1


def refuse(place, *messages, code=4, env=PYTHON, **data):
    tables = {"data": {"kind": "records", "files": ["chats.jsonl"],
                       "tokenizer": {"kind": "file", "file": "tokenizer.json"}} | data,
              "model__vocab_size": 4096, "parallel__processes": 1}
    place.refuse_command(code, *messages, command=["data", "prepare", place.write(**tables)], env=env)
    assert_nothing_half_written(place.folder)


def test_templates_that_cannot_be_used_are_refused(place, tokenizer_json):
    chat = messages_of([("human", "Hi"), ("gpt", "Hello."), ("human", "Bye"), ("gpt", "See you.")])
    write_lines(place, [{"messages": chat}])

    def with_template(template):
        write_tokenizer(place.folder, tokenizer_json, template)
    with_template("{{ messages[-1].content }}")
    refuse(place, "renders the first 2 of 4 messages of a chat differently alone", "{% generation %}")
    with_template("{% for m in messages %}{{ m.content }}{% generation %}{% endgeneration %}{% endfor %}")
    refuse(place, "marks 4 answers with {% generation %} in a chat with 2 messages of the assistant")
    with_template("{{ messages")
    refuse(place, "tokenizer_config.json: the chat template cannot be used: TemplateSyntaxError")
    with_template("{{ raise_exception('no') }}")
    refuse(place, "chats.jsonl:1: the chat template refuses the messages: TemplateError: no")
    with_template("{{ messages.__class__.__base__.__subclasses__() }}")
    refuse(place, "chats.jsonl:1: the chat template refuses the messages: SecurityError")
    with_template("{{ 'x' * 5000000000 }}")
    refuse(place, "chats.jsonl:1: the chat template refuses the messages: MemoryError")
    with_template("")
    refuse(place, "contains no chat template", 'data.template = "chatml"')
    with_template(CHATML)
    refuse(place, "found no python3 in PATH", "pip install", code=2, env={"PATH": "/nowhere"})
    (place.folder / "jinja2").mkdir()
    (place.folder / "jinja2/__init__.py").write_text("raise ImportError")
    refuse(place, "has no jinja2", "pip install", code=2, env=PYTHON | {"PYTHONPATH": place.folder})
