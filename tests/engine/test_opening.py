"""Opening databases of other ages: older ones are brought up to date, empty and half-made ones are told apart."""

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from memfs.engine import SqliteEngine, VersionFilter, schema
from memfs.engine.opening import translated
from memfs.model.errors import NotFound, StorageFailed, UnusableDatabase
from memfs.model.records import NO_GUARDS, Guards, Settings
from memfs.workspace import Workspace

STORE = "memstore_01M8NMQFRQEHGZHQHXSA2763V0"
MEMORY = "mem_01M8NMQFRQEHGZHQHXSA2763V0"
VERSION = "memver_01M8NMQFRQEHGZHQHXSA2763V0"
THEN = "2026-11-30T07:00:00.000000Z"


def make_first_format(path: Path) -> None:
    """A database as the first format had it, with one memory."""
    first = Migrations("memfs")
    first(name="0001_workspace")(schema.workspace)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        first.apply(Database(connection, execute_plugins=False))
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        digest = sha256(b"old\n").hexdigest()
        for statement, values in (
            ("workspace VALUES (?, ?)", ("wrk_01M8NMQFRQEHGZHQHXSA2763V0", THEN)),
            ("memory_stores VALUES (?, 'Old', '', '{}', ?, ?, NULL)", (STORE, THEN, THEN)),
            ("contents VALUES (?, 4, ?)", (digest, b"old\n")),
            ("changes VALUES (1, ?, 'memory', ?)", (STORE, MEMORY)),
            (
                "memory_versions VALUES (1, ?, ?, ?, 'created', '/a', 4, ?, ?, 'user_actor', 'ada', NULL, NULL, NULL)",
                (VERSION, STORE, MEMORY, digest, THEN),
            ),
            (
                "memories VALUES (?, ?, '/a', ?, ?, 4, ?, ?, NULL, NULL, NULL)",
                (MEMORY, STORE, VERSION, digest, THEN, THEN),
            ),
        ):
            connection.execute(f"INSERT INTO {statement}", values)


def test_a_database_of_the_first_format_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    make_first_format(path)
    with pytest.raises(UnusableDatabase, match="older memfs"):
        SqliteEngine(path, read_only=True)
    with Workspace.open(path) as workspace:
        assert workspace.memories.get(STORE, "/a").content == b"old\n"
        assert [version.id for version in workspace.versions.list(STORE, VersionFilter(user_id="ada"))] == [VERSION]
        assert workspace.stores.get(STORE).guards == NO_GUARDS
        assert workspace.retention.settings() == Settings(retention_days=30, prune_automatically=False)
        assert workspace.stores.set_guards(STORE, Guards(max_content_bytes=9)).guards == Guards(max_content_bytes=9)
    with closing(SqliteEngine(path, read_only=True)) as engine:
        assert engine.guards(STORE) == Guards(max_content_bytes=9)


@pytest.mark.parametrize("read_only", [False, True])
def test_an_empty_file_is_no_database_and_stays_empty(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(NotFound, match="store create"):
        SqliteEngine(path, read_only=read_only)
    assert path.read_bytes() == b""
    with Workspace.open(path, create=True) as workspace:
        assert workspace.stores.list() == []


def test_added_columns_keep_their_comments(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    Workspace.open(path, create=True).close()
    with closing(sqlite3.connect(path)) as connection:
        tables = "\n".join(sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'"))
    for comment in ("JSON: secrets", "versions older than this", "once a day", "something was redacted"):
        assert comment in tables


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY_DIRECTORY])
def test_a_database_that_cannot_be_written_says_what_to_do(tmp_path: Path, code: int) -> None:
    """As on a read-only file system, where not even root can read one."""
    error = sqlite3.OperationalError("as SQLite says")
    error.sqlite_errorcode = code
    missing = tmp_path / "nowhere" / "memfs.db"
    with pytest.raises(StorageFailed, match=r"must be writable, for reading too.* or copy"), translated(missing):
        raise error


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(UnusableDatabase, match="is a directory"):
        SqliteEngine(tmp_path)
