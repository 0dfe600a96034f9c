# The tests' process: executes the tests of a problem, in which the names of the program under test refer to objects in
# another process. Values from there are plain values or object numbers, never code: the assertions compare with
# Python's own methods. Reaching the tests' last statement is reported through a descriptor that is closed to the
# program.
import ast
import symtable
import sys

REQUESTS, REPLIES, VERDICT = 3, 4, 5
LIBRARY = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))


def give_up(message):
    os.write(2, f"{message}\n".encode(errors="replace"))
    os._exit(1)


class Module:
    """A module of the program; the tests use their own of that name."""

    def __init__(self, name):
        self.name = name


class Remote:
    """An object of the program. It has no comparison, arithmetic or conversion to a number: they would show the program
    the wanted value and let it decide the test."""
    __slots__ = ("number",)

    def __init__(self, number):
        object.__setattr__(self, "number", number)

    def __eq__(self, other):
        return type(other) is Remote and other.number == self.number

    def __hash__(self):
        return hash(self.number)

    def __call__(self, *arguments, **named):
        return ask("call", self, arguments, named)

    def __getattr__(self, name):
        if name.startswith("__") and name not in ("__name__", "__doc__"):
            raise AttributeError(name)
        return ask("attribute", self, name)

    def __setattr__(self, name, value):
        ask("set_attribute", self, name, value)

    def __getitem__(self, key):
        return ask("item", self, key)

    def __setitem__(self, key, value):
        ask("set_item", self, key, value)

    def __iter__(self):
        return ask("iterate", self)

    def __next__(self):
        return ask("next", self)

    def __len__(self):
        return ask("length", self, wanted=int)

    def __bool__(self):
        return ask("truth", self, wanted=bool)

    def __str__(self):
        return ask("text", self, wanted=str)

    def __repr__(self):
        return ask("repr", self, wanted=str)


def without_plain_form(value):
    if type(value) is Remote:
        return {"object": value.number}
    if getattr(builtins, getattr(value, "__name__", ""), None) is value:
        return {"function": value.__name__}
    raise TypeError(f"tests cannot pass their own {type(value).__name__} objects to a program")


def from_program(tag, content):
    if tag == "object" and type(content) is int:
        return Remote(content)
    if tag == "module" and type(content) is str:
        return Module(content)
    raise Malformed(f"'{tag}' is not a kind of value")


def exception_of(what, kinds, message):
    """The nearest builtin exception. StopIteration only for "next": raised by a call, it would end the loop of the test
    that makes the call."""
    for name in kinds:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception) and (kind is not StopIteration or what == "next"):
            try:
                return kind(message)
            except TypeError:
                pass
    return RuntimeError(message)


def write_back(given, changes):
    for value, coded in zip(given, changes):
        if coded is None:
            continue
        new = decode(coded, from_program)
        if not isinstance(value, type(new)):
            raise Malformed("an argument of another kind")
        if isinstance(value, (list, bytearray)):
            value[:] = new
        elif isinstance(value, (set, dict)):
            value.clear()
            value.update(new)


def next_reply():
    try:
        return receive(REPLIES)
    except EOFError:
        give_up("the program ended before its tests")
    except Exception as error:
        give_up(f"the program sent an invalid reply: {type(error).__name__}: {error}")


def ask(what, *values, wanted=object):
    coded = [encode(value, without_plain_form) for value in (what, *values)]
    try:
        send(REQUESTS, coded)
    except BrokenPipeError:
        give_up("the program ended before its tests")
    reply = next_reply()
    try:
        if reply[0] == "raised":
            failure = exception_of(what, *reply[1:])
        else:
            _, coded, changes = reply
            value = decode(coded, from_program)
            if what == "call":
                write_back([*values[1], *values[2].values()], changes)
            if not isinstance(value, wanted):
                raise Malformed(f"'{what}' returned a {type(value).__name__}")
            return value
    except Exception as error:
        give_up(f"the program sent an invalid reply: {type(error).__name__}: {error}")
    raise failure


def names_of_prompt(prompt):
    """Functions and modules that the problem defines: the program cannot replace them."""
    for end in ("", "    pass\n", "\n    pass\n"):  # a prompt may end inside a function that the answer continues
        names = {"__name__": "__main__"}
        try:
            code = compile(prompt + end, "prompt", "exec", dont_inherit=True)
        except SyntaxError:
            continue
        exec(code, names)
        return names
    return {"__name__": "__main__"}


def names_from_outside(tests):
    """Global names that the tests use and do not define."""
    top = symtable.symtable(tests, "tests", "exec")
    used, tables = set(), [top]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        used |= {symbol.get_name() for symbol in table.get_symbols()
                 if symbol.is_referenced() and (table is top or symbol.is_global())}
    return used - {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}


def names_of_program(tests, own, entry_point):
    """Names that the tests take from the program: not those of the tests, the prompt or Python, so that no program can
    replace `abs`. If none is left, the one tested function has the name of a builtin."""
    outside = names_from_outside(tests) - own.keys()
    bases = {node.value.id for node in ast.walk(ast.parse(tests))
             if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}
    modules = outside & LIBRARY & bases
    ours = {name for name in outside if hasattr(builtins, name)}
    wanted = (outside - ours - modules) | ({entry_point} - {""})
    return (wanted or (ours if len(ours) == 1 else set())), modules


def take_names(tests, names, entry_point):
    wanted, modules = names_of_program(tests, names, entry_point)
    for name in sorted(wanted | modules):
        try:
            found = ask("name", name)
        except NameError:
            continue  # raised where the tests use it, if at all
        if name in modules:
            names[name] = importlib.import_module(name)
        elif type(found) is not Module:
            names[name] = found


def check(prompt, tests, entry_point):
    code = compile(tests, "tests", "exec", dont_inherit=True)
    names = names_of_prompt(prompt)
    names.pop(entry_point, None)
    if next_reply() != ["ready"]:
        give_up("the program sent an invalid reply: wanted ready")
    take_names(tests, names, entry_point)
    exec(code, names)
    os.write(VERDICT, b"passed")


check(**json.loads(sys.stdin.buffer.read()))
