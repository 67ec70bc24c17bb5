"""When memories were read, and letting go of those that nobody reads."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memfs.engine import SqliteEngine
from memfs.model import ids
from memfs.model.errors import InvalidRequest, NotFound, PreconditionFailed, StorageFailed
from memfs.model.records import AccessedMemory, Actor, Memory, Store, format_time, now
from memfs.workspace import Workspace, accesses


class Clock:
    """A time of its own for what is noted as read."""

    def __init__(self) -> None:
        self.moment = datetime.now(UTC) + timedelta(days=1)

    def forward(self, **span: float) -> str:
        self.moment += timedelta(**span)
        return self.now()

    def now(self) -> str:
        return format_time(self.moment)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(accesses, "now", clock.now)
    return clock


@pytest.fixture
def memory(workspace: Workspace, store: Store, actor: Actor) -> Memory:
    return workspace.memories.create(store.id, "/a", b"text", actor)


def on_record(workspace: Workspace, store: Store) -> dict[str, str | None]:
    """As the database has it, without putting anything on record."""
    found = workspace.engine.accessed_memories(store.id, "/", before="9999")
    return {each.memory.path: each.accessed_at for each in found}


def far(clock: Clock) -> str:
    """A time after everything."""
    return format_time(clock.moment + timedelta(days=1_000))


# Noting


def test_reading_a_text_is_noted_and_recorded_later(
    workspace: Workspace, store: Store, memory: Memory, clock: Clock
) -> None:
    workspace.memories.get(store.id, memory.id)
    second = clock.forward(hours=2)
    workspace.memories.get(store.id, "/a")
    assert on_record(workspace, store) == {"/a": None}, "reading does not write"
    workspace.accesses.record()
    assert on_record(workspace, store) == {"/a": second}
    workspace.accesses.record()
    assert on_record(workspace, store) == {"/a": second}


def test_an_attached_store_notes_what_is_opened(
    workspace: Workspace, store: Store, memory: Memory, actor: Actor, clock: Clock
) -> None:
    attached = workspace.attached(store.id, actor, "read_only")
    attached.note_access(memory.id)
    attached.note_access(ids.new_id(ids.MEMORY))
    workspace.accesses.record()
    assert on_record(workspace, store) == {"/a": clock.now()}


def test_looking_without_reading_is_no_read(
    workspace: Workspace, store: Store, memory: Memory, actor: Actor, clock: Clock
) -> None:
    """Listings, histories, writes and what is not there."""
    workspace.memories.list(store.id, content=True)
    workspace.memories.browse(store.id, depth=1)
    workspace.versions.list(store.id, content=True)
    workspace.versions.content(store.id, memory.memory_version_id)
    workspace.memories.update(store.id, "/a", actor, content=b"new")
    workspace.stores.copy(store.id, "Copy", actor)
    for missing in ("/b", ids.new_id(ids.MEMORY)):
        with pytest.raises(NotFound):
            workspace.memories.get(store.id, missing)
    workspace.accesses.record()
    assert on_record(workspace, store) == {"/a": None}


def test_closing_puts_reads_on_record(
    workspace: Workspace, store: Store, memory: Memory, clock: Clock, db: Path
) -> None:
    with Workspace.open(db, read_only=True) as reading:
        reading.memories.get(store.id, "/a")
    assert on_record(workspace, store) == {"/a": clock.now()}


def test_reads_within_an_hour_are_one(workspace: Workspace, store: Store, memory: Memory, clock: Clock) -> None:
    first = clock.now()
    for minutes in (0, 59):
        clock.forward(minutes=minutes)
        workspace.memories.get(store.id, "/a")
        workspace.accesses.record()
    assert on_record(workspace, store) == {"/a": first}
    clock.forward(minutes=2)
    workspace.memories.get(store.id, "/a")
    workspace.accesses.record()
    assert on_record(workspace, store) == {"/a": clock.now()}


def test_where_the_database_is_busy_reads_stay_noted(
    workspace: Workspace, store: Store, memory: Memory, clock: Clock, db: Path
) -> None:
    with closing(sqlite3.connect(db, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        workspace.memories.get(store.id, "/a")
        workspace.accesses.record()
        second = clock.forward(hours=3)
        workspace.memories.get(store.id, "/a")
        workspace.accesses.record()
        assert on_record(workspace, store) == {"/a": None}
        holder.execute("ROLLBACK")
    workspace.accesses.record()
    assert on_record(workspace, store) == {"/a": second}


def test_a_database_that_cannot_be_written_can_be_read(
    workspace: Workspace,
    store: Store,
    memory: Memory,
    clock: Clock,
    db: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(self: SqliteEngine, accesses: object) -> None:
        raise StorageFailed("attempt to write a readonly database")

    monkeypatch.setattr(SqliteEngine, "record_accesses", fail)
    with caplog.at_level(logging.INFO), Workspace.open(db, read_only=True) as reading:
        assert reading.memories.get(store.id, "/a").content == b"text"
        assert [each.memory.id for each in reading.memories.unaccessed(store.id, far(clock))] == [memory.id]
    assert "reads are not on record yet" in caplog.text


def test_threads_note_while_another_records(workspace: Workspace, store: Store, actor: Actor) -> None:
    """No read is lost, and nothing is iterated over while it grows."""
    made = [workspace.memories.create(store.id, f"/{i}", b"", actor).id for i in range(300)]
    done = threading.Event()
    failures: list[BaseException] = []

    def record() -> None:
        try:
            while not done.is_set():
                workspace.accesses.record()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=record)
    thread.start()
    for memory_id in made * 20:
        workspace.accesses.note(memory_id)
    done.set()
    thread.join()
    workspace.accesses.record()
    assert not failures
    assert None not in on_record(workspace, store).values()


# Expiring


def paths(found: Sequence[AccessedMemory]) -> list[str]:
    return [each.memory.path for each in found]


def test_what_nobody_has_read_or_written_since(workspace: Workspace, store: Store, actor: Actor, clock: Clock) -> None:
    for path in ("/d/read", "/d/unread", "/d.md", "/new"):
        workspace.memories.create(store.id, path, b"", actor)
    read = clock.now()
    workspace.memories.get(store.id, "/d/read")
    after = clock.forward(seconds=1)

    def unaccessed(before: str, prefix: str = "/") -> list[str]:
        return paths(workspace.memories.unaccessed(store.id, before, prefix))

    assert unaccessed(read) == ["/d.md", "/d/unread", "/new"], "what was noted counts"
    assert unaccessed(after) == ["/d.md", "/d/read", "/d/unread", "/new"]
    assert unaccessed(after, "/d/") == ["/d/read", "/d/unread"]
    assert unaccessed(workspace.memories.get(store.id, "/d/unread").created_at) == []
    for prefix in ("d", "/d", ""):
        with pytest.raises(InvalidRequest):
            unaccessed(after, prefix)
    with pytest.raises(NotFound):
        workspace.memories.unaccessed(ids.new_id(ids.MEMORY_STORE), after)


def test_what_was_read_just_now_is_not_unread_where_the_database_is_busy(
    workspace: Workspace, store: Store, memory: Memory, clock: Clock, db: Path
) -> None:
    """Or it would be expired."""
    before = clock.forward(hours=2)
    clock.forward(hours=2)
    with closing(sqlite3.connect(db, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        workspace.memories.get(store.id, "/a")
        assert workspace.memories.unaccessed(store.id, before) == []
        assert paths(workspace.memories.unaccessed(store.id, far(clock))) == ["/a"]


def test_expired_memories_keep_their_histories(
    workspace: Workspace, store: Store, memory: Memory, actor: Actor, clock: Clock
) -> None:
    kept = workspace.memories.create(store.id, "/kept", b"", actor)
    workspace.memories.get(store.id, "/kept")
    found = workspace.memories.unaccessed(store.id, clock.now())
    assert found == [AccessedMemory(workspace.memories.list(store.id)[0], None)]
    agent = Actor("session_actor", ids.new_id(ids.SESSION))
    workspace.memories.expire(store.id, found, agent)
    assert [each.id for each in workspace.memories.list(store.id)] == [kept.id]
    newest = workspace.versions.list(store.id)[0]
    assert (newest.memory_id, newest.operation, newest.created_by) == (memory.id, "deleted", agent)
    assert workspace.versions.content(store.id, memory.memory_version_id) == b"text"
    assert workspace.versions.restore(store.id, memory.memory_version_id, actor).memory.path == "/a"


def change(workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.memories.update(store.id, "/b", actor, content=b"changed")


def rename(workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.memories.update(store.id, "/b", actor, path="/c")


def delete(workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.memories.delete(store.id, "/b", actor)


@pytest.mark.parametrize(
    "meanwhile, error", [(change, PreconditionFailed), (rename, PreconditionFailed), (delete, NotFound)]
)
def test_nothing_is_expired_where_something_changed_meanwhile(
    workspace: Workspace,
    store: Store,
    memory: Memory,
    actor: Actor,
    meanwhile: Callable[[Workspace, Store, Actor], None],
    error: type[Exception],
) -> None:
    workspace.memories.create(store.id, "/b", b"", actor)
    found = workspace.memories.unaccessed(store.id, now())
    assert paths(found) == ["/a", "/b"]
    meanwhile(workspace, store, actor)
    before = workspace.versions.list(store.id)
    with pytest.raises(error):
        workspace.memories.expire(store.id, found, actor)
    assert workspace.versions.list(store.id) == before


def test_an_archived_store_can_be_emptied(workspace: Workspace, store: Store, memory: Memory, actor: Actor) -> None:
    workspace.stores.archive(store.id)
    workspace.memories.expire(store.id, [], actor)
    assert len(workspace.memories.list(store.id)) == 1
    workspace.memories.expire(store.id, workspace.memories.unaccessed(store.id, now()), actor)
    assert workspace.memories.list(store.id) == []


def test_a_memory_that_is_made_again_was_not_read_yet(
    workspace: Workspace, store: Store, memory: Memory, actor: Actor, clock: Clock
) -> None:
    workspace.memories.get(store.id, "/a")
    workspace.accesses.record()
    workspace.memories.delete(store.id, "/a", actor)
    workspace.versions.restore(store.id, memory.memory_version_id, actor)
    assert on_record(workspace, store) == {"/a": None}
