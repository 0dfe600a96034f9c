"""The run log in trouble: refused at the start (exit 7), never in the way of a run that has begun."""
import os
import sqlite3
import time

import pytest


def test_a_database_locked_for_ten_seconds_stops_nothing_and_loses_nothing(place):
    steps = 400
    place.tokens(windows=steps * 4)
    running = place.start(train__steps=steps)
    running.wait_for_step(2)
    with_lock = sqlite3.connect(place.log.database, isolation_level=None)
    with_lock.execute("BEGIN IMMEDIATE")
    time.sleep(10)
    with_lock.execute("ROLLBACK")
    with_lock.close()
    running.wait()
    assert running.code == 0, running
    assert set(place.log.losses()) == set(range(1, steps + 1))
    assert place.log.newest()["status"] == "finished"


def test_a_database_of_a_newer_version_is_refused_with_both_numbers(place):
    place.run(train__steps=1)
    database = sqlite3.connect(place.log.database)
    known, = database.execute("PRAGMA user_version").fetchone()
    database.execute(f"PRAGMA user_version = {known + 7}")
    database.commit()
    database.close()
    before = len(place.log.runs())
    place.refuse(7, rf"\b{known + 7}\b", rf"\b{known}\b", r"wmtp\.db")
    assert len(place.log.runs()) == before


def test_a_file_that_is_no_database_is_refused(place):
    (place.folder / "runs").mkdir()
    (place.folder / "runs/wmtp.db").write_text("no database at all, but long enough to look at " * 100)
    ended = place.host("run", place.write(), wanted=7)
    assert "wmtp.db" in ended.err


def test_a_folder_that_cannot_be_made_is_refused(place):
    (place.folder / "file").write_text("")
    place.refuse(7, "file/below", arguments=["--db", "file/below/wmtp.db"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere; the path below a file stands for it")
def test_a_folder_that_cannot_be_written_is_refused(place):
    locked = place.folder / "locked"
    locked.mkdir(mode=0o500)
    place.refuse(7, "locked", arguments=["--db", "locked/wmtp.db"])
