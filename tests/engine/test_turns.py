"""Writes of several threads of one process, while another process holds the writer lock."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from memfs.engine import SqliteEngine, opening
from memfs.model.errors import Busy

WRITERS = 6
LOCK_SECONDS = 1.0


@pytest.fixture
def engine(db: Path) -> Iterator[SqliteEngine]:
    """A new database."""
    made = SqliteEngine(db, create=True)
    yield made
    made.close()


@pytest.fixture
def impatient(db: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteEngine]:
    """A new database, for whose writer lock nobody waits long."""
    monkeypatch.setattr(opening, "LOCK_TIMEOUT_SECONDS", LOCK_SECONDS)
    made = SqliteEngine(db, create=True)
    yield made
    made.close()


@contextmanager
def held(path: Path) -> Iterator[sqlite3.Connection]:
    """The writer lock, in other hands."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def write_at_once(engine: SqliteEngine) -> list[tuple[float, bool]]:
    """As many threads write; returns how long each has waited, and whether it could write."""
    found: list[tuple[float, bool]] = []

    def write() -> None:
        began = time.monotonic()
        try:
            engine.update_settings(lambda settings: settings)
        except Busy:
            found.append((time.monotonic() - began, False))
        else:
            found.append((time.monotonic() - began, True))

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == WRITERS
    return found


def test_those_who_wait_together_give_up_together(impatient: SqliteEngine, db: Path) -> None:
    with held(db):
        found = write_at_once(impatient)
    assert not any(written for _, written in found)
    # One after the other the last would wait six times as long.
    assert max(seconds for seconds, _ in found) < (WRITERS - 1) * LOCK_SECONDS
    assert min(seconds for seconds, _ in found) > LOCK_SECONDS * 0.9


def test_those_who_wait_together_write_when_the_lock_comes_free(engine: SqliteEngine, db: Path) -> None:
    found: list[tuple[float, bool]] = []
    waiting = threading.Thread(target=lambda: found.extend(write_at_once(engine)))
    with held(db):
        waiting.start()
        while not engine.database._write_lock.locked():
            time.sleep(0.001)
    waiting.join(60)
    assert [written for _, written in found] == [True] * WRITERS


def test_after_a_wait_the_next_write_has_all_its_time(impatient: SqliteEngine, db: Path) -> None:
    with held(db):
        write_at_once(impatient)
    assert impatient.database._writer is not None
    (milliseconds,) = impatient.database._writer.execute("PRAGMA busy_timeout").fetchone()
    assert milliseconds == LOCK_SECONDS * 1000
