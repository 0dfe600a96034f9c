"""Renders chats with a chat template, in the environment that transformers (chat_template_utils.py) gives to templates.

stdin: one line {"template", "with_tools", "tokens"} ("with_tools": the template for chats with tools, "" if it is the
same), then a line {"messages", "tools", "first"} for each chat. stdout: one line for
each, {} first if the template can be used. A chat becomes {"parts"}: its text, divided where prompt and answer
alternate, beginning with a prompt, and "left_out", the first thing of it that the text lacks, or "". Answers are the
messages of the assistant from message `first` on. With "first" null it becomes {"prompt", "before", "after"}: the text
up to an answer that follows the messages, and what the template writes around the content of that answer. {"refused"}:
this chat cannot be rendered; {"unusable"}: no chat can be, {"missing"}: without a newer Python package."""
import datetime
import json
import os.path
import re
import resource
import secrets
import sys

MEMORY_BYTES = 4 << 30
OLDEST_JINJA = (3, 1, 6)  # earlier ones have known escapes from the sandbox
BEGIN, END = ("<%s%s>" % (secrets.token_hex(16), end) for end in "be")
ANSWER = secrets.token_hex(16)
REASONING = ("reasoning_content", "thinking", "reasoning")


class Unusable(Exception):
    """Of the template."""


class Missing(Exception):
    """A package that renders templates."""


def environment():
    from importlib.metadata import version
    try:
        import jinja2.ext
        import jinja2.sandbox
    except ImportError:
        raise Missing(f"{sys.executable} has no jinja2") from None
    if tuple(map(int, re.findall(r"\d+", version("jinja2"))[:3])) < OLDEST_JINJA:
        raise Missing(f"{sys.executable} has jinja2 {version('jinja2')}")

    class Generation(jinja2.ext.Extension):
        """Marks what is between {% generation %} and {% endgeneration %}."""
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("marked"), [], [], body).set_lineno(line)

        def marked(self, caller):
            return BEGIN + caller() + END

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                        extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda format: datetime.datetime.now().strftime(format)
    return made


