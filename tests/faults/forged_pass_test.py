"""`eval` with programs that try to pass without being right: none does, whatever it does to its own process, to the
channel to the checker, or to the values that it returns; right programs of all kinds pass."""
import ctypes
import json

import pytest
from host import run_host

CREATE_RULESET, VERSION = 444, 1
pytestmark = pytest.mark.skipif(ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, VERSION) < 1,
                                reason="this kernel has no Landlock")

# For programs whose `double(3)`, which should return 6, writes a forged reply to descriptor 4.
SAYS = """
import json, os
def say(text):
    os.write(4, len(text).to_bytes(4, "little") + text)
"""
LEAVES = {
    "leaves_with_0": "import os\nos._exit(0)",
    "says_the_end_and_leaves": """
import os
for n in range(64):
    try: os.write(n, b'end')
    except OSError: pass
os._exit(0)""",
    "says_passed_on_every_descriptor": """
import os
for n in range(3, 64):
    try: os.write(n, b'passed')
    except OSError: pass
os._exit(0)""",
    "exits": "import sys\nsys.exit(0)",
    "exits_when_called": "import sys\ndef double(x): sys.exit(0)",
    "leaves_when_called": "import os\ndef double(x): os._exit(0)",
    "leaves_at_exit": "import atexit, os\natexit.register(os._exit, 0)",
    "interrupts_when_called": "def double(x): raise KeyboardInterrupt",
    "is_replaced_by_true": "import os\nos.execv('/bin/true', ['true'])",
    "closes_its_descriptors": "import os\nos.closerange(0, 64)",
    "dies_by_a_signal": "import ctypes\nctypes.string_at(0)",
}
OWN_PROCESS = {
    "replaces_assertion_errors":
        "import builtins\nbuiltins.AssertionError = type('Calm', (BaseException,), {'__new__': lambda *a: None})",
    "replaces_builtins": "import builtins\nbuiltins.compile = builtins.exec = builtins.getattr = lambda *a, **k: 6",
    "looks_for_the_test_in_frames": """
import sys
frame = sys._getframe()
while frame:
    for name in list(frame.f_globals):
        if name in ('check', 'tests', 'encode', 'answer'): frame.f_globals[name] = lambda *a: ['value', 6, []]
    frame = frame.f_back""",
    "replaces_every_function": """
import gc, types
for one in gc.get_objects():
    if isinstance(one, types.FunctionType) and one.__name__ == 'check':
        one.__code__ = (lambda *a, **k: None).__code__""",
    "replaces_modules": "import sys\nsys.modules['json'] = sys.modules['os'] = sys.modules['unittest'] = None",
    "replaces_what_writes_json": "import json\njson.dumps = lambda *a, **k: '[\"passed\"]'",
    "traces": """
import sys
sys.settrace(lambda frame, event, arg: None)
sys.setprofile(lambda *a: None)""",
    "leaves_a_thread": """
import os, threading, time
def late():
    while True:
        time.sleep(0.01)
        for n in range(5, 64):
            try: os.write(n, b'passed')
            except OSError: pass
threading.Thread(target=late, daemon=True).start()""",
    "says_to_be_an_optimized_python": "import os\nos.environ['PYTHONOPTIMIZE'] = '2'",
}
OTHER_PROCESSES = {
    "forks_without_end": "import os\nwhile True: os.fork()",
    "starts_threads_without_end": """
import threading, time
threading.stack_size(32768)
while True: threading.Thread(target=time.sleep, args=(99,)).start()""",
    "signals_its_parent": "import os\nos.kill(os.getppid(), 9)",
    "writes_to_the_memory_of_others": """
import os
found = 0
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) == os.getpid(): continue
    for name in ('mem', 'environ', 'maps', 'fd/0', 'fd/5', 'root/etc/passwd'):
        for mode in ('rb', 'r+b'):
            try: found += len(open(f'/proc/{pid}/{name}', mode).read(1))
            except OSError: pass
def double(x): return 6 if found else 0""",
    "traces_others": """
import ctypes, os
libc = ctypes.CDLL(None)
found = 0
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) != os.getpid() and libc.ptrace(16, int(pid), 0, 0) == 0: found += 1
def double(x): return 6 if found else 0""",
    "reads_what_the_tests_want": """
import glob
text = ''
for name in glob.glob('/proc/[0-9]*/fd/0') + glob.glob('/tmp/wmtp-*/*'):
    try: text += open(name).read()
    except (OSError, ValueError): pass
def double(x): return 6 if 'assert ' + 'double' in text else 0""",
}
CHANNEL = {
    "answers_ahead": SAYS + """
say(b'["ready"]')
for _ in range(9): say(b'["value", true, []]')
import time
time.sleep(9)""",
    "floods_the_channel": SAYS + "while True: say(b'[\"ready\"]')",
    "says_no_json": SAYS + "def double(x): say(b'\\xff\\x00 passed'); return 6",
    "announces_a_huge_answer":
        SAYS + "def double(x):\n    os.write(4, b'\\xff' * 4)\n    while True: os.write(4, b'0' * 65536)",
    "answers_with_a_function": SAYS + "def double(x): say(json.dumps(['value', {'type': 'eval'}, []]).encode())",
    "answers_with_an_unknown_kind": SAYS + "def double(x): say(json.dumps(['value', {'pickle': 'gASV'}, []]).encode())",
    "answers_with_depth": SAYS + "def double(x): say(b'[\"value\", ' + b'[' * 1000000)",
    "answers_with_depth_of_lists":
        SAYS + "def double(x): say(b'[\"value\", ' + b'{\"list\": [' * 900 + b']}' * 900 + b', []]')",
    "answers_with_a_number_of_no_object":
        SAYS + "def double(x): say(json.dumps(['value', {'object': 10 ** 9}, []]).encode())",
    "answers_with_another_argument": SAYS + "def double(x): say(json.dumps(['value', 0, [6]]).encode())",
    "answers_that_it_passed": SAYS + "def double(x): say(json.dumps(['passed']).encode())",
    "raises_what_is_no_exception":
        SAYS + "def double(x): say(json.dumps(['raised', ['SystemExit', 'exit', 'object'], 0]).encode())",
}
# Values returned instead of 6, for every form of assertion below.
LYING = """
class Lie{base}:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __hash__(self): return 6
    def __sub__(self, other): return 0
    __rsub__ = __abs__ = __sub__
    def __int__(self): return 6
    __index__ = __int__
    def __float__(self): return 6.0
    def __instancecheck__(self, other): return True
    {more}
"""
VALUES = {
    "an_object_equal_to_all": LYING.format(base="", more="") + "def double(x): return Lie()",
    "an_object_of_another_class":
        LYING.format(base="", more="__class__ = property(lambda self: int)") + "def double(x): return Lie()",
    "an_int_equal_to_all": LYING.format(base="(int)", more="") + "def double(x): return Lie(0)",
    "a_text_equal_to_all": LYING.format(base="(str)", more="") + "def double(x): return Lie('six')",
    "a_list_equal_to_all": LYING.format(base="(list)", more="") + "def double(x): return Lie([0])",
    "a_list_that_holds_itself": "def double(x):\n    all = []\n    all.append(all)\n    return all",
    "a_list_of_great_depth": "def double(x):\n    all = []\n    for _ in range(100000): all = [all]\n    return all",
    "a_float_that_is_no_number": "def double(x): return float('nan')",
    "an_end_of_the_iteration": "def double(x): raise StopIteration",
    "an_assertion_error_of_its_own": "def double(x): raise type('AssertionError', (StopIteration,), {})",
    "a_class": LYING.format(base="(type)", more="") + "def double(x): return Lie('six', (), {})",
    "functions_of_the_test": """
import builtins
def abs(x): return 0
def all(x): return True
def isinstance(*a): return True
def map(*a): return []
class math:
    isclose = staticmethod(lambda *a, **k: True)
for name in ('abs', 'all', 'isinstance', 'map'): setattr(builtins, name, globals()[name])
import sys, math as module
module.isclose = math.isclose
def double(x): return 0""",
    "an_iterator_without_end": "import itertools\ndef double(x): return itertools.repeat(0)",
}
FORMS = ["assert double(3) == 6", "assert 6 == double(3)", "assert not double(3) != 6", "assert double(3) in (6, 7)",
         "assert {6: 1}[double(3)] == 1", "assert abs(double(3) - 6) < 1e-9",
         "import math\nassert math.isclose(double(3), 6)", "assert 5 < double(3) < 7",
         "assert isinstance(double(3), int) and double(3) > 5", "assert [double(3), 1] == [6, 1]",
         "assert all(map(lambda x: double(x) == 2 * x, [3]))", "assert list(map(double, [3])) == [6]"]
