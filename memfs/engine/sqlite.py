"""The SQLite engine: one file in WAL mode, readers that never wait, one writer at a time."""

import json
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

from memfs.engine import history, keys, opening, sessions
from memfs.engine.batch import Batch
from memfs.engine.damage import check_head, check_time, text
from memfs.engine.durability import Log
from memfs.engine.feed import FileFeed
from memfs.engine.opening import (
    connect,
    create_file,
    is_busy,
    log_of,
    migrations_in,
    prepare,
    require_current,
    translated,
)
from memfs.engine.protocol import Limits, Rebase, SessionFilter, VersionFilter
from memfs.engine.readers import Readers
from memfs.engine.rows import (
    CONTENT_OF_MEMORY,
    CONTENT_OF_VERSION,
    HEAD,
    MEMORY,
    STORE,
    VERSION,
    as_guards,
    as_head,
    as_memory,
    as_store,
    as_version,
    get_directories,
    get_store,
    get_version,
    head_of,
    last_sequence,
    record_change,
    scrubs,
    store_row,
    workspace_numbers,
)
from memfs.model import ids
from memfs.model.errors import Busy, NotFound, PreconditionFailed, StorageFailed, StoreArchived, UnusableDatabase
from memfs.model.mutations import Applied, Mutation
from memfs.model.paths import subtree_range
from memfs.model.records import (
    AccessedMemory,
    Actor,
    ApiKey,
    Changes,
    Guards,
    Head,
    Memory,
    MemoryPrefix,
    MemoryVersion,
    PastState,
    Session,
    Settings,
    Snapshot,
    Store,
)

SCRUB_SECONDS = 300.0
"""How long a write waits where the lock is held by a scrub, which takes seconds for each gigabyte."""

SHORT_SECONDS = 0.1
"""A wait that is not worth to be taken from the time that a write waits at most."""

CLOSE_SECONDS = 1.0
"""How long closing waits for a write that another thread is at."""

ACCESS_RESOLUTION = timedelta(hours=1)
"""A memory that was read again within this time of what is on record needs no new record."""


