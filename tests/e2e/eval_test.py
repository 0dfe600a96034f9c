"""`eval`: problems scored by running their tests, including on harmful samples."""
import ctypes
import gzip
import json
import math
import os
import re
import subprocess

import pytest
from paths import SHARED_DATA, count

CREATE_RULESET, VERSION = 444, 1
pytestmark = pytest.mark.skipif(ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, VERSION) < 1,
                                reason="this kernel has no Landlock")
HUMAN_EVAL = SHARED_DATA / "HumanEval.jsonl"
GSM8K, GSM8K_LABELLED = SHARED_DATA / "gsm8k_test.jsonl", SHARED_DATA / "gsm8k_labelled.jsonl"
PROBLEM = {"task_id": "t/0", "prompt": "def double(x):\n", "entry_point": "double",
           "test": "def check(f):\n    assert f(3) == 6\n"}
RIGHT, WRONG = "    return 2 * x\n", "    return x\n"
HARMFUL = ["    while True: pass\n", "    import os\n    while True: os.fork()\n", "    return [0] * 10**12\n",
           "    open('/tmp/wmtp-was-here', 'w')\n",
           "    import socket\n    socket.create_connection(('127.0.0.1', 9))\n", "    import os\n    os.kill(-1, 9)\n",
           "    import os\n    os._exit(0)\n"]


