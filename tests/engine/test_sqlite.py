"""What is particular to the SQLite engine: its file, its locks, and what people see who open it with other tools."""

import os
import shutil
import signal
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from memfs.engine import SqliteEngine, opening
from memfs.engine.checking import check
from memfs.engine.schema import APPLICATION_ID
from memfs.model import ids
from memfs.model.errors import Busy, NotFound, StorageFailed, StorageFull, UnusableDatabase
from memfs.model.mutations import Create, Delete, KeepDirectory, Update
from memfs.model.records import Actor, Store, now
from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource
from tests.processes import finish, hear, python, tell

ALICE = Actor("user_actor", "alice")


@contextmanager
def plain(path: Path) -> Iterator[sqlite3.Connection]:
    """The database as somebody else's tool opens it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def write(workspace: Workspace, store: Store, path: str, content: bytes) -> str:
    memory_id = ids.new_id(ids.MEMORY)
    workspace.memories.apply(store.id, [Create(memory_id, path, content)], ALICE)
    return memory_id


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# The file


def test_only_its_owner_can_read_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deeper" / "memfs.db"
    old = os.umask(0)
    try:
        with closing(SqliteEngine(path, create=True)):
            assert mode(path) == 0o600
            assert mode(path.parent) == 0o700
            for suffix in ("-wal", "-shm"):
                assert mode(path.with_name(path.name + suffix)) == 0o600
    finally:
        os.umask(old)


def test_the_database_is_marked_and_in_wal_mode(workspace: Workspace, db: Path) -> None:
    with plain(db) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("SELECT count(*) FROM workspace").fetchone() == (1,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("name", ["a?b#c%20d&e.db", "é \u2028.db", os.fsdecode(b"caf\xe9.db"), "'quoted'.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    with closing(SqliteEngine(tmp_path / name, create=True)):
        pass
    assert os.listdir(tmp_path) == [name]


def test_a_database_is_opened_again_with_what_was_in_it(workspace: Workspace, store: Store, db: Path) -> None:
    write(workspace, store, "/a", b"kept")
    workspace.close()
    with Workspace.open(db) as again:
        assert again.memories.get(store.id, "/a").content == b"kept"


def test_a_missing_database_is_not_made_unless_asked(tmp_path: Path) -> None:
    for read_only in (True, False):
        with pytest.raises(NotFound, match="memfs store create"):
            SqliteEngine(tmp_path / "no" / "memfs.db", read_only=read_only)
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_no_database_is_refused_and_left_alone(db: Path, damaged: None) -> None:
    content = b"# My notes\n" * 1_000
    db.write_bytes(content)
    for create in (True, False):
        with pytest.raises(UnusableDatabase, match="no SQLite database"):
            SqliteEngine(db, create=create)
    assert db.read_bytes() == content
    assert os.listdir(db.parent) == [db.name]


def test_a_database_of_another_program_is_refused_and_left_alone(db: Path, damaged: None) -> None:
    with plain(db) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    content = db.read_bytes()
    for read_only in (True, False):
        with pytest.raises(UnusableDatabase, match="not one of memfs"):
            SqliteEngine(db, create=not read_only, read_only=read_only)
    assert db.read_bytes() == content


def test_a_database_of_a_newer_memfs_is_refused(workspace: Workspace, db: Path, damaged: None) -> None:
    workspace.close()
    with plain(db) as connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('memfs', '9999_later', '')"
        )
    for read_only in (True, False):
        with pytest.raises(UnusableDatabase, match="newer memfs"):
            SqliteEngine(db, read_only=read_only)


@pytest.mark.parametrize("place", ["directory", "below a file"])
def test_what_cannot_be_a_database_is_a_plain_error(tmp_path: Path, place: str) -> None:
    path = tmp_path / "x"
    if place == "directory":
        path.mkdir()
    else:
        path.touch()
        path /= "memfs.db"
    with pytest.raises(StorageFailed):
        SqliteEngine(path, create=True)


def test_a_damaged_database_is_a_plain_error(workspace: Workspace, store: Store, db: Path, damaged: None) -> None:
    write(workspace, store, "/a", b"x" * 50_000)
    workspace.close()
    content = bytearray(db.read_bytes())
    content[4_096:] = b"\xff" * (len(content) - 4_096)
    db.write_bytes(content)
    with pytest.raises(StorageFailed), Workspace.open(db) as again:
        again.memories.list(store.id)


# Reading only


def test_a_read_only_engine_has_nothing_that_could_write(workspace: Workspace, store: Store, db: Path) -> None:
    memory_id = write(workspace, store, "/a", b"one")
    workspace.close()
    with Workspace.open(db, read_only=True) as reading:
        assert reading.memories.get(store.id, "/a").content == b"one"
        for refused in (
            lambda: reading.stores.create("Another"),
            lambda: reading.memories.apply(store.id, [Update(memory_id, content=b"two")], ALICE),
            lambda: reading.stores.archive(store.id),
        ):
            with pytest.raises(StorageFailed, match="reading only"):
                refused()
        engine = reading.engine
        assert isinstance(engine, SqliteEngine)
        connections = [value for value in vars(engine.database).values() if isinstance(value, sqlite3.Connection)]
        assert len(connections) == 1
        for statement in ("DELETE FROM memories", "PRAGMA query_only = OFF", "DELETE FROM memories"):
            if statement.startswith("PRAGMA"):
                connections[0].execute(statement)
            else:
                with pytest.raises(sqlite3.OperationalError, match="readonly"):
                    connections[0].execute(statement)
        assert reading.memories.get(store.id, "/a").content == b"one"


def test_a_read_only_engine_follows_what_others_write(workspace: Workspace, store: Store, db: Path) -> None:
    with Workspace.open(db, read_only=True) as reading:
        before = reading.engine.data_version()
        write(workspace, store, "/a", b"one")
        assert reading.engine.data_version() != before
        assert [memory.path for memory in reading.memories.list(store.id)] == ["/a"]


# Recording reads


DAY_ONE, DAY_TWO = "2100-01-01T00:00:00.000000Z", "2100-01-02T00:00:00.000000Z"


def accessed_at(db: Path) -> dict[str, str]:
    with plain(db) as connection:
        return dict(connection.execute("SELECT memory_id, accessed_at FROM memory_accesses"))


def test_a_read_only_engine_records_reads(workspace: Workspace, store: Store, db: Path) -> None:
    memory_id = write(workspace, store, "/a", b"one")
    with closing(SqliteEngine(db, read_only=True)) as reading:
        reading.record_accesses({memory_id: DAY_ONE, ids.new_id(ids.MEMORY): DAY_ONE})
        assert accessed_at(db) == {memory_id: DAY_ONE}
        with pytest.raises(StorageFailed, match="reading only"):
            reading.delete_store(store.id)
        reading.record_accesses({memory_id: DAY_TWO})
    assert accessed_at(db) == {memory_id: DAY_TWO}
    with pytest.raises(StorageFailed, match="closed"):
        reading.record_accesses({memory_id: "2100-01-03T00:00:00.000000Z"})


def test_reads_are_recorded_and_nothing_else_by_an_engine_that_only_reads(
    workspace: Workspace, store: Store, db: Path, tmp_path: Path
) -> None:
    """Every kind of statement that could write, change the schema, reach another file or loosen the connection."""
    memory_id = write(workspace, store, "/a", b"one")
    with plain(db) as connection:
        before = list(connection.iterdump())
    with closing(SqliteEngine(db, read_only=True)) as reading:
        reading.record_accesses({memory_id: DAY_ONE})
        recorder = reading.database._recorder
        assert recorder is not None
        tables = {
            "workspace": "retention_days",
            "memory_stores": "name",
            "contents": "bytes",
            "changes": "subject",
            "memory_versions": "path",
            "memories": "path",
            "kept_directories": "path",
            "sessions": "ended_at",
            "session_attachments": "access",
            "sqlite_sequence": "seq",
            "_sqlite_migrations": "name",
        }
        refused = [
            "DELETE FROM memory_accesses",
            *(f"DELETE FROM {table}" for table in tables),
            *(f"DELETE FROM {table} WHERE 0" for table in tables),
            *(f"UPDATE {table} SET {column} = 'x'" for table, column in tables.items()),
            *(f"INSERT INTO {table} SELECT * FROM {table}" for table in tables),
            *(f"REPLACE INTO {table} SELECT * FROM {table}" for table in tables),
            *(f"DROP TABLE {table}" for table in tables),
            *(f"ALTER TABLE {table} ADD COLUMN more" for table in tables),
            *(f"ALTER TABLE {table} RENAME TO another" for table in tables),
            "UPDATE sqlite_master SET sql = ''",
            "DELETE FROM sqlite_master",
            "CREATE TABLE t (a)",
            "CREATE TABLE t AS SELECT * FROM contents",
            "CREATE TEMP TABLE t (a)",
            "CREATE INDEX i ON memories (updated_at)",
            "CREATE VIEW v AS SELECT 1",
            "CREATE TRIGGER t AFTER INSERT ON memory_accesses BEGIN DELETE FROM memories; END",
            "CREATE TEMP TRIGGER t AFTER INSERT ON memory_accesses BEGIN DELETE FROM memories; END",
            "CREATE VIRTUAL TABLE t USING fts5 (a)",
            "DROP INDEX memories_of_head",
            "DROP VIEW history",
            "VACUUM",
            f"VACUUM INTO '{tmp_path}/copy'",
            "REINDEX",
            "ANALYZE",
            f"ATTACH '{tmp_path}/other' AS other",
            "DETACH main",
            "SAVEPOINT s",
            "PRAGMA user_version = 1",
            "PRAGMA application_id = 1",
            "PRAGMA journal_mode = DELETE",
            "PRAGMA wal_checkpoint(TRUNCATE)",
            "PRAGMA foreign_keys = OFF",
            "PRAGMA ignore_check_constraints = ON",
            "PRAGMA writable_schema = ON",
            "PRAGMA secure_delete = OFF",
            "PRAGMA optimize",
            "PRAGMA incremental_vacuum",
            "SELECT load_extension('x')",
        ]
        for statement in refused:
            with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|denied|may not be"):
                recorder.execute(statement)
            assert not recorder.in_transaction
        reading.record_accesses({memory_id: DAY_TWO})
    with plain(db) as connection:
        connection.execute("DELETE FROM memory_accesses")
        assert list(connection.iterdump()) == before
    assert sorted(path.name for path in tmp_path.iterdir() if "memfs.db" not in path.name) == []


@pytest.mark.parametrize("read_only", [True, False])
def test_recording_reads_never_waits_for_another_process(
    workspace: Workspace, store: Store, db: Path, read_only: bool
) -> None:
    memory_id = write(workspace, store, "/a", b"one")
    with closing(SqliteEngine(db, read_only=read_only)) as engine, python(HOLD, db) as holder:
        assert hear(holder) == "held"
        start = time.monotonic()
        with pytest.raises(Busy):
            engine.record_accesses({memory_id: DAY_ONE})
        assert time.monotonic() - start < opening.LOCK_TIMEOUT_SECONDS / 3
        engine.record_accesses({})
        tell(holder)
        finish(holder)
        engine.record_accesses({memory_id: DAY_ONE})
        assert accessed_at(db) == {memory_id: DAY_ONE}
        if not read_only:
            # Its other writes wait again.
            assert engine.database._writer is not None
            (timeout,) = engine.database._writer.execute("PRAGMA busy_timeout").fetchone()
            assert timeout == opening.LOCK_TIMEOUT_SECONDS * 1000


def test_recording_reads_never_waits_for_a_write_of_its_own_process(
    workspace: Workspace, store: Store, db: Path
) -> None:
    """A mount's commit may be waiting for another process, with the connection in its hands."""
    memory_id = write(workspace, store, "/a", b"one")
    with python(HOLD, db) as holder:
        assert hear(holder) == "held"
        thread = threading.Thread(target=write, args=(workspace, store, "/b", b"waits"))
        thread.start()
        engine = workspace.engine
        assert isinstance(engine, SqliteEngine)
        while not engine.database._write_lock.locked():
            time.sleep(0.001)
        start = time.monotonic()
        with pytest.raises(Busy):
            engine.record_accesses({memory_id: DAY_ONE})
        assert time.monotonic() - start < opening.LOCK_TIMEOUT_SECONDS / 3
        assert thread.is_alive()
        tell(holder)
        thread.join()
        finish(holder)
    engine.record_accesses({memory_id: DAY_ONE})
    assert accessed_at(db) == {memory_id: DAY_ONE}


