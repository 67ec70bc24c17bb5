"""``memfs version prune``: by itself, from cron, and with a person who is asked."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memfs.cli import exits
from memfs.engine import SqliteEngine
from memfs.model.errors import Busy, StorageFull
from memfs.model.records import Actor, Store
from memfs.workspace import Workspace, retention
from tests.cli.answering import INTERRUPT, answered
from tests.cli.conftest import Run
from tests.cli.terminal import at_terminal


def age(db: Path, *version_ids: str, days: int = 0) -> None:
    """Make versions older than they are."""
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.executemany(
            "UPDATE memory_versions SET created_at = strftime('%Y-%m-%dT%H:%M:%S.000000Z', 'now', ?) WHERE id = ?",
            [(f"-{days} days", version_id) for version_id in version_ids],
        )


def versions(workspace: Workspace, store: Store) -> list[str]:
    """The ids, oldest first."""
    return [version.id for version in reversed(workspace.versions.list(store.id))]


@pytest.fixture
def old(workspace: Workspace, store: Store, actor: Actor, db: Path) -> list[str]:
    """The five versions of a live memory and the two of a deleted one, the first four of which are 40 days old."""
    live = workspace.memories.create(store.id, "/live", b"0", actor)
    for number in range(1, 5):
        workspace.memories.update(store.id, live.id, actor, content=str(number).encode())
    gone = workspace.memories.create(store.id, "/gone", b"x", actor)
    workspace.memories.delete(store.id, gone.id, actor)
    ids = versions(workspace, store)
    age(db, *ids[:4], days=40)
    return ids


@pytest.fixture
def other(workspace: Workspace, actor: Actor, db: Path) -> Store:
    """An archived store with one version that is 35 days old and not the newest."""
    store = workspace.stores.create("Other notes")
    memory = workspace.memories.create(store.id, "/a", b"0", actor)
    workspace.memories.update(store.id, memory.id, actor, content=b"1")
    age(db, versions(workspace, store)[0], days=35)
    workspace.stores.archive(store.id)
    return store


def test_prune_of_one_store(run: Run, workspace: Workspace, store: Store, other: Store, old: list[str]) -> None:
    result = run("version", "prune", "user-preferences")
    assert result.stdout.startswith("removed 4 versions from before ")
    assert result.stdout.endswith(" in 1 store\n")
    assert result.stderr == ""
    assert versions(workspace, store) == old[4:]
    assert len(versions(workspace, other)) == 2
    assert run("version", "prune", store.id).stdout.startswith("removed 0 versions from before ")


def test_prune_of_all_stores(run: Run, workspace: Workspace, store: Store, other: Store, old: list[str]) -> None:
    item = json.loads(run("version", "prune", "--yes", "--format", "json").stdout)
    assert list(item) == ["before", "versions", "stores"]
    assert item["versions"] == 5
    assert item["stores"] == [
        {"memory_store_id": store.id, "versions": 4},
        {"memory_store_id": other.id, "versions": 1},
    ]
    assert json.loads(run("version", "prune", "--format", "jsonl").stdout)["stores"] == []


def test_the_age_is_that_of_the_settings_or_the_one_given(
    run: Run, workspace: Workspace, store: Store, other: Store, old: list[str]
) -> None:
    run("settings", "set", "--retention-days", "38")
    assert run("version", "prune").stdout.startswith("removed 4 versions")
    assert run("version", "prune", "--older-than", "6w").stdout.startswith("removed 0 versions")
    assert run("version", "prune", "--older-than", "34d").stdout.startswith("removed 1 version ")
    # What is left but the newest of each memory: when the deleted one was made.
    assert run("version", "prune", "--older-than", "0s").stdout.startswith("removed 1 version ")
    assert versions(workspace, store) == [old[4], old[6]]
    assert workspace.memories.get(store.id, "/live").content == b"4"
    run("version", "restore", store.id, old[6], code=exits.NOT_FOUND)


def test_a_dry_run_lists_what_would_go(
    run: Run, workspace: Workspace, store: Store, other: Store, old: list[str]
) -> None:
    result = run("version", "prune", store.id, "--dry-run")
    assert result.stdout.splitlines()[0].split() == ["CREATED", "OPERATION", "PATH", "BYTES", "BY", "ID"]
    assert [line.split()[-1] for line in result.stdout.splitlines()[1:]] == old[:4]
    assert result.stderr.startswith("4 versions from before ")
    assert result.stderr.endswith(" would be removed\n")
    everywhere = run("version", "prune", "--dry-run").stdout.splitlines()
    assert everywhere[0].split()[0] == "STORE"
    assert [line.split("  ")[0] for line in everywhere[1:]] == ["User preferences"] * 4 + ["Other notes"]
    lines = run("version", "prune", "--dry-run", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines][:4] == old[:4]
    loaded = json.loads(run("version", "prune", "--dry-run", "--format", "json", store.id).stdout)
    assert [(item["type"], item["content"]) for item in loaded] == [("memory_version", None)] * 4
    assert json.loads(run("version", "prune", "--dry-run", "--format", "json", "--older-than", "90d").stdout) == []
    assert versions(workspace, store) == old


@pytest.mark.parametrize("text", ["30", "-1d", "1.5h", "a month", "999999999w"])
def test_what_is_no_age(run: Run, workspace: Workspace, store: Store, old: list[str], text: str) -> None:
    assert "is no age" in run("version", "prune", "--older-than", text, code=exits.INVALID).stderr
    run("version", "prune", "nothing", code=exits.NOT_FOUND)
    assert versions(workspace, store) == old


def test_prune_gives_the_space_back(run: Run, workspace: Workspace, store: Store, actor: Actor, db: Path) -> None:
    memory = workspace.memories.create(store.id, "/a", b"", actor)
    for number in range(20):
        workspace.memories.update(store.id, memory.id, actor, content=bytes([48 + number]) * 100_000)
    run("version", "list", store.id)  # what was written is in the file now, and not in its log
    workspace.engine.scrub(anyway=True)
    before = db.stat().st_size
    assert run("version", "prune", "--older-than", "0s").stdout.startswith("removed 20 versions")
    assert db.stat().st_size < before / 4


@pytest.mark.parametrize("error, code", [(Busy("look"), 0), (StorageFull("look"), exits.DATABASE)])
def test_what_was_removed_is_said_although_the_space_is_not_given_back(
    run: Run,
    workspace: Workspace,
    store: Store,
    old: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: int,
) -> None:
    def fail(*_: object, anyway: bool = False, **__: object) -> bool:
        if anyway:
            raise error
        return False

    monkeypatch.setattr("memfs.engine.SqliteEngine.scrub", fail)
    result = run("version", "prune", code=code)
    assert result.stdout.startswith("removed 4 versions")
    assert "look" in result.stderr


@pytest.mark.parametrize("error, code", [(Busy("held"), exits.TRY_AGAIN), (StorageFull("held"), exits.DATABASE)])
def test_what_was_removed_is_said_where_another_batch_could_not_be(
    run: Run,
    workspace: Workspace,
    store: Store,
    old: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: int,
) -> None:
    """Each batch is a transaction of its own."""
    real = SqliteEngine.prune
    batches = 0

    def failing(self: SqliteEngine, store_id: str, before: str, *, limit: int) -> int:
        nonlocal batches
        batches += 1
        if batches > 2:
            raise error
        return real(self, store_id, before, limit=limit)

    monkeypatch.setattr(retention, "BATCH", 1)
    monkeypatch.setattr(SqliteEngine, "prune", failing)
    result = run("version", "prune", code=code)
    assert "2 versions are removed; run this again for the rest" in result.stderr
    assert "held" in result.stderr
    assert result.stdout == ""
    assert len(versions(workspace, store)) == 5


@pytest.mark.parametrize("answer, code", [(b"y\n", 0), (b"n\n", exits.REFUSED), (INTERRUPT, exits.INTERRUPTED)])
def test_on_a_terminal_it_asks(
    workspace: Workspace, store: Store, db: Path, old: list[str], answer: bytes | None, code: int
) -> None:
    ended = answered(db, "version", "prune", answer=answer)
    assert ended.code == code
    assert "remove 4 versions from before " in ended.terminal
    assert "They cannot be brought back [y/N]" in ended.terminal
    assert ("nothing was removed" in ended.terminal) is (code == exits.REFUSED)
    assert len(versions(workspace, store)) == (3 if code == 0 else 7)


def test_on_a_terminal_it_shows_how_far_it_is(workspace: Workspace, store: Store, db: Path, old: list[str]) -> None:
    sent = at_terminal(db, "version", "prune", "--yes")
    assert "[y/N]" not in sent
    assert "4/4" in sent
    assert "removed 4 versions" in sent
    again = at_terminal(db, "version", "prune")
    assert "[y/N]" not in again, "there is nothing to ask about"
    assert "removed 0 versions" in again
