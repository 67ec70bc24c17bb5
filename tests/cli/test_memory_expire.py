"""``memfs memory expire``: what it finds, what it says, and what it deletes."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memfs.cli import exits, memory_expiring
from memfs.model.records import Actor, Store, format_time, now
from memfs.workspace import Workspace
from memfs.workspace.memories import Memories
from tests.cli.answering import INTERRUPT, answered
from tests.cli.conftest import Run
from tests.cli.test_memory import MEMORY_FIELDS, one_line, paths

Made = Callable[..., str]


def days_ago(days: float) -> str:
    return format_time(datetime.now(UTC) - timedelta(days=days))


@pytest.fixture
def made(db: Path, workspace: Workspace, store: Store, actor: Actor) -> Made:
    """Makes a memory that was written, and perhaps read, so many days ago."""

    def made(path: str, *, written: float, read: float | None = None) -> str:
        memory_id = workspace.memories.create(store.id, path, b"x", actor).id
        at = days_ago(written)
        with closing(sqlite3.connect(db)) as connection:
            for statement in (
                "UPDATE memories SET updated_at = ? WHERE id = ?",
                "UPDATE memory_versions SET created_at = ? WHERE memory_id = ?",
            ):
                connection.execute(statement, (at, memory_id))
            connection.commit()
        if read is not None:
            workspace.engine.record_accesses({memory_id: days_ago(read)})
        return memory_id

    return made


@pytest.fixture
def four(made: Made) -> dict[str, str]:
    """Two memories that nobody uses, one that was written and one that was read lately: ids by path."""
    return {
        "/notes/old.md": made("/notes/old.md", written=100, read=95),
        "/old.md": made("/old.md", written=100),
        "/read.md": made("/read.md", written=100, read=1),
        "/written.md": made("/written.md", written=1, read=100),
    }


def test_a_dry_run_says_what_nobody_uses(run: Run, workspace: Workspace, store: Store, four: dict[str, str]) -> None:
    before = paths(workspace, store)
    words = ["memory", "expire", "user-preferences", "--not-accessed-for", "90d", "--dry-run"]
    result = run(*words)
    table = [line.split() for line in result.stdout.splitlines()]
    assert table[0] == ["PATH", "BYTES", "WRITTEN", "READ", "ID"]
    assert [(row[0], row[2][:10], row[3][:10], row[4]) for row in table[1:]] == [
        ("/notes/old.md", days_ago(100)[:10], days_ago(95)[:10], four["/notes/old.md"]),
        ("/old.md", days_ago(100)[:10], "never", four["/old.md"]),
    ]
    assert result.stderr == "2 memories would be deleted\n"
    loaded = json.loads(run(*words, "--format", "json").stdout)
    assert [list(item) for item in loaded] == [[*MEMORY_FIELDS, "accessed_at"]] * 2
    assert [item["content"] for item in loaded] == [None, None]
    assert (loaded[0]["accessed_at"][:10], loaded[1]["accessed_at"]) == (days_ago(95)[:10], None)
    lines = run(*words, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == loaded
    quiet = run(*words, "-q")
    assert (quiet.stdout, quiet.stderr) == (f"{four['/notes/old.md']}\n{four['/old.md']}\n", "")
    assert paths(workspace, store) == before


def test_expire_deletes_them_in_one_transaction(
    run: Run, workspace: Workspace, store: Store, four: dict[str, str]
) -> None:
    result = run("memory", "expire", store.id, "--not-accessed-for", "90d", "--yes")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["PATH", "/notes/old.md", "/old.md"]
    assert result.stderr == "deleted 2 memories; the history stays\n"
    assert paths(workspace, store) == ["/read.md", "/written.md"]
    gone = workspace.versions.list(store.id)[:2]
    assert {version.operation for version in gone} == {"deleted"}
    assert len({version.created_at for version in gone}) == 1
    assert {version.created_by.type for version in gone} == {"user_actor"}
    again = run("memory", "expire", store.id, "--not-accessed-for", "90d", "--yes", "--format", "json")
    assert again.stdout == "[]\n"
    assert "nothing to delete" in again.stderr


@pytest.mark.parametrize("options", [["--format", "json"], ["-q"]])
def test_what_expire_prints_for_programs(run: Run, store: Store, four: dict[str, str], options: list[str]) -> None:
    words = ["memory", "expire", store.id, "--not-accessed-for", "90d", *options]
    would = run(*words, "--dry-run").stdout
    assert run(*words, "--yes").stdout == would


def test_expire_below_a_prefix(run: Run, workspace: Workspace, store: Store, four: dict[str, str]) -> None:
    run("memory", "expire", store.id, "--not-accessed-for", "90d", "--prefix", "/notes/", "--yes")
    assert paths(workspace, store) == ["/old.md", "/read.md", "/written.md"]
    words = ["--not-accessed-for", "90d", "--prefix", "/notes", "--yes"]
    one_line(run("memory", "expire", store.id, *words, code=exits.INVALID).stderr)


def test_expire_of_an_archived_store(run: Run, workspace: Workspace, store: Store, four: dict[str, str]) -> None:
    workspace.stores.archive(store.id)
    run("memory", "expire", store.id, "--not-accessed-for", "90d", "--yes")
    assert paths(workspace, store) == ["/read.md", "/written.md"]


def test_show_and_edit_are_reading_and_a_list_is_not(
    run: Run, workspace: Workspace, store: Store, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("/listed", "/shown", "/edited"):
        made(path, written=100)
    monkeypatch.setenv("VISUAL", "true")
    run("memory", "list", store.id)
    run("memory", "show", store.id, "/shown")
    run("memory", "edit", store.id, "/edited")
    run("memory", "expire", store.id, "--not-accessed-for", "90d", "--yes")
    assert paths(workspace, store) == ["/edited", "/shown"]


def test_nothing_is_as_old_as_that(run: Run, workspace: Workspace, store: Store, four: dict[str, str]) -> None:
    # A time with a year of three digits would sort, as text, after all others.
    assert "nothing to delete" in run("memory", "expire", store.id, "--not-accessed-for", "400000d", "--yes").stderr
    assert len(paths(workspace, store)) == 4


@pytest.mark.parametrize("words", [[], ["--not-accessed-for", "90"], ["--not-accessed-for", "900000d"]])
def test_an_age_is_needed(run: Run, store: Store, words: list[str]) -> None:
    stderr = run("memory", "expire", store.id, *words, "--yes", code=exits.INVALID).stderr
    assert "Usage: memfs memory expire" in stderr
    assert "--not-accessed-for" in stderr


# Asking


def test_where_nobody_can_be_asked_it_takes_a_yes(
    run: Run, workspace: Workspace, store: Store, four: dict[str, str]
) -> None:
    for age in ("90d", "9000d"):
        result = run("memory", "expire", store.id, "--not-accessed-for", age, code=exits.REFUSED)
        assert result.stdout == ""
        for option in ("--yes", "--dry-run"):
            assert option in one_line(result.stderr)
    assert len(paths(workspace, store)) == 4


def test_on_a_terminal_it_shows_them_and_asks(
    db: Path, workspace: Workspace, store: Store, four: dict[str, str]
) -> None:
    words = ["memory", "expire", store.id, "--not-accessed-for", "90d"]
    for answer, code in ((b"n\n", exits.REFUSED), (b"\n", exits.REFUSED), (INTERRUPT, exits.INTERRUPTED)):
        ended = answered(db, *words, answer=answer)
        assert ended.code == code
        assert "delete 2 memories of the store 'User preferences'" in ended.terminal
        assert b"/old.md" in ended.stdout
        assert len(paths(workspace, store)) == 4
    assert "[y/N]" not in answered(db, *words, "--dry-run").terminal
    ended = answered(db, *words, answer=b"y\n")
    assert ended.code == 0
    assert ended.stdout.count(b"\n/old.md") == 1
    assert "deleted 2 memories" in ended.terminal
    assert paths(workspace, store) == ["/read.md", "/written.md"]
    ended = answered(db, *words)
    assert (ended.code, ended.stdout) == (0, b"")
    assert "[y/N]" not in ended.terminal


def test_on_a_terminal_json_is_what_was_deleted(db: Path, store: Store, four: dict[str, str]) -> None:
    words = ["memory", "expire", store.id, "--not-accessed-for", "90d", "--format", "json"]
    assert answered(db, *words, answer=b"n\n").stdout == b""
    ended = answered(db, *words, answer=b"y\n")
    assert [item["path"] for item in json.loads(ended.stdout)] == ["/notes/old.md", "/old.md"]


def test_what_is_used_before_the_answer_stays(
    run: Run, workspace: Workspace, store: Store, four: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def agreed(question: str) -> bool:
        workspace.engine.record_accesses({four["/old.md"]: now()})
        return True

    monkeypatch.setattr(memory_expiring, "somebody_there", lambda: True)
    monkeypatch.setattr(memory_expiring, "agreed", agreed)
    result = run("memory", "expire", store.id, "--not-accessed-for", "90d", "-q")
    assert result.stdout == f"{four['/notes/old.md']}\n"
    assert paths(workspace, store) == ["/old.md", "/read.md", "/written.md"]


@pytest.mark.parametrize("way", ["written", "deleted"])
def test_what_is_changed_at_the_last_moment_does_not_keep_the_rest(
    run: Run,
    workspace: Workspace,
    store: Store,
    four: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    actor: Actor,
    way: str,
) -> None:
    """A job at night must not fail because an agent is at work."""
    expire = Memories.expire

    def changed_just_before(memories: Memories, store_id: str, *arguments: Any) -> None:
        monkeypatch.setattr(Memories, "expire", expire)
        if way == "written":
            workspace.memories.update(store_id, "/old.md", actor, content=b"in use")
        else:
            workspace.memories.delete(store_id, "/old.md", actor)
        expire(memories, store_id, *arguments)

    monkeypatch.setattr(Memories, "expire", changed_just_before)
    result = run("memory", "expire", store.id, "--not-accessed-for", "90d", "--yes", "-q")
    assert result.stdout == f"{four['/notes/old.md']}\n"
    left = ["/old.md"] if way == "written" else []
    assert paths(workspace, store) == [*left, "/read.md", "/written.md"]
