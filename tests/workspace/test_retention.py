"""How long old versions are kept: settings, what may go, and pruning by itself."""

import random
import string
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from memfs.engine import SqliteEngine
from memfs.model import ids, records
from memfs.model.errors import Busy, HistoryGone, InvalidRequest, NotFound
from memfs.model.mutations import Update
from memfs.model.records import Actor, MemoryVersion, Settings, Store, format_time, now
from memfs.workspace import Workspace, retention
from tests.processes import hear, python, tell

START = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Clock:
    """What time it is for the whole workspace."""

    def __init__(self) -> None:
        self.moment = START

    def forward(self, **span: float) -> None:
        self.moment += timedelta(**span)

    def text(self, **ago: float) -> str:
        return format_time(self.moment - timedelta(**ago))


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    faked = SimpleNamespace(now=lambda _zone: clock.moment, fromisoformat=datetime.fromisoformat)
    with patch.object(records, "datetime", faked), patch.object(retention, "datetime", faked):
        yield clock


@pytest.fixture
def store(clock: Clock, workspace: Workspace) -> Store:
    return workspace.stores.create("Aged")


def age(workspace: Workspace, store: Store, clock: Clock, days: int, path: str = "/a") -> list[MemoryVersion]:
    """A memory that is changed once a day; its versions, oldest first."""
    actor = Actor("user_actor", "alice")
    memory = workspace.memories.create(store.id, path, b"0", actor)
    for day in range(1, days):
        clock.forward(days=1)
        workspace.memories.update(store.id, memory.id, actor, content=str(day).encode())
    return left(workspace, store)


def left(workspace: Workspace, store: Store) -> list[MemoryVersion]:
    return workspace.versions.list(store.id, content=True)[::-1]


# Settings


def test_settings_are_changed_one_by_one(workspace: Workspace) -> None:
    assert workspace.retention.settings() == Settings(30, prune_automatically=False)
    assert workspace.retention.set() == Settings(30, prune_automatically=False)
    assert workspace.retention.set(retention_days=1) == Settings(1, prune_automatically=False)
    assert workspace.retention.set(prune_automatically=True) == Settings(1, prune_automatically=True)
    assert workspace.retention.set(retention_days=36_500) == Settings(36_500, prune_automatically=True)
    assert workspace.retention.settings() == Settings(36_500, prune_automatically=True)


def test_one_setting_that_is_changed_keeps_another_that_is_changed_at_once(db: Path, workspace: Workspace) -> None:
    """Many processes, each changing the one or the other: whatever was set last of each is there."""
    with Workspace.open(db) as other, ThreadPoolExecutor() as threads:
        for days in range(1, 60):
            both = [
                threads.submit(workspace.retention.set, retention_days=days),
                threads.submit(other.retention.set, prune_automatically=days % 2 == 0),
            ]
            for each in both:
                each.result()
            assert workspace.retention.settings() == Settings(days, prune_automatically=days % 2 == 0)


@pytest.mark.parametrize("days", [0, -1, 36_501, 10**12])
def test_days_that_cannot_be(workspace: Workspace, days: int) -> None:
    with pytest.raises(InvalidRequest, match="36500"):
        workspace.retention.set(retention_days=days, prune_automatically=True)
    assert workspace.retention.settings() == Settings()


def test_the_cutoff_is_that_long_ago(workspace: Workspace, clock: Clock) -> None:
    assert workspace.retention.cutoff() == clock.text(days=30)
    workspace.retention.set(retention_days=36_500)
    assert workspace.retention.cutoff() == clock.text(days=36_500)
    assert workspace.retention.cutoff(timedelta(hours=1)) == clock.text(hours=1)
    assert workspace.retention.cutoff(timedelta(0)) == clock.text()


# Pruning


def test_only_what_is_older_than_the_setting_goes(workspace: Workspace, store: Store, clock: Clock) -> None:
    versions = age(workspace, store, clock, days=40)
    prunable = workspace.retention.prunable(store.id, workspace.retention.cutoff())
    assert list(prunable) == [replace(version, content=None) for version in versions[:9]]
    assert workspace.retention.prune(store.id, workspace.retention.cutoff()) == 9
    assert left(workspace, store) == versions[9:], "exactly 30 days are not more than 30 days"
    clock.forward(microseconds=1)
    assert workspace.retention.prune(store.id, workspace.retention.cutoff()) == 1
    clock.forward(days=10_000)
    assert workspace.retention.prune(store.id, workspace.retention.cutoff()) == 29
    assert left(workspace, store) == versions[-1:], "the head stays however old it is"
    assert workspace.memories.get(store.id, "/a").content == b"39"


def test_the_newest_version_of_a_deleted_memory_stays(
    workspace: Workspace, store: Store, clock: Clock, actor: Actor
) -> None:
    age(workspace, store, clock, days=3)
    clock.forward(days=1)
    gone = workspace.memories.delete(store.id, "/a", actor)
    clock.forward(days=1_000)
    assert workspace.retention.prune(store.id, workspace.retention.cutoff()) == 3
    (last,) = left(workspace, store)
    assert (last.memory_id, last.operation, last.path) == (gone.id, "deleted", "/a")
    with pytest.raises(NotFound):
        workspace.versions.restore(store.id, gone.memory_version_id, actor)


