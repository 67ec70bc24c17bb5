"""Backing a database up while it is in use."""

import errno
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memfs.engine import backup, copying
from memfs.engine.backup import back_up
from memfs.engine.checking import check
from memfs.engine.copying import placed_file
from memfs.model.errors import Busy, InvalidRequest, MemfsError, UnusableDatabase
from memfs.model.records import Actor, Store
from memfs.workspace import Workspace
from tests.processes import python

SECRET = b"sk-a-secret-that-was-redacted\n"

WRITE = """
import sys
from pathlib import Path
from memfs.model.records import Actor
from memfs.workspace import Workspace
number = 0
with Workspace.open(Path(sys.argv[1])) as workspace:
    (store,) = workspace.stores.list()
    print(flush=True)
    while True:
        number += 1
        workspace.memories.update(store.id, "/busy.md", Actor("user_actor", "writer"), content=f"{number}\\n".encode())
"""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "memfs.db"


def states(path: Path) -> list[tuple[object, ...]]:
    """All versions with their texts."""
    with closing(sqlite3.connect(path)) as rows:
        return rows.execute(
            "SELECT v.*, bytes FROM memory_versions AS v LEFT JOIN contents ON contents.id = content_id"
            " ORDER BY sequence"
        ).fetchall()


def redacted(workspace: Workspace, store: Store, actor: Actor, path: str = "/a.md") -> None:
    """Write a secret, overwrite it, and redact it."""
    made = workspace.memories.create(store.id, path, SECRET, actor)
    workspace.memories.update(store.id, made.id, actor, content=b"clean\n")
    workspace.versions.redact(store.id, [made.memory_version_id], actor)