def lines(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def suite(place):
    return lines(place.folder / "suite.jsonl", [PROBLEM, {**PROBLEM, "task_id": "t/1"}])


def samples(place, completions, name="samples.jsonl"):
    return lines(place.folder / name, [{"task_id": task, "completion": text} for task, text in completions])


def evaluate(place, suite, file, *more):
    return json.loads(place.host("eval", "--suite", suite, "--samples", file, "--json", *more, timeout=300).out)


@pytest.mark.soak
@pytest.mark.skipif(not HUMAN_EVAL.is_file(), reason="HumanEval's problems are not beside this tree")
def test_human_eval_scores_its_own_solutions_one_and_nothing_zero(place):
    """make test judges every fourth problem: a program's start takes longer than its test."""
    problems = [json.loads(line) for line in HUMAN_EVAL.read_text().splitlines()][::count(4, 1)]
    suite = lines(place.folder / "HumanEval.jsonl", problems)
    for field, wanted in (("canonical_solution", 1.0), (None, 0.0)):
        file = samples(place, [(p["task_id"], p[field] if field else "") for p in problems])
        found = evaluate(place, suite, file, "--seconds", "20")
        assert found["problems"] == found["samples"] == count(41, 164)
        assert found["pass_at"] == {"1": wanted}, found


@pytest.mark.skipif(not GSM8K.is_file() or not GSM8K_LABELLED.is_file(),
                    reason="GSM8K's problems are not beside this tree")
def test_extraction_agrees_with_the_labels_of_answers_to_gsm8k(place):
    """Answers that end with "A: 18": `flexible` judges all of them correctly, and none has the mark of `strict`."""
    asked = [json.loads(line) for line in GSM8K.read_text().splitlines()]
    answered = [json.loads(line) for line in GSM8K_LABELLED.read_text().splitlines()]
    suite = lines(place.folder / "suite.jsonl",
                  [{"instruction": row["question"], "output": row["answer"], "task_id": f"gsm8k-test/{at}"}
                   for at, row in enumerate(asked)])
    file = samples(place, [(row["task_id"], row["output"]) for row in answered])
    labels = [row["is_correct"] for row in answered]
    for how, agreeing in (("flexible", 5276), ("strict", 3275)):
        found = evaluate(place, suite, file, "--extract", how, "-o", how)
        results = [json.loads(line) for line in (place.folder / how).read_text().splitlines()]
        assert sum(result["passed"] == label for result, label in zip(results, labels, strict=True)) == agreeing
        assert found["passed"] == {"flexible": 2001, "strict": 0}[how]
        assert found["exact_match"]["strict"] == 0 < found["exact_match"]["flexible"]


def test_numbers_are_compared_with_extract(place):
    asked = lines(place.folder / "asked.jsonl",
                  [{"instruction": "9 - 4?", "output": "9 - 4 = 5\n#### 5", "task_id": name} for name in "ab"])
    file = samples(place, [("a", "so it is\n#### 5"), ("b", "it is $5.")])
    for how, passed in (((), 0), (("--extract", "strict"), 1), (("--extract", "flexible"), 2)):
        found = evaluate(place, asked, file, *how)
        assert found["passed"] == passed \
            and found.get("exact_match") == ({"strict": 0.5, "flexible": 1.0} if how else None)
    said = place.host("eval", "--suite", asked, "--samples", file, "--extract", "strict").out
    assert "pass@1  0.5000\nexact match, strict  0.5000\nexact match, flexible  1.0000\n" in said
    tested = lines(place.folder / "tested.jsonl", [PROBLEM])
    place.refuse_command(2, "--extract applies only to a suite of answers",
                         command=["eval", "--suite", tested, "--samples", file, "--extract", "strict"])


def test_harmful_samples_fail_and_leave_no_trace(place, suite):
    file = samples(place, [("t/0", text) for text in [*HARMFUL, RIGHT]] + [("t/1", WRONG)])
    place.host("eval", "--suite", suite, "--samples", file, "--seconds", "3", "-o", "results.jsonl", timeout=300)
    results = [json.loads(line) for line in (place.folder / "results.jsonl").read_text().splitlines()]
    assert [result["passed"] for result in results] == [False] * len(HARMFUL) + [True, False]
    assert results[0]["verdict"] == "timed_out" and results[-1]["told"].startswith("AssertionError")
    assert results[-2]["completion"] == RIGHT and results[-2]["task_id"] == "t/0"


def test_an_answer_that_imports_a_module_which_python_lacks_is_not_counted(place, suite):
    widely_used = ["sortedcontainers", "networkx", "sklearn", "pandas", "torch"]
    code = "import importlib.util as u, sys; print(*(m for m in sys.argv[1:] if u.find_spec(m) is None))"
    lacks = subprocess.run(["python3", "-I", "-c", code, *widely_used], capture_output=True, text=True).stdout.split()
    if not lacks:
        pytest.skip(f"this Python has {widely_used}")
    file = samples(place, [("t/0", f"    import {lacks[0]}\n" + RIGHT), ("t/0", RIGHT),
                           ("t/0", "    import invented\n" + RIGHT), ("t/1", RIGHT)])
    ended = place.host("eval", "--suite", suite, "--samples", file, "--json")
    assert json.loads(ended.out) | {"pass_at": 0} == {"problems": 2, "samples": 3, "passed": 2, "timed_out": 0,
                                                      "not_counted": 1, "pass_at": 0}
    assert f"1 answer not counted: " in ended.err and f"lacks modules that they import ({lacks[0]})" in ended.err
    alone = samples(place, [("t/0", f"    import {lacks[0]}\n" + RIGHT), ("t/1", RIGHT)])
    ended = place.host("eval", "--suite", suite, "--samples", alone, "-o", "results.jsonl", wanted=4)
    assert f"({lacks[0]})" in ended.err and "1 of 2 problems have no sample" in ended.err
    assert json.loads((place.folder / "results.jsonl").read_text())["task_id"] == "t/1", "what was judged is kept"


@pytest.mark.parametrize("folder, mask", [(".", 0o022), ("temporary", 0o022), ("/tmp", 0o177)])
def test_a_relative_tmpdir_and_a_strict_umask_change_no_verdict(place, suite, folder, mask):
    (place.folder / "temporary").mkdir()
    file = samples(place, [("t/0", RIGHT), ("t/1", RIGHT)])
    before = os.umask(mask)
    try:
        ended = place.host("eval", "--suite", suite, "--samples", file, "--json", env={"TMPDIR": folder})
    finally:
        os.umask(before)
    assert json.loads(ended.out)["passed"] == 2


def test_pass_at_k_is_the_mean_over_problems(place, suite):
    file = samples(place, [("t/0", RIGHT), ("t/0", WRONG), ("t/0", WRONG), ("t/0", WRONG)] + [("t/1", RIGHT)] * 4)
    assert evaluate(place, suite, file, "-k", "1,2")["pass_at"] == {"1": (0.25 + 1) / 2, "2": (0.5 + 1) / 2}


def test_a_model_answers_by_itself(place, suite):
    """A model that has memorized one function; an answer ends where another function begins."""
    (place.folder / "text.txt").write_text((PROBLEM["prompt"] + RIGHT + "\n") * 200)
    place.run("--name", "coder", model__dim=32, model__heads=2, model__ffn_dim=64, model__layers=5,
              model__vocab_size=None, parallel__processes=1, train__steps=70, train__batch_size=4, optimizer__lr=1e-2,
              data={"kind": "text", "files": ["text.txt"]})
    found = json.loads(place.host("eval", "coder", "--suite", suite, "--json", "-o", "greedy.jsonl").out)
    assert found["pass_at"] == {"1": 1.0}
    greedy = [json.loads(line) for line in (place.folder / "greedy.jsonl").read_text().splitlines()]
    assert [answer["completion"] for answer in greedy] == [RIGHT, RIGHT]
    rows = place.log.query("SELECT run, problems, answers, passed, pass_at_1 FROM v_evaluations")
    assert [list(row.values()) for row in rows] == [["coder", 2, 2, 2, 1.0]]
    assert {row["answer"] for row in place.log.query("SELECT answer FROM evaluation_answers")} == {RIGHT}
    drawn = ["eval", "coder", "--suite", suite, "--answers", 3, "--temperature", 3, "--max-tokens", 20]
    place.host(*drawn, "-o", "drawn.jsonl")
    place.host(*drawn, "-o", "again.jsonl")
    place.host(*drawn, "-o", "other.jsonl", "--seed", 9)
    texts = [[json.loads(line)["completion"] for line in (place.folder / name).read_text().splitlines()]
             for name in ("drawn.jsonl", "again.jsonl", "other.jsonl")]
    assert texts[0] == texts[1] != texts[2] and len(set(texts[0])) > 1
    assert not any("\ndef" in text or "\nprint" in text for text in texts[0] + texts[2])


def test_mistakes_are_reported_before_anything_runs(place, suite):
    good = samples(place, [("t/0", RIGHT), ("t/1", RIGHT)])
    refuse = place.refuse_command
    call = ["eval", "--suite", suite, "--samples"]
    refuse(4, "line 1", 'did you mean "t/0"?', command=[*call, samples(place, [("t0", "")], "other.jsonl")])
    refuse(4, "1 of 2 problems have no sample", "t/1", command=[*call, samples(place, [("t/0", "")], "few.jsonl")])
    refuse(2, "t/0 has 1", command=[*call, good, "-k", "5"])
    refuse(2, "no-such-python", "--python", command=[*call, good, "--python", "no-such-python"])
    refuse(2, "already exists", command=[*call, good, "-o", good])
    refuse(2, "found both", command=["eval", "run", "--suite", suite, "--samples", good])
    refuse(2, "RUN or --samples is missing", command=["eval", "--suite", suite])
    refuse(2, "are identical", command=["eval", "run", "--suite", suite, "--answers", "2"])
    refuse(2, 'no run log at', command=["eval", "coder", "--suite", suite])
    without_test = {name: value for name, value in PROBLEM.items() if name != "test"}
    refuse(4, "line 1", "test", command=["eval", "--suite", lines(place.folder / "bad.jsonl", [without_test]),
                                         "--samples", good])


def test_options_without_effect_are_told_in_one_line(place, suite):
    records = lines(place.folder / "records.jsonl", [{"instruction": "1+1", "output": "2", "task_id": "a"}])
    for problems, answers in ((suite, [("t/0", RIGHT), ("t/1", RIGHT)]), (records, [("a", "2")])):
        ended = place.host("eval", "--suite", problems, "--samples", samples(place, answers), "--template", "plain",
                           "--answers", 3, "--top-p", 0.5)
        assert re.findall("warning: (.*)", ended.err) == [
            f"the answers are given (--samples {place.folder}/samples.jsonl): no effect of --template, --answers and "
            "--top-p"], ended.err
        assert "pass@1  1.0000" in ended.out
    (place.folder / "text.txt").write_text("Some words of a text.\n" * 300)
    place.run(train__steps=1, parallel__processes=1, model__vocab_size=None,
              data={"kind": "text", "files": ["text.txt"]})
    ended = place.host("eval", "trial", "--text", "text.txt", "--temperature", 1, "-k", 1, "--seconds", 3)
    assert re.findall("warning: (.*)", ended.err) == [
        "--text asks for no answers: no effect of --temperature, -k and --seconds"], ended.err


def test_records_are_judged_by_exact_match(place):
    records = lines(place.folder / "records.jsonl",
                    [{"instruction": "1+1", "output": "#2", "task_id": "a", "is_correct": True},
                     {"instruction": "1+1", "output": "#3", "task_id": "a", "is_correct": False},
                     {"instruction": "2+2", "output": "#4", "task_id": "b", "is_correct": True}])
    found = evaluate(place, records, samples(place, [("a", "#2"), ("b", "#5")]), "-o", "results.jsonl")
    assert found["pass_at"] == {"1": 0.5}
    results = [json.loads(line) for line in (place.folder / "results.jsonl").read_text().splitlines()]
    assert results[1]["told"] == 'at byte 2: found "5", wanted "4"'


def test_answers_are_drawn_independently_for_each_seed_task_and_sample(place):
    """An untrained model, whose answers depend only on draws; two tasks share a prompt, a third has one as long."""
    (place.folder / "text.txt").write_text("the quick brown fox\n" * 100)
    place.run("--name", "blank", model__dim=32, model__heads=2, model__ffn_dim=64, model__layers=2,
              model__vocab_size=None, model__future_tokens=1, parallel__processes=1, train__steps=1,
              train__batch_size=4, data={"kind": "text", "files": ["text.txt"]})
    suite = lines(place.folder / "asked.jsonl",
                  [{"instruction": prompt, "output": "x", "task_id": task, "is_correct": True}
                   for task, prompt in (("a", "1+1"), ("b", "1+1"), ("c", "2+2"))])

    def answers(seed, file):
        place.host("eval", "blank", "--suite", suite, "--template", "plain", "--answers", "4", "--temperature", "1",
                   "--max-tokens", "12", "--seed", seed, "-o", file)
        return [json.loads(line)["completion"] for line in (place.folder / file).read_text().splitlines()]

    first, again, other = answers(0, "0.jsonl"), answers(0, "0-again.jsonl"), answers(1, "1.jsonl")
    assert first == again and len({*first, *other}) == 2 * 3 * 4


def test_a_model_is_scored_by_exact_match_on_records(place):
    """A model that has memorized sums, one of them wrong."""
    sums = [{"instruction": f"{a}+{b}", "output": f"#{a + b}", "task_id": f"{a}+{b}", "is_correct": True}
            for a in range(3) for b in range(3)]
    shown = [sums[0] | {"output": "#7"}, *sums[1:]]
    lines(place.folder / "shown.jsonl", shown * 8)
    place.run("--name", "sums", model__dim=32, model__heads=2, model__ffn_dim=64, model__layers=2,
              model__vocab_size=None, model__future_tokens=1, parallel__processes=1, train__steps=150,
              train__batch_size=9, train__sequence_length=32, optimizer__lr=1e-2,
              data={"kind": "records", "files": ["shown.jsonl"], "template": "plain"})
    suite = lines(place.folder / "sums.jsonl", sums)
    found = json.loads(place.host("eval", "sums", "--suite", suite, "--template", "plain", "--json").out)
    assert (found["passed"], found["samples"]) == (8, 9), found
    wrong, = place.log.query("SELECT task_id, told, answer FROM evaluation_answers WHERE verdict = 'failed'")
    assert wrong == {"task_id": "0+0", "told": 'at byte 2: found "7", wanted "0"', "answer": "#7"}
    assert place.log.query("SELECT passed, problems FROM v_evaluations") == [{"passed": 8, "problems": 9}]
    place.refuse_command(2, "has one head", command=["generate", "sums", "--prompt", "1+1\n", "--compare"])


JUDGE = """import json, pathlib, sys
even = set(json.loads(pathlib.Path(sys.argv[1]).with_name("even.json").read_text()))
for line in sys.stdin:
    asked = json.loads(line)
    found = int(asked["answer"]) in even
    print(json.dumps({"passed": found, "told": "" if found else asked["record"]["hint"]}))
"""


def test_a_program_of_the_users_judges_answers_and_groups_are_scored(place):
    """Any even number is right; the program reads a file beside the suite, and a field that nothing else reads."""
    (place.folder / "even.json").write_text("[2, 4, 6]")
    (place.folder / "judge.py").write_text(JUDGE)
    suite = lines(place.folder / "even.jsonl",
                  [{"prompt": "even:", "completion": "2", "hint": f"hint {task}", "task_id": task}
                   for task in ("small/1", "small/2", "large/1")])
    file = samples(place, [("small/1", "2"), ("small/2", "3"), ("large/1", "4")])
    call = ["eval", "--suite", suite, "--samples", file, "--judge", "judge.py"]
    ended = place.host(*call, "-o", "results.jsonl")
    assert "pass@1  0.6667\npass@1  1.0000  large, 1 problem\npass@1  0.5000  small, 2 problems\n" in ended.out
    results = [json.loads(line) for line in (place.folder / "results.jsonl").read_text().splitlines()]
    assert [(result["passed"], result["told"]) for result in results] == [(True, ""), (False, "hint small/2"),
                                                                          (True, "")]
    assert evaluate(place, suite, file)["passed"] == 1, "without it, an answer equals the completion"
    limited = place.host(*call, "--seconds", 9, "--jobs", 2, "-k", 1)
    assert "--judge names a program that is not limited: no effect of --seconds and --jobs\n" in limited.err
    found = evaluate(place, suite, file, "--judge", "judge.py")
    assert found["groups"]["small"] == {"problems": 2, "pass_at": {"1": 0.5}}

    refuse = place.refuse_command
    refuse(2, "gone.py: no such file", command=[*call[:-1], "gone.py"])
    refuse(2, "both --extract and --judge", command=[*call, "--extract", "strict"])
    (place.folder / "judge.py").write_text("print('I am ready')\n" + JUDGE)
    refuse(4, r'judge.py: line 1 of its output: found "I am ready", wanted', command=call)
    (place.folder / "judge.py").write_text(JUDGE.replace("sys.argv[1]", "sys.argv[2]"))
    refuse(4, "IndexError", "judge.py ended with exit code 1 before its verdict on answer 1", command=call)


def test_the_first_block_of_code_in_an_answer_to_messages_is_judged(place):
    ask = [{"role": "user", "content": "Write double(x)."}]
    tests = {"test": PROBLEM["test"], "entry_point": "double"}
    suite = lines(place.folder / "chats.jsonl", [{"messages": ask, **tests, "task_id": name} for name in "abc"])
    right = f"Here it is:\n```python\n{PROBLEM['prompt']}{RIGHT}```\nUse it:\n```\ndouble(2)\nraise 1\n```\n"
    file = samples(place, [("a", right), ("b", right.replace("2 * x", "x")), ("c", PROBLEM["prompt"] + RIGHT)])
    assert evaluate(place, suite, file)["passed"] == 2
    mbpp = lines(place.folder / "mbpp.jsonl", [{"messages": ask, "test_list": ["assert double(3) == 6"]}])
    assert evaluate(place, mbpp, samples(place, [("line 1", right)]))["passed"] == 1


def test_a_template_for_the_beginning_of_a_program_is_refused(place, suite):
    for option in ("--template", "--system"):
        place.refuse_command(2, f"{option} applies only to prompts made by a template", "messages with tests",
                             command=["eval", "anything", "--suite", suite, option, "chat"])


def test_mbpps_tests_are_run(place):
    suite = lines(place.folder / "mbpp.jsonl", [
        {"task_id": 11, "text": "Double x.", "code": "", "test_setup_code": "y = 3",
         "test_list": ["assert f(y) == 6", "assert f(0) == 0"]},
        {"task_id": 12, "text": "Square x.", "code": "", "test_setup_code": "", "test_list": ["assert f(3) == 9"]}])
    file = samples(place, [("mbpp/11", "def f(x): return 2 * x"), ("mbpp/12", "def f(x): return 2 * x")])
    assert evaluate(place, suite, file)["pass_at"] == {"1": 0.5}
    sanitized = lines(place.folder / "sanitized-mbpp.jsonl", [
        {"source_file": "", "task_id": 13, "prompt": "Round x down.", "code": "", "test_imports": ["import math"],
         "test_list": ["assert f(2.5) == math.floor(2.5)"]},
        {"source_file": "", "task_id": 14, "prompt": "Negate x.", "code": "", "test_imports": [],
         "test_list": ["assert f(3) == -3"]}])
    file = samples(place, [("Mbpp/13", "def f(x): return int(x)"), ("mbpp/14", "def f(x): return x")])
    assert evaluate(place, sanitized, file)["pass_at"] == {"1": 0.5}, "the first passes if its tests import math"


def test_solutions_of_evalplus_are_whole_programs_and_suites_may_be_packed(place):
    (place.folder / "suite.jsonl.gz").write_bytes(gzip.compress("".join(
        json.dumps({**PROBLEM, "task_id": name}) + "\n" for name in ("t/0", "t/1")).encode()))
    file = lines(place.folder / "samples.jsonl", [
        {"task_id": "t/0", "solution": "import operator\n\ndef double(x):\n    return operator.mul(2, x)\n"},
        {"task_id": "t/1", "solution": RIGHT}])
    assert evaluate(place, "suite.jsonl.gz", file)["pass_at"] == {"1": 0.5}, \
        "the second is no program without the prompt"


def test_a_text_is_scored_by_every_head_as_validation_scores_it(place):
    (place.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 100)
    eight_windows = ("a lazy dog sleeps in the sun; " * 20)[:8 * 32 - 1]  # with the end-of-text id
    (place.folder / "held.txt").write_text(eight_windows)
    place.run("--name", "reader", model__vocab_size=None, parallel__processes=1, train__steps=5,
              train__sequence_length=32, train__batch_size=4, data={"kind": "text", "files": ["text.txt"]},
              validation={"files": ["held.txt"], "batches": 8})
    rows = json.loads(place.host("eval", "reader", "--text", "held.txt", "--json").out)
    for row in rows:
        steps = place.log.metric(f"valid/ce_head_{row['head']}", place.log.newest()["id"])
        assert row["loss"] == pytest.approx(steps[5], rel=1e-5), "fp32, summed in another order"
        assert row["perplexity"] == pytest.approx(math.exp(row["loss"]))
        assert row["tokens"] == 8 * (32 - row["head"])
        assert row["bytes"] == row["tokens"] - 1, "a token is a byte, but for the id that ends the text"
        assert row["bits_per_byte"] == pytest.approx(row["loss"] * row["tokens"] / row["bytes"] / math.log(2))
    assert len(rows) == 4
    shown = json.loads(place.host("runs", "show", "reader", "--json").out)["text_losses"]
    assert [{key: row[key] for key in rows[0]} for row in shown] == rows
    assert {row["texts"] for row in shown} == {str(place.folder / "held.txt")}
    assert {row["stride"] for row in shown} == {None}
    assert "losses on texts" in place.host("runs", "show", "reader").out
    place.host("eval", "reader", "--text", "held.txt", "--stride", "16")
    overlapping = place.log.query("SELECT stride, tokens FROM v_text_losses WHERE stride IS NOT NULL ORDER BY head")
    assert [tuple(row.values()) for row in overlapping] == [(16, 8 * 32 - head) for head in (1, 2, 3, 4)]
    place.host("eval", place.log.folder() / "model", "--text", "held.txt")
    assert len(place.log.query("SELECT * FROM v_text_losses")) == 8, "a folder is no run of the log"
    place.refuse_command(2, "--stride 33 skips tokens between windows of 32", command=[
        "eval", "reader", "--text", "held.txt", "--stride", "33"])
    place.refuse_command(2, "--stride requires --text",
                         command=["eval", "reader", "--suite", "held.txt", "--stride", "3"])
    place.refuse_command(4, "none.txt", command=["eval", "reader", "--text", "none.txt"])
    place.refuse_command(2, "found both", command=["eval", "reader", "--text", "held.txt", "--suite", "held.txt"])
    place.refuse_command(2, "--suite or --text is missing", command=["eval", "reader"])
