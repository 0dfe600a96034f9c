# Messages between the tests and the program under test: plain values as JSON, each preceded by its length. The reader
# builds every value from builtin types only, so that no method of the sender is executed.
import builtins
import importlib
import json
import os

LONGEST = 16 << 20  # bytes per message
SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
BYTES = {"bytes": bytes, "bytearray": bytearray}
TEXT_FORMS = {  # kind: its module, value to text, text to value
    "complex": ("builtins", repr, lambda kind, text: kind(text)),
    "Fraction": ("fractions", str, lambda kind, text: kind(text)),
    "Decimal": ("decimal", str, lambda kind, text: kind(text)),
    "date": ("datetime", lambda day: day.isoformat(), lambda kind, text: kind.fromisoformat(text)),
    "time": ("datetime", lambda time: time.isoformat(), lambda kind, text: kind.fromisoformat(text)),
    "datetime": ("datetime", lambda moment: moment.isoformat(), lambda kind, text: kind.fromisoformat(text)),
}
# The first matching base is used: bool precedes int.
BASES = (bool, int, float, str, complex, *BYTES.values(), *SEQUENCES.values(), dict)


class Malformed(Exception):
    pass


def encode(value, other):
    """Values without a plain form are passed to `other`. An object of a derived class is sent as its builtin base."""
    kind = next((base for base in BASES if isinstance(value, base)), type(value))
    name = kind.__name__
    if value is None or kind in (bool, str):
        return value if kind is not str else str.__str__(value)
    if kind is int:
        plain = int.__int__(value)
        return plain if abs(plain) < 1 << 62 else {"int": hex(plain)}  # hex: any length, linear time
    if kind is float:
        return float.__float__(value)
    if kind in BYTES.values():
        return {name: bytes(value).hex()}
    if kind in SEQUENCES.values():
        return {name: [encode(one, other) for one in value]}
    if kind is dict:
        return {name: [[encode(key, other), encode(one, other)] for key, one in value.items()]}
    if kind is range:
        return {name: [encode(number, other) for number in (value.start, value.stop, value.step)]}
    if name in TEXT_FORMS and kind.__module__ == TEXT_FORMS[name][0]:
        return {name: TEXT_FORMS[name][1](value)}
    if isinstance(value, type) and getattr(builtins, value.__name__, None) is value:
        return {"type": value.__name__}
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return encode(value.tolist(), other)
    return other(value)


def decode(coded, other):
    if coded is None or type(coded) in (bool, int, float, str):
        return coded
    if type(coded) is not dict or len(coded) != 1:
        raise Malformed(f"a {type(coded).__name__} instead of a value")
    (tag, content), = coded.items()
    if tag in SEQUENCES and type(content) is list:
        return SEQUENCES[tag]([decode(one, other) for one in content])
    if tag == "dict" and type(content) is list:
        return {decode(key, other): decode(one, other) for key, one in content}
    if tag == "range" and type(content) is list:
        return range(*[decode(number, other) for number in content])
    if tag == "int" and type(content) is str:
        return int(content, 16)
    if tag in BYTES and type(content) is str:
        return BYTES[tag].fromhex(content)
    if tag in TEXT_FORMS and type(content) is str:
        module, _, read = TEXT_FORMS[tag]
        return read(getattr(importlib.import_module(module), tag), content)
    if tag == "type" and isinstance(getattr(builtins, content, None), type):
        return getattr(builtins, content)
    return other(tag, content)


def send(descriptor, message):
    text = json.dumps(message).encode()
    if len(text) > LONGEST:
        raise ValueError(f"a value takes {len(text):,} bytes as JSON, wanted at most {LONGEST:,}")
    left = memoryview(len(text).to_bytes(4, "little") + text)
    while left:
        left = left[os.write(descriptor, left):]


def receive(descriptor):
    size = int.from_bytes(read_exactly(descriptor, 4), "little")
    if size > LONGEST:
        raise Malformed(f"a message of {size:,} bytes")
    return json.loads(read_exactly(descriptor, size))


def read_exactly(descriptor, count):
    parts = []
    while count > 0:
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