def test_a_read_within_an_hour_of_the_recorded_one_is_no_write(workspace: Workspace, store: Store, db: Path) -> None:
    memory_id = write(workspace, store, "/a", b"one")
    engine = workspace.engine
    engine.record_accesses({memory_id: DAY_ONE})
    with closing(SqliteEngine(db, read_only=True)) as other:
        version = other.data_version()
        for again in ("2100-01-01T00:59:59.999999Z", DAY_ONE, "2099-12-31T00:00:00.000000Z"):
            engine.record_accesses({memory_id: again, ids.new_id(ids.MEMORY): "0001-01-01T00:00:00.000001Z"})
            assert other.data_version() == version
        assert accessed_at(db) == {memory_id: DAY_ONE}
        engine.record_accesses({memory_id: "2100-01-01T01:00:00.000001Z"})
        assert other.data_version() != version
    assert accessed_at(db) == {memory_id: "2100-01-01T01:00:00.000001Z"}


def test_of_two_that_record_at_once_the_later_time_stays(workspace: Workspace, store: Store, db: Path) -> None:
    memory_id = write(workspace, store, "/a", b"one")
    with closing(SqliteEngine(db, read_only=True)) as other:
        other.record_accesses({memory_id: DAY_TWO})
        with plain(db) as connection:  # as if it had been read before
            connection.execute("DELETE FROM memory_accesses")
        workspace.engine.record_accesses({memory_id: DAY_ONE})
        other.record_accesses({memory_id: DAY_TWO})
        workspace.engine.record_accesses({memory_id: DAY_ONE})
    assert accessed_at(db) == {memory_id: DAY_TWO}