def test_an_archived_store_can_be_pruned_and_one_that_is_gone_cannot(
    workspace: Workspace, store: Store, clock: Clock
) -> None:
    age(workspace, store, clock, days=3)
    workspace.stores.archive(store.id)
    clock.forward(days=100)
    assert workspace.retention.prune(store.id, workspace.retention.cutoff()) == 2
    missing = ids.new_id(ids.MEMORY_STORE)
    with pytest.raises(NotFound):
        workspace.retention.prune(missing, now())
    with pytest.raises(NotFound):
        list(workspace.retention.prunable(missing, now()))


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 11, 100])
def test_pruning_in_parts_is_the_same_as_at_once(
    workspace: Workspace, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(retention, "BATCH", batch)
    age(workspace, store, clock, days=6)
    versions = age(workspace, store, clock, days=6, path="/b")
    going = [version.id for version in workspace.engine.prunable(store.id, clock.text())]
    assert len(going) == 10
    assert [version.id for version in workspace.retention.prunable(store.id, clock.text())] == going
    steps: list[int] = []
    assert workspace.retention.prune(store.id, clock.text(), progress=steps.append) == 10
    assert sum(steps) == 10
    assert max(steps) <= batch
    assert [version.id for version in left(workspace, store)] == [v.id for v in versions if v.id not in going]


def test_others_write_between_two_parts(
    workspace: Workspace, store: Store, clock: Clock, db: Path, monkeypatch: pytest.MonkeyPatch, actor: Actor
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    age(workspace, store, clock, days=6)
    written: list[str] = []
    with Workspace.open(db) as other:

        def write(removed: int) -> None:
            written.append(other.memories.create(store.id, f"/{len(written)}", b"", actor).path)

        assert workspace.retention.prune(store.id, clock.text(), progress=write) == 5
    assert written == ["/0", "/1", "/2"]
    assert len(workspace.memories.list(store.id)) == 4


def test_what_is_pruned_does_not_wait_in_free_pages(workspace: Workspace, store: Store, db: Path, actor: Actor) -> None:
    """Nobody asked for it to be gone from the file, but it need not lie there until something overwrites it."""
    chance = random.Random(1)
    old = "".join(chance.choices(string.ascii_letters, k=50_000)).encode()
    workspace.memories.create(store.id, "/a", old, actor)
    workspace.memories.update(store.id, "/a", actor, content=b"new")
    assert workspace.retention.prune(store.id, "9999") == 1
    workspace.close()
    data = db.read_bytes()
    assert not any(old[start : start + 24] in data for start in range(0, len(old) - 24, 12))
    with Workspace.open(db) as again:
        size = db.stat().st_size
        assert again.scrub(anyway=True)
        assert db.stat().st_size < size - 40_000, "the space is given back on request"
        assert again.memories.get(store.id, "/a").content == b"new"


# What restoring can still do


def test_a_point_whose_versions_are_pruned_is_refused(
    workspace: Workspace, store: Store, clock: Clock, actor: Actor
) -> None:
    versions = age(workspace, store, clock, days=40)
    clock.forward(days=1)
    other = workspace.memories.create(store.id, "/other", b"other", actor)
    workspace.retention.prune(store.id, workspace.retention.cutoff())
    plan = workspace.restoring.plan(store.id, at=versions[5].created_at)
    assert [lost.path for lost in plan.lost] == ["/a"]
    assert [(step.action, step.memory_id) for step in plan.steps] == [("delete", other.id)]
    before = left(workspace, store)
    with pytest.raises(HistoryGone):
        workspace.restoring.restore(plan, actor)
    assert left(workspace, store) == before
    workspace.restoring.restore(plan, actor, keep_lost=True)
    assert [memory.path for memory in workspace.memories.list(store.id)] == ["/a"]
    exact = workspace.restoring.plan(store.id, at=versions[20].created_at)
    assert not exact.lost
    workspace.restoring.restore(exact, actor)
    assert workspace.memories.get(store.id, "/a").content == b"20"


def test_a_memory_that_was_made_again_is_not_deleted_for_want_of_a_history(
    workspace: Workspace, store: Store, clock: Clock, actor: Actor
) -> None:
    """It lived then, was deleted and restored later, and all of that but the restored version was pruned."""
    memory = workspace.memories.create(store.id, "/a", b"text", actor)
    then = clock.text()
    clock.forward(days=1)
    workspace.memories.delete(store.id, "/a", actor)
    clock.forward(days=1)
    workspace.versions.restore(store.id, memory.memory_version_id, actor)
    clock.forward(days=31)
    workspace.retention.prune(store.id, workspace.retention.cutoff())
    plan = workspace.restoring.plan(store.id, at=then)
    assert [lost.memory_id for lost in plan.lost] == [memory.id]
    assert plan.steps == []


# Pruning by itself


def test_nothing_is_pruned_unless_the_setting_says_so(workspace: Workspace, store: Store, clock: Clock) -> None:
    age(workspace, store, clock, days=3)
    clock.forward(days=100)
    assert workspace.retention.prune_if_due() == 0
    assert len(left(workspace, store)) == 3
    workspace.retention.set(prune_automatically=True)
    assert workspace.retention.prune_if_due() == 2
    assert len(left(workspace, store)) == 1


def test_all_stores_are_pruned_once_a_day(workspace: Workspace, store: Store, clock: Clock) -> None:
    workspace.retention.set(prune_automatically=True, retention_days=10)
    archived = workspace.stores.create("Archived")
    age(workspace, store, clock, days=5)
    age(workspace, archived, clock, days=5)
    workspace.stores.archive(archived.id)
    assert workspace.retention.prune_if_due() == 0, "nothing is that old yet"
    clock.forward(days=100)
    assert workspace.retention.prune_if_due() == 8
    age(workspace, store, clock, days=1, path="/b")
    workspace.retention.set(retention_days=1)
    clock.forward(hours=24)
    assert workspace.retention.prune_if_due() == 0, "a day is not over yet"
    workspace.memories.update(store.id, "/b", Actor("user_actor", "alice"), content=b"new")
    clock.forward(microseconds=1)
    assert workspace.retention.prune_if_due() == 1
    assert workspace.retention.prune_if_due() == 0


def test_a_store_that_is_deleted_meanwhile_does_not_keep_others_from_being_pruned(
    workspace: Workspace, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = workspace.stores.create("Second")
    age(workspace, store, clock, days=3)
    age(workspace, second, clock, days=3)
    clock.forward(days=100)
    workspace.retention.set(prune_automatically=True)
    stores = workspace.engine.stores(include_archived=True)
    workspace.stores.delete(store.id)
    monkeypatch.setattr(SqliteEngine, "stores", lambda self, **how: stores)  # as it was a moment ago
    assert workspace.retention.prune_if_due() == 2


def test_of_several_processes_one_prunes(workspace: Workspace, store: Store, db: Path, actor: Actor) -> None:
    memory = workspace.memories.create(store.id, "/a", b"0", actor)
    workspace.memories.apply(store.id, [Update(memory.id, content=b"1")], actor)
    workspace.retention.set(prune_automatically=True, retention_days=1)
    code = """
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from memfs.workspace import Workspace, retention

retention.datetime = SimpleNamespace(now=lambda zone: datetime.now(UTC) + timedelta(days=10))
workspace = Workspace.open(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(workspace.retention.prune_if_due(), flush=True)
"""
    with python(code, db) as one, python(code, db) as two, python(code, db) as three:
        for process in (one, two, three):
            assert hear(process) == "ready"
        for process in (one, two, three):
            tell(process)
        assert sorted(hear(process) for process in (one, two, three)) == ["0", "0", "1"]


def test_pruning_that_was_stopped_or_failed_is_gone_on_with_by_whoever_asks_next(
    workspace: Workspace, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.retention.set(prune_automatically=True, retention_days=10)
    second = workspace.stores.create("Second")
    age(workspace, store, clock, days=5)
    age(workspace, second, clock, days=5)
    clock.forward(days=100)
    stop = threading.Event()
    prune = workspace.engine.prune

    def then_stop(store_id: str, before: str, *, limit: int) -> int:
        stop.set()
        return prune(store_id, before, limit=limit)

    monkeypatch.setattr(workspace.engine, "prune", then_stop)
    assert workspace.retention.prune_if_due(stop) == 4

    def fail(store_id: str, before: str, *, limit: int) -> int:
        raise Busy("somebody else")

    monkeypatch.setattr(workspace.engine, "prune", fail)
    with pytest.raises(Busy):
        workspace.retention.prune_if_due()
    monkeypatch.setattr(workspace.engine, "prune", prune)
    assert workspace.retention.prune_if_due() == 4
    assert workspace.retention.prune_if_due() == 0


def test_a_clock_that_was_set_back_takes_no_version_out_of_the_middle(
    workspace: Workspace, store: Store, clock: Clock
) -> None:
    """The second version seems to be the oldest: the database's check, with which this ends, would find a hole."""
    actor = Actor("user_actor", "alice")
    memory = workspace.memories.create(store.id, "/a", b"first", actor)
    for days, text in ((-400, b"set back"), (400, b"right again"), (1, b"newest")):
        clock.forward(days=days)
        workspace.memories.update(store.id, memory.id, actor, content=text)
    other = workspace.memories.create(store.id, "/b", b"b", actor)
    clock.forward(days=-300)
    workspace.memories.delete(store.id, other.id, actor)
    workspace.memories.create(store.id, "/b", b"made again", actor)
    before = left(workspace, store)
    clock.forward(days=300)
    assert workspace.retention.prune(store.id, clock.text(days=30)) == 0
    assert left(workspace, store) == before
    clock.forward(days=29)
    assert workspace.retention.prune(store.id, clock.text(days=29.5)) == 3, "in the order of the history"
    assert [version.content for version in left(workspace, store)] == [b"newest", b"b", None, b"made again"]