class SqliteEngine:
    """A workspace in one SQLite file (see ``memfs.engine.protocol.Engine``).

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
    def _read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view for all statements inside."""
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
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the writer lock from its start; rolled back on any exception."""
        began = time.monotonic()
        with self._turn(began), translated(self.path):
            if self._writer is None:
                raise StorageFailed(f"the database {self.path} is open for reading only")
            try:
                self.check_in_place()
            except StorageFailed:
                self._rescue_log(self._writer)
                raise
            with _transaction(self._writer, self._worth_waiting, began, self._patience()) as db:
                self._check_format(db)
                yield db

    def _check_format(self, db: sqlite3.Connection) -> None:
        """Write nothing in an old format into a database that somebody has brought to a newer one meanwhile."""
        if migrations_in(db) != self._migrations:
            raise UnusableDatabase(
                f"{self.path} was brought up to date by a newer memfs while it was open here: end this, and start again"
                " with that one"
            )

    def hurry(self, seconds: float) -> None:
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
        with self._read() as db:
            wanted, done = scrubs(db)
        return bool(wanted > done)

    def _replaced(self) -> StorageFailed:
        return StorageFailed(f"the database {self.path} was replaced while it was open: start again")

    def check_in_place(self) -> None:
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

    # Stores

    def insert_store(self, store: Store) -> None:
        with self._write() as db:
            _insert_store(db, store)

    def insert_filled_store(self, store: Store, mutations: Sequence[Mutation], actor: Actor, *, limits: Limits) -> None:
        with self._write() as db:
            _insert_store(db, store)
            Batch(db, store.id, mutations, actor, limits).run()

    def store(self, store_id: str) -> Store:
        with self._read() as db:
            return get_store(db, store_id)

    def stores(
        self,
        *,
        include_archived: bool,
        created_from: str | None = None,
        created_to: str | None = None,
        within: Collection[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Store]:
        conditions = [
            ("created_at >= ?", created_from),
            ("created_at <= ?", created_to),
            ("id IN (SELECT value FROM json_each(?))", None if within is None else json.dumps(list(within))),
            ("id > ?", after),
        ]
        used = [(text, value) for text, value in conditions if value is not None]
        where = " AND ".join([text for text, _ in used] + ([] if include_archived else ["archived_at IS NULL"]))
        with self._read() as db:
            rows = db.execute(
                f"SELECT {STORE} FROM memory_stores {'WHERE ' if where else ''}{where} ORDER BY id LIMIT ?",
                [*(value for _, value in used), -1 if limit is None else limit],
            )
            return [as_store(row) for row in rows]

    def guards(self, store_id: str) -> Guards:
        with self._read() as db:
            row = db.execute("SELECT guards FROM memory_stores WHERE id = ?", (store_id,)).fetchone()
            if row is None:
                raise NotFound(f"there is no store {store_id}")
            return as_guards(row[0])

    def update_store(self, store_id: str, change: Callable[[Store], Store]) -> Store:
        with self._write() as db:
            before = get_store(db, store_id)
            after = change(before)
            if after != before:
                db.execute(
                    f"UPDATE memory_stores SET ({STORE}) = (?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?",
                    (*store_row(after), store_id),
                )
                record_change(db, store_id, "store")
            return after

    def delete_store(self, store_id: str) -> None:
        with self._write() as db:
            get_store(db, store_id)
            # The memories first: versions that heads point at cannot go.
            for table in ("memories", "memory_versions", "changes", "kept_directories", "session_attachments"):
                db.execute(f"DELETE FROM {table} WHERE store_id = ?", (store_id,))
            db.execute("DELETE FROM memory_stores WHERE id = ?", (store_id,))
            db.execute(
                "DELETE FROM contents WHERE NOT EXISTS (SELECT 1 FROM memory_versions WHERE content_id = contents.id)"
            )
            db.execute("UPDATE workspace SET scrubs_wanted = scrubs_wanted + 1")

    # Following a store

    def data_version(self) -> int:
        with self._observer_lock, translated(self.path):
            if self._observer is None:
                raise self._closed()
            return cast(int, self._observer.execute("PRAGMA data_version").fetchone()[0])

    def feed(self) -> FileFeed:
        return FileFeed(self._found_at)

    def snapshot(self, store_id: str) -> Snapshot:
        with self._read() as db:
            heads = [as_head(row) for row in db.execute(f"SELECT {HEAD} FROM memories WHERE store_id = ?", (store_id,))]
            for head in heads:
                check_head(head)
            store = get_store(db, store_id)
            check_time(store.created_at)
            return Snapshot(
                sequence=last_sequence(db),
                store=store,
                heads=heads,
                directories=get_directories(db, store_id),
            )

    def changes(self, store_id: str, after: int) -> Changes:
        with self._read() as db:
            store = get_store(db, store_id)
            sequence = last_sequence(db)
            if sequence == after:
                return Changes(sequence, {}, None, None)
            heads: dict[str, Head | None] = {}
            directories = store_changed = False
            for subject, memory_id in db.execute(
                "SELECT DISTINCT subject, memory_id FROM changes WHERE sequence > ? AND store_id = ?", (after, store_id)
            ).fetchall():
                if subject == "memory":
                    head = heads[memory_id] = head_of(db, memory_id)
                    if head is not None:
                        check_head(head)
                elif subject == "directories":
                    directories = True
                else:
                    store_changed = True
            return Changes(
                sequence,
                heads,
                get_directories(db, store_id) if directories else None,
                store if store_changed else None,
            )

    # Memories

    def memories(
        self, store_id: str, prefix: str, *, content: bool, after: str | None = None, limit: int | None = None
    ) -> list[Memory]:
        first, beyond = subtree_range(prefix.removesuffix("/"))
        with self._read() as db:
            get_store(db, store_id)
            rows = db.execute(
                f"SELECT {MEMORY}{CONTENT_OF_MEMORY if content else ''} FROM memories"
                " WHERE store_id = ? AND path >= ? AND path < ? AND path > ? ORDER BY path LIMIT ?",
                (store_id, first, beyond, after or "", -1 if limit is None else limit),
            )
            return [as_memory(row) for row in rows]

    def children(
        self, store_id: str, prefix: str, *, content: bool, after: str | None = None, limit: int | None = None
    ) -> list[Memory | MemoryPrefix]:
        first, beyond = subtree_range(prefix.removesuffix("/"))
        if after is not None and after.endswith("/"):  # all that was rolled up comes before the next page
            first = max(first, subtree_range(after.removesuffix("/"))[1])
        found: list[Memory | MemoryPrefix] = []
        with self._read() as db:
            get_store(db, store_id)
            rows = db.execute(
                f"SELECT {MEMORY} FROM memories WHERE store_id = ? AND path >= ? AND path < ? AND path > ?"
                " ORDER BY path",
                (store_id, first, beyond, after or ""),
            )
            for row in rows:
                if len(found) == limit:
                    break
                memory = as_memory(row)
                name, below, _ = memory.path[len(prefix) :].partition("/")
                if not below:
                    found.append(replace(memory, content=_content(db, memory)) if content else memory)
                elif (marker := MemoryPrefix(f"{prefix}{name}/")) not in found[-1:]:
                    found.append(marker)
        return found

    def memory(self, store_id: str, memory_id: str) -> Memory:
        with self._read() as db:
            get_store(db, store_id)
            row = db.execute(
                f"SELECT {MEMORY}{CONTENT_OF_MEMORY} FROM memories WHERE id = ? AND store_id = ?",
                (memory_id, store_id),
            ).fetchone()
            if row is None:
                raise NotFound(f"the store {store_id} has no memory {memory_id}")
            return as_memory(row)

    def memory_at(self, store_id: str, path: str) -> Memory:
        with self._read() as db:
            get_store(db, store_id)
            row = db.execute(
                f"SELECT {MEMORY}{CONTENT_OF_MEMORY} FROM memories WHERE store_id = ? AND path = ?", (store_id, path)
            ).fetchone()
            if row is None:
                raise NotFound(f"the store {store_id} has no memory at {path}")
            return as_memory(row)

    def content(self, version_id: str) -> bytes:
        with self._read() as db:
            # What is read is mostly a head, and those are few: their index stays in the cache, whatever the history.
            row = db.execute(
                "SELECT bytes FROM memories JOIN contents ON contents.id = content_id WHERE head_version_id = ?",
                (version_id,),
            ).fetchone()
            if row is None:
                row = db.execute(
                    "SELECT bytes FROM memory_versions AS v JOIN contents ON contents.id = content_id WHERE v.id = ?",
                    (version_id,),
                ).fetchone()
            if row is None:
                raise NotFound(f"the version {version_id} has no content")
            return text(row[0], version_id)

    def apply(
        self,
        store_id: str,
        mutations: Sequence[Mutation],
        actor: Actor,
        *,
        limits: Limits,
        unchanged_since: int | None = None,
        guards: Guards | None = None,
        archived: bool = False,
        rebase: Rebase | None = None,
    ) -> Applied:
        with self._write() as db:
            _check_writable(db, store_id, guards, archived=archived)
            if unchanged_since is not None:
                row = db.execute(
                    "SELECT 1 FROM changes WHERE sequence > ? AND store_id = ? LIMIT 1", (unchanged_since, store_id)
                ).fetchone()
                if row is not None:
                    raise PreconditionFailed(f"the store {store_id} was changed meanwhile: look again")
            return Batch(db, store_id, mutations, actor, limits, rebase).run()

    # When memories were read

    def record_accesses(self, accesses: Mapping[str, str]) -> None:
        with self._read() as db:
            stored = {
                memory_id: at
                for given in accesses
                for memory_id, at in db.execute("SELECT * FROM memory_accesses WHERE memory_id = ?", (given,))
            }
        news = [
            (memory_id, at)
            for memory_id, at in accesses.items()
            if datetime.fromisoformat(at) - datetime.fromisoformat(stored.get(memory_id, _NEVER)) > ACCESS_RESOLUTION
        ]
        if not news:
            return
        with self._write_at_once() as db:
            db.executemany(
                "INSERT INTO memory_accesses SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM memories WHERE id = ?1)"
                " ON CONFLICT (memory_id) DO UPDATE SET accessed_at = max(accessed_at, excluded.accessed_at)",
                news,
            )

    @contextmanager
    def _write_at_once(self) -> Iterator[sqlite3.Connection]:
        """A transaction that raises Busy rather than wait. A read_only engine can write accesses alone in it."""
        # Whoever has the lock may be waiting for another process.
        if not self._write_lock.acquire(blocking=False):
            raise Busy(f"something else is written to {self.path} right now; try again")
        try:
            with translated(self.path):
                self.check_in_place()
                db = self._writer or self._access_recorder()
                with _waiting(db, 0), _transaction(db):
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

    def accessed_memories(self, store_id: str, prefix: str, *, before: str) -> list[AccessedMemory]:
        below, beyond = subtree_range(prefix.removesuffix("/"))
        with self._read() as db:
            get_store(db, store_id)
            rows = db.execute(
                f"SELECT {MEMORY}, NULL, accessed_at FROM memories LEFT JOIN memory_accesses ON memory_id = id"
                " WHERE store_id = ? AND path >= ? AND path < ? AND updated_at < ? AND coalesce(accessed_at, '') < ?"
                " ORDER BY path",
                (store_id, below, beyond, before, before),
            )
            return [AccessedMemory(as_memory(row[:-1]), row[-1]) for row in rows]

    # History

    def versions(
        self,
        store_id: str,
        where: VersionFilter,
        *,
        limit: int | None,
        before: int | None = None,
        after: int | None = None,
        oldest_first: bool = False,
        content: bool = False,
    ) -> list[MemoryVersion]:
        conditions: list[tuple[str, str | int | None]] = [
            ("v.store_id = ?", store_id),
            ("v.memory_id = ?", where.memory_id),
            ("v.operation = ?", where.operation),
            ("v.created_by_type = 'session_actor' AND v.created_by_id = ?", where.session_id),
            ("v.created_by_type = 'api_actor' AND v.created_by_id = ?", where.api_key_id),
            ("v.created_by_type = 'user_actor' AND v.created_by_id = ?", where.user_id),
            ("v.created_by_type = 'service_account_actor' AND v.created_by_id = ?", where.service_account_id),
            ("v.created_at >= ?", where.created_from),
            ("v.created_at <= ?", where.created_to),
            ("v.sequence IN (SELECT sequence FROM merges WHERE conflict) AND ?", where.conflicts or None),
            ("v.sequence < ?", before),
            ("v.sequence > ?", after),
        ]
        used = [(text, value) for text, value in conditions if value is not None]
        with self._read() as db:
            get_store(db, store_id)
            rows = db.execute(
                f"SELECT {VERSION}{CONTENT_OF_VERSION if content else ''} FROM memory_versions AS v"
                f" WHERE {' AND '.join(text for text, _ in used)}"
                f" ORDER BY v.sequence {'ASC' if oldest_first else 'DESC'} LIMIT ?",
                [*(value for _, value in used), -1 if limit is None else limit],
            )
            return [as_version(row) for row in rows]

    def memory_id_for(self, store_id: str, path_or_id: str) -> str | None:
        with self._read() as db:
            get_store(db, store_id)
            if ids.is_id(path_or_id, ids.MEMORY):
                statement = "SELECT memory_id FROM memory_versions WHERE store_id = ? AND memory_id = ? LIMIT 1"
            else:
                statement = "SELECT id FROM memories WHERE store_id = ? AND path = ?"
            row = db.execute(statement, (store_id, path_or_id)).fetchone()
            if row is None:
                row = db.execute(
                    "SELECT memory_id FROM memory_versions WHERE store_id = ? AND path = ?"
                    " ORDER BY sequence DESC LIMIT 1",
                    (store_id, path_or_id),
                ).fetchone()
        return None if row is None else cast(str, row[0])

    def version(self, store_id: str, version_id: str) -> MemoryVersion:
        with self._read() as db:
            return get_version(db, store_id, version_id)

    def past_state(self, store_id: str, *, at: str | None = None, version_id: str | None = None) -> PastState:
        with self._read() as db:
            return history.past_state(db, store_id, at, version_id)

    def redact(self, store_id: str, version_ids: Sequence[str], at: str, actor: Actor) -> list[MemoryVersion]:
        with self._write() as db:
            return history.redact(db, store_id, version_ids, at, actor)

    def prunable(self, store_id: str, before: str, *, after: int = 0, limit: int | None = None) -> list[MemoryVersion]:
        with self._read() as db:
            return history.prunable(db, store_id, before, after, limit)

    def prune(self, store_id: str, before: str, *, limit: int) -> int:
        with self._write() as db:
            return history.prune(db, store_id, before, limit)

    def knows_any(self, versions: Iterable[MemoryVersion]) -> bool:
        with self._read() as db:
            return history.any_known(db, versions)

    def insert_history(
        self,
        store_id: str,
        versions: Iterable[MemoryVersion],
        created_at: Mapping[str, str],
        *,
        limits: Limits,
        guards: Guards | None = None,
    ) -> int:
        with self._write() as db, history.large_cache(db):
            _check_writable(db, store_id, guards)
            return history.insert_history(db, store_id, versions, created_at, limits)

    def scrub(self, *, anyway: bool = False, wait: bool = True) -> bool:
        with self._write_lock, translated(self.path):
            db = self._writer
            if db is None:
                raise StorageFailed(f"the database {self.path} is open for reading only")
            # Counted, so that what another process removes meanwhile is not taken for scrubbed.
            if anyway:
                db.execute("UPDATE workspace SET scrubs_wanted = scrubs_wanted + 1")
            wanted, done = scrubs(db)
            if wanted == done:
                return False
            try:
                self._rewrite(db, wait=wait)
            except (Busy, sqlite3.Error):
                if anyway and wanted - 1 == done:
                    # Only space was to be given back: nobody has to try that again before every command.
                    with suppress(sqlite3.Error):
                        db.execute("UPDATE workspace SET scrubs_done = ?1 WHERE scrubs_wanted = ?1", (wanted,))
                raise
            db.execute("UPDATE workspace SET scrubs_done = max(scrubs_done, ?)", (wanted,))
            return True

    def _rewrite(self, db: sqlite3.Connection, *, wait: bool) -> None:
        """Write the whole file anew, and leave nothing in the log."""
        try:
            with nullcontext() if wait else _waiting(db, 0):
                db.execute("VACUUM")  # deleted cells leave copies in pages that were split or merged since
        except sqlite3.Error as error:
            if not is_busy(error):
                # What it wrote before it failed is in the log, perhaps in the last of the disk's space.
                with suppress(Busy, sqlite3.Error):
                    self._empty_log(db, 1.0)
            raise
        self._empty_log(db, opening.LOCK_TIMEOUT_SECONDS if wait else 1.0)

    def _empty_log(self, db: sqlite3.Connection, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        # Each try waits for readers with the writer lock held, so it has to be short, or all writers stand. Where
        # another process moves pages from the log, which it does after a large commit, SQLite does not wait at all.
        with _waiting(db, min(seconds, 0.1)):
            while db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() >= deadline:
                    raise Busy(
                        f"the log of {self.path} could not be emptied because another process reads an old state of"
                        " it: what was removed may still be there; run this again"
                    )
                time.sleep(0.02)

    # Settings

    def settings(self) -> Settings:
        with self._read() as db:
            return _settings(db)

    def update_settings(self, change: Callable[[Settings], Settings]) -> Settings:
        with self._write() as db:
            settings = change(_settings(db))
            db.execute(
                "UPDATE workspace SET retention_days = ?, prune_automatically = ?",
                (settings.retention_days, int(settings.prune_automatically)),
            )
            return settings

    def claim_pruning(self, before: str, at: str) -> bool:
        with self._write() as db:
            claimed = db.execute("UPDATE workspace SET pruned_at = ? WHERE coalesce(pruned_at, '') < ?", (at, before))
            return claimed.rowcount > 0

    # Sessions

    def insert_session(self, session: Session) -> None:
        with self._write() as db:
            sessions.insert_session(db, session)

    def session(self, session_id: str) -> Session:
        with self._read() as db:
            return sessions.get_session(db, session_id)

    def sessions(self, where: SessionFilter, *, newest_first: bool = True, limit: int | None = None) -> list[Session]:
        with self._read() as db:
            return sessions.list_sessions(db, where, newest_first=newest_first, limit=limit)

    def end_session(self, session_id: str, at: str) -> None:
        with self._write() as db:
            db.execute("UPDATE sessions SET ended_at = ? WHERE id = ? AND ended_at IS NULL", (at, session_id))

    def resume_session(self, session_id: str) -> None:
        with self._write() as db:
            db.execute("UPDATE sessions SET ended_at = NULL WHERE id = ? AND archived_at IS NULL", (session_id,))

    def archive_session(self, session_id: str, at: str) -> Session:
        with self._write() as db:
            return sessions.archive_session(db, session_id, at)

    # API keys

    def insert_api_key(self, key: ApiKey, secret_sha256: str) -> None:
        with self._write() as db:
            keys.insert_key(db, key, secret_sha256)

    def api_keys(self) -> list[ApiKey]:
        with self._read() as db:
            return keys.list_keys(db)

    def api_key(self, key_id: str) -> tuple[ApiKey, str]:
        with self._read() as db:
            return keys.get_key(db, key_id)

    def revoke_api_key(self, key_id: str, at: str) -> ApiKey:
        with self._write() as db:
            return keys.revoke_key(db, key_id, at)

    def record_api_key_uses(self, uses: Mapping[str, str]) -> None:
        with self._write_at_once() as db:
            keys.record_uses(db, uses)


@contextmanager
def _transaction(
    db: sqlite3.Connection,
    worth_waiting: Callable[[], bool] | None = None,
    began: float | None = None,
    patience: float = math.inf,
) -> Iterator[sqlite3.Connection]:
    """A transaction that holds the writer lock from its start; rolled back on any exception.

    ``worth_waiting`` is asked where the lock could not be had in the usual time, which counts from when its caller
    ``began`` to wait: several that wait one after the other would else wait many times that long. ``patience`` is in
    seconds.
    """
    start = time.monotonic()
    waited = 0.0 if began is None else start - began
    deadline = start - waited + SCRUB_SECONDS
    seconds = min(opening.LOCK_TIMEOUT_SECONDS - waited, patience)
    usual = waited <= SHORT_SECONDS and patience >= opening.LOCK_TIMEOUT_SECONDS
    left = nullcontext() if usual else _waiting(db, max(0.0, seconds))
    while True:
        try:
            with left:
                db.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            if not is_busy(error) or worth_waiting is None or time.monotonic() > deadline or not worth_waiting():
                raise
            left = nullcontext()
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def _waiting(db: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Wait for others' locks no longer than this."""
    db.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")
    try:
        yield
    finally:
        db.execute(f"PRAGMA busy_timeout = {opening.LOCK_TIMEOUT_SECONDS * 1000:.0f}")