FLOODS = {"writes_without_end": "while True: print('x' * 65536)",
          "fills_its_folder": "for n in range(10**6): open(f'f{n}', 'wb').write(bytes(1 << 20))"}

RIGHT = {  # a program and its tests
    "a_value": ("def f(x): return 2 * x",
                ["assert f(3) == 6", "assert f('a') == 'aa'", "assert f([1]) == [1, 1]", "assert f(1.5) == 3.0"]),
    "values_of_all_kinds": ("def f(x): return x", [f"assert f({x}) == {x} and type(f({x})) is type({x})" for x in (
        "None", "True", "-7", "10 ** 6000", "1e300", "float('inf')", "1 + 2j", "'\\ud800\\n'", "b'\\x00'",
        "bytearray(b'a')", "(1, [2])", "{1, 2}", "frozenset({1})", "{(1, 2): {'a': None}}", "range(3)", "int")]
        + ["import datetime, decimal, fractions"] + [f"assert f({x}) == {x}" for x in (
            "decimal.Decimal('0.1')", "fractions.Fraction(1, 3)", "datetime.date(2020, 1, 2)",
            "datetime.datetime(2020, 1, 2, 3)")]),
    "derived_values": ("""
from collections import *
import enum
P = namedtuple('P', 'x y')
class E(enum.IntEnum): A = 3
def f(): return [Counter('aab'), P(1, 2), OrderedDict(a=1), E.A]""",
                       ["assert f() == [{'a': 2, 'b': 1}, (1, 2), {'a': 1}, 3]"]),
    "iterators": ("""
import collections, itertools
def f(n):
    yield from range(n)
def g(): return itertools.count()
def h(): return collections.deque([1, 2])""",
                  ["assert list(f(3)) == [0, 1, 2]", "assert next(iter(g())) == 0",
                   "assert 2 in f(3) and 3 not in f(3)", "assert [*h()] == [1, 2] and len(h()) == 2"]),
    "objects": ("""
class Node:
    def __init__(self, x): self.x, self.left = x, None
    def double(self): return 2 * self.x
def depth(n): return 0 if n is None else 1 + depth(n.left)""",
                ["root = Node(1)\nroot.left = Node(2)\nroot.left.left = Node(3)",
                 "assert depth(root) == 3 and root.left.x == 2", "assert root.left.left.double() == 6",
                 "assert root.left == root.left and root.left != root"]),
    "arguments_changed_in_place": ("def f(x): x.sort()\ndef g(*, d): d['a'] = 1",
                                   ["x = [3, 1, 2]\nassert f(x) is None and x == [1, 2, 3]",
                                    "d = {}\ng(d=d)\nassert d == {'a': 1}"]),
    "exceptions": ("class Own(ValueError): pass\ndef f(x): raise Own('no') if x else KeyError(x)",
                   ["try:\n    f(1)\n    assert False\nexcept ValueError as e:\n    assert str(e) == 'no'",
                    "try:\n    f(0)\n    assert False\nexcept KeyError: pass"]),
    "a_name_of_python_s": ("def sum(a, b): return a * b", ["assert sum(2, 5) == 10"]),
    "types_and_functions_of_python_s_as_arguments": (
        "def f(x, kind): return [kind(one) for one in x]",
        ["assert f([1, 2], str) == ['1', '2'] and f(['ab'], len) == [2]"]),
    "a_program_with_a_main_part": ("""
import sys, threading
def f(x): return x + 1
if __name__ == '__main__':
    print('hello')
    t = threading.Thread(target=f, args=(1,))
    t.start()
    t.join()""",
                                   ["assert f(1) == 2"]),
    "modules": ("""
import re, math, collections, itertools, heapq, bisect, datetime, random, json, typing, functools, string, \
decimal, fractions
import statistics, copy, hashlib, operator, dataclasses, enum, abc, time, os, sys, io, tempfile, \
pathlib, textwrap, unittest, array, struct
import base64, zlib, uuid, secrets, calendar, contextlib, queue, threading, urllib.parse, html, csv, \
pprint, inspect, types, numbers, cmath
import concurrent.futures, asyncio, logging, locale, difflib, bz2, lzma, sqlite3, glob, shutil, traceback, \
warnings, weakref, zoneinfo
@dataclasses.dataclass
class P:
    x: int = 1
def f():
    with tempfile.TemporaryDirectory(dir='.') as name:
        path = pathlib.Path(name) / 'a'
        path.write_text('x')
        shutil.copyfile(path, str(path) + 'b')
        random.seed(1)
        time.sleep(0.001)
        with concurrent.futures.ThreadPoolExecutor(2) as pool: list(pool.map(abs, [1]))
        return hashlib.sha256(path.read_bytes()).hexdigest()[:4] + str(P().x) + inspect.getsource(f)[:3]""",
                ["import hashlib", "assert f() == hashlib.sha256(b'x').hexdigest()[:4] + '1def'",
                 "assert math.isclose(2.0, 2.0)"]),
    "deep_recursion": ("def f(n): return 0 if n == 0 else 1 + f(n - 1)", ["assert f(900) == 900"]),
}

