"""`run --max-restarts`: ranks that are lost are started again from the newest checkpoint, in one run; errors that would
come again, and a user's stop, are not. A stopped rank is named."""
import os
import signal
import time

import pytest
from checkpoint import model_tensors
from compare import assert_tensors_equal
from host import state_of
from paths import TEST_PLUGINS
from ranks_test import LONG

STEPS = 40


def faulty(place, fault, *arguments, wanted, **changes):
    pipeline = {"plugin": "faulty", "fault": fault, "step": 2, "rank": 1}
    return place.run(*arguments, wanted=wanted, env={"WMTP_PLUGIN_PATH": TEST_PLUGINS}, timeout=120,
                     pipeline=pipeline, train__steps=5, **changes)


def test_a_run_that_loses_a_rank_equals_an_uninterrupted_one(place):
    changes = {"train__steps": STEPS, "checkpoint__every_steps": 5, "data__order": "shuffled"}
    place.tokens(windows=4 * STEPS)
    place.run(**changes)
    wanted, model = place.log.losses(), model_tensors(place.log.folder())
    # In its fifth save, and so before step 30. The run that continues makes three.
    running = place.start("--max-restarts", 2, env={"WMTP_KILL_AT_SAVE": "published:0:5:stop"}, **changes)
    running.wait_for_step(20)
    ranks = running.ranks()
    running.wait_until(lambda: state_of(ranks[0]) == b"T")
    os.kill(ranks[1], signal.SIGKILL)
    os.kill(ranks[0], signal.SIGCONT)
    assert running.wait().code == 0, running
    lost, last = place.log.runs()[1:]
    assert (lost["status"], lost["exit_code"], last["status"], last["parent_run"]) == \
        ("failed", 6, "finished", lost["id"])
    curve = place.log.query("SELECT step, value FROM v_curves WHERE run_id = ? AND name = 'train/loss'", last["id"])
    assert {row["step"]: row["value"] for row in curve} == wanted
    assert min(place.log.losses()) % 5 == 1 and min(place.log.losses()) > 5, "it continues from a checkpoint"
    assert_tensors_equal(model_tensors(place.log.folder()), model)

    (restarted,) = [event for event in place.log.events() if event["kind"] == "restarted"]
    assert "restart 1 after step" in restarted["message"] and "rank 1 was killed by SIGKILL" in restarted["message"]
    (seconds,) = place.log.metric("perf/lost_seconds").values()
    assert 0 < seconds < 60 and f"{seconds:.1f} s are lost" in restarted["message"]
    assert f"continues run {lost['id']} at step" in running.err and "(restart 1 of 2, because rank 1" in running.err
    assert "  restarts         1, which cost " in running.out, running


def test_a_run_without_a_checkpoint_is_started_again_at_step_0_as_the_same_run(place):
    (place.folder / "text.txt").write_text("Seven quick wizards jump over 42 boxes, and back.\n" * 400)
    changes = {"model__vocab_size": None, "data": {"kind": "text", "files": ["text.txt"]}, "train__steps": 4 * STEPS,
               "validation": {"share": 0.1, "batches": 1, "every_steps": 10}}
    place.run(**changes)
    wanted = place.log.query("SELECT step, name, value FROM v_curves WHERE run_id = 1 AND (name = 'train/loss' "
                             "OR name = 'valid/loss') ORDER BY name, step")
    running = place.start("--max-restarts", 1, **changes)
    running.wait_for_step(2)
    os.kill(running.ranks()[0], signal.SIGKILL)
    assert running.wait().code == 0, running
    assert "run 2 has no checkpoint, and is started again at step 0" in running.err, running
    assert place.log.newest()["parent_run"] == 2
    assert place.log.query("SELECT step, name, value FROM v_curves WHERE run_id = 3 AND (name = 'train/loss' "
                           "OR name = 'valid/loss') ORDER BY name, step") == wanted


def test_a_rank_that_is_lost_each_time_ends_the_run_with_its_error(place):
    ended = faulty(place, "exit", "--max-restarts", 2, wanted=6)
    rows = place.log.runs()
    assert [(row["status"], row["exit_code"], row["parent_run"]) for row in rows] == \
        [("failed", 6, None), ("failed", 6, 1), ("failed", 6, 2)]
    assert "(restart 2 of 2, because rank 1 ended with exit code 0" in ended.err, ended
    assert ended.err.rstrip().count("restart 3") == 0


def test_without_the_option_a_lost_rank_ends_the_run(place):
    faulty(place, "exit", wanted=6)
    assert len(place.log.runs()) == 1


def test_an_error_that_would_come_again_is_not_tried_again(place):
    faulty(place, "exception", "--max-restarts", 2, wanted=3)
    assert len(place.log.runs()) == 1


@pytest.mark.parametrize("to_rank", [False, True])
def test_a_stop_by_the_user_is_not_restarted(place, to_rank):
    running = place.start("--max-restarts", 2, **LONG)
    running.wait_for_step(3)
    os.kill(running.ranks()[1] if to_rank else running.process.pid, signal.SIGTERM)
    assert running.wait().code == 75, running
    assert [run["status"] for run in place.log.runs()] == ["interrupted"]


def test_a_second_signal_which_kills_the_ranks_is_not_answered_by_a_restart(place):
    running = place.start("--max-restarts", 2, **LONG)
    running.wait_for_step(3)
    os.kill(running.ranks()[1], signal.SIGSTOP)  # so that the ranks cannot stop
    running.process.send_signal(signal.SIGINT)
    running.wait_until(lambda: "repeat to kill them" in running.err)
    time.sleep(1.2)
    running.process.send_signal(signal.SIGINT)
    assert running.wait().code == 75, running
    assert len(place.log.runs()) == 1


def test_ranks_that_this_program_does_not_start_are_not_restarted_by_it(place):
    for arguments, env, shown in (
            (["--nodes", 2, "--node-rank", 0, "--rendezvous", "localhost:29500"], {}, "with --nodes"),
            ([], {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": 29500}, "a launcher")):
        place.refuse(2, f"--max-restarts applies to the ranks of one host.*{shown}", env=env,
                     arguments=["--max-restarts", 1, *arguments])


def test_a_stopped_rank_is_named_within_seconds_and_goes_on(place):
    running = place.start(**{**LONG, "parallel__timeout_seconds": 60})
    running.wait_for_step(3)
    stopped = running.ranks()[1]
    os.kill(stopped, signal.SIGSTOP)
    begun = time.monotonic()
    running.wait_until(lambda: f"rank 1 (process {stopped}) is stopped" in running.err)
    assert time.monotonic() - begun < 10
    step = place.log.last_step()
    os.kill(stopped, signal.SIGCONT)
    running.wait_until(lambda: "rank 1 goes on" in running.err and place.log.last_step() > step + 2)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait().code == 75, running
