"""Connections for reading: one for each thread that reads at the same time, up to a few."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from memfs.model.errors import StorageFailed

MAX_READERS = 4
"""A search through a long history then keeps others waiting only where as many go on at once."""


class Readers:
    """A pool that grows when it has to. The last one that was used is used next: it has the pages in its cache."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """``connect`` makes a connection, the first of them now. Raises what it raises."""
        self._connect = connect
        self._idle = [connect()]
        self._open = 1
        self._closed = False
        self._returned = threading.Condition()

    @contextmanager
    def one(self) -> Iterator[sqlite3.Connection | None]:
        """A connection for this thread alone; None where the pool is closed."""
        connection = self._take()
        try:
            yield connection
        finally:
            if connection is not None:
                self._give_back(connection)

    def _take(self) -> sqlite3.Connection | None:
        with self._returned:
            while True:
                if self._closed:
                    return None
                if self._idle:
                    return self._idle.pop()
                if self._open < MAX_READERS:
                    # No descriptor left, perhaps, or another database in its place: one of those there are comes back.
                    with suppress(sqlite3.Error, StorageFailed):
                        connection = self._connect()
                        self._open += 1
                        return connection
                self._returned.wait()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._returned:
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)
                self._returned.notify()

    def close(self) -> None:
        """Close those that are idle; the others when they come back. Safe to call twice."""
        with self._returned:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
            self._returned.notify_all()
