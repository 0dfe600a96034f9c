#!/usr/bin/env python3
"""Generates docs/sdk.md from the sdk's headers: each header's first comment as prose, then every declaration with its
comment, without private members, destructors, and bodies that are no defaults of virtual functions.

    scripts/sdk_reference.py > docs/sdk.md
"""
import re
from pathlib import Path

HEADERS = Path(__file__).resolve().parents[1] / "sdk/include/wmtp"
ORDER = ["plugin", "pipeline", "step", "auxiliary_loss", "adapter", "options"]  # the others are details of plugin.hpp
FOR_THE_HOST = ["PluginEntry"]  # what a plugin exports through its macro
NAME = re.compile(r"^(?:class|struct|enum class)\s+(?:WMTP_SDK_API\s+)?(\w+)|^#define\s+(\w+)", re.MULTILINE)
START = """# The sdk

`scripts/sdk_reference.py` generates this page from `sdk/include/wmtp`; a test checks it. Private members, destructors
and bodies of non-virtual functions are omitted. Introduction: [first_plugin.md](first_plugin.md).
"""


def prose(lines):
    """Comment lines as text; indented lines stay indented."""
    text = [re.sub(r"^///? ?", "", line) for line in lines]
    return "\n".join("    " + line.strip() if line.startswith(("  ", "\t")) else line for line in text).strip()


def blocks(lines):
    """Groups of lines separated by blank lines outside of braces."""
    block, depth = [], 0
    for line in lines:
        if not line.strip() and depth == 0:
            if block:
                yield block
            block = []
            continue
        block.append(line)
        depth += line.count("{") - line.count("}")
    if block:
        yield block


def declarations(code):
    """The code of a block without private members, destructors, and bodies of macros and non-virtual functions."""
    shown, is_private, depth = [], False, 0  # depth: of braces in a body
    for line in code.splitlines():
        if depth:
            depth += line.count("{") - line.count("}")
            continue
        macro = re.match(r"#define \w+\([^)]*\)", line)
        function = re.match(r"(  (?!virtual ).*\)(?: const| noexcept| override)*) \{(.*)", line)
        is_private = (is_private or line == " private:") and line != "};"
        if is_private or re.search(r"~\w+\(\)", line):
            continue
        if function:
            depth = 1 + function[2].count("{") - function[2].count("}")
            shown.append(function[1] + ";")
        elif macro or not shown or not shown[0].startswith("#define"):
            shown.append(macro[0] if macro else line)
    return re.sub(r"\n\n+(?=\};)", "\n", re.sub(r"(?<=:\n)\n+", "", "\n".join(shown)))


def reference(header):
    lines = (HEADERS / f"{header}.hpp").read_text().splitlines()
    length = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    yield f"## {header}.hpp\n\n{prose(lines[:length])}\n"
    namespace, detail = r"^(?:namespace wmtp \{|\}  // namespace wmtp)$", r"^namespace detail \{$"
    body, inside_detail = [], False
    for line in lines[length:]:
        inside_detail |= bool(re.match(detail, line))
        if not inside_detail and not re.match(namespace, line) and not line.startswith(("#include", "#pragma")):
            body.append(line)
        inside_detail &= line != "}  // namespace detail"
    for block in blocks(body):
        comments = [line for line in block if line.startswith("///")]
        code = "\n".join(block[len(comments):])
        name = NAME.search(code)
        if not name or name[1] in FOR_THE_HOST or "DETAIL" in code.split("\n")[0] or code.startswith("#if"):
            continue
        yield (f"### {name[1] or name[2]}\n\n" + (prose(comments) + "\n\n" if comments else "")
               + f"```cpp\n{declarations(code)}\n```\n")


def page():
    return "\n".join([START, *(part for header in ORDER for part in reference(header))])


if __name__ == "__main__":
    print(page(), end="")
