"""The SQLite engine: one file in WAL mode, readers that never wait, one writer at a time."""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from sqlite_utils import Database

from memfs.engine.protocol import VersionFilter
from memfs.engine.schema import APPLICATION_ID, migrations
from memfs.model import ids
from memfs.model.errors import (
    Busy,
    NotFound,
    PathConflict,
    PreconditionFailed,
    StorageFailed,
    StorageFull,
    StoreArchived,
    StoreFull,
    UnusableDatabase,
)
from memfs.model.mutations import (
    KEEP,
    Applied,
    Create,
    Delete,
    DropDirectory,
    KeepDirectory,
    MoveDirectory,
    Mutation,
    SetAttributes,
    Update,
)
from memfs.model.paths import ancestors, subtree_range
from memfs.model.records import (
    Actor,
    Attachment,
    Changes,
    Directory,
    FileAttributes,
    Head,
    Memory,
    MemoryVersion,
    Operation,
    Session,
    Snapshot,
    Store,
    now,
)

LOCK_TIMEOUT_SECONDS = 15.0
"""How long a write waits for another process's write before it gives up with Busy."""

_HEAD = (
    "id, head_version_id, path, content_size_bytes, content_sha256, updated_at, file_mode, file_mtime_ns, file_inode"
)
_MEMORY = "id, store_id, head_version_id, path, content_size_bytes, content_sha256, created_at, updated_at"
_VERSION = (
    "v.id, v.store_id, v.memory_id, v.sequence, v.operation, v.path, v.content_size_bytes, v.content_sha256,"
    " v.created_at, v.created_by_type, v.created_by_id, v.redacted_at, v.redacted_by_type, v.redacted_by_id"
)
_STORE = "id, name, description, metadata, created_at, updated_at, archived_at"