# What is removed


def test_no_row_of_a_deleted_store_is_left(workspace: Workspace, store: Store, db: Path) -> None:
    other = workspace.stores.create("Other")
    for each in (store, other):
        memory_id = write(workspace, each, "/a", b"shared")
        workspace.memories.apply(each.id, [Update(memory_id, content=each.id.encode()), KeepDirectory("/d")], ALICE)
        workspace.engine.record_accesses({memory_id: DAY_ONE})
    workspace.sessions.create([Resource(store, instructions="Do."), Resource(other)], "/mnt/memory")

    def rows() -> list[str]:
        with plain(db) as connection:
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            return list(connection.iterdump())

    before = rows()
    hidden = sha256(store.id.encode()).hexdigest()
    of_store = [row for row in before if store.id in row or hidden in row]
    assert {row.split('"')[1] for row in of_store if row.startswith("INSERT")} == {
        "memory_stores",
        "contents",
        "changes",
        "memory_versions",
        "memories",
        "kept_directories",
        "session_attachments",
    }
    (memory_id,) = (memory.id for memory in workspace.memories.list(store.id))
    workspace.stores.delete(store.id)
    after = rows()
    assert not [row for row in after if store.id in row or memory_id in row or hidden in row]
    with plain(db) as connection:
        assert connection.execute("SELECT count(*) FROM contents").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM memory_accesses").fetchone() == (1,)
    assert [row for row in after if other.id in row] == [row for row in before if other.id in row]


