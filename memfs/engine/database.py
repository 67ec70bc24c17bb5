"""A database: one SQLite file in WAL mode, readers that never wait, one writer at a time, and the log on the disk."""

import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from memfs.engine import opening, scrubbing
from memfs.engine.durability import Log
from memfs.engine.feed import FileFeed
from memfs.engine.locking import SCRUB_SECONDS, transaction, waiting
from memfs.engine.opening import (
    connect,
    create_file,
    log_of,
    migrations_in,
    prepare,
    require_current,
    translated,
)
from memfs.engine.readers import Readers
from memfs.engine.rows import scrubs
from memfs.model.errors import Busy, NotFound, StorageFailed, UnusableDatabase

CLOSE_SECONDS = 1.0
"""How long closing waits for a write that another thread is at."""


class Database:
    """The file and all connections of this process to it; what is in its tables is others' business.

    Reads have connections of their own, so that they never wait behind a write of this process, and the question
    whether anything changed, which is asked at every open(), has one that nothing else uses. None may be carried
    across fork().
    """

    def __init__(self, path: Path, *, create: bool = False, read_only: bool = False) -> None:
        """Open the database, migrating it where it is older.

        ``create`` makes a missing file (0600) and its directory (0700). ``read_only`` opens without any connection
        that could write. Raises NotFound where there is no file, UnusableDatabase where it is not ours or newer.
        """
        self.path = path
        self._found_at = path.absolute()  # also where this process goes to another directory
        self._observer_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._readers: Readers | None = None
        self._observer: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._recorder: sqlite3.Connection | None = None
        self._patience_ends = math.inf
        self._migrations = 0
        self._log = Log(log_of(self._found_at))
        try:
            path.stat()
        except PermissionError as error:
            raise StorageFailed(f"the database {path} cannot be reached: {error.strerror}") from error
        except OSError:
            if not create:
                raise NotFound(f"there is no database at {path}: make one with 'memfs store create NAME'") from None
            create_file(path)
        with translated(path):
            try:
                if not read_only:
                    self._writer = connect(path, "rw")
                    prepare(path, self._writer, create=create)
                self._observer = connect(path, "ro")
                self._file = path.stat()
                if read_only:
                    require_current(path, self._observer)
                self._readers = Readers(self._reader)
                if not read_only:
                    # From now on, so that it is told of each error in writing what is committed.
                    self._migrations = migrations_in(self._observer)  # which also makes the log
                    self._log.open()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the connections; safe to call twice.

        One that another thread is using is left to that thread: closed below its hands, it would take the process with
        it.
        """
        readers, self._readers = self._readers, None
        if readers is not None:
            readers.close()
        with self._observer_lock:
            if self._observer is not None:
                self._observer.close()
                self._observer = None
        if self._write_lock.acquire(timeout=CLOSE_SECONDS):
            try:
                for connection in (self._writer, self._recorder):
                    if connection is not None:
                        connection.close()
                self._writer = self._recorder = None
            finally:
                self._write_lock.release()
        self._log.close()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view for all statements inside. Raises StorageFailed."""
        readers = self._readers
        if readers is None:
            raise self._closed()
        with translated(self.path), readers.one() as reader:
            if reader is None:
                raise self._closed()
            reader.execute("BEGIN")
            try:
                yield reader
            finally:
                reader.execute("ROLLBACK")

    def _reader(self) -> sqlite3.Connection:
        """One more connection for reading. Raises StorageFailed where another database is there by now."""
        connection = connect(self._found_at, "ro")
        if not self._is_in_place():
            connection.close()
            raise self._replaced()
        return connection

    def _closed(self) -> StorageFailed:
        return StorageFailed(f"the database {self.path} is closed")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the writer lock from its start; rolled back on any exception.

        Raises StorageFailed, Busy where the lock was not to be had in time, UnusableDatabase (``_check_format``).
        """
        began = time.monotonic()
        with self._turn(began), translated(self.path):
            if self._writer is None:
                raise StorageFailed(f"the database {self.path} is open for reading only")
            try:
                self.check_in_place()
            except StorageFailed:
                self._rescue_log(self._writer)
                raise
            with transaction(self._writer, self._worth_waiting, began, self._patience()) as db:
                self._check_format(db)
                yield db

    @contextmanager
    def write_at_once(self) -> Iterator[sqlite3.Connection]:
        """A transaction that raises Busy rather than wait. A read_only engine can write accesses alone in it."""
        # Whoever has the lock may be waiting for another process.
        if not self._write_lock.acquire(blocking=False):
            raise Busy(f"something else is written to {self.path} right now; try again")
        try:
            with translated(self.path):
                self.check_in_place()
                db = self._writer or self._access_recorder()
                with waiting(db, 0), transaction(db):
                    yield db
        finally:
            self._write_lock.release()

    def _access_recorder(self) -> sqlite3.Connection:
        """A connection that can write nothing but when memories were read: what a read_only engine has to write."""
        if self._readers is None:
            raise self._closed()
        if self._recorder is None:
            self._recorder = connect(self._found_at, "rw")
            self._recorder.set_authorizer(_accesses_only)
        return self._recorder

    def _check_format(self, db: sqlite3.Connection) -> None:
        """Write nothing in an old format into a database that somebody has brought to a newer one meanwhile."""
        if migrations_in(db) != self._migrations:
            raise UnusableDatabase(
                f"{self.path} was brought up to date by a newer memfs while it was open here: end this, and start again"
                " with that one"
            )

    def hurry(self, seconds: float) -> None:
        """See ``Engine.hurry``."""
        self._patience_ends = time.monotonic() + seconds

    def _worth_waiting(self) -> bool:
        return time.monotonic() < self._patience_ends and self._is_scrubbed()

    @contextmanager
    def _turn(self, began: float) -> Iterator[None]:
        """This thread's turn to write. Raises Busy where it does not come in the usual time, unless for a scrub."""
        while not self._write_lock.acquire(timeout=self._patience()):
            if time.monotonic() - began > SCRUB_SECONDS or not self._worth_waiting():
                raise Busy(f"other writes to {self.path} wait for another process; try again")
        try:
            yield
        finally:
            self._write_lock.release()

    def _patience(self) -> float:
        return max(0.0, min(opening.LOCK_TIMEOUT_SECONDS, self._patience_ends - time.monotonic()))

    def _is_scrubbed(self) -> bool:
        """Whether somebody is busy writing the whole file anew, or should be."""
        with self.read() as db:
            wanted, done = scrubs(db)
        return bool(wanted > done)

    def _replaced(self) -> StorageFailed:
        return StorageFailed(f"the database {self.path} was replaced while it was open: start again")

    def check_in_place(self) -> None:
        """See ``Engine.check_in_place``."""
        try:
            found = os.stat(self._found_at)
        except OSError as error:
            raise StorageFailed(f"the database {self.path} was removed while it was open: {error.strerror}") from error
        if not os.path.samestat(found, self._file):
            raise self._replaced()
        if not self._log.in_place():
            raise StorageFailed(
                f"the log {self.path}-wal was removed while it was open: end all that uses the database, which brings"
                " what is in the log into it, and start again"
            )

    def _rescue_log(self, db: sqlite3.Connection) -> None:
        """Where the log was removed, bring what is in it into the database, or it would be gone with us."""
        # Where somebody has begun another log, what is in ours is not in that.
        if self._is_in_place() and not log_of(self._found_at).exists():
            with suppress(sqlite3.Error):
                db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._found_at), self._file)
        except OSError:
            return False

    def sync(self) -> None:
        """See ``Engine.sync``."""
        self.check_in_place()  # moved away, it holds what nobody finds after a loss of power
        if self._log.doubted:
            self._settle_log()
        self._log.sync()

    def _settle_log(self) -> None:
        """After the disk has failed to take the log: bring all that is in it into the database.

        What a failed sync has left unwritten, the next one takes for written (it says so once), and so no sync of the
        log can be believed any more. A checkpoint writes the pages anew, and syncs them; the log must then be empty, or
        what of it is on the disk would be taken for newer after a loss of power. Raises Busy, StorageFailed.
        """
        with self._turn(time.monotonic()), translated(self.path):
            if self._writer is None:
                raise self._closed()
            busy, _, _ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise Busy(f"the log of {self.path} could not be synced, nor yet be emptied, for others read it; try again")
        self._log.doubted = False

    def data_version(self) -> int:
        """See ``Engine.data_version``."""
        with self._observer_lock, translated(self.path):
            if self._observer is None:
                raise self._closed()
            return cast(int, self._observer.execute("PRAGMA data_version").fetchone()[0])

    def feed(self) -> FileFeed:
        """See ``Engine.feed``."""
        return FileFeed(self._found_at)

    def scrub(self, *, anyway: bool, wait: bool) -> bool:
        """See ``Engine.scrub``."""
        with self._write_lock, translated(self.path):
            if self._writer is None:
                raise StorageFailed(f"the database {self.path} is open for reading only")
            return scrubbing.scrub(self._writer, self.path, anyway=anyway, wait=wait)


_HARMLESS = {sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_FUNCTION}


def _accesses_only(action: int, first: str | None, *_others: str | None) -> int:
    """What a connection that records accesses may do (see sqlite3.Connection.set_authorizer)."""
    writes = action in (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE) and first == "memory_accesses"
    waits = action == sqlite3.SQLITE_PRAGMA and first == "busy_timeout"
    return sqlite3.SQLITE_OK if writes or waits or action in _HARMLESS else sqlite3.SQLITE_DENY
