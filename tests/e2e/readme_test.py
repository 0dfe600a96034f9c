"""README.md, then each page of docs/, followed as written: every command that they show, in order, in one folder, as
shown or as replaced in SHORTENED; those for a GPU on the null device (tests/null_cuda). The output must have the form
that they show, apart from numbers."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import null_cuda
import pytest
from examples_test import PROBLEM, write_lines, write_tables
from paths import BUILD, ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# A fenced block (commands are its lines after "$ "), or the command in the second column of a table.
SHOWN = re.compile(r"^```(\w*)\n(.*?)^```$|^\|[^|\n]*\| `(wmtp-host [^`\n]*)` \|", re.MULTILINE | re.DOTALL)
ARITHMETIC = "wmtp-host run experiments/arithmetic.toml --set model.layers=7 --set model.future_tokens=4 --set train"
FROM_LLAMA = "wmtp-host init novel.txt Llama-3.2-1B -o llama"
ON_GPUS = "wmtp-host run experiments/rho1.toml --nproc {} --set parallel.device=cuda"
SAMPLE = "wmtp-host run experiments/baseline.toml --set train.steps=10 --name sample"
ON_DISK = ("wmtp-host run experiments/baseline.toml --set parallel.optimizer_offload=nvme "
           "--set parallel.offload_path=/scratch")
FEW_STEPS = "--set train.steps=3 --set schedule.warmup_steps=1"
# What is run instead of a command, and why. None: nothing.
SHORTENED = {
    "make run": ("wmtp-host run experiments/rho1.toml", "the program is built already"),
    "make test": (None, "it runs this"),
    "wmtp-host run experiments/rho1.toml --resume": (None, "no run here was stopped; parity.resume stops some"),
    "wmtp-host ui": ("timeout --preserve-status -s INT 2 wmtp-host ui --port 0",
                     "it serves until it is stopped; another may have its port"),
    FROM_LLAMA: ("wmtp-host run experiments/weightings/focal.toml --set model.future_tokens=1 --name small && "
             f"wmtp-host checkpoint export small -o Llama-3.2-1B && {FROM_LLAMA}", "a model of the same format"),
    "make wheel": (None, "e2e.wheel builds one and installs it"),
    **{command: (None, "e2e.finetuning asks a model of chats") for command in (
        'wmtp-host generate chat --chat "What is 12 + 30?"',
        'wmtp-host generate chat --chat "What is 12 + 30?" --system "Answer with a number."',
        "wmtp-host generate chat --chat-file turns.json",
        'wmtp-host eval chat --suite questions.jsonl --system "Answer with a number."')},
    **{command: (command.replace(".toml", ".toml --db other/wmtp.db", 1).replace("rho1 baseline", "rho1 baseline --db "
                                                                               "other/wmtp.db"),
                 "later pages show a log without these runs") for command in (
        "wmtp-host run experiments/lora.toml",
        "wmtp-host run experiments/baseline.toml experiments/rho1.toml && wmtp-host runs compare rho1 baseline")},
    **{command: (None, "e2e.first_gpu runs each part from the kit") for command in (
        "scripts/first_gpu.sh brief",
        "for part in facts correct speed memory profile switches; do scripts/first_gpu.sh $part; done",
        "sh gpu-kit/scripts/first_gpu.sh facts", "sh gpu-kit/scripts/first_gpu.sh correct",
        "for part in speed memory profile switches; do sh gpu-kit/scripts/first_gpu.sh $part; done")},
    "wmtp-host runs show baseline --curve heads/cosine_1_2 --curve heads/norm_2": (
        None, "parity.head_gradients has runs that compare heads"),
    **{ON_GPUS.format(n): (f"{ON_GPUS.format(n)} --dry-run", "no GPU; null_cuda.device has four ranks")
       for n in (4, 8)},
    ON_DISK: (ON_DISK.replace("/scratch", ". --db other/wmtp.db"), "no such disk, and plan.md shows a log without it"),
    SAMPLE: (SAMPLE.replace("=10", "=3"), "seconds"),
    **{command: (f"{command} {FEW_STEPS}", "minutes") for command in (
        "wmtp-host run alpaca/baseline.toml --set data.packing=true --name packed",
        "wmtp-host run chats/baseline.toml --name chat",
        "wmtp-host run tuning/baseline.toml --name tuned",
        "wmtp-host run novel/baseline.toml")},
    "wmtp-host run novel/rho1.toml": ("sed -i 's/^steps = .*/steps = 3/; s/^warmup_steps = .*/warmup_steps = 1/' "
                                      "novel/*.toml && wmtp-host run novel/rho1.toml", "minutes"),
    "wmtp-host export rho1 --to wandb": ("WANDB_MODE=offline WMTP_PYTHON=python wmtp-host export rho1 --to wandb",
                                         "no account"),
    f"{ARITHMETIC}.steps=350": (f"{ARITHMETIC}.steps=3", "two minutes"),
}
# Commands that are shown without "$ ", because they name hosts, and the test that runs their like.
ELSEWHERE = {
    **{f"wmtp-host run FILE --nproc 16 --nodes 2 --node-rank {rank} --rendezvous node1:29500": "faults.hosts"
       for rank in (0, 1)},
    "torchrun --no-python --nnodes 2 --nproc-per-node 8 --max-restarts 3 --rdzv-backend c10d "
    "--rdzv-endpoint node1:29500 wmtp-host run FILE":
        "faults.foreign_launcher",
    "mpirun -np 16 --host node1:8,node2:8 -x MASTER_ADDR=node1 wmtp-host run FILE": "faults.cluster_launchers",
}
# Replaced in the experiments, because stages ignore --set.
SHORTER = [(r"^steps = \d+", "steps = 3"), (r"^warmup_steps = \d+", "warmup_steps = 1"),
           (r"^batches = \d+", "batches = 1"), (r"^batch_size = \d+(?= +# per rank)", "batch_size = 2"),
           (r"^sequence_length = 256", "sequence_length = 64"), (r"^every_steps = \d+", "every_steps = 3"),
           (r"^problems = \d+", "problems = 400"),
           (r'"/usr/lib/python3.11/\*\*/\*.py"', '"/usr/lib/python3.11/email/*.py"'),
           (r'^  "/usr/lib/python3.11/(?!email|http|json)([a-z]+/.*|\*\.py",)\n', "")]
# What someone new asks first, and the section that answers it with commands: docs/faq.md has each question and a link.
ANSWERS = {
    "GPU?": "gpu.md#the-first-gpu",
    "8 GPUs?": "clusters.md#one-server-with-8-gpus",
    "bf16?": "parallel.md#precision",
    "Docker?": "running.md#installation",
    "A notebook?": "results.md#the-log",
    "Parquet, CSV?": "data.md#tables",
    "Chat?": "data.md#chats",
    "Packing?": "data.md#packing",
    "Fine-tune Llama-3.2-1B?": "models.md#fine-tuning",
    "W&B?": "results.md#other-programs",
}
# Output that a run of three steps does not have, and why.
UNLIKE = {
    "build/bin/wmtp-host run experiments/rho1.toml": "make says it",
    "-11646=66131": "the text of a model that has learnt to do sums", "-66131=11646": "the same", "#66131": "the same",
}


def commands_in(text):
    """The commands that a text shows, in order: [(command, [lines of its output])]"""
    found = []
    for language, block, cell in SHOWN.findall(text):
        shown = []
        for line in [f"$ {cell}"] if cell else [] if language else block.splitlines():
            if line.startswith("$ "):
                shown.append((re.sub(r"\s{2,}#.*", "", line[2:]), []))
            elif shown:
                shown[-1][1].append(line)
        found += shown
    return found


def commands():
    """The commands that the pages show, in order: [(page, command, [lines of its output])]"""
    return [(page.name, *shown) for page in PAGES for shown in commands_in(page.read_text())]


def section(place):
    """The text under a heading ("page.md#heading"), up to the next one of its level or above."""
    page, name = place.split("#")
    found, level, in_block = [], 0, False
    for line in (ROOT / "docs" / page).read_text().splitlines():
        in_block ^= line.startswith("```")
        heading = not in_block and re.match("(#+) (.+)", line)
        if heading and 0 < len(heading[1]) <= level:
            break
        if heading and re.sub(r"[^\w -]", "", heading[2].lower()).replace(" ", "-") == name:
            level = len(heading[1])
        if level:
            found.append(line)
    assert found, f"docs/{page} has no heading #{name}"
    return "\n".join(found) + "\n"


def form(line):
    """A line without the parts that differ between runs: numbers, units of size and time, words of change."""
    line = re.sub(r"\d[\d,.]*", "#", line)
    line = re.sub(r"# (Ki|Mi|Gi)?B\b", "# B", line)
    line = re.sub(r"(#m )?#s\b", "#s", line)
    line = re.sub(r"\b(fell|rose) by\b", "changed by", line)
    line = re.sub(r"ended by \w+", "ended by -", re.sub(r"\bhead_#", "head", line))
    if line.startswith("  time "):
        line = "  time"  # its parts are sorted by size
    return re.sub(r"\s+", " ", line).strip().replace("# s", "#s")


def copy_shortened_experiments(folder):
    shutil.copytree(ROOT / "experiments", folder / "experiments")
    for file in (folder / "experiments").rglob("*.toml"):
        text = file.read_text()
        for pattern, shorter in SHORTER:
            text = re.sub(pattern, shorter, text, flags=re.MULTILINE)
        file.write_text(text)


@pytest.fixture
def folder(program, tmp_path):
    """The tree as after `make build`, with shortened experiments, and the files that the pages name."""
    (tmp_path / "build").symlink_to(BUILD)
    copy_shortened_experiments(tmp_path)
    (tmp_path / "sweep.toml").write_text('extends = "experiments/weightings/focal.toml"\n[sweep]\nseed = [1, 2]\n')
    write_tables(tmp_path)
    write_lines(tmp_path / "HumanEval.jsonl", [PROBLEM])
    write_lines(tmp_path / "samples.jsonl", [{"task_id": PROBLEM["task_id"], "completion": ""}] * 10)
    return tmp_path


def is_planned_elsewhere(page, command, output):
    """e2e.plan compares the plans of these pages line by line."""
    return page in ("plan.md", "seven_billion.md") and output and command.startswith("wmtp-host plan experiments/")


def needs_device(command):
    return re.search("device[ =]cuda", command) is not None and "--dry-run" not in command and "plan " not in command


def typed(folder, command):
    path = f"{BUILD / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    device = null_cuda.environment() if needs_device(command) else {}
    return subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True,
                          errors="replace", timeout=120, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PATH": path, "NO_COLOR": "1", "OMP_WAIT_POLICY": "passive",
                               **{name: str(value) for name, value in device.items()}})


def test_every_command_of_the_readme_and_docs_does_what_it_shows(folder):
    shown = commands()
    assert len(shown) > 20 and set(SHORTENED) <= {command for _, command, _ in shown}, "a page shows what is shortened"
    assert set(UNLIKE) <= {line for _, _, output in shown for line in output}, "a page shows what is unlike"
    here = [one for one in shown if not is_planned_elsewhere(*one)]
    assert len(shown) - len(here) == 7
    failed, done = [], set()
    for page, command, output in here:
        instead, _ = SHORTENED.get(command, (command, ""))
        if instead in done and not output:
            continue
        done.add(instead)
        if instead is None or needs_device(instead) and not (null_cuda.FOLDER / "libnull_cuda.so").is_file():
            continue
        ended = typed(folder, instead)
        if ended.returncode != 0:
            failed.append(f"{instead}\n  exit code {ended.returncode}: {ended.stderr.strip()[-600:]}")
        found = {form(line) for line in (ended.stdout + ended.stderr).splitlines()}
        for line in output:
            if line and line not in UNLIKE and form(line) not in found:
                failed.append(f"{instead}\n  {page} shows  {form(line)}\n  here there is only  "
                              + "\n                      ".join(sorted(found)))
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("question, place", ANSWERS.items())
def test_a_question_of_someone_new_is_answered_by_a_section_whose_commands_are_run(question, place):
    answers = dict(re.findall(r"^\*\*(.+?)\*\*(.*?)(?=\n\n|\Z)", (ROOT / "docs/faq.md").read_text(),
                              re.MULTILINE | re.DOTALL))
    assert f"]({place})" in answers[question], f"docs/faq.md answers {question} without a link to {place}"
    text = section(place)
    run = [command for command, _ in commands_in(text) if SHORTENED.get(command, (command,))[0]]
    assert run, f"docs/{place} shows no command that a test runs"


def test_commands_that_are_shown_without_a_prompt_are_run_by_another_test():
    blocks = "".join(block for page in PAGES for language, block, _ in SHOWN.findall(page.read_text()) if not language)
    assert set(re.findall(r"^((?:wmtp-host|torchrun|mpirun|srun|make) .*?)(?:\s{2,}#.*)?$", blocks, re.MULTILINE)) \
        == set(ELSEWHERE)


def test_the_weighting_of_the_readme_is_the_one_that_is_shipped():
    shown, = re.findall(r"^```cpp\n(.*?)^```$", PAGES[0].read_text(), re.MULTILINE | re.DOTALL)
    shipped = (ROOT / "plugins/pipelines/focal/focal.cpp").read_text()
    beside = re.compile(r"^(//.*|namespace {|}  // namespace|)\n", re.MULTILINE)
    assert beside.sub("", shown) == beside.sub("", shipped)


def test_the_readme_says_what_each_linked_library_is_for():
    linked = re.findall(r"(?:find_package\(|pkg_check_modules\(\w+ REQUIRED(?: IMPORTED_TARGET)? )([\w-]+)",
                        (ROOT / "host/CMakeLists.txt").read_text())
    parts_of_the_tools = {"PkgConfig", "Threads", "OpenMP"}
    table = (ROOT / "README.md").read_text().partition("## Built on")[2].partition("\n## ")[0].lower()
    names = {re.sub(r"^lib|-?\d$", "", name.replace("_", "/")).lower() for name in {*linked} - parts_of_the_tools}
    assert len(names) >= 10
    for name in names | {"libtorch", "toml++", "cli11"}:
        assert name in table, f"README.md does not say what {name} is for"