Row = tuple[Any, ...]


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, so that no caller needs to know sqlite3."""
    try:
        yield
    except OverflowError as error:
        raise StorageFailed(f"a number is too large for the database {path}") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise Busy(
                f"another process has held the writer lock of {path} for over {LOCK_TIMEOUT_SECONDS:.0f} s; try again"
            ) from error
        if code == sqlite3.SQLITE_FULL:
            raise StorageFull(f"no space left for {path}: free some and try again") from error
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise UnusableDatabase(f"{path} is damaged or no SQLite database ({error})") from error
        raise StorageFailed(f"the database {path} could not be used: {error}") from error


class SqliteEngine:
    """A workspace in one SQLite file (see ``memfs.engine.protocol.Engine``).

    Two connections: reads have their own, so that they never wait behind a write of this process. Neither may be
    carried across fork().
    """

    def __init__(self, path: Path, *, create: bool = False, read_only: bool = False) -> None:
        """Open the database, migrating it where it is older.

        ``create`` makes a missing file (0600) and its directory (0700). ``read_only`` opens without any connection
        that could write. Raises NotFound where there is no file, UnusableDatabase where it is not ours or newer.
        """
        self.path = path
        self._read_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        try:
            path.stat()
        except PermissionError as error:
            raise StorageFailed(f"the database {path} cannot be reached: {error.strerror}") from error
        except OSError:
            if not create:
                raise NotFound(f"there is no database at {path}: make one with 'memfs store create NAME'") from None
            self._create_file()
        with _translated(path):
            try:
                if not read_only:
                    self._writer = self._connect("rw")
                    self._prepare(self._writer)
                self._reader = self._connect("ro")
                if read_only:
                    self._check(self._reader)
            except BaseException:
                self.close()
                raise

    def _create_file(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StorageFailed(f"cannot make the database {self.path}: {error.strerror}") from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=LOCK_TIMEOUT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        connection.execute("PRAGMA foreign_keys = ON")
        # A commit reaches the page cache (it survives our death); sync() makes it survive a loss of power.
        connection.execute("PRAGMA synchronous = NORMAL")
        if mode == "ro":
            connection.execute("PRAGMA query_only = ON")
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not ours or newer than this program."""
        # The tables first: where another process makes them between the two, the mark that comes with them is read.
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        if application_id != APPLICATION_ID and tables:
            raise UnusableDatabase(f"{self.path} is a SQLite database, but not one of memfs: choose another --db")
        if not tables:
            return
        with closing(sqlite3.connect(":memory:")) as empty:
            known = {migration.name for migration in migrations.pending(Database(empty, execute_plugins=False))}
        applied = {name for (name,) in connection.execute("SELECT name FROM _sqlite_migrations")}
        if newer := sorted(applied - known):
            raise UnusableDatabase(
                f"{self.path} was made by a newer memfs ({newer[-1]}): upgrade memfs-agent to open it"
            )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._check(connection)
        database = Database(connection, execute_plugins=False)
        if not migrations.pending(database):
            return
        self._enter_wal_mode(connection)
        # sqlite-utils begins a plain (deferred) transaction for each migration; under this one they are savepoints,
        # and two processes that open a new file at once do not both create the tables.
        connection.execute("BEGIN IMMEDIATE")
        try:
            first = not migrations.applied(database)
            migrations.apply(database)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            if first:
                connection.execute("INSERT INTO workspace VALUES (?, ?)", (ids.new_id(ids.WORKSPACE), now()))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)  # the names of the database and its WAL must survive a loss of power too
        finally:
            os.close(directory)

    def _enter_wal_mode(self, connection: sqlite3.Connection) -> None:
        """SQLite does not wait where two connections switch a new file at once: one of them is refused at once."""
        deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                return

    def close(self) -> None:
        """Close both connections; safe to call twice."""
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view for all statements inside."""
        with self._read_lock, _translated(self.path):
            if self._reader is None:
                raise StorageFailed(f"the database {self.path} is closed")
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                self._reader.execute("ROLLBACK")

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the writer lock from its start; rolled back on any exception."""
        with self._write_lock, _translated(self.path):
            if self._writer is None:
                raise StorageFailed(f"the database {self.path} is open for reading only")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def sync(self) -> None:
        """Write the WAL through to the disk: a checkpoint that has run meanwhile has synced what it moved."""
        wal = f"{self.path}-wal"
        try:
            descriptor = os.open(wal, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            raise StorageFailed(f"{wal} could not be synced: {error.strerror}") from error
        finally:
            os.close(descriptor)

    # Stores

    def insert_store(self, store: Store) -> None:
        with self._write() as db:
            db.execute(
                f"INSERT INTO memory_stores ({_STORE}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    store.id,
                    store.name,
                    store.description,
                    json.dumps(store.metadata, ensure_ascii=False),
                    store.created_at,
                    store.updated_at,
                    store.archived_at,
                ),
            )

    def store(self, store_id: str) -> Store:
        with self._read() as db:
            return _store(db, store_id)

    def stores(self, *, include_archived: bool) -> list[Store]:
        where = "" if include_archived else "WHERE archived_at IS NULL"
        with self._read() as db:
            return [_as_store(row) for row in db.execute(f"SELECT {_STORE} FROM memory_stores {where} ORDER BY id")]

    def archive_store(self, store_id: str, at: str) -> Store:
        with self._write() as db:
            if _store(db, store_id).archived_at is None:
                db.execute("UPDATE memory_stores SET archived_at = ?1, updated_at = ?1 WHERE id = ?2", (at, store_id))
                _record_change(db, store_id, "store")
            return _store(db, store_id)

    # Following a store

    def data_version(self) -> int:
        with self._read_lock, _translated(self.path):
            if self._reader is None:
                raise StorageFailed(f"the database {self.path} is closed")
            return cast(int, self._reader.execute("PRAGMA data_version").fetchone()[0])

    def snapshot(self, store_id: str) -> Snapshot:
        with self._read() as db:
            return Snapshot(
                sequence=_sequence(db),
                store=_store(db, store_id),
                heads=[
                    _head(row) for row in db.execute(f"SELECT {_HEAD} FROM memories WHERE store_id = ?", (store_id,))
                ],
                directories=_directories(db, store_id),
            )

    def changes(self, store_id: str, after: int) -> Changes:
        with self._read() as db:
            sequence = _sequence(db)
            if sequence == after:
                return Changes(sequence, {}, None, None)
            store = _store(db, store_id)
            heads: dict[str, Head | None] = {}
            directories = store_changed = False
            for subject, memory_id in db.execute(
                "SELECT DISTINCT subject, memory_id FROM changes WHERE sequence > ? AND store_id = ?", (after, store_id)
            ).fetchall():
                if subject == "memory":
                    heads[memory_id] = _head_of(db, memory_id)
                elif subject == "directories":
                    directories = True
                else:
                    store_changed = True
            return Changes(
                sequence,
                heads,
                _directories(db, store_id) if directories else None,
                store if store_changed else None,
            )

    # Memories

    def memories(self, store_id: str, prefix: str, *, content: bool) -> list[Memory]:
        below, beyond = subtree_range(prefix.removesuffix("/"))
        with self._read() as db:
            _store(db, store_id)
            rows = db.execute(
                f"SELECT {_MEMORY}{_CONTENT_OF_MEMORY if content else ''} FROM memories"
                " WHERE store_id = ? AND path >= ? AND path < ? ORDER BY path",
                (store_id, below, beyond),
            )
            return [Memory(*row) for row in rows]

    def memory(self, store_id: str, memory_id: str) -> Memory:
        with self._read() as db:
            _store(db, store_id)
            row = db.execute(
                f"SELECT {_MEMORY}{_CONTENT_OF_MEMORY} FROM memories WHERE id = ? AND store_id = ?",
                (memory_id, store_id),
            ).fetchone()
        if row is None:
            raise NotFound(f"the store {store_id} has no memory {memory_id}")
        return Memory(*row)

    def memory_at(self, store_id: str, path: str) -> Memory:
        with self._read() as db:
            _store(db, store_id)
            row = db.execute(
                f"SELECT {_MEMORY}{_CONTENT_OF_MEMORY} FROM memories WHERE store_id = ? AND path = ?", (store_id, path)
            ).fetchone()
        if row is None:
            raise NotFound(f"the store {store_id} has no memory at {path}")
        return Memory(*row)

    def content(self, version_id: str) -> bytes:
        with self._read() as db:
            row = db.execute(
                "SELECT bytes FROM memory_versions JOIN contents ON sha256 = content_sha256 WHERE id = ?", (version_id,)
            ).fetchone()
        if row is None:
            raise NotFound(f"the version {version_id} has no content")
        return cast(bytes, row[0])

    def apply(
        self,
        store_id: str,
        mutations: Sequence[Mutation],
        actor: Actor,
        *,
        max_memories: int,
        max_directories: int,
    ) -> Applied:
        with self._write() as db:
            if _store(db, store_id).archived_at is not None:
                raise StoreArchived(f"the store {store_id} is archived: it can only be read")
            return _Batch(db, store_id, mutations, actor, max_memories, max_directories).run()

    # History

    def versions(
        self, store_id: str, where: VersionFilter, *, limit: int | None, before: int | None, content: bool
    ) -> list[MemoryVersion]:
        conditions: list[tuple[str, Any]] = [
            ("v.store_id = ?", store_id),
            ("v.memory_id = ?", where.memory_id),
            ("v.operation = ?", where.operation),
            ("v.created_by_type = 'session_actor' AND v.created_by_id = ?", where.session_id),
            ("v.created_at >= ?", where.created_from),
            ("v.created_at <= ?", where.created_to),
            ("v.sequence < ?", before),
        ]
        used = [(text, value) for text, value in conditions if value is not None]
        with self._read() as db:
            _store(db, store_id)
            rows = db.execute(
                f"SELECT {_VERSION}{_CONTENT_OF_VERSION if content else ''} FROM memory_versions AS v"
                f" WHERE {' AND '.join(text for text, _ in used)} ORDER BY v.sequence DESC LIMIT ?",
                [*(value for _, value in used), -1 if limit is None else limit],
            )
            return [_as_version(row) for row in rows]

    def memory_id_for(self, store_id: str, path_or_id: str) -> str | None:
        with self._read() as db:
            _store(db, store_id)
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

    def version(self, version_id: str) -> MemoryVersion:
        with self._read() as db:
            row = db.execute(
                f"SELECT {_VERSION}{_CONTENT_OF_VERSION} FROM memory_versions AS v WHERE v.id = ?", (version_id,)
            ).fetchone()
        if row is None:
            raise NotFound(f"there is no version {version_id}")
        return _as_version(row)

    # Sessions

    def insert_session(self, session: Session) -> None:
        with self._write() as db:
            db.execute("INSERT INTO sessions VALUES (?, ?, ?)", (session.id, session.created_at, session.ended_at))
            db.executemany(
                "INSERT INTO session_attachments VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        session.id,
                        position,
                        a.memory_store_id,
                        a.access,
                        a.name,
                        a.description,
                        a.mount_path,
                        a.instructions,
                    )
                    for position, a in enumerate(session.attachments)
                ],
            )

    def session(self, session_id: str) -> Session:
        with self._read() as db:
            row = db.execute("SELECT id, created_at, ended_at FROM sessions WHERE id = ?", (session_id,)).fetchone()
            if row is None:
                raise NotFound(f"there is no session {session_id}")
            attachments = tuple(
                Attachment(*fields)
                for fields in db.execute(
                    "SELECT store_id, access, store_name, store_description, mount_path, instructions"
                    " FROM session_attachments WHERE session_id = ? ORDER BY position",
                    (session_id,),
                )
            )
        return Session(id=row[0], created_at=row[1], attachments=attachments, ended_at=row[2])

    def end_session(self, session_id: str, at: str) -> None:
        with self._write() as db:
            db.execute("UPDATE sessions SET ended_at = ? WHERE id = ? AND ended_at IS NULL", (at, session_id))