@pytest.mark.parametrize("how", ["redact", "prune", "delete"])
def test_a_text_that_no_version_has_any_more_is_not_kept(
    workspace: Workspace, store: Store, db: Path, how: str
) -> None:
    other = workspace.stores.create("Other")
    memory_id = write(workspace, store, "/a", b"alone")
    write(workspace, other, "/a", b"shared")
    for content in (b"shared", b"head"):
        workspace.memories.apply(store.id, [Update(memory_id, content=content)], ALICE)
    if how == "redact":
        workspace.versions.redact(store.id, [v.id for v in workspace.versions.list(store.id)[1:]], ALICE)
    elif how == "prune":
        assert workspace.retention.prune(store.id, now()) == 2
    else:
        workspace.stores.delete(store.id)
    with plain(db) as connection:
        texts = {text for (text,) in connection.execute("SELECT bytes FROM contents")}
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert texts == ({b"shared"} if how == "delete" else {b"shared", b"head"})


# Several processes


def test_processes_that_make_one_new_database_at_once_all_succeed(tmp_path: Path) -> None:
    rounds, names = 8, ["one", "two", "three"]
    code = """
import sys, time
from pathlib import Path
from memfs.workspace import Workspace

directory, name, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
start = float(sys.stdin.readline())
for step in range(rounds):
    while time.monotonic() < start + step * 0.05:
        pass
    with Workspace.open(directory / str(step) / "memfs.db", create=True) as workspace:
        workspace.stores.create(name)
"""
    with (
        python(code, tmp_path, names[0], str(rounds)) as one,
        python(code, tmp_path, names[1], str(rounds)) as two,
        python(code, tmp_path, names[2], str(rounds)) as three,
    ):
        for process in (one, two, three):
            assert hear(process) == "ready"
        start = time.monotonic() + 0.02
        for process in (one, two, three):
            tell(process, str(start))
        for process in (one, two, three):
            finish(process)
    for step in range(rounds):
        with Workspace.open(tmp_path / str(step) / "memfs.db") as workspace:
            assert sorted(store.name for store in workspace.stores.list()) == sorted(names)
        with plain(tmp_path / str(step) / "memfs.db") as connection:
            assert connection.execute("SELECT count(*) FROM workspace").fetchone() == (1,)


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