_NEVER = "0001-01-01T00:00:00.000000Z"

_HARMLESS = {sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_FUNCTION}


def _accesses_only(action: int, first: str | None, *_others: str | None) -> int:
    """What a connection that records accesses may do (see sqlite3.Connection.set_authorizer)."""
    writes = action in (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE) and first == "memory_accesses"
    waits = action == sqlite3.SQLITE_PRAGMA and first == "busy_timeout"
    return sqlite3.SQLITE_OK if writes or waits or action in _HARMLESS else sqlite3.SQLITE_DENY


def _check_writable(
    db: sqlite3.Connection, store_id: str, guards: Guards | None = None, *, archived: bool = False
) -> None:
    row = db.execute("SELECT archived_at, guards FROM memory_stores WHERE id = ?", (store_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no store {store_id}")
    if row[0] is not None and not archived:
        raise StoreArchived(f"the store {store_id} is archived: it can only be read")
    if guards is not None and guards != as_guards(row[1]):
        raise PreconditionFailed(f"the guards of the store {store_id} were changed meanwhile: try again")


def _content(db: sqlite3.Connection, memory: Memory) -> bytes:
    row = db.execute(
        "SELECT bytes FROM memories JOIN contents ON contents.id = content_id WHERE memories.id = ?", (memory.id,)
    ).fetchone()
    return text(None if row is None else row[0], memory.id)


def _settings(db: sqlite3.Connection) -> Settings:
    days, automatically = workspace_numbers(db, "retention_days", "prune_automatically")
    return Settings(days, bool(automatically))


def _insert_store(db: sqlite3.Connection, store: Store) -> None:
    db.execute(f"INSERT INTO memory_stores ({STORE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", store_row(store))
