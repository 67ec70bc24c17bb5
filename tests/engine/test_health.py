"""What a look at a database finds. Each database is made wrong for real."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memfs.engine import health
from memfs.model.findings import Finding
from memfs.model.records import Actor
from memfs.workspace import Workspace


def looked(path: Path, seconds: float = 30.0) -> dict[str, Finding]:
    """Findings by the name of the check, whatever space is free on this machine."""
    return {each.check: each for each in health.examine(path, seconds=seconds, least_free=0)}


@pytest.fixture
def filled(db: Path, damaged: None, actor: Actor) -> Path:
    """A database that nobody has open."""
    with Workspace.open(db, create=True) as workspace:
        store = workspace.stores.create("Notes")
        for number in range(200):
            workspace.memories.create(store.id, f"/{number}.md", b"text\n" * 100 + str(number).encode(), actor)
    return db


def wrong(path: Path, *statements: str) -> None:
    """Change rows past all rules."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_sound_database_is_ok_and_looking_leaves_nothing_beside_it(filled: Path) -> None:
    before = {entry.name: entry.stat().st_mtime_ns for entry in filled.parent.iterdir()}
    found = looked(filled)
    assert {each.state for each in found.values()} == {"ok"}
    assert {entry.name: entry.stat().st_mtime_ns for entry in filled.parent.iterdir()} == before
    assert list(before) == [filled.name]


def test_what_another_process_has_only_in_the_log_is_looked_at(filled: Path, actor: Actor) -> None:
    with Workspace.open(filled) as workspace:
        (store,) = workspace.stores.list()
        workspace.memories.create(store.id, "/late.md", b"late\n", actor)
        assert {each.state for each in looked(filled).values()} == {"ok"}
        wrong(filled, "UPDATE memories SET path = '/other.md' WHERE path = '/late.md'")
        assert looked(filled)["database-content"].found == "1 memories that differ from their newest version"


@pytest.mark.parametrize(
    "statement,said",
    [
        ("UPDATE memories SET path = '/x.md' WHERE path = '/7.md'", "1 memories that differ from their newest version"),
        ("DELETE FROM memory_versions WHERE path = '/7.md'", "1 rows refer to others which are not there; 1 memories"),
        ("UPDATE contents SET size_bytes = 1 WHERE id = 3", "1 versions that differ from their content"),
    ],
    ids=["head", "reference", "content"],
)
def test_rows_that_contradict_each_other_are_told(filled: Path, statement: str, said: str) -> None:
    wrong(filled, statement)
    found = looked(filled)["database-content"]
    assert (found.state, found.found[: len(said)]) == ("missing", said)
    assert "backup" in found.next_step


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(os.urandom(3 * 4096))


def no_database(path: Path) -> None:
    path.write_bytes(b"not a database, but longer than a header of one is" * 50)


def another_program_s(path: Path) -> None:
    path.unlink()
    wrong(path, "CREATE TABLE t (a)")


def newer(path: Path) -> None:
    wrong(path, "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('memfs', '9999_x', '')")


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil,check,state,said",
    [
        (overwritten, "database-content", "missing", ""),
        (no_database, "database", "missing", "damaged or no SQLite database"),
        (another_program_s, "database", "missing", "not one of memfs"),
        (newer, "database", "missing", "made by a newer memfs"),
        (directory, "database", "missing", "is a directory"),
        (Path.unlink, "database", "warning", "there is none"),
        (lambda path: path.write_bytes(b""), "database", "warning", "is empty"),
    ],
    ids=["overwritten", "no-database", "another", "newer", "directory", "none", "empty"],
)
def test_what_cannot_be_used_is_told_with_what_to_do(
    filled: Path, spoil: Callable[[Path], object], check: str, state: str, said: str
) -> None:
    spoil(filled)
    found = looked(filled)
    if check not in found:  # what was overwritten may be the first thing that is read
        check = "database"
    assert found[check].state == state
    assert said in found[check].found
    assert found[check].next_step


def test_a_scrub_that_is_pending_is_told(filled: Path) -> None:
    wrong(filled, "UPDATE workspace SET scrubs_wanted = scrubs_done + 1")
    assert looked(filled)["database-scrub"].state == "warning"


def test_a_database_that_others_may_open_is_told(filled: Path) -> None:
    filled.chmod(0o644)
    assert looked(filled)["database-mode"].found == "other users may open it (mode 644)"


def test_a_long_log_and_little_space_are_told(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LARGE_LOG", 10)
    with Workspace.open(filled) as workspace:
        workspace.stores.create("Another")
        assert looked(filled)["database-log"].state == "warning"
    (space,) = [each for each in health.examine(filled, least_free=1 << 62) if each.check == "database-space"]
    assert (space.state, "make room" in space.next_step) == ("warning", True)


def test_reading_ends_in_time(filled: Path) -> None:
    found = looked(filled, seconds=-1.0)["database-content"]
    assert (found.state, found.found.startswith("not read to the end")) == ("warning", True)