def with_reasoning(message):
    """Templates read an assistant's reasoning under different names."""
    reasoning = next((message[key] for key in REASONING if message.get(key) is not None), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


def with_objects(message):
    """OpenAI writes the arguments of a tool call as JSON in a string, which templates would write once more as JSON."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message

    def read(call):
        function = call.get("function") if isinstance(call, dict) else None
        text = function.get("arguments") if isinstance(function, dict) else None
        try:
            arguments = json.loads(text) if isinstance(text, str) else None
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            return call
        return {**call, "function": {**function, "arguments": arguments}}
    return {**message, "tool_calls": [read(call) for call in calls]}


def left_out(messages, tools, parts):
    """"message 2 (user)", whose content, call or reasoning the text lacks; "tools"; or "". Templates may change the
    white space, and leave out the reasoning of all answers but the last."""
    def joined(text):
        return " ".join(text.split())

    written = joined("".join(parts))
    last = max(i for i, message in enumerate(messages) if message["role"] == "assistant")
    for i, message in enumerate(messages):
        content = message.get("content") or ""
        texts = [content if i == last else content.split("</think>")[-1]]
        texts += [message.get(key) for key in REASONING if i == last]
        calls = message.get("tool_calls") or []
        texts += [call["function"].get("name") for call in calls
                  if isinstance(call, dict) and isinstance(call.get("function"), dict)]
        if any(isinstance(text, str) and joined(text) not in written for text in texts):
            return f"message {i + 1} ({message['role']})"
    for tool in tools or []:
        function = tool.get("function", tool)
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(name, str) and name not in written:
            return "tools"
    return ""


def without_marks(text):
    return re.sub(f"{BEGIN}|{END}", "", text)


class Template:
    def __init__(self, text, tokens):
        self.marks_answers = re.search(r"\{%-?\s*generation\s*-?%\}", text) is not None
        self.compiled, self.tokens = environment().from_string(text), tokens

    def render(self, messages, tools, prompts=False):
        return self.compiled.render(messages=messages, tools=tools, documents=None, add_generation_prompt=prompts,
                                    **self.tokens)

    def prompt(self, messages, tools):
        try:
            answered = self.render([*messages, {"role": "assistant", "content": ANSWER}], tools)
        except Exception:  # of an untrusted template: only the tokens of the model then end an answer
            answered = ""
        before, _, after = answered.partition(ANSWER)
        prompt, is_marked, begun = before.rpartition(BEGIN)
        prompt, before, after = (without_marks(text) for text in (prompt, before, after))
        if not is_marked or END in begun:
            prompt = without_marks(self.render(messages, tools, prompts=True))
        else:  # as in training, also if the template writes no prompt for an answer
            prompt = self.longer_prompt(messages, tools, prompt, before)
        return {"prompt": prompt, "before": before[len(prompt):] if before.startswith(prompt) else "", "after": after}

    def longer_prompt(self, messages, tools, marked, before):
        """The template's prompt for an answer if it begins the answer that is marked, as SmolLM3's does."""
        try:
            prompt = without_marks(self.render(messages, tools, prompts=True))
        except Exception:  # of an untrusted template
            return marked
        return prompt if prompt.startswith(marked) and before.startswith(prompt) else marked

    def parts(self, messages, tools, first):
        def text(messages, prompts=False):
            return self.render(messages, tools, prompts)

        answers = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        whole = text(messages)
        if self.marks_answers:
            parts = re.split(f"{BEGIN}|{END}", whole)
            if len(parts) // 2 != len(answers):
                raise Unusable(f"it marks {len(parts) // 2} answers with {{% generation %}} in a chat with "
                               f"{len(answers)} messages of the assistant")
            for i in reversed(range(len(answers))):
                if answers[i] < first:
                    parts[2 * i:2 * i + 3] = ["".join(parts[2 * i:2 * i + 3])]
            return parts
        parts, done = [], 0
        for i in answers:
            if i < first:
                continue
            prompt, answered = text(messages[:i], prompts=True), text(messages[:i + 1])
            if whole.startswith(answered) and not answered.startswith(prompt):
                shared = os.path.commonprefix([prompt, answered])
                raise Unusable(f"its prompt for an answer ends in {prompt[len(shared):][:80]!r}, which the answer in a "
                               "chat does not begin with, so that answers would be learned without it; mark the "
                               "answers in the template: {% generation %}...{% endgeneration %}")
            if not (whole.startswith(answered) and len(prompt) >= done):
                raise Unusable(f"it renders the first {i + 1} of {len(messages)} messages of a chat differently alone "
                               "than at the beginning of the whole chat, which hides where the assistant's answers "
                               "begin and end; mark them in the template: {% generation %}...{% endgeneration %}")
            parts += [whole[done:len(prompt)], whole[len(prompt):len(answered)]]
            done = len(answered)
        return parts + [whole[done:]]


def replies(lines):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    templates = None
    for line in lines:
        given = json.loads(line)
        try:
            if templates is None:
                templates = [Template(given[name] or given["template"], given["tokens"])
                             for name in ("template", "with_tools")]
                yield {}
            else:
                template = templates[given["tools"] is not None]
                chat = [with_objects(with_reasoning(message)) for message in given["messages"]], given["tools"]
                if given["first"] is None:
                    yield template.prompt(*chat)
                else:
                    parts = template.parts(*chat, given["first"])
                    yield {"parts": parts, "left_out": left_out(*chat, parts)}
        except Missing as why:
            yield {"missing": str(why)}
        except Unusable as why:
            yield {"unusable": str(why)}
        except Exception as why:  # whatever an untrusted template raises
            yield {"refused" if templates else "unusable": f"{type(why).__name__}: {why}"[:1000]}


for reply in replies(sys.stdin.buffer):
    sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
    sys.stdout.buffer.flush()