def test_a_writer_that_never_stops_neither_starves_it_nor_waits(
    db: Path, workspace: Workspace, store: Store, actor: Actor, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With SQLite's backup alone it would begin anew at each step: a step here has one page, and each waits for a
    commit of another process."""
    workspace.memories.create(store.id, "/busy.md", b"0\n", actor)
    for number in range(20):
        workspace.memories.create(store.id, f"/{number}.md", os.urandom(3_000).hex().encode(), actor)
    monkeypatch.setattr(copying, "PAGES_A_STEP", 4)
    copied = []
    with python(WRITE, db) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()

        def told(stage: str, done: int, total: int) -> None:
            if stage != "copying":
                return
            copied.append(done)
            before, deadline = workspace.engine.data_version(), time.monotonic() + 60
            while len(copied) <= 10 and workspace.engine.data_version() == before:
                assert time.monotonic() < deadline, "the writer waits for the backup"

        made = back_up(db, target, stage=told)
    assert len(copied) > 10
    assert copied == sorted(copied), "it was never begun anew"
    assert made.checked == check(target)
    assert states(target) == states(db)[: len(states(target))], "it is a state that there was"


def test_what_was_redacted_does_not_come_back_with_it(
    db: Path, workspace: Workspace, store: Store, actor: Actor, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scrub that was to take the last remains out of the file could not run yet."""
    monkeypatch.setattr(workspace.engine, "scrub", lambda **_how: False)
    with closing(sqlite3.connect(db, isolation_level=None)) as rows:
        redacted(workspace, store, actor)
        # As where a page was split: something of it in space that nobody uses.
        rows.execute("PRAGMA secure_delete = OFF")
        rows.execute("CREATE TABLE remains (a)")
        rows.execute("INSERT INTO remains VALUES (?)", (SECRET,))
        rows.execute("DELETE FROM remains")
        rows.execute("DROP TABLE remains")
        rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert SECRET in db.read_bytes()
    back_up(db, target)
    assert SECRET not in target.read_bytes()
    assert os.listdir(target.parent) == [target.name]
    with closing(sqlite3.connect(target)) as rows:
        assert rows.execute("SELECT scrubs_wanted - scrubs_done FROM workspace").fetchone() == (0,)


def test_what_is_redacted_during_the_copying_is_not_in_it(
    db: Path, workspace: Workspace, store: Store, actor: Actor, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = workspace.memories.create(store.id, "/a.md", SECRET, actor)
    workspace.memories.update(store.id, made.id, actor, content=b"clean\n")
    monkeypatch.setattr(workspace.engine, "scrub", lambda **_how: False)  # which would wait for this very copy
    begun: list[int] = []

    def told(stage: str, done: int, total: int) -> None:
        if stage == "copying" and not begun:
            workspace.versions.redact(store.id, [made.memory_version_id], actor)
        if stage == "copying":
            begun.append(done)

    back_up(db, target, stage=told)
    assert len(begun) > 1
    assert SECRET not in target.read_bytes()
    assert states(target) == states(db)


def test_redacting_all_the_time_is_for_later(
    db: Path, workspace: Workspace, store: Store, actor: Actor, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace.engine, "scrub", lambda **_how: False)
    number = iter(range(1_000))

    def told(stage: str, done: int, total: int) -> None:
        if stage == "copying":
            redacted(workspace, store, actor, f"/{next(number)}.md")

    with pytest.raises(Busy, match="each time"):
        back_up(db, target, stage=told)
    assert next(number) >= backup.ATTEMPTS
    assert os.listdir(target.parent) == []


def spoiled(db: Path, target: Path) -> None:
    with closing(sqlite3.connect(db)) as rows, rows:
        rows.execute("UPDATE contents SET bytes = CAST('other' AS BLOB)")


def companion(db: Path, target: Path) -> None:
    target.with_name("memfs.db-wal").touch()


def nothing(db: Path, target: Path) -> None:
    return


@pytest.mark.parametrize(
    "prepare,name,error,said",
    [
        (spoiled, "b.db", UnusableDatabase, "is not sound .hashes.*memfs check"),
        (companion, "memfs.db", InvalidRequest, "taken for a part of the backup"),
        (nothing, "../memfs.db", InvalidRequest, "the database itself"),
        (nothing, "../memfs.db-wal", InvalidRequest, "the database itself"),
        (nothing, ".", InvalidRequest, "is a directory"),
        (nothing, "/dev/null", InvalidRequest, "is no file"),
        (nothing, "no/such/b.db", InvalidRequest, "there is no directory .*: make it first"),
    ],
    ids=["unsound", "companion", "itself", "its-log", "directory", "device", "nowhere"],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    db: Path,
    damaged: None,
    workspace: Workspace,
    store: Store,
    actor: Actor,
    target: Path,
    prepare: Callable[[Path, Path], None],
    name: str,
    error: type[MemfsError],
    said: str,
) -> None:
    workspace.memories.create(store.id, "/a.md", b"a\n", actor)
    prepare(db, target)
    before = {entry: entry.read_bytes() for entry in target.parent.iterdir()}
    with pytest.raises(error, match=said):
        back_up(db, target.parent / name, replace=True)
    assert {entry: entry.read_bytes() for entry in target.parent.iterdir()} == before


def test_a_file_that_comes_meanwhile_stays(db: Path, workspace: Workspace, target: Path) -> None:
    def told(stage: str, done: int, total: int) -> None:
        if stage == "forms":
            target.write_text("mine")

    with pytest.raises(InvalidRequest, match="is there already"):
        back_up(db, target, stage=told)
    assert (target.read_text(), os.listdir(target.parent)) == ("mine", [target.name])


def test_without_links_of_the_file_system_it_is_renamed(
    db: Path, workspace: Workspace, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As FAT answers."""

    def no_links(*_names: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    assert check(back_up(db, target).file).violations == []
    with pytest.raises(InvalidRequest, match="is there already"), placed_file(target):
        pass
    assert check(target).violations == []
    assert os.listdir(target.parent) == [target.name]


def test_a_link_stays_one(db: Path, workspace: Workspace, target: Path) -> None:
    link = target.with_name("latest.db")
    link.symlink_to(target.name)
    assert back_up(db, link).file == target
    back_up(db, link, replace=True)
    assert link.is_symlink()
    assert check(target).violations == []


FULL = """
import resource, signal, sys
from pathlib import Path
from memfs.engine.backup import back_up
from memfs.model.errors import StorageFailed
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (32_768, 32_768))
try:
    back_up(Path(sys.argv[1]), Path(sys.argv[2]), replace=True)
except StorageFailed as error:
    print(error, flush=True)
"""


def test_a_write_that_fails_leaves_the_earlier_backup_and_nothing_else(
    db: Path, workspace: Workspace, store: Store, actor: Actor, target: Path
) -> None:
    """As on a full disk: no file of the process may be longer than 32 KiB."""
    workspace.memories.create(store.id, "/a.md", os.urandom(40_000).hex().encode(), actor)
    target.write_text("earlier")
    workspace.close()
    with python(FULL, db, target) as process:
        said, wrong = process.communicate(timeout=120)
    assert said.startswith(f"the database {target} could not be used"), wrong
    assert (target.read_text(), os.listdir(target.parent)) == ("earlier", [target.name])
