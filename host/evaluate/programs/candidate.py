# The process under test: executes the program in its argument, then answers the tests' requests about its names and
# objects. The program can reach everything here, so the tests accept only values.
import sys
import time
import types

REQUESTS, REPLIES = 3, 4
OWN_MODULE = sys.modules["__main__"]  # kept alive, because the program replaces it
OBJECTS, NUMBERS = [], {}  # objects that the tests refer to by number


def number_of(value):
    if id(value) not in NUMBERS:
        NUMBERS[id(value)] = len(OBJECTS)
        OBJECTS.append(value)
    return NUMBERS[id(value)]


def without_plain_form(value):
    return {"module": value.__name__} if isinstance(value, types.ModuleType) else {"object": number_of(value)}


def from_tests(tag, content):
    return OBJECTS[content] if tag == "object" else getattr(builtins, content)


def named(names, name):
    if name not in names:
        raise NameError(f"name '{name}' is not defined")
    return names[name]


def changed(value, before):
    """The new value of a mutable argument; None if the call did not change it."""
    after = encode(value, without_plain_form)
    return after if after != before else None


def call(target, arguments, named_arguments):
    given = [*arguments, *named_arguments.values()]
    before = [encode(one, without_plain_form) for one in given]
    value = target(*arguments, **named_arguments)
    after = [changed(one, was) if isinstance(one, (list, dict, set, bytearray)) else None
             for one, was in zip(given, before)]
    return value, after


def answer(names, request):
    what, *values = [decode(part, from_tests) for part in request]
    changes = []
    try:
        if what == "call":
            value, changes = call(*values)
        else:
            value = {"name": lambda name: named(names, name), "attribute": getattr, "set_attribute": setattr,
                     "item": lambda target, key: target[key],
                     "set_item": lambda target, key, new: target.__setitem__(key, new),
                     "length": len, "iterate": iter, "next": next, "truth": bool, "text": str,
                     "repr": repr}[what](*values)
        return ["value", encode(value, without_plain_form), changes]
    except Exception as error:
        return ["raised", [kind.__name__ for kind in type(error).__mro__], str(error)]


def serve(file):
    program = types.ModuleType("__main__")
    program.__file__ = file
    sys.modules["__main__"] = program
    sys.argv = [file]
    with open(file, "rb") as source:
        code = compile(source.read(), file, "exec", dont_inherit=True)
    exec(code, program.__dict__)
    send(REPLIES, ["ready"])
    while True:
        try:
            request = receive(REQUESTS)
        except EOFError:
            time.sleep(3600)  # the tests are done and this process will be killed: ignore what the program does now
        reply = answer(program.__dict__, request)
        try:
            send(REPLIES, reply)
        except ValueError as error:
            send(REPLIES, ["raised", ["ValueError"], str(error)])


serve(sys.argv[1])