def test_a_write_waits_for_another_processs_write(workspace: Workspace, store: Store, db: Path) -> None:
    with python(HOLD, db) as holder:
        assert hear(holder) == "held"
        thread = threading.Thread(target=write, args=(workspace, store, "/a", b"waited"))
        thread.start()
        thread.join(0.05)
        assert thread.is_alive(), "the write did not wait"
        assert workspace.memories.list(store.id) == [], "reading does not wait"
        tell(holder)
        thread.join()
        finish(holder)
    assert workspace.memories.get(store.id, "/a").content == b"waited"


def test_a_write_that_waited_too_long_is_busy_and_changed_nothing(
    workspace: Workspace, store: Store, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "LOCK_TIMEOUT_SECONDS", 0.02)
    with Workspace.open(db) as impatient, python(HOLD, db) as holder:
        assert hear(holder) == "held"
        with pytest.raises(Busy):
            write(impatient, store, "/a", b"never")
        tell(holder)
        finish(holder)
        assert impatient.memories.list(store.id) == []
        write(impatient, store, "/a", b"then")
    assert len(workspace.versions.list(store.id)) == 1


def test_a_full_disk_is_an_error_and_changes_nothing(workspace: Workspace, store: Store) -> None:
    """As SQLite reports it: here by the limit of pages that it can be given."""
    write(workspace, store, "/a", b"one")
    engine = workspace.engine
    assert isinstance(engine, SqliteEngine)
    assert engine.database._writer is not None
    engine.database._writer.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size where that is larger
    with pytest.raises(StorageFull):
        write(workspace, store, "/b", b"x" * 100_000)
    assert [memory.path for memory in workspace.memories.list(store.id)] == ["/a"]
    engine.database._writer.execute("PRAGMA max_page_count = 1000000")
    write(workspace, store, "/b", b"x" * 100_000)