class _Batch:
    """One batch of mutations inside one transaction.

    The paths of everything that moves or goes are freed first and the new ones checked and taken afterwards, so that
    the order of the mutations does not matter and names can be exchanged.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        store_id: str,
        mutations: Sequence[Mutation],
        actor: Actor,
        max_memories: int,
        max_directories: int,
    ) -> None:
        self.db = db
        self.store_id = store_id
        self.actor = actor
        self.max_memories = max_memories
        self.max_directories = max_directories
        self.moment = now()
        self.heads: dict[str, Head | None] = {}
        self.creates = [m for m in mutations if isinstance(m, Create)]
        self.updates = [m for m in mutations if isinstance(m, Update)]
        self.deletes = [m for m in mutations if isinstance(m, Delete)]
        self.directories = [m for m in mutations if isinstance(m, KeepDirectory | DropDirectory)]
        self.moves = [m for m in mutations if isinstance(m, MoveDirectory)]
        self.attributes = [m for m in mutations if isinstance(m, SetAttributes)]
        self.last_version_id: str | None = None
        self.changes = 0

    def _change(self, subject: str, memory_id: str | None = None) -> int:
        self.changes += 1
        return _record_change(self.db, self.store_id, subject, memory_id)

    def run(self) -> Applied:
        affected: list[Update | Delete] = [*self.updates, *self.deletes]
        current = {mutation.memory_id: self._expected(mutation) for mutation in affected}
        for delete in self.deletes:
            self._delete(delete, current[delete.memory_id])
        for update in self.updates:
            if update.path is not None and update.path != current[update.memory_id].path:
                # Any text without a leading slash is outside of every path; the memory's own id is unique.
                self.db.execute("UPDATE memories SET path = id WHERE id = ?", (update.memory_id,))
        self._move_directories()
        for directory in self.directories:
            if isinstance(directory, DropDirectory):
                self.db.execute(
                    "DELETE FROM kept_directories WHERE store_id = ? AND path = ?", (self.store_id, directory.path)
                )
        for update in self.updates:
            self._update(update, current[update.memory_id])
        if self.creates:
            self._check_room()
        for create in self.creates:
            self._create(create)
        for directory in self.directories:
            if isinstance(directory, KeepDirectory):
                self._keep(directory)
        if self.directories or self.moves:
            self._change("directories")
        for change in self.attributes:
            self._set_attributes(change.memory_id, change.attributes)
        # What is written under the writer lock gets consecutive numbers, so the count tells where it began.
        sequence = _sequence(self.db)
        return Applied(sequence - self.changes, sequence, self.heads)

    def _expected(self, mutation: Update | Delete) -> Head:
        head = _head_of(self.db, mutation.memory_id, self.store_id)
        if head is None:
            raise NotFound(f"the store {self.store_id} has no memory {mutation.memory_id}")
        if mutation.expected_version is not None and mutation.expected_version != head.version_id:
            raise PreconditionFailed(
                f"{head.path} is at version {head.version_id}, not at {mutation.expected_version}: read it again"
            )
        if mutation.expected_sha256 is not None and mutation.expected_sha256 != head.sha256:
            wanted = isinstance(mutation, Update) and (
                (mutation.content is None or sha256(mutation.content).hexdigest() == head.sha256)
                and mutation.path in (None, head.path)
            )
            if not wanted:
                raise PreconditionFailed(
                    f"{head.path} has the hash {head.sha256}, not {mutation.expected_sha256}: read it again"
                )
        return head

    def _check_room(self) -> None:
        if len(self.creates) <= len(self.deletes):
            return
        (count,) = self.db.execute("SELECT count(*) FROM memories WHERE store_id = ?", (self.store_id,)).fetchone()
        if count + len(self.creates) > self.max_memories:
            raise StoreFull(
                f"the store {self.store_id} holds {count} of {self.max_memories} memories: delete some,"
                " or use another store"
            )

    def _take_path(self, memory_id: str, path: str) -> None:
        """Check that a memory may be at ``path``; a kept directory that nothing lies in gives way."""
        above = ancestors(path)
        marks = ", ".join("?" * (len(above) + 1))
        below, beyond = subtree_range(path)
        row = self.db.execute(
            f"SELECT id, path FROM memories WHERE store_id = ? AND path IN ({marks})"
            " UNION ALL SELECT * FROM"
            " (SELECT id, path FROM memories WHERE store_id = ? AND path >= ? AND path < ? LIMIT 1)",
            (self.store_id, path, *above, self.store_id, below, beyond),
        ).fetchone()
        if row is not None and row[0] != memory_id:
            relation = "is used by" if row[1] == path else "lies above or below"
            raise PathConflict(
                f"the path {path} {relation} the memory {row[0]} at {row[1]}: choose another",
                conflicting_memory_id=row[0],
                conflicting_path=row[1],
            )
        dropped = self.db.execute(
            "DELETE FROM kept_directories WHERE store_id = ? AND (path = ? OR path >= ? AND path < ?)",
            (self.store_id, path, below, beyond),
        )
        if dropped.rowcount:
            self._change("directories")

    def _keep_content(self, content: bytes) -> str:
        digest = sha256(content).hexdigest()
        self.db.execute(
            "INSERT INTO contents VALUES (?, ?, ?) ON CONFLICT (sha256) DO NOTHING", (digest, len(content), content)
        )
        return digest

    def _record(self, memory_id: str, operation: Operation, path: str, size: int | None, digest: str | None) -> str:
        """Add a version; returns its id."""
        if self.last_version_id is None:
            row = self.db.execute("SELECT id FROM memory_versions ORDER BY sequence DESC LIMIT 1").fetchone()
            self.last_version_id = None if row is None else row[0]
        version_id = ids.new_id(ids.MEMORY_VERSION, after=self.last_version_id)
        self.last_version_id = version_id
        sequence = self._change("memory", memory_id)
        self.db.execute(
            "INSERT INTO memory_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
            (
                sequence,
                version_id,
                self.store_id,
                memory_id,
                operation,
                path,
                size,
                digest,
                self.moment,
                self.actor.type,
                self.actor.id,
            ),
        )
        return version_id

    def _delete(self, delete: Delete, head: Head) -> None:
        self._record(delete.memory_id, "deleted", head.path, None, None)
        self.db.execute("DELETE FROM memories WHERE id = ?", (delete.memory_id,))
        self.heads[delete.memory_id] = None

    def _update(self, update: Update, head: Head) -> None:
        path = head.path if update.path is None else update.path
        digest, size = head.sha256, head.size
        if update.content is not None:
            digest, size = sha256(update.content).hexdigest(), len(update.content)
        attributes = _merged(head.attributes, update.attributes)
        if (path, digest) == (head.path, head.sha256):
            if attributes != head.attributes:
                self._set_attributes(update.memory_id, update.attributes)
            self.heads[update.memory_id] = _head_of(self.db, update.memory_id)
            return
        if path != head.path:
            self._take_path(update.memory_id, path)
        if update.content is not None:
            self._keep_content(update.content)
            if digest != head.sha256 and update.attributes.mtime_ns is None:
                attributes = FileAttributes(attributes.mode, None, attributes.inode)
        version_id = self._record(update.memory_id, "modified", path, size, digest)
        self.db.execute(
            "UPDATE memories SET path = ?, head_version_id = ?, content_sha256 = ?, content_size_bytes = ?,"
            " updated_at = ?, file_mode = ?, file_mtime_ns = ?, file_inode = ? WHERE id = ?",
            (
                path,
                version_id,
                digest,
                size,
                self.moment,
                attributes.mode,
                attributes.mtime_ns,
                attributes.inode,
                update.memory_id,
            ),
        )
        self.heads[update.memory_id] = Head(update.memory_id, version_id, path, size, digest, self.moment, attributes)

    def _create(self, create: Create) -> None:
        self._take_path(create.memory_id, create.path)
        digest = self._keep_content(create.content)
        version_id = self._record(create.memory_id, "created", create.path, len(create.content), digest)
        attributes = create.attributes
        try:
            self.db.execute(
                "INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    create.memory_id,
                    self.store_id,
                    create.path,
                    version_id,
                    digest,
                    len(create.content),
                    self.moment,
                    self.moment,
                    attributes.mode,
                    attributes.mtime_ns,
                    attributes.inode,
                ),
            )
        except sqlite3.IntegrityError:
            raise PathConflict(
                f"the memory {create.memory_id} exists already",
                conflicting_memory_id=create.memory_id,
                conflicting_path=create.path,
            ) from None
        self.heads[create.memory_id] = Head(
            create.memory_id, version_id, create.path, len(create.content), digest, self.moment, attributes
        )

    def _set_attributes(self, memory_id: str, attributes: FileAttributes) -> None:
        changed = self.db.execute(
            "UPDATE memories SET file_mode = coalesce(?, file_mode), file_mtime_ns = coalesce(?, file_mtime_ns),"
            " file_inode = coalesce(?, file_inode) WHERE id = ? AND store_id = ?",
            (attributes.mode, attributes.mtime_ns, attributes.inode, memory_id, self.store_id),
        )
        if not changed.rowcount:
            raise NotFound(f"the store {self.store_id} has no memory {memory_id}")
        self._change("memory", memory_id)
        self.heads[memory_id] = _head_of(self.db, memory_id)

    def _move_directories(self) -> None:
        """Move kept directories, all at once: what one move makes, another does not see."""
        moved: list[tuple[str, Row]] = []
        for move in self.moves:
            below, beyond = subtree_range(move.path)
            rows = self.db.execute(
                "SELECT path, updated_at, file_mode, file_mtime_ns, file_inode FROM kept_directories"
                " WHERE store_id = ? AND (path = ? OR path >= ? AND path < ?)",
                (self.store_id, move.path, below, beyond),
            ).fetchall()
            moved += [(move.new_path + row[0][len(move.path) :], row) for row in rows]
        for _, row in moved:
            self.db.execute("DELETE FROM kept_directories WHERE store_id = ? AND path = ?", (self.store_id, row[0]))
        for path, row in moved:
            self._check_directory(path)
            self.db.execute(
                "INSERT OR REPLACE INTO kept_directories VALUES (?, ?, ?, ?, ?, ?)", (self.store_id, path, *row[1:])
            )

    def _check_directory(self, path: str) -> None:
        """Check that no memory is where a directory shall be, or above it."""
        above = ancestors(path)
        row = self.db.execute(
            f"SELECT id, path FROM memories WHERE store_id = ? AND path IN (?{', ?' * len(above)})",
            (self.store_id, path, *above),
        ).fetchone()
        if row is not None:
            raise PathConflict(
                f"{path} cannot be a directory: the memory {row[0]} is at {row[1]}",
                conflicting_memory_id=row[0],
                conflicting_path=row[1],
            )

    def _keep(self, directory: KeepDirectory) -> None:
        self._check_directory(directory.path)
        attributes = directory.attributes
        self.db.execute(
            "INSERT INTO kept_directories VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (store_id, path) DO UPDATE SET"
            " updated_at = excluded.updated_at, file_mode = coalesce(excluded.file_mode, file_mode),"
            " file_mtime_ns = coalesce(excluded.file_mtime_ns, file_mtime_ns),"
            " file_inode = coalesce(excluded.file_inode, file_inode)",
            (self.store_id, directory.path, self.moment, attributes.mode, attributes.mtime_ns, attributes.inode),
        )
        (count,) = self.db.execute(
            "SELECT count(*) FROM kept_directories WHERE store_id = ?", (self.store_id,)
        ).fetchone()
        if count > self.max_directories:
            raise StoreFull(
                f"the store {self.store_id} keeps {self.max_directories} directories for their own sake: remove some"
            )


_CONTENT_OF_MEMORY = ", (SELECT bytes FROM contents WHERE sha256 = memories.content_sha256)"
_CONTENT_OF_VERSION = ", (SELECT bytes FROM contents WHERE sha256 = v.content_sha256)"


def _merged(old: FileAttributes, new: FileAttributes) -> FileAttributes:
    if new is KEEP or new == KEEP:
        return old
    return FileAttributes(
        old.mode if new.mode is None else new.mode,
        old.mtime_ns if new.mtime_ns is None else new.mtime_ns,
        old.inode if new.inode is None else new.inode,
    )


def _sequence(db: sqlite3.Connection) -> int:
    return cast(int, db.execute("SELECT coalesce(max(sequence), 0) FROM changes").fetchone()[0])


def _record_change(db: sqlite3.Connection, store_id: str, subject: str, memory_id: str | None = None) -> int:
    cursor = db.execute(
        "INSERT INTO changes (store_id, subject, memory_id) VALUES (?, ?, ?)", (store_id, subject, memory_id)
    )
    return cast(int, cursor.lastrowid)


def _store(db: sqlite3.Connection, store_id: str) -> Store:
    row = db.execute(f"SELECT {_STORE} FROM memory_stores WHERE id = ?", (store_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no store {store_id}")
    return _as_store(row)


def _as_store(row: Row) -> Store:
    return Store(row[0], row[1], row[2], json.loads(row[3]), *row[4:])


def _head(row: Row) -> Head:
    return Head(row[0], row[1], row[2], row[3], row[4], row[5], FileAttributes(row[6], row[7], row[8]))


def _head_of(db: sqlite3.Connection, memory_id: str, store_id: str | None = None) -> Head | None:
    row = db.execute(f"SELECT {_HEAD}, store_id FROM memories WHERE id = ?", (memory_id,)).fetchone()
    if row is None or store_id not in (None, row[-1]):
        return None
    return _head(row[:-1])


def _directories(db: sqlite3.Connection, store_id: str) -> list[Directory]:
    return [
        Directory(path, updated_at, FileAttributes(*attributes))
        for path, updated_at, *attributes in db.execute(
            "SELECT path, updated_at, file_mode, file_mtime_ns, file_inode FROM kept_directories"
            " WHERE store_id = ? ORDER BY path",
            (store_id,),
        )
    ]


def _as_version(row: Row) -> MemoryVersion:
    redacted_by = None if row[12] is None else Actor(row[12], row[13])
    content = row[14] if len(row) > 14 else None
    return MemoryVersion(
        id=row[0],
        memory_store_id=row[1],
        memory_id=row[2],
        sequence=row[3],
        operation=row[4],
        path=row[5],
        content_size_bytes=row[6],
        content_sha256=row[7],
        created_at=row[8],
        created_by=Actor(row[9], row[10]),
        redacted_at=row[11],
        redacted_by=redacted_by,
        content=content,
    )