ALL = LEAVES | OWN_PROCESS | OTHER_PROCESSES | CHANNEL | VALUES | FLOODS


def wrong(program):
    """The program with a `double` that returns 0, unless it defines its own."""
    return "def double(x): return 0\n" + program + "\n"


@pytest.fixture(scope="module")
def verdicts(program, tmp_path_factory):
    """{task: result}: every hostile program on one assertion, those that return forged values on each form."""
    folder = tmp_path_factory.mktemp("forged")
    trials = {f"{name}/0": (wrong(text), FORMS[:1]) for name, text in ALL.items() if name not in VALUES}
    trials |= {f"{name}/{at}": (wrong(text), [form]) for name, text in VALUES.items() for at, form in enumerate(FORMS)}
    trials |= {f"right/{name}": trial for name, trial in RIGHT.items()}
    trials |= {f"right/double/{at}": ("import math\ndef double(x): return 2 * x", [form])
               for at, form in enumerate(FORMS)}
    def write(name, rows):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    write("suite.jsonl", [{"task_id": name, "text": name, "test_list": tests} for name, (_, tests) in trials.items()])
    write("samples.jsonl", [{"task_id": name, "completion": text} for name, (text, _) in trials.items()])
    run_host("eval", "--suite", "suite.jsonl", "--samples", "samples.jsonl", "--seconds", "8", "-o", "results.jsonl",
             cwd=folder, timeout=500)
    return {row["task_id"]: row for row in map(json.loads, (folder / "results.jsonl").read_text().splitlines())}


