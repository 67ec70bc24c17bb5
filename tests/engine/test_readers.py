"""Reading and closing in several threads at once."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.engine import SqliteEngine
from memfs.engine.readers import MAX_READERS
from memfs.model.errors import StorageFailed

SECONDS = 60.0


@pytest.fixture
def engine(db: Path) -> Iterator[SqliteEngine]:
    """A new database."""
    made = SqliteEngine(db, create=True)
    yield made
    made.close()


class Busy:
    """Threads that read, or write, until they are told to end."""

    def __init__(self) -> None:
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failed: list[Exception] = []

    def begin(self, engine: SqliteEngine, number: int, *, write: bool = False) -> None:
        """Begin; returns when they are at it."""
        at_it = threading.Barrier(number + 1, timeout=SECONDS)

        def work() -> None:
            try:
                with engine.database.write() if write else engine.database.read() as db:
                    db.execute("SELECT count(*) FROM workspace").fetchone()
                    at_it.wait()
                    self._end.wait(SECONDS)
                    assert db.execute("SELECT count(*) FROM workspace").fetchone() == (1,)
            except Exception as error:
                self.failed.append(error)

        for _ in range(number):
            thread = threading.Thread(target=work)
            thread.start()
            self._threads.append(thread)
        at_it.wait()

    def end(self) -> None:
        """End; returns when they have."""
        self._end.set()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive()


def test_a_long_read_keeps_nobody_waiting(engine: SqliteEngine) -> None:
    busy = Busy()
    busy.begin(engine, MAX_READERS - 1)
    assert engine.stores(include_archived=True) == []
    engine.data_version()
    engine.update_settings(lambda settings: settings)
    busy.end()
    assert busy.failed == []


def test_as_many_as_there_may_be_keep_the_next_one_waiting_and_no_longer(engine: SqliteEngine) -> None:
    busy, done = Busy(), threading.Event()
    busy.begin(engine, MAX_READERS)

    def read() -> None:
        engine.stores(include_archived=True)
        done.set()

    waiting = threading.Thread(target=read)
    waiting.start()
    assert not done.wait(0.2)
    engine.data_version()
    busy.end()
    assert done.wait(SECONDS)
    waiting.join(SECONDS)
    assert busy.failed == []


@pytest.mark.parametrize("write", [False, True])
def test_closing_leaves_what_is_in_use_to_those_who_use_it(engine: SqliteEngine, write: bool) -> None:
    busy = Busy()
    busy.begin(engine, 1, write=write)
    engine.close()
    with pytest.raises(StorageFailed, match="is closed"):
        engine.stores(include_archived=True)
    busy.end()
    assert busy.failed == []
    engine.close()
