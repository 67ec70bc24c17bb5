"""What becomes of errors: the table names every one of them, and no answer names a file of this machine."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memfs.engine import SqliteEngine, opening
from memfs.model import errors
from memfs.model.errors import MemfsError, PathConflict, all_errors
from memfs.model.records import Store
from memfs.tool.answers import SENTENCES, UNAVAILABLE, sentence
from memfs.workspace import Workspace
from tests.tool.handling import SOMEBODY, Tool

CALLS: list[dict[str, object]] = [
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/a.md"},
    {"command": "view", "path": "/memories/missing"},
    {"command": "create", "path": "/memories/new.md", "file_text": "x"},
    {"command": "str_replace", "path": "/memories/a.md", "old_str": "a", "new_str": "b"},
    {"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "x"},
    {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b.md"},
    {"command": "delete", "path": "/memories/d"},
]
MISSING = "The path /memories/missing does not exist. Please provide a valid path."
CHANGES = [call for call in CALLS if call["command"] != "view"]

EVERY: list[type[MemfsError]] = sorted(all_errors(), key=repr)

HOSTS = {
    errors.StorageFailed,
    errors.StorageFull,
    errors.StorageReadOnly,
    errors.UnusableDatabase,
    errors.Busy,
    errors.MountFailed,
}
"""What is raised with the path of a file of this machine."""


def raised(cls: type[MemfsError], message: str) -> MemfsError:
    if issubclass(cls, PathConflict):
        return cls(message, conflicting_memory_id="mem_x", conflicting_path="/x")
    return cls(message)


# The table


def test_the_table_names_every_error_and_nothing_else() -> None:
    assert SENTENCES.keys() == all_errors()


def test_an_error_that_is_not_in_the_table_is_told_as_its_nearest() -> None:
    class Unheard(errors.StoreFull):
        pass

    assert sentence(Unheard("/srv/memfs.db")) == SENTENCES[errors.StoreFull]


@pytest.mark.parametrize("cls", EVERY)
def test_no_sentence_lets_through_what_names_files_of_the_host(cls: type[MemfsError]) -> None:
    text = sentence(raised(cls, "/srv/secret/memfs.db is in the way"))
    if SENTENCES[cls] is None:
        assert not issubclass(cls, tuple(HOSTS)), "its message names the database"
        assert text == "/srv/secret/memfs.db is in the way"
    else:
        assert "/srv" not in text


def test_only_messages_about_the_request_are_repeated() -> None:
    """Each of these was looked at: what it says is of the model's own input, or of the store's guards."""
    assert {cls.__name__ for cls, text in SENTENCES.items() if text is None} == {
        "InvalidRequest",
        "InvalidPath",
        "NameNotUtf8",
        "PathTooLong",
        "ContentNotText",
        "ContentTooLarge",
        "AmbiguousName",
        "TooManyStores",
        "VersionInUse",
        "SessionArchived",
        "WriteRefused",
        "HistoryGone",
    }


@pytest.mark.parametrize("cls", EVERY)
def test_every_error_of_the_workspace_is_an_answer(
    workspace: Workspace, store: Store, monkeypatch: pytest.MonkeyPatch, cls: type[MemfsError]
) -> None:
    monkeypatch.setattr("memfs.tool.commands.PAUSE_SECONDS", 0)
    tool = Tool(workspace, store)
    tool.put("/a.md", "a\n")

    def fails(*args: object, **kwargs: object) -> None:
        raise raised(cls, "why")

    monkeypatch.setattr(workspace.engine, "apply", fails)
    result = tool.handle({"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "x"})
    told = SENTENCES[cls]
    assert (result.is_error, result.content) == (True, f"Error: {'why' if told is None else told}")


# Faults


def ask(tool: Tool, calls: list[dict[str, object]]) -> Iterator[str]:
    """Errors of all calls, none of which says where the database is."""
    for call in calls:
        result = tool.commands.handle(call)
        assert not any(name in result.content for name in ("tmp", "memfs", ".db", "sqlite", "SQL", "Traceback")), (
            result.content
        )
        if result.is_error:
            yield result.content


@pytest.fixture
def filled(workspace: Workspace, store: Store) -> Tool:
    tool = Tool(workspace, store)
    tool.put("/a.md", "a\n")
    tool.put("/d/big.md", "x" * 100_000)
    return tool


def test_an_unexpected_exception_is_an_answer_and_is_logged(
    filled: Tool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise OSError(5, "Input/output error", "/srv/secret/memfs.db")

    for name in ("snapshot", "memory_at", "apply"):
        monkeypatch.setattr(filled.workspace.engine, name, fails)
    answers = list(ask(filled, CALLS))
    assert answers == [f"Error: {UNAVAILABLE}"] * len(CALLS)
    assert len(caplog.records) == len(CALLS)
    assert all(record.exc_info is not None for record in caplog.records)


def test_what_the_answer_leaves_out_is_logged(
    filled: Tool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise errors.UnusableDatabase("/srv/memfs.db is damaged")

    monkeypatch.setattr(filled.workspace.engine, "memory_at", fails)
    assert filled.handle(CALLS[1]).content == f"Error: {UNAVAILABLE}"
    (record,) = caplog.records
    assert (record.levelno, "/srv/memfs.db is damaged" in record.getMessage()) == (logging.ERROR, True)


def test_a_database_that_was_deleted(filled: Tool, db: Path) -> None:
    for file in db.parent.glob(f"{db.name}*"):
        file.unlink()
    """SQLite works on in the deleted file; whatever it answers, no path is told and no file is made anew."""
    assert set(ask(filled, CALLS)) <= {f"Error: {UNAVAILABLE}", MISSING}
    assert not db.exists()


def test_a_database_that_was_closed(filled: Tool) -> None:
    filled.workspace.engine.close()
    assert list(ask(filled, CALLS)) == [f"Error: {UNAVAILABLE}"] * len(CALLS)


def test_a_damaged_database(filled: Tool, db: Path, damaged: None) -> None:
    with closing(sqlite3.connect(db)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = db.stat().st_size
    descriptor = os.open(db, os.O_WRONLY)
    os.pwrite(descriptor, os.urandom(size - 100), 100)
    os.close(descriptor)
    assert list(ask(filled, CALLS)) == [f"Error: {UNAVAILABLE}"] * len(CALLS)


def test_a_database_that_somebody_else_writes_to(
    filled: Tool, db: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "LOCK_TIMEOUT_SECONDS", 0.05)
    with Workspace(SqliteEngine(db)) as impatient, closing(sqlite3.connect(db, isolation_level=None)) as other:
        tool = Tool(impatient, store)
        other.execute("BEGIN IMMEDIATE")
        assert set(ask(tool, CHANGES)) == {"Error: the memory is busy; nothing was changed, try again"}
        assert len(list(ask(tool, CALLS))) == 1 + len(CHANGES), "what only looks does not wait"
        other.execute("ROLLBACK")
        assert list(ask(tool, CHANGES)) == []


def test_a_database_that_cannot_be_written(filled: Tool, db: Path, store: Store) -> None:
    with Workspace.open(db, read_only=True) as readable:
        assert set(ask(Tool(readable, store), CHANGES)) == {f"Error: {UNAVAILABLE}"}


def test_a_store_that_was_deleted(filled: Tool, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfs.tool.commands.PAUSE_SECONDS", 0)
    filled.workspace.stores.delete(store.id)
    answers = list(ask(filled, CALLS))
    assert len(answers) == len(CALLS)
    assert set(answers) == {
        "Error: this memory is gone",
        "Error: The path /memories/a.md does not exist",
        "Error: The path /memories/a.md does not exist. Please provide a valid path.",
    }


def test_an_actor_elsewhere_has_no_part_in_it(filled: Tool) -> None:
    """The tests' own hand is not taken for the tool's."""
    assert {version.created_by for version in filled.versions()} == {SOMEBODY}
    assert filled.done == []