@pytest.mark.parametrize("name", ALL)
def test_no_hostile_program_passes(verdicts, name):
    of_it = [row for task, row in verdicts.items() if task.rsplit("/", 1)[0] == name]
    assert of_it and not [row for row in of_it if row["passed"]]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_passes(verdicts, name):
    assert verdicts[f"right/{name}"]["passed"], verdicts[f"right/{name}"]["told"]


def test_every_form_of_assertion_is_passed_by_the_right_answer(verdicts):
    shown = {form: verdicts[f"right/double/{at}"]["told"] for at, form in enumerate(FORMS)}
    assert not {form: why for form, why in shown.items() if why}


def test_a_program_that_writes_without_end_is_stopped(verdicts):
    for name in FLOODS:
        assert verdicts[f"{name}/0"]["told"] == "wrote more than 64 MiB in total" \
            and verdicts[f"{name}/0"]["seconds"] < 5


def test_a_program_cannot_replace_the_helpers_of_the_problem(program, tmp_path):
    """The tests use the problem's helpers, even if the program redefines them."""
    problem = {"task_id": "t/0", "entry_point": "root", "test": "def check(g):\n    assert abs(poly(g())) < 1e-9\n",
               "prompt": "def poly(x):\n    return x - 6\n\ndef root():\n    \"\"\" Root of poly. \"\"\"\n"}
    (tmp_path / "suite.jsonl").write_text(json.dumps(problem) + "\n")
    answers = ["    return 6\n", "    return 0\ndef poly(x): return 0\n"]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps({"task_id": "t/0", "completion": text}) + "\n"
                                                    for text in answers))
    found = json.loads(run_host("eval", "--suite", "suite.jsonl", "--samples", "samples.jsonl", "--seconds", "20",
                                "--json", cwd=tmp_path).out)
    assert found["passed"] == 1