def test_a_version_survives_kill_9_once_its_write_returned(workspace: Workspace, store: Store, db: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from memfs.model import ids
from memfs.model.mutations import Create
from memfs.model.records import Actor
from memfs.workspace import Workspace

workspace = Workspace.open(Path(sys.argv[1]))
applied = workspace.memories.apply(
    sys.argv[2], [Create(ids.new_id(ids.MEMORY), "/a", b"survived")], Actor("user_actor", "alice"))
(head,) = applied.heads.values()
os.write(1, head.version_id.encode() + b"\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""
    workspace.close()  # so that nobody else holds the WAL
    with python(code, db, store.id) as process:
        version_id = hear(process)
        assert process.wait() == -signal.SIGKILL
    with Workspace.open(db) as again:
        assert again.versions.get(store.id, version_id).content == b"survived"


def test_kill_9_in_the_midst_of_writing_loses_no_write_that_returned(
    workspace: Workspace, store: Store, db: Path
) -> None:
    code = """
import os, sys
from pathlib import Path
from memfs.engine import Limits
from memfs.model import ids
from memfs.model.mutations import Create
from memfs.model.records import Actor
from memfs.workspace import Workspace

workspace = Workspace.open(Path(sys.argv[1]))
for step in range(1_000_000):
    batch = [Create(ids.new_id(ids.MEMORY), f"/{step % 1000}/{step}-{half}", b"x" * 5_000) for half in "ab"]
    applied = workspace.engine.apply(
        sys.argv[2], batch, Actor("user_actor", "alice"), limits=Limits(10**9, 0))
    os.write(1, f"{step}\\n".encode())
"""
    workspace.close()
    with python(code, db, store.id) as process:
        for _ in range(25):
            hear(process)
        process.kill()
        assert process.stdout is not None
        rest = process.stdout.read().split()
    last = int(rest[-1]) if rest else 24
    with Workspace.open(db) as again:
        paths = {memory.path for memory in again.memories.list(store.id)}
        assert {f"/{step % 1000}/{step}-{half}" for step in range(last + 1) for half in "ab"} <= paths
        assert len(paths) % 2 == 0, "half a batch"
        assert len(again.versions.list(store.id)) == len(paths)
    with plain(db) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


# Content, and what other tools see


def test_each_distinct_text_is_stored_once(workspace: Workspace, store: Store, db: Path) -> None:
    other = workspace.stores.create("Other")
    memory_id = write(workspace, store, "/a", b"same")
    write(workspace, store, "/b", b"same")
    write(workspace, other, "/c", b"same")
    for content in (b"different", b"same", b"different"):
        workspace.memories.apply(store.id, [Update(memory_id, content=content)], ALICE)
    with plain(db) as connection:
        rows = connection.execute("SELECT bytes, size_bytes FROM contents ORDER BY bytes").fetchall()
    assert rows == [(b"different", 9), (b"same", 4)]
    assert len(workspace.versions.list(store.id)) == 5


def test_the_views_answer_plain_sql(workspace: Workspace, store: Store, db: Path) -> None:
    memory_id = write(workspace, store, "/a", "é\n".encode())
    gone = write(workspace, store, "/gone", b"gone\n")
    workspace.memories.apply(store.id, [Delete(gone)], Actor("session_actor", "sesn_1"))
    workspace.memories.apply(store.id, [Update(memory_id, content=b"two\n")], ALICE)
    with plain(db) as connection:
        current = connection.execute(
            "SELECT store, path, text, size_bytes, last_actor_type, last_actor_id, memory_id, store_id"
            " FROM current_memories"
        ).fetchall()
        assert current == [("User preferences", "/a", "two\n", 4, "user_actor", "alice", memory_id, store.id)]
        history = connection.execute(
            "SELECT operation, path, text, size_bytes, actor_type, actor_id, memory_id FROM history"
        ).fetchall()
    assert history == [
        ("modified", "/a", "two\n", 4, "user_actor", "alice", memory_id),
        ("deleted", "/gone", None, None, "session_actor", "sesn_1", gone),
        ("created", "/gone", "gone\n", 5, "user_actor", "alice", gone),
        ("created", "/a", "é\n", 3, "user_actor", "alice", memory_id),
    ]


def test_every_column_is_explained_in_the_schema_or_by_its_name(workspace: Workspace, db: Path) -> None:
    with plain(db) as connection:
        statements = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    for table in ("memory_stores", "contents", "changes", "memory_versions", "memories", "kept_directories"):
        assert "--" in statements[table], f"the comments of {table} were lost"


def test_sync_and_close_in_any_order(workspace: Workspace, store: Store, db: Path) -> None:
    write(workspace, store, "/a", b"one")
    workspace.engine.sync()
    with plain(db) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    workspace.engine.sync()
    workspace.close()
    with pytest.raises(StorageFailed, match="closed"):
        workspace.stores.list()
    with pytest.raises(StorageFailed, match=r"closed|reading only"):
        workspace.stores.create("Late")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The real paths of what is synced from now on."""
    paths: list[str] = []

    def told(real: Callable[[int], None], descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", partial(told, os.fsync))
    monkeypatch.setattr(os, "fdatasync", partial(told, os.fdatasync))
    return paths


def test_a_database_behind_a_link_is_synced_where_it_is(
    workspace: Workspace, store: Store, db: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = db.with_name("link.db")
    link.symlink_to(db)
    monkeypatch.chdir(link.parent)
    with Workspace.open(Path("link.db")) as linked:
        monkeypatch.chdir("/")  # as a daemon does
        write(linked, store, "/a", b"one")
        linked.engine.sync()
    assert synced == [f"{db}-wal"]


def test_who_reads_through_a_link_sees_what_is_in_the_log(workspace: Workspace, store: Store, db: Path) -> None:
    write(workspace, store, "/a", b"one")
    link = db.with_name("link.db")
    link.symlink_to(db)
    assert check(link).versions == 1


def test_the_names_of_a_new_database_survive_a_loss_of_power(tmp_path: Path, synced: list[str]) -> None:
    with Workspace.open(tmp_path / "a" / "b" / "new.db", create=True):
        pass
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")} <= set(synced)


def test_what_a_process_that_died_had_begun_is_taken_back_by_who_only_reads(tmp_path: Path) -> None:
    """A new database is in a rollback mode for a moment; these are the files of a process that was killed then."""
    (tmp_path / "left").mkdir()
    left = tmp_path / "left" / "memfs.db"
    with plain(tmp_path / "memfs.db") as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE begun AS SELECT zeroblob(100000) AS bytes")
        for end in ("", "-journal"):
            shutil.copy(tmp_path / f"memfs.db{end}", f"{left}{end}")
        connection.execute("ROLLBACK")
    assert left.stat().st_size
    for _ in range(2):
        with pytest.raises(NotFound, match="is empty"):
            check(left)
    assert os.listdir(left.parent) == ["memfs.db"]


def test_what_was_moved_away_is_not_said_to_be_synced(workspace: Workspace, store: Store, db: Path) -> None:
    write(workspace, store, "/a", b"one")
    away = db.with_name("away")
    away.mkdir()
    for end in ("", "-wal", "-shm"):
        os.rename(f"{db}{end}", f"{away / db.name}{end}")
    with pytest.raises(StorageFailed, match="removed"):
        workspace.engine.sync()


def test_the_newest_stored_version_id_is_continued_when_the_clock_was_ahead(
    workspace: Workspace, store: Store, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """History stays in order by id even where another machine or an earlier boot had a later clock."""
    ahead = time.time_ns() + 10**9 * 86_400 * 365
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: ahead)
        patch.setattr(ids, "_last", 0)
        write(workspace, store, "/a", b"ahead")
    monkeypatch.setattr(ids, "_last", 0)
    write(workspace, store, "/b", b"now")
    newest, oldest = workspace.versions.list(store.id)
    assert newest.path == "/b"
    assert newest.id > oldest.id
    assert oldest.created_at <= newest.created_at <= now()
