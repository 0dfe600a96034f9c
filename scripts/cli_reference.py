#!/usr/bin/env python3
"""Generates docs/cli.md from the program's help: one section for each command.

    scripts/cli_reference.py build/bin/wmtp-host > docs/cli.md
"""
import re
import subprocess
import sys

START = """# Commands

`scripts/cli_reference.py` generates this page from `wmtp-host --help`; a test checks it. The global options apply to
every command; arguments without a dash are given in the order shown. `wmtp-host COMMAND --help` shows examples, here
are those with other programs. Exit codes: [running.md](running.md#exit-codes).
"""
# Parts of the help that other sections of the page say.
REPEATED = re.compile(r"Global options:\n(?:  .*\n)+\n?|^Usage: .*\n", re.MULTILINE)
EXAMPLES = re.compile(r"^examples?:\n((?:  .*\n)+)\n?", re.MULTILINE)
OTHER_PROGRAM = re.compile(r"^  (?!wmtp-host)|&&| \| | > ")
COMMANDS = re.compile(r"^Commands:\n((?:  .*\n)+)", re.MULTILINE)


def help_of(program, words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def commands_in(text):
    """Names in the list of commands."""
    found = COMMANDS.search(text)
    return re.findall(r"^  ([a-z]+)\b", found[1], flags=re.MULTILINE) if found else []


def selected(examples):
    lines = [line for line in examples[1].splitlines() if OTHER_PROGRAM.search(line)]
    return "\n".join(["examples:", *lines, "", ""]) if lines else ""


def sections(program, words=()):
    text = help_of(program, words)
    names = commands_in(text)
    if not words or not names:
        shown = EXAMPLES.sub(selected, REPEATED.sub("", text) if words else COMMANDS.sub("", text))
        shown = "\n".join(line.rstrip() for line in re.sub(r"\n{3,}", "\n\n", shown).strip().splitlines())
        yield f"## {' '.join(words) or 'wmtp-host'}\n\n```text\n{shown}\n```\n"
    for name in names:
        yield from sections(program, (*words, name))


print(START + "\n" + "\n".join(sections(sys.argv[1])), end="")
