#!/usr/bin/env python3
"""Generates docs/cli.md from the program's help: one section for each command.

    scripts/cli_reference.py build/bin/wmtp-host > docs/cli.md
"""
import re
import subprocess
import sys

START = """# Commands

`scripts/cli_reference.py` generates this page from `wmtp-host --help`; a test checks that it is up to date. The global
options of the first section apply to every command. Exit codes: [running.md](running.md#exit-codes).
"""
GLOBAL = re.compile(r"Global options:\n(?:  .*\n)+\n?")


def help_of(program, words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def commands_in(text):
    """Names in the list of commands."""
    found = re.search(r"^Commands:\n((?:  .*\n)+)", text, flags=re.MULTILINE)
    return re.findall(r"^  ([a-z]+)\b", found[1], flags=re.MULTILINE) if found else []


def sections(program, words=()):
    text = help_of(program, words)
    shown = GLOBAL.sub("", text) if words else text
    shown = "\n".join(line.rstrip() for line in re.sub(r"\n{3,}", "\n\n", shown).strip().splitlines())
    yield f"## {' '.join(('wmtp-host', *words))}\n\n```text\n{shown}\n```\n"
    for name in commands_in(text):
        yield from sections(program, (*words, name))


print(START + "\n" + "\n".join(sections(sys.argv[1])), end="")
