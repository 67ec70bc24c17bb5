"""Databases of every format that there ever was, as the memfs of that time wrote them, are opened by this one.

``formats`` holds one for each migration, named after it: what SQLite dumps of a database that the version before the
next migration made. They never change. Who adds a migration adds such a file with it.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from memfs.engine import SessionFilter
from memfs.engine.backup import back_up
from memfs.engine.checking import check
from memfs.engine.schema import migrations
from memfs.model.errors import UnusableDatabase
from memfs.model.records import Actor
from memfs.workspace import Workspace

FORMATS = {file.stem: file for file in sorted((Path(__file__).parent / "formats").glob("*.sql"))}
NEWEST = max(FORMATS)

Told = tuple[str, str | None, bytes | None]

LIVES: list[Told] = [
    ("created", "/guide/setup.md", b"Install it.\n"),
    ("created", "/gone.md", b"Soon gone.\n"),
    ("modified", "/guide/setup.md", b"Install it.\nThen mount it.\n"),
    ("modified", "/guide/install.md", b"Install it.\nThen mount it.\n"),
    ("deleted", "/gone.md", None),
    ("created", "/ünïcode.md", "Grüße\n".encode()),
]
REDACTED: list[Told] = [*LIVES[:1], ("created", None, None), *LIVES[2:]]
HISTORIES: dict[str, list[Told]] = {
    "0001_workspace": LIVES,
    "0002_upkeep": REDACTED,
    "0003_api": REDACTED,
    "0004_merges": [*REDACTED, ("modified", "/ünïcode.md", "Grüße an alle\n".encode())],
}


@pytest.fixture(params=FORMATS)
def old(request: pytest.FixtureRequest, db: Path) -> tuple[str, Path]:
    """A database as it was, and the name of its format."""
    with closing(sqlite3.connect(db)) as rows:
        rows.executescript(FORMATS[request.param].read_text())
    return request.param, db


def test_every_migration_has_its_format_frozen() -> None:
    with closing(sqlite3.connect(":memory:")) as empty:
        names = [migration.name for migration in migrations.pending(Database(empty, execute_plugins=False))]
    assert list(FORMATS) == list(HISTORIES) == names


def test_an_old_database_is_brought_up_to_date_with_all_that_is_in_it(old: tuple[str, Path]) -> None:
    name, db = old
    with Workspace.open(db) as workspace:
        empty, store = sorted(workspace.stores.list(), key=lambda each: each.name)
        assert (empty.name, store.name, store.metadata) == ("Empty", "Project notes", {"team": "platform"})
        versions = workspace.versions.list(store.id, content=True)[::-1]
        assert [(v.operation, v.path, v.content) for v in versions] == HISTORIES[name]
        (session,) = workspace.sessions.list(SessionFilter())
        assert [v.created_by.type for v in versions[:6]].count("session_actor") == 2
        assert {v.created_by.id for v in versions} == {session.id, "ada"}
        assert [each.memory_store_id for each in session.attachments] == [store.id]
        assert [v.redacted_at is not None for v in versions].count(True) == (name != "0001_workspace")
        assert [v.id for v in versions if v.merged is not None] == [v.id for v in versions[6:]]
        live = {memory.path: memory.content for memory in workspace.memories.list(store.id, content=True)}
        assert live == {path: text for _, path, text in HISTORIES[name][3:] if text is not None}
        assert [each.path for each in workspace.engine.snapshot(store.id).directories] == ["/empty/inside"]
        assert [key.name for key in workspace.keys.list()] == (["ci"] if name >= "0003_api" else [])
        workspace.memories.update(store.id, "/guide/install.md", Actor("user_actor", "bob"), content=b"New.\n")
        workspace.memories.create(store.id, "/new.md", b"New.\n", Actor("user_actor", "bob"))
    assert check(db).violations == []


def test_an_old_database_is_not_checked_but_backed_up_before_it_is_brought_up_to_date(
    old: tuple[str, Path], tmp_path: Path
) -> None:
    name, db = old
    made = back_up(db, tmp_path / "backup.db")
    with closing(sqlite3.connect(made.file)) as copy, closing(sqlite3.connect(db)) as rows:
        assert list(copy.iterdump()) == list(rows.iterdump())
    if name == NEWEST:
        assert made.checked == check(db)
    else:
        assert made.checked is None
        with pytest.raises(UnusableDatabase, match="older memfs: 'memfs store list' brings it up to date"):
            check(db)
    for path in (db, made.file):
        Workspace.open(path).close()
        assert check(path).violations == []


def test_the_newest_format_is_the_one_that_is_made_now(tmp_path: Path) -> None:
    """A migration that was published never changes: what it made would be of a shape that nobody knows."""
    Workspace.open(tmp_path / "new.db", create=True).close()
    with closing(sqlite3.connect(tmp_path / "new.db")) as rows, closing(sqlite3.connect(":memory:")) as frozen:
        frozen.executescript(FORMATS[NEWEST].read_text())
        shape = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT GLOB 'sqlite_*' ORDER BY name"
        assert frozen.execute(shape).fetchall() == rows.execute(shape).fetchall()


@pytest.mark.parametrize("how", ["open", "read", "check", "backup"])
def test_a_newer_format_is_refused_and_stays_as_it_is(db: Path, damaged: None, tmp_path: Path, how: str) -> None:
    with closing(sqlite3.connect(db)) as rows:
        rows.executescript(FORMATS[NEWEST].read_text())
        rows.execute("INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('memfs', '0999_x', '')")
        rows.commit()
    before = db.read_bytes()
    ways: dict[str, Callable[[], object]] = {
        "open": lambda: Workspace.open(db),
        "read": lambda: Workspace.open(db, read_only=True),
        "check": lambda: check(db),
        "backup": lambda: back_up(db, tmp_path / "backup.db"),
    }
    with pytest.raises(UnusableDatabase, match=r"was made by a newer memfs \(0999_x\): upgrade memfs-agent"):
        ways[how]()
    assert db.read_bytes() == before
    assert not (tmp_path / "backup.db").exists()
