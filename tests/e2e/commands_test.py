"""The commands as a user types them: their output, machine-readable forms, and response times."""
import csv
import io
import json
import os
import re
import resource
import subprocess
import time

import pytest
from experiment import ONE_RANK
from paths import HOST, ROOT, TEST_PLUGINS
from places import Place

SUPPORT = ROOT / "tests/support"


@pytest.fixture(scope="module")
def logged(program, tmp_path_factory):
    """A place whose log has one finished run of three steps, which tests only read."""
    made = Place(tmp_path_factory.mktemp("logged"))
    made.tokens()
    made.run(**ONE_RANK, train__steps=3)
    return made


def best_seconds(place, *arguments, wanted=0, trials=8):
    """The least processor time of a few trials, because other load can only add to it."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    times = []
    for _ in range(trials):
        before = used()
        place.host(*arguments, wanted=wanted)
        times.append(used() - before)
    return min(times)


def test_help_and_lists_answer_immediately(logged):
    # A tenth of this when nothing else runs. Loading LibTorch, which these commands must not do, takes longer.
    assert best_seconds(logged, "--help") < 0.2
    assert best_seconds(logged, "runs", "list") < 0.2


def test_a_mistake_is_reported_immediately(place):
    file = place.write(pipeline={"plugin": "rho1", "keep": 1.5}, reference__weights="reference.safetensors")
    place.host("run", file, wanted=2)  # the plugin's description is cached from here on
    assert best_seconds(place, "run", file, wanted=2) < 0.3  # a quarter of this when nothing else runs


def test_the_version_is_one_line_on_stdout(place):
    ended = place.host("--version")
    assert "0.1" in ended.out and ended.out.count("\n") == 1


def test_a_bare_command_shows_help(place):
    ended = place.host(wanted=None)
    assert "run" in ended.out + ended.err and ended.code in (0, 2)


def test_runs_can_be_listed_shown_and_queried(logged):
    rows = json.loads(logged.host("runs", "list", "--json").out)
    assert len(rows) == 1 and rows[0]["name"] == "trial" and rows[0]["status"] == "finished"
    assert "train/loss" in logged.host("runs", "show", "trial").out
    logged.host("runs", "show", str(rows[0]["id"]))

    query = "SELECT step, value FROM metrics WHERE name = 'train/loss' ORDER BY step"
    as_json = json.loads(logged.host("sql", query, "--json").out)
    assert {row["step"]: row["value"] for row in as_json} == logged.log.losses()
    as_csv = list(csv.DictReader(io.StringIO(logged.host("sql", query, "--csv").out)))
    assert [float(row["value"]) for row in as_csv] == list(logged.log.losses().values())


def test_sql_cannot_write(logged):
    logged.host("sql", "DELETE FROM runs", wanted=2)
    logged.host("sql", "SELECT nonsense FROM runs", wanted=2)
    assert len(logged.log.runs()) == 1


@pytest.mark.parametrize("command", [("sql", "SELECT 1"), ("runs", "list"), ("runs", "list", "--json")])
def test_a_named_log_that_is_absent_is_no_empty_one(place, command):
    assert "no run log at" in place.host(*command, "--db", "typo.db", wanted=2).err


def test_the_last_step_is_logged_whichever_steps_are(place):
    place.run(**ONE_RANK, train__steps=5, log__every_steps=2)
    assert list(place.log.losses()) == [1, 2, 4, 5]


def test_an_unknown_run_is_refused_with_the_nearest_name(logged):
    ended = logged.host("runs", "show", "trail", wanted=2)
    assert "trial" in ended.err


def test_plugins_can_be_listed_and_inspected(place):
    listed = place.host("plugins", "list").out
    assert all(name in listed for name in ("baseline", "rho1", "full"))
    names = {entry["name"] for entry in json.loads(place.host("plugins", "list", "--json").out)}
    assert {"baseline", "rho1", "full"} <= names
    shown = place.host("plugins", "inspect", "rho1").out
    assert all(word in shown for word in ("keep", "0.6", "mode", "signed", "absolute", "difficult"))
    place.host("plugins", "inspect", "rho2", wanted=3)
    assert "reads   policy.loss and reference.loss" in shown
    wrapper = place.host("plugins", "inspect", "doubled", env={"WMTP_PLUGIN_PATH": TEST_PLUGINS}).out
    assert "(wrapper)" in wrapper and "[pipeline.inner]" in wrapper
    objective = place.host("plugins", "inspect", "value_objective", "--json",
                           env={"WMTP_PLUGIN_PATH": TEST_PLUGINS}).out
    assert json.loads(objective)["needs"] == {"reads": ["policy.value:return"], "heads": ["return (linear)"],
                                              "pairs": False, "prompts": False}


@pytest.mark.parametrize("arguments", [("runs", "list"), ("--help",), ("plugins", "list")])
def test_output_to_a_file_is_not_coloured(place, arguments):
    ended = place.host(*arguments)
    assert "\x1b" not in ended.out + ended.err


def write_lines(place, name, *objects):
    file = place.folder / name
    file.write_text("".join(json.dumps(one) + "\n" for one in objects))
    return file


def test_published_data_becomes_records(place):
    raw = write_lines(place, "test.jsonl", {"question": "2 and 2?", "answer": "#### 4"})
    out = place.folder / "records.jsonl"
    ended = place.host("data", "prepare", raw, "--from", "gsm8k", "-o", out)
    assert "1 problem, 1 right and 0 wrong answers" in ended.err
    assert json.loads(out.read_text())["task_id"] == "gsm8k/test/1"
    before = out.read_bytes()
    assert "--force" in place.host("data", "prepare", raw, "--from", "gsm8k", "-o", out, wanted=2).err
    write_lines(place, "test.jsonl", {"question": "2 and 2?"})
    ended = place.host("data", "prepare", raw, "--from", "gsm8k", "-o", out, "--force", wanted=4)
    assert "test.jsonl: line 1: answer: missing, wanted a string" in ended.err
    assert out.read_bytes() == before
    assert sorted(one.name for one in place.folder.glob("records.jsonl*")) == ["records.jsonl"]


def test_arithmetic_can_be_written_to_a_file(place):
    out = place.folder / "arithmetic.jsonl"
    place.host("data", "prepare", "--from", "arithmetic", "-o", out, "--problems", 3, "--seed", 7, "--operations",
               "add,multiply", "--max-operations", 2, "--answers-wrong", 2, "--no-steps")
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["is_correct"] for one in records] == [True, False, False] * 3
    assert {one["task_id"] for one in records} == {f"arithmetic-7/{i}" for i in range(3)}
    assert all(len(one["output"]) == 6 and not set(one["instruction"]) & set("-@") for one in records)


@pytest.mark.parametrize("arguments, shown", [
    ([], "FILE is missing"),
    (["a.jsonl", "--from", "gsm8k"], "--from needs -o FILE"),
    (["--from", "gsm8k", "-o", "b.jsonl"], "FILE is missing"),
    (["a.jsonl", "--from", "gsm9k", "-o", "b.jsonl"], "gsm9k"),
    (["a.jsonl", "-o", "b.jsonl"], "--output applies only to --from, found an experiment"),
    (["a.jsonl", "--from", "gsm8k", "-o", "b.jsonl", "--set", "seed=1"],
     "--set applies only to an experiment, found --from gsm8k"),
    (["a.jsonl", "--from", "gsm8k", "-o", "b.jsonl", "--seed", "1"],
     "--seed applies only to --from arithmetic, found --from gsm8k"),
    (["a.jsonl", "--from", "mbpp", "-o", "b.jsonl", "--language", "cpp"],
     "--language applies only to --from codecontests"),
    (["a.jsonl", "--from", "codecontests", "-o", "b.jsonl", "--language", "perl"], "perl"),
    (["a.jsonl", "--from", "arithmetic", "-o", "b.jsonl"], "--from arithmetic reads no file"),
    (["--from", "arithmetic", "-o", "b.jsonl", "--problems", "0"], "problems"),
    (["--from", "arithmetic", "-o", "b.jsonl", "--operations", "divide"], "divide"),
    (["--from", "arithmetic", "-o", "b.jsonl", "--min-operations", "9"],
     "min_operations 9, wanted at most max_operations"),
    (["--from", "arithmetic", "-o", "."], "is a folder"),
])
def test_a_wrong_use_of_data_prepare_is_refused(place, arguments, shown):
    ended = place.host("data", "prepare", *arguments, wanted=2)
    assert shown in ended.err


def test_runs_are_compared_where_they_differ_and_paired_by_seed(place):
    for name, lr in (("slow", 1e-3), ("fast", 1e-2)):
        for seed in (1, 2):
            place.run("--name", name, **ONE_RANK, seed=seed, optimizer__lr=lr, train__steps=3)
    found = json.loads(place.host("runs", "compare", "slow", "fast", "--json").out)
    assert found["params"]["optimizer.lr"] == ["0.001", "0.01"]
    loss = found["metrics"]["train/loss"]
    assert loss["last"][0]["count"] == loss["difference_from_first"][1]["count"] == 2
    assert loss["difference_from_first"][1]["mean"] < 0 < loss["difference_from_first"][1]["standard_error"]
    shown = place.host("runs", "compare", "slow", "fast").out
    assert "slow (2 seeds)" in shown and "± is the standard error" in shown
    assert max(map(len, shown.splitlines())) <= 120
    turned = json.loads(place.host("runs", "compare", "slow", "fast", "--baseline", "fast", "--json").out)
    assert turned["metrics"]["train/loss"]["difference_from_first"][1]["mean"] > 0


def test_a_run_and_its_folder_are_deleted_only_with_yes(place):
    for _ in range(2):
        place.run(**ONE_RANK, train__steps=1)
    folder = place.log.folder()
    assert folder.is_dir()
    refused = place.host("runs", "delete", "2", wanted=2)
    assert str(folder.name) in refused.err and "--yes" in refused.err and folder.is_dir()
    place.host("runs", "delete", "2", "--yes")
    assert not folder.exists() and [row["id"] for row in place.log.query("SELECT id FROM runs")] == [1]
    assert not list(folder.parent.glob("*deleted*"))
    place.host("runs", "delete", "2", "--yes", wanted=2)


@pytest.mark.parametrize("named", (1, 2))
def test_a_resumed_run_is_deleted_with_all_its_segments(place, named):
    place.run(**ONE_RANK, train__steps=2)
    place.run("--resume", **ONE_RANK, train__steps=4)
    place.run("--name", "other", **ONE_RANK, train__steps=1)
    assert [row["parent_run"] for row in place.log.query("SELECT parent_run FROM runs ORDER BY id")] == [None, 1, None]
    listed = json.loads(place.host("checkpoint", "list", "trial", "--json").out)
    assert [row["step"] for row in listed] == [2, 4]
    refused = place.host("runs", "delete", named, wanted=2)
    assert "run 2 (trial) with its segment 1: their rows and " in refused.err
    assert len(place.log.runs()) == 3
    place.host("rm", named, "--yes")
    assert [row["id"] for row in place.log.query("SELECT id FROM runs")] == [3]
    assert [folder.name for folder in sorted((place.folder / "runs").iterdir()) if folder.name[0] in "12"] == []


def test_runs_have_notes_tags_names_and_an_archive(place):
    for _ in range(2):
        place.run(**ONE_RANK, train__steps=1)
    place.host("runs", "note", "1", "the first")
    tagged = place.host("runs", "tag", "1", "2", "--add", "paper", "--add", "small").err
    assert tagged == "run 1 has the tags paper small\nrun 2 has the tags paper small\n"
    assert place.host("runs", "tag", "2", "--remove", "paper").err == "run 2 has the tags small\n"
    place.host("runs", "rename", "1", "renamed")
    assert [run["name"] for run in json.loads(place.host("ls", "--tag", "paper", "--json").out)] == ["renamed"]
    shown = place.host("runs", "show", "renamed").out
    assert "note       the first" in shown and "tags       paper small" in shown and "1-renamed/step-" in shown
    for model in (place.folder / "runs/1-renamed/model", place.folder / "runs/1-renamed", "renamed"):
        assert "complete (model, step 1" in place.host("checkpoint", "verify", model).out
    place.host("runs", "archive", "1")
    assert [run["id"] for run in json.loads(place.host("ls", "--json").out)] == [2]
    place.host("runs", "archive", "1", "--undo")
    assert len(json.loads(place.host("ls", "--json").out)) == 2
    assert "wanted one word" in place.host("runs", "tag", "1", "--add", "two words", wanted=2).err
    assert "give --add TAG" in place.host("runs", "tag", "1", wanted=2).err
    place.host("--db", "runs/wmtp.db", "rm", "1", "--yes")
    assert len(place.log.runs()) == 1


@pytest.mark.parametrize("command", [("delete", "a", "--yes"), ("rename", "a", "b"), ("note", "a", "text"),
                                     ("tag", "a", "--add", "b"), ("archive", "a")])
def test_the_name_of_a_sweep_changes_none_of_its_runs(logged, command):
    logged.host("runs", "rename", "trial", "a-x")
    try:
        assert 'no run "a"' in logged.host("runs", *command, wanted=2).err
        assert [run["name"] for run in logged.log.runs()] == ["a-x"]
    finally:
        logged.host("runs", "rename", "a-x", "trial")


def test_a_running_run_is_not_deleted(place):
    running = place.start(**ONE_RANK, train__steps=100_000, data={"kind": "random"})
    running.wait_for_step(3)
    assert "is running" in place.host("runs", "delete", "1", "--yes", wanted=2).err


def test_a_snapshot_is_a_log_of_its_own(logged):
    logged.host("runs", "snapshot", "copy.db")
    assert json.loads(logged.host("runs", "list", "--json", "--db", "copy.db").out)[0]["name"] == "trial"
    assert "already exists" in logged.host("runs", "snapshot", "copy.db", wanted=2).err


def test_the_doctor_tries_what_a_run_needs(place, logged):
    ended = place.host("doctor")
    for words in ("LibTorch 2.", "plugins, all compatible", "does not exist yet", "free in"):
        assert words in ended.out, ended
    limited = place.host("doctor", env={"ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "AVX2"}).out
    assert "kernels for any processor, bf16 products computed in fp32" in limited, limited
    states = {one["what"]: one for one in json.loads(logged.host("doctor", "--json").out)}
    assert states["run log"]["text"].endswith("1 run, 0 running, 0 lost")
    assert all(one["state"] == "good" for name, one in states.items() if name not in ("eval", "disk"))


def test_empty_environment_variables_count_as_unset(place):
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
             "PMI_RANK", "OMP_NUM_THREADS", "TMPDIR", "TMP", "HOME", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "PYTHONPATH",
             "PATH", "WMTP_PYTHON", "WMTP_LIBTORCH", "WMTP_PLUGIN_PATH", "WMTP_DB", "WMTP_TOKEN", "WMTP_INTERFACE",
             "WMTP_CHECK_COLLECTIVES", "WMTP_KILL_AT_SAVE", "GLOO_SOCKET_IFNAME", "TERM", "LANG", "LC_ALL")
    empty = dict.fromkeys(names, "")
    ended = place.host("run", place.write(train__steps=2), env=empty)
    assert "libgomp" not in ended.err and (place.folder / "runs/wmtp.db").exists(), ended
    assert "found no ," not in place.host("export", 1, "--to", "trackio", env=empty, wanted=None).err
    place.host("plan", "experiment.toml", env=empty)
    place.host("plan", "experiment.toml", env={"OMP_NUM_THREADS": " 2 "})
    assert "OMP_NUM_THREADS" in place.host("plan", "experiment.toml", env={"OMP_NUM_THREADS": "two"}, wanted=2).err


def test_the_doctor_counts_the_cores_that_it_may_use(place):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:1])
    try:
        shown = place.host("doctor").out
    finally:
        os.sched_setaffinity(0, cores)
    assert re.search(r"^machine +1 core\b", shown, re.MULTILINE), shown


def test_the_doctor_says_what_is_broken(place):
    (place.folder / "pipelines").mkdir()
    (place.folder / "pipelines/broken.so").write_text("no library")
    (place.folder / "other.db").write_text("no database, and longer than nothing")
    ended = place.host("doctor", "--plugin-dir", place.folder, "--db", "other.db", wanted=7)
    assert "warning: 1 of" in ended.out and "run log   bad: " in ended.out and "other.db" in ended.out


def test_a_run_is_watched_to_its_end(place):
    running = place.start(train__steps=60, data={"kind": "random"})
    running.wait_for_step(3)
    watched = place.host("runs", "watch", "1", "--json", timeout=120)
    rows = [json.loads(line) for line in watched.out.splitlines()]
    assert rows[-1] == {"status": "finished", "exit_code": 0}
    steps = [row["step"] for row in rows if "train_loss" in row]
    assert steps[0] >= 2 and steps == list(range(steps[0], 61)) and running.wait().code == 0
    assert "finished after" in place.host("runs", "watch", "trial").out


def test_completion_offers_what_may_follow(logged):
    def offered(*words):
        return logged.host("__complete", *words).out.split()
    assert {"run", "runs", "eval", "completion"} <= set(offered("")) and offered("ru") == ["run", "runs"]
    assert "watch" in offered("runs", "") and offered("runs", "com") == ["compare"]
    assert offered("run", "--res") == ["--resume"] and "--set" in offered("run", "file.toml", "--")
    assert offered("run", "") == [], "files are the shell's to offer"
    assert offered("runs", "show", "t") == ["trial"] and offered("runs", "show", "x") == []


def offered_by(shell, line, folder, script=None):
    """The completions that `shell` offers at the end of `line`, with its completion script loaded; for zsh, `script`
    may be a folder of functions."""
    if script is None:
        script = folder / f"completion.{shell}"
        script.write_text(subprocess.run([HOST, "completion", shell], capture_output=True, text=True,
                                         check=True).stdout)
    *before, begun = line.split(" ")
    words = " ".join(f"'{word}'" for word in (*before, begun))
    out = folder / f"offered.{time.monotonic_ns()}"
    command = {"bash": ["bash", "-c", f". {script}; COMP_WORDS=({words}); COMP_CWORD={len(before)}; _wmtp_host; "
                                      f'printf "%s\\n" "${{COMPREPLY[@]}}" > {out}'],
               "zsh": ["zsh", "-f", SUPPORT / "completed.zsh", script, line, out],
               "fish": ["fish", "--no-config", "-c", f"source {script}; complete -C'{line}' > {out}"]}[shell]
    environment = {**os.environ, "PATH": f"{HOST.parent}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "xterm"}
    subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL, env=environment, timeout=30)
    return sorted(set(out.read_text().split()))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_runs(logged, shell):
    for line, wanted in (("ru", ["run", "runs"]), ("runs sn", ["snapshot"]), ("run --res", ["--resume"]),
                         ("runs show t", ["trial"]), ("checkpoint list ", ["trial"])):
        assert offered_by(shell, f"wmtp-host {line}", logged.folder) == wanted, line


@pytest.mark.parametrize("shell", ["zsh", "fish"])  # in bash, `-o default` does this outside the function
def test_a_shell_offers_files_where_nothing_else_is_offered(place, shell):
    place.write()
    assert offered_by(shell, "wmtp-host run exp", place.folder) == ["experiment.toml"]
