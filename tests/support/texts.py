"""Difficult texts for tokenizers: letters of many scripts, all kinds of spaces, code, and bytes that are not UTF-8."""
import random
from pathlib import Path

SCRIPTS = ((0x41, 0x5a), (0x61, 0x7a), (0x61, 0x7a), (0xc0, 0x24f), (0x391, 0x3c9), (0x410, 0x44f), (0x5d0, 0x5ea),
           (0x620, 0x64a), (0x905, 0x939), (0xe01, 0xe30), (0x3041, 0x3096), (0x4e00, 0x9fa5), (0xac00, 0xd7a3),
           (0x1f300, 0x1f64f), (0x30, 0x39), (0x660, 0x669), (0x2160, 0x2188), (0xb2, 0xb3), (0x300, 0x36f),
           (0x21, 0x2f), (0x2010, 0x2027), (0x1d400, 0x1d4ff))
SPACES = [" "] * 12 + ["\n", "\n\n", "\r\n", "\t", "  ", "     ", "\n    ", "\u00a0", "\u2003", "\u3000", "\u0085",
                       "\u2028", "\u180e", "\u200b", "\x0b", "\x1c"]
PIECES = ["'s", "'LL", "'\u017f", "don't", "we'Ve", "\u200d", "\ufe0f", "x", "123456", "1.5e-3", "==", "...", "----",
          "}\n\n}", "<|end_of_text|>", "<|end", "<tool>", "<tool", "\u212a", "e\u0301", "\u0130", "=\u0338",
          "\u1112\u1161\u11ab", "a\u0323\u0302", "\u2126", "\u0958"]


def mixed_text(size, seed=5):
    draw = random.Random(seed)
    parts, length = [], 0
    while length < size:
        if draw.random() < 0.15:
            word = draw.choice(PIECES)
        else:
            low, high = draw.choice(SCRIPTS)
            word = "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 9)))
        parts += [word, draw.choice(SPACES)]
        length += len(parts[-1].encode()) + len(word.encode())
    return "".join(parts)


def code():
    return "".join(file.read_text(errors="replace") for file in sorted(Path("/usr/lib/python3.11").glob("[a-d]*.py")))


def broken(size, seed=6):
    draw = random.Random(seed)
    kinds = [lambda: bytes([draw.randrange(256)]), lambda: b"\xe2\x82", lambda: b"\xf0\x9f\x98",
             lambda: b"\xed\xa0\x80", lambda: b"\xc0\xaf", lambda: b"\xf4\x90\x80\x80", lambda: b" word",
             lambda: "né".encode(), lambda: b"\xff\xfe\n"]
    return b"".join(draw.choice(kinds)() for _ in range(size // 3))
