"""The workspace against a plain model: dictionaries and lists, written from CONTRACT.md and not from the code.

Any sequence of operations must give the same memories, the same histories and the same classes of errors. Beside it,
the limits at their real sizes.
"""

import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memfs.engine import Limits
from memfs.model import ids, records
from memfs.model.errors import (
    ContentNotText,
    ContentTooLarge,
    HistoryGone,
    InvalidPath,
    InvalidRequest,
    MemfsError,
    NotFound,
    PathConflict,
    PathTooLong,
    PreconditionFailed,
    StoreArchived,
    StoreFull,
    VersionInUse,
)
from memfs.model.mutations import Create
from memfs.model.records import (
    MAX_CONTENT_BYTES,
    MAX_MEMORIES,
    Actor,
    Memory,
    MemoryVersion,
    Operation,
    Store,
    format_time,
)
from memfs.workspace import Workspace, memories, retention, stores
from tests.soundness import assert_sound

T = TypeVar("T")
Faults = set[type[MemfsError]]

ROOM = 3
"""Memories in a store of the machine: few, so that it is often full."""

ALICE, AGENT = Actor("user_actor", "alice"), Actor("session_actor", ids.new_id(ids.SESSION))
MONTH = timedelta(days=30)


# The model


@dataclass(eq=False)
class Past:
    """A version. It never leaves the model: ``pruned`` says that it left the store."""

    memory_id: str
    operation: Operation
    path: str
    content: bytes | None
    at: datetime
    by: Actor
    id: str = ""
    redacted: tuple[datetime, Actor] | None = None
    pruned: bool = False


@dataclass
class Live:
    """A live memory."""

    path: str
    content: bytes
    created: datetime
    updated: datetime
    head: Past
    read: datetime | None = None


@dataclass(eq=False)
class Shelf:
    """A store."""

    store: Store
    live: dict[str, Live] = field(default_factory=dict)
    past: list[Past] = field(default_factory=list)

    def left(self) -> list[Past]:
        """The versions that were not pruned."""
        return [version for version in self.past if not version.pruned]

    def of(self, memory_id: str) -> list[Past]:
        """All versions of a memory."""
        return [version for version in self.past if version.memory_id == memory_id]

    def put(self, memory_id: str, path: str, content: bytes, at: datetime, by: Actor) -> None:
        """Make a memory or change it."""
        before = self.live.get(memory_id)
        version = Past(memory_id, "modified" if before else "created", path, content, at, by)
        earlier = [past.at for past in self.of(memory_id) if not past.pruned]  # made again, it is as old as it was
        self.past.append(version)
        self.live[memory_id] = Live(path, content, before.created if before else min([*earlier, at]), at, version)
        if before:
            self.live[memory_id].read = before.read

    def drop(self, memory_id: str, at: datetime, by: Actor) -> None:
        """Delete a memory."""
        self.past.append(Past(memory_id, "deleted", self.live.pop(memory_id).path, None, at, by))

    def conflicts(self, path: str, memory_id: str | None = None) -> dict[str, str]:
        """The live memories whose paths are in the way: id to path."""
        return {
            other: live.path for other, live in self.live.items() if other != memory_id and in_the_way(live.path, path)
        }


def in_the_way(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


GOOD_PATHS = ["/a", "/a/b", "/a/b/c", "/b", "/a.md", "/é_%"]
BAD_PATHS: dict[str, type[MemfsError]] = {
    "a": InvalidPath,
    "/a//b": InvalidPath,
    "/a/..": InvalidPath,
    "/e\u0301": InvalidPath,
    "/x" * 21: PathTooLong,
    "/" + "x" * 1_024: PathTooLong,
}
GOOD_CONTENTS = [b"", b"one\n", b"two\n", "é\0".encode()]
BAD_CONTENTS: dict[bytes, type[MemfsError]] = {b"\xff": ContentNotText, b"x" * (MAX_CONTENT_BYTES + 1): ContentTooLarge}

a_path = st.sampled_from([*GOOD_PATHS * 8, *BAD_PATHS])
a_content = st.sampled_from([*GOOD_CONTENTS * 8, *BAD_CONTENTS])
a_precondition = st.sampled_from([*["none", "right"] * 4, "upper case", "stale", "stale", "malformed"])
a_number = st.integers(0, 59)
"""Chooses among what there is."""
an_actor = st.sampled_from([ALICE, AGENT])


def chosen(among: Iterable[T], number: int) -> T | None:
    found = list(among)
    return found[number % len(found)] if found else None


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def outcome(call: Callable[[], T]) -> tuple[T | None, MemfsError | None]:
    try:
        return call(), None
    except MemfsError as error:
        return None, error


def conflicts(shelf: Shelf | None, path: str | None, memory_id: str | None = None) -> dict[str, str]:
    return {} if shelf is None or path is None else shelf.conflicts(path, memory_id)


class WorkspaceMachine(RuleBasedStateMachine):
    """A workspace and its model, under a clock of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)
        clock = SimpleNamespace(now=lambda _zone: self.moment, fromisoformat=datetime.fromisoformat)
        for module in (records, retention):
            self.stack.enter_context(patch.object(module, "datetime", clock))
        for module in (memories, stores):
            self.stack.enter_context(patch.object(module, "LIMITS", Limits(ROOM, 10)))
        self.db = Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "memfs.db"
        self.workspace = self.stack.enter_context(Workspace.open(self.db, create=True))
        self.shelves: list[Shelf] = []
        self.gone: list[str] = []
        self.seen: dict[str, list[MemoryVersion]] = {}
        self.rewritten = False
        self.automatic = False
        self.claimed: datetime | None = None

    def teardown(self) -> None:
        with self.stack:
            assert_sound(self.db)

    # Choosing, and comparing what happens

    def shelf(self, number: int) -> tuple[str, Shelf | None]:
        """A store, seldom one that is gone or never was."""
        if number % 12 == 11 or not self.shelves:
            return (self.gone[-1] if self.gone else ids.new_id(ids.MEMORY_STORE)), None
        shelf = self.shelves[number % len(self.shelves)]
        return shelf.store.id, shelf

    def memory(self, shelf: Shelf | None, number: int) -> str:
        """A memory's id: mostly a live one of that store, else one that was deleted, or of another store."""
        found = chosen(shelf.live, number // 4) if shelf is not None and number % 4 else None
        everywhere = sorted({version.memory_id for each in self.shelves for version in each.past})
        return found or chosen(everywhere, number // 4) or ids.new_id(ids.MEMORY)

    def version(self, shelf: Shelf | None, number: int) -> Past | None:
        """A version: mostly one of that store that is there, else any."""
        found = chosen(shelf.left(), number // 4) if shelf is not None and number % 4 else None
        return found or chosen((version for each in self.shelves for version in each.past), number // 4)

    def attempt(self, faults: Faults, call: Callable[[], T], conflicts: dict[str, str] | None = None) -> T | None:
        """Call, and expect one of these errors; or none where there are none."""
        result, error = outcome(call)
        if error is None:
            assert not faults, f"it succeeded, expected {faults}"
            return result
        assert type(error) in faults, f"{error!r}, expected {faults or 'success'}"
        assert str(error).isprintable()
        if isinstance(error, PathConflict):
            assert conflicts is not None
            assert conflicts.get(error.conflicting_memory_id) == error.conflicting_path
        return None

    def write_faults(
        self, shelf: Shelf | None, memory_id: str | None, path: str | None, content: bytes | None
    ) -> Faults:
        """What is wrong with creating (memory_id None or not live) or changing a memory."""
        faults: Faults = set()
        if shelf is None:
            return {NotFound}
        if shelf.store.archived_at is not None:
            faults.add(StoreArchived)
        if path is not None and path in BAD_PATHS:
            faults.add(BAD_PATHS[path])
        elif path is not None and shelf.conflicts(path, memory_id):
            faults.add(PathConflict)
        if content is not None and content in BAD_CONTENTS:
            faults.add(BAD_CONTENTS[content])
        if memory_id not in shelf.live and len(shelf.live) >= ROOM:
            faults.add(StoreFull)
        return faults

    def expected_hash(self, shelf: Shelf | None, memory_id: str, kind: str) -> str | None:
        content = shelf.live[memory_id].content if shelf is not None and memory_id in shelf.live else b""
        return {
            "none": None,
            "right": digest(content),
            "upper case": digest(content).upper(),
            "stale": digest(content + b"another"),
            "malformed": digest(content)[1:],
        }[kind]

    # Time

    @initialize(archived=st.booleans())
    def two_stores(self, archived: bool) -> None:
        for number in range(2):
            self.create_store("Notes", {})
            for path, content in (("/a/b", b"one\n"), ("/b", b"two\n")):
                self.create(number, path, content, ALICE)
            self.save(number, "/b", b"", ALICE)
        if archived:
            self.archive_store(0, 0)

    @rule(span=st.sampled_from([timedelta(hours=2), timedelta(days=1), timedelta(days=29), timedelta(days=31)]))
    def time_passes(self, span: timedelta) -> None:
        self.moment += span

    # Stores

    @rule(
        name=st.sampled_from(["Notes", "é", "", "x" * 256, "a\nb"]),
        metadata=st.sampled_from([{}, {"k": "v"}, {"": "v"}, {f"k{i}": "" for i in range(17)}]),
    )
    def create_store(self, name: str, metadata: dict[str, str]) -> None:
        if len(self.shelves) >= 2:  # few, so that much happens in each
            return
        made = self.attempt(
            {InvalidRequest} if name not in ("Notes", "é") or "" in metadata or len(metadata) > 16 else set(),
            lambda: self.workspace.stores.create(name, "d", metadata),
        )
        if made is not None:
            at = format_time(self.moment)
            assert made == Store(made.id, name, "d", metadata, at, at)
            self.shelves.append(Shelf(made))

    @rule(
        where=a_number,
        name=st.sampled_from([None, None, "Notes", "New", ""]),
        description=st.sampled_from([None, "", "new", "x" * 1_025]),
        metadata=st.sampled_from([None, {}, {"k": "v"}, {"k": None}, {"new": "1", "k": None}, {"k": "x" * 513}]),
    )
    def update_store(
        self, where: int, name: str | None, description: str | None, metadata: dict[str, str | None] | None
    ) -> None:
        store_id, shelf = self.shelf(where)
        faults: Faults = set()
        if shelf is None:
            faults = {NotFound}
        elif shelf.store.archived_at is not None:
            faults = {StoreArchived}
        elif name == "" or len(description or "") > 1_024 or any(len(v or "") > 512 for v in (metadata or {}).values()):
            faults = {InvalidRequest}
        updated = self.attempt(
            faults,
            lambda: self.workspace.stores.update(store_id, name=name, description=description, metadata=metadata),
        )
        if shelf is None or updated is None:
            return
        wanted = replace(
            shelf.store,
            name=shelf.store.name if name is None else name,
            description=shelf.store.description if description is None else description,
            metadata={k: v for k, v in (shelf.store.metadata | (metadata or {})).items() if v is not None},
        )
        if wanted != shelf.store:
            shelf.store = replace(wanted, updated_at=format_time(self.moment))
        assert updated == shelf.store

    @rule(where=a_number, seldom=st.integers(0, 2))
    def archive_store(self, where: int, seldom: int) -> None:
        if seldom or len(self.shelves) < 2:
            return  # what is archived stays so, and most of the rest is about stores that are not
        store_id, shelf = self.shelf(where)
        archived = self.attempt({NotFound} if shelf is None else set(), lambda: self.workspace.stores.archive(store_id))
        if shelf is None:
            return
        if shelf.store.archived_at is None:
            at = format_time(self.moment)
            shelf.store = replace(shelf.store, archived_at=at, updated_at=at)
        assert archived == shelf.store

    @rule(where=a_number, seldom=st.integers(0, 3))
    def delete_store(self, where: int, seldom: int) -> None:
        store_id, shelf = self.shelf(where)
        if seldom:
            return
        self.attempt({NotFound} if shelf is None else set(), lambda: self.workspace.stores.delete(store_id))
        if shelf is not None:
            self.shelves.remove(shelf)
            self.gone.append(store_id)

    @rule(where=a_number, name=st.sampled_from(["Copy", "Copy", ""]), by=an_actor)
    def copy_store(self, where: int, name: str, by: Actor) -> None:
        store_id, shelf = self.shelf(where)
        if len(self.shelves) >= 3:
            return
        faults: Faults = {InvalidRequest} if name == "" else set()
        copy = self.attempt(
            faults | {NotFound} if shelf is None else faults, lambda: self.workspace.stores.copy(store_id, name, by)
        )
        if shelf is None or copy is None:
            return
        at = format_time(self.moment)
        assert copy == Store(copy.id, name, shelf.store.description, shelf.store.metadata, at, at)
        made = Shelf(copy)
        found = {memory.path: memory.id for memory in self.workspace.memories.list(copy.id)}
        for live in shelf.live.values():
            made.put(found.pop(live.path), live.path, live.content, self.moment, by)
        assert not found
        assert not made.live.keys() & {version.memory_id for each in self.shelves for version in each.past}
        self.shelves.append(made)

    # Memories

    @rule(where=a_number, path=st.sampled_from(GOOD_PATHS), content=st.sampled_from(GOOD_CONTENTS), by=an_actor)
    def save(self, where: int, path: str, content: bytes, by: Actor) -> None:
        """What most operations are: a memory is written, and made where there is none."""
        _, shelf = self.shelf(where)
        if shelf is None or path not in (there := {live.path: m for m, live in shelf.live.items()}):
            self.create(where, path, content, by)
            return
        self.change(shelf.store.id, shelf, there[path], content, None, "none", by, there[path])

    @rule(where=a_number, path=a_path, content=a_content, by=an_actor)
    def create(self, where: int, path: str, content: bytes, by: Actor) -> None:
        store_id, shelf = self.shelf(where)
        made = self.attempt(
            self.write_faults(shelf, None, path, content),
            lambda: self.workspace.memories.create(store_id, path, content, by),
            conflicts(shelf, path),
        )
        if shelf is not None and made is not None:
            shelf.put(made.id, path, content, self.moment, by)
            self.same(shelf, made.id, made)

    @rule(
        where=a_number,
        which=a_number,
        content=st.none() | a_content,
        path=st.none() | a_path,
        precondition=a_precondition,
        by=an_actor,
        by_path=st.booleans(),
    )
    def update(
        self,
        where: int,
        which: int,
        content: bytes | None,
        path: str | None,
        precondition: str,
        by: Actor,
        by_path: bool,
    ) -> None:
        store_id, shelf = self.shelf(where)
        memory_id = self.memory(shelf, which)
        name = memory_id
        if by_path and shelf is not None and memory_id in shelf.live:
            name = shelf.live[memory_id].path
        self.change(store_id, shelf, memory_id, content, path, precondition, by, name)

    def change(
        self,
        store_id: str,
        shelf: Shelf | None,
        memory_id: str,
        content: bytes | None,
        path: str | None,
        precondition: str,
        by: Actor,
        name: str,
    ) -> None:
        """An update on both sides."""
        before = None if shelf is None else shelf.live.get(memory_id)
        if shelf is None or before is None:
            faults: Faults = {NotFound}
        else:
            faults = self.write_faults(shelf, memory_id, path, content)
            as_wanted = content == before.content and path in (None, before.path)
            if precondition == "stale" and not as_wanted:
                faults.add(PreconditionFailed)
        if precondition == "malformed":
            faults.add(InvalidRequest)
        expected = self.expected_hash(shelf, memory_id, precondition)
        written = self.attempt(
            faults,
            lambda: self.workspace.memories.update(
                store_id, name, by, content=content, path=path, expected_sha256=expected
            ),
            conflicts(shelf, path, memory_id),
        )
        if shelf is not None and before is not None and written is not None:
            content = before.content if content is None else content
            path = before.path if path is None else path
            changed = (path, content) != (before.path, before.content)
            if changed:
                shelf.put(memory_id, path, content, self.moment, by)
            assert written.changed == changed
            self.same(shelf, memory_id, written.memory)

    @rule(where=a_number, which=a_number, precondition=a_precondition, by=an_actor)
    def delete(self, where: int, which: int, precondition: str, by: Actor) -> None:
        store_id, shelf = self.shelf(where)
        memory_id = self.memory(shelf, which)
        faults: Faults = set()
        if shelf is None or memory_id not in shelf.live:
            faults.add(NotFound)
        elif precondition == "stale":
            faults.add(PreconditionFailed)
        if precondition == "malformed":
            faults.add(InvalidRequest)
        expected = self.expected_hash(shelf, memory_id, precondition)
        was = self.attempt(
            faults, lambda: self.workspace.memories.delete(store_id, memory_id, by, expected_sha256=expected)
        )
        if shelf is not None and was is not None:
            self.same(shelf, memory_id, was, read_back=False)
            shelf.drop(memory_id, self.moment, by)

    @rule(where=a_number, which=a_number)
    def read(self, where: int, which: int) -> None:
        store_id, shelf = self.shelf(where)
        memory_id = self.memory(shelf, which)
        live = None if shelf is None else shelf.live.get(memory_id)
        found = self.attempt(
            {NotFound} if live is None else set(), lambda: self.workspace.memories.get(store_id, memory_id)
        )
        if shelf is not None and live is not None and found is not None:
            self.same(shelf, memory_id, found)
            live.read = self.moment

    @rule(where=a_number, age=st.sampled_from([timedelta(0), timedelta(days=1), MONTH, MONTH]), by=an_actor)
    def expire(self, where: int, age: timedelta, by: Actor) -> None:
        store_id, shelf = self.shelf(where)
        before = self.moment - age
        found = self.attempt(
            {NotFound} if shelf is None else set(),
            lambda: self.workspace.memories.unaccessed(store_id, format_time(before)),
        )
        if shelf is None or found is None:
            return
        hour = timedelta(hours=1)  # a read is on record to within an hour
        old = {m for m, live in shelf.live.items() if live.updated < before}
        must = {m for m in old if (read := shelf.live[m].read) is None or read < before}
        may = {m for m in old if (read := shelf.live[m].read) is None or read < before + hour}
        expired = {each.memory.id for each in found}
        assert must <= expired <= may
        self.workspace.memories.expire(store_id, found, by)
        for memory_id in expired:
            shelf.drop(memory_id, self.moment, by)

    def same(self, shelf: Shelf, memory_id: str, memory: Memory, *, read_back: bool = True) -> None:
        """Compare a memory that an operation returned, with its content, with the model."""
        live = shelf.live[memory_id]
        assert memory == Memory(
            memory_id,
            shelf.store.id,
            memory.memory_version_id,
            live.path,
            len(live.content),
            digest(live.content),
            format_time(live.created),
            format_time(live.updated),
            live.content,
        )
        if read_back:
            assert memory.memory_version_id == self.workspace.engine.memory(shelf.store.id, memory_id).memory_version_id

    # History

    @rule(where=a_number, which=a_number, path=st.none() | a_path, by=an_actor)
    def restore_version(self, where: int, which: int, path: str | None, by: Actor) -> None:
        store_id, shelf = self.shelf(where)
        version = self.version(shelf, which)
        if version is None:
            return
        memory_id = version.memory_id
        live = None if shelf is None else shelf.live.get(memory_id)
        faults: Faults = {NotFound}
        target = path
        if shelf is not None and version in shelf.left() and version.content is not None and not version.redacted:
            target = (version.path if live is None else live.path) if path is None else path
            faults = self.write_faults(shelf, memory_id, target, version.content)
        written = self.attempt(
            faults,
            lambda: self.workspace.versions.restore(store_id, version.id, by, path=path),
            conflicts(shelf, target, memory_id),
        )
        if shelf is not None and written is not None and version.content is not None and target is not None:
            changed = live is None or (live.path, live.content) != (target, version.content)
            if changed:
                shelf.put(memory_id, target, version.content, self.moment, by)
            assert written.changed == changed
            self.same(shelf, memory_id, written.memory)

    @rule(where=a_number, which=a_number, by_time=st.booleans(), keep_lost=st.booleans(), by=an_actor)
    def restore_store(self, where: int, which: int, by_time: bool, keep_lost: bool, by: Actor) -> None:
        store_id, shelf = self.shelf(where)
        version = self.version(shelf, which)
        if shelf is not None and by_time:
            version = chosen(shelf.past, which)  # also one that was pruned: its time is a time
        if version is None:
            return
        if shelf is None or version not in shelf.past:
            with pytest.raises(NotFound):
                self.workspace.restoring.plan(store_id, version_id=version.id)
            return
        then = [each for each in shelf.past if each.at <= version.at]  # one moment is one transaction
        at = format_time(version.at) if by_time else None
        faults: Faults = set()
        if not by_time and version.pruned:
            faults.add(NotFound)
        if at is not None and at < shelf.store.created_at and all(each.pruned for each in then):
            faults.add(InvalidRequest)
        if at is not None and version.at > self.moment:
            faults.add(InvalidRequest)
        plan = self.attempt(
            faults,
            lambda: self.workspace.restoring.plan(store_id, at=at, version_id=None if by_time else version.id),
        )
        if plan is None:
            return
        wanted, lost, known = self.state_then(shelf, version.at)
        if not known:
            return
        assert {each.memory_id for each in plan.lost} == lost
        final = {m: (live.path, live.content) for m, live in shelf.live.items() if m in lost} | wanted
        present = {m: (live.path, live.content) for m, live in shelf.live.items()}
        actions = {
            m: "delete"
            if m not in final
            else "create"
            if m not in present
            else "rename"
            if final[m][1] == present[m][1]
            else "modify"
            for m in final.keys() | present.keys()
            if final.get(m) != present.get(m)
        }
        assert {step.memory_id: step.action for step in plan.steps} == actions
        in_way = {
            m: path
            for m, (path, _) in final.items()
            if any(m != other and in_the_way(path, there) for other, (there, _) in final.items())
        }
        if lost and not keep_lost:
            faults.add(HistoryGone)
        if actions:
            if shelf.store.archived_at is not None:
                faults.add(StoreArchived)
            if in_way:
                faults.add(PathConflict)
            if len(final) > ROOM:
                faults.add(StoreFull)
        done = self.attempt(
            faults,
            lambda: self.workspace.restoring.restore(plan, by, keep_lost=keep_lost),
            in_way,
        )
        if done is None:
            return
        assert done == len(actions), "every step is a version"
        for memory_id, action in actions.items():
            if action == "delete":
                shelf.drop(memory_id, self.moment, by)
            else:
                shelf.put(memory_id, *final[memory_id], self.moment, by)

    @staticmethod
    def state_then(shelf: Shelf, at: datetime) -> tuple[dict[str, tuple[str, bytes]], set[str], bool]:
        """What the memories were then, and of which ones that is lost; False where pruning left no trace of one."""
        wanted: dict[str, tuple[str, bytes]] = {}
        lost: set[str] = set()
        for memory_id in {version.memory_id for version in shelf.past}:
            own = [version for version in shelf.of(memory_id) if version.at <= at]
            first_left = next(version for version in shelf.of(memory_id) if not version.pruned)
            live = shelf.live.get(memory_id)
            if first_left not in own:
                began_later = first_left.operation == "created"
                if live is not None and first_left.operation != "deleted":
                    began_later = live.created > at or (began_later and first_left.at == live.created)
                if began_later and own and own[-1].operation != "deleted":
                    return {}, set(), False  # an earlier life of it, and its end
                if not began_later:
                    lost.add(memory_id)
            elif own[-1].redacted and own[-1].content is not None and (live is None or live.head is not own[-1]):
                lost.add(memory_id)
            elif own[-1].content is not None:
                wanted[memory_id] = (own[-1].path, own[-1].content)
        return wanted, lost, True

    @rule(where=a_number, which=st.lists(a_number, min_size=1, max_size=3), by=an_actor)
    def redact(self, where: int, which: list[int], by: Actor) -> None:
        store_id, shelf = self.shelf(where)
        versions = [version for number in which if (version := self.version(shelf, number)) is not None]
        if shelf is not None and which[0] % 3:
            versions = [
                version for version in versions if version is not next(reversed(shelf.of(version.memory_id)), None)
            ]
        if not versions:
            return
        faults: Faults = set()
        for version in versions:
            if shelf is None or version not in shelf.left():
                faults.add(NotFound)
            elif any(live.head is version for live in shelf.live.values()):
                faults.add(VersionInUse)
        found = self.attempt(
            faults,
            lambda: self.workspace.versions.redact(store_id, [version.id for version in versions], by),
        )
        if found is None:
            return
        self.rewritten = True
        for version in versions:
            version.redacted = version.redacted or (self.moment, by)
        assert [each.id for each in found] == [version.id for version in versions]
        assert not self.workspace.scrub(), "nothing is left to be done"

    @rule(where=a_number)
    def prune(self, where: int) -> None:
        store_id, shelf = self.shelf(where)
        cutoff = self.workspace.retention.cutoff()
        assert cutoff == format_time(self.moment - MONTH)
        old = [] if shelf is None else self.old_versions(shelf)
        faults: Faults = {NotFound} if shelf is None else set()
        listed = self.attempt(faults, lambda: list(self.workspace.retention.prunable(store_id, cutoff)))
        if listed is not None:
            assert [each.id for each in listed] == [version.id for version in old]
        removed = self.attempt(faults, lambda: self.workspace.retention.prune(store_id, cutoff))
        if removed is not None:
            assert removed == len(old)
            self.rewritten = True
            for version in old:
                version.pruned = True

    @rule(automatic=st.booleans())
    def prune_if_due(self, automatic: bool) -> None:
        self.workspace.retention.set(prune_automatically=automatic)
        old: list[Past] = []
        if automatic and (self.claimed is None or self.moment - self.claimed > timedelta(days=1)):
            self.claimed = self.moment
            old = [version for shelf in self.shelves for version in self.old_versions(shelf)]
        assert self.workspace.retention.prune_if_due() == len(old)
        self.rewritten = True
        for version in old:
            version.pruned = True

    def old_versions(self, shelf: Shelf) -> list[Past]:
        """What may be pruned: older than 30 days, and never the newest of a memory."""
        return [
            version
            for version in shelf.left()
            if version.at < self.moment - MONTH and version is not shelf.of(version.memory_id)[-1]
        ]

    # What must hold at any time

    @invariant()
    def the_workspace_is_as_the_model_says(self) -> None:
        assert self.workspace.stores.list(include_archived=True) == [shelf.store for shelf in self.shelves]
        assert self.workspace.stores.list() == [s.store for s in self.shelves if s.store.archived_at is None]
        for shelf in self.shelves:
            versions = self.workspace.versions.list(shelf.store.id, content=True)[::-1]
            self.learn(shelf, versions)
            assert [self.told(version) for version in versions] == [self.expected(each) for each in shelf.left()]
            self.append_only(shelf.store.id, versions)
            found = self.workspace.memories.list(shelf.store.id, content=True)
            assert [memory.id for memory in found] == sorted(shelf.live, key=lambda m: shelf.live[m].path.encode())
            for memory in found:
                self.same(shelf, memory.id, memory)
                assert memory.memory_version_id == shelf.live[memory.id].head.id
        for store_id in self.gone:
            with pytest.raises(NotFound):
                self.workspace.versions.list(store_id)
        self.rewritten = False
        self.moment += timedelta(seconds=1)

    def learn(self, shelf: Shelf, versions: list[MemoryVersion]) -> None:
        """Take over the ids of new versions, and the order of those that one operation made."""
        old = [version for version in shelf.past if version.id]
        new = [version for version in shelf.past if not version.id]
        fresh = versions[len(versions) - len(new) :]
        assert len(versions) == len(new) + sum(not version.pruned for version in old)
        for version in fresh:
            match = next(each for each in new if each.memory_id == version.memory_id and not each.id)
            match.id = version.id
        order = {version.id: position for position, version in enumerate(fresh)}
        shelf.past = old + sorted(new, key=lambda each: order[each.id])

    @staticmethod
    def told(version: MemoryVersion) -> tuple[Any, ...]:
        return (
            version.id,
            version.memory_id,
            version.operation,
            version.path,
            version.content,
            version.content_size_bytes,
            version.content_sha256,
            version.created_at,
            version.created_by,
            version.redacted_at,
            version.redacted_by,
        )

    @staticmethod
    def expected(version: Past) -> tuple[Any, ...]:
        content = None if version.redacted else version.content
        return (
            version.id,
            version.memory_id,
            version.operation,
            None if version.redacted else version.path,
            content,
            None if content is None else len(content),
            None if content is None else digest(content),
            format_time(version.at),
            version.by,
            version.redacted and format_time(version.redacted[0]),
            version.redacted and version.redacted[1],
        )

    def append_only(self, store_id: str, versions: list[MemoryVersion]) -> None:
        """What was there stays as it was, but for redacting and pruning."""
        before = self.seen.get(store_id, [])
        if not self.rewritten:
            assert versions[: len(before)] == before
        self.seen[store_id] = versions
        for older, newer in pairwise(versions):
            assert older.sequence < newer.sequence
            assert older.id < newer.id, "ids sort by creation"
            assert older.created_at <= newer.created_at

    @invariant()
    def the_tables_agree(self) -> None:
        with closing(sqlite3.connect(self.db)) as db:
            texts = dict(db.execute("SELECT sha256, bytes FROM contents"))
            used = {text for (text,) in db.execute("SELECT content_sha256 FROM memory_versions") if text is not None}
            heads = {text for (text,) in db.execute("SELECT content_sha256 FROM memories")}
            assert texts.keys() == used, "no text without a version, no version without its text"
            assert heads <= used
            assert all(digest(content) == text for text, content in texts.items())
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
            (stray,) = db.execute(
                "SELECT count(*) FROM memory_versions AS v LEFT JOIN changes AS c ON c.sequence = v.sequence"
                " WHERE c.memory_id IS NOT v.memory_id OR c.store_id IS NOT v.store_id"
            ).fetchone()
            assert stray == 0, "every version is the change that made it"


WorkspaceMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
TestTheWorkspaceAgainstItsModel = WorkspaceMachine.TestCase


# Limits at their real sizes


def str_of(value: str | bytes | type) -> str:
    return value.__name__ if isinstance(value, type) else f"{value[:10]!r} {len(value)}"


LONGEST = "/" + "é" * 511 + "x"
DEEPEST = "/d" * 20


@pytest.mark.parametrize(
    "path, content",
    [
        ("/size", b"x" * 102_400),
        ("/size", "é".encode() * 51_200),
        ("/" + "x" * 1_023, b""),
        (LONGEST, b""),
        (DEEPEST, b""),
        ("/" + "s" * 300 + "/t", b"a segment may be longer than a file's name"),
    ],
    ids=str_of,
)
def test_what_is_at_a_limit_passes_by_every_way(
    workspace: Workspace, store: Store, actor: Actor, path: str, content: bytes
) -> None:
    made = workspace.memories.create(store.id, path, content, actor)
    assert workspace.memories.get(store.id, path) == made
    assert (made.content_size_bytes, made.content_sha256) == (len(content), digest(content))
    workspace.memories.update(store.id, path, actor, content=b"", path="/elsewhere")
    again = workspace.memories.update(store.id, made.id, actor, content=content, path=path).memory
    assert (again.path, again.content) == (path, content)
    workspace.memories.delete(store.id, path, actor)
    first = workspace.versions.list(store.id)[-1]
    assert workspace.versions.restore(store.id, first.id, actor).memory.content == content
    assert len(workspace.memories.list(workspace.stores.copy(store.id, "Copy", actor).id)) == 1


@pytest.mark.parametrize(
    "path, content, error",
    [
        ("/size", b"x" * 102_401, ContentTooLarge),
        ("/size", "é".encode() * 51_200 + b"x", ContentTooLarge),
        ("/" + "x" * 1_024, b"", PathTooLong),
        (LONGEST + "x", b"", PathTooLong),
        (DEEPEST + "/d", b"", PathTooLong),
    ],
    ids=str_of,
)
def test_what_is_over_a_limit_does_not(
    workspace: Workspace, store: Store, actor: Actor, path: str, content: bytes, error: type[MemfsError]
) -> None:
    there = workspace.memories.create(store.id, "/there", b"there", actor)
    for write in (
        lambda: workspace.memories.create(store.id, path, content, actor),
        lambda: workspace.memories.update(store.id, there.id, actor, content=content, path=path),
        lambda: (
            workspace.versions.restore(store.id, there.memory_version_id, actor, path=path)
            if not content
            else workspace.memories.update(store.id, "/there", actor, content=content)
        ),
    ):
        with pytest.raises(error) as raised:
            write()
        assert type(raised.value) is error
        assert any(limit in str(raised.value) for limit in ("102400", "1024", "20"))
    assert workspace.memories.list(store.id, content=True) == [there]


def test_a_store_takes_2_000_memories_and_no_more(workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.memories.apply(
        store.id, [Create(ids.new_id(ids.MEMORY), f"/{i}", b"x") for i in range(MAX_MEMORIES - 1)], actor
    )
    gone = workspace.memories.create(store.id, "/gone", b"gone", actor)
    workspace.memories.delete(store.id, gone.id, actor)
    last = workspace.memories.create(store.id, "/last", b"x", actor)
    moment = workspace.versions.list(store.id, limit=1)[0]
    for write in (
        lambda: workspace.memories.create(store.id, "/one-too-many", b"x", actor),
        lambda: workspace.versions.restore(store.id, gone.memory_version_id, actor),
    ):
        with pytest.raises(StoreFull, match="2000 memories"):
            write()
    assert len(workspace.memories.list(store.id)) == MAX_MEMORIES == 2_000
    workspace.memories.update(store.id, last.id, actor, content=b"changed", path="/moved")
    assert len(workspace.memories.list(workspace.stores.copy(store.id, "Copy", actor).id)) == MAX_MEMORIES
    workspace.memories.delete(store.id, "/0", actor)
    workspace.versions.restore(store.id, gone.memory_version_id, actor)
    # Back to the moment before: one deleted, one made again, one changed; the store is full before and after.
    plan = workspace.restoring.plan(store.id, version_id=moment.id)
    assert sorted(step.action for step in plan.steps) == ["create", "delete", "modify"]
    workspace.restoring.restore(plan, actor)
    assert len(workspace.memories.list(store.id)) == MAX_MEMORIES


@pytest.mark.parametrize("used, wanted", [("/a", "/a"), ("/a", "/a/b/c"), ("/a/b/c", "/a"), ("/a/b/c", "/a/b")])
def test_a_path_in_the_way_is_named(workspace: Workspace, store: Store, actor: Actor, used: str, wanted: str) -> None:
    there = workspace.memories.create(store.id, used, b"there", actor)
    mover = workspace.memories.create(store.id, "/mover", b"mover", actor)
    gone = workspace.memories.create(store.id, "/gone", b"gone", actor)
    workspace.memories.delete(store.id, gone.id, actor)
    for write in (
        lambda: workspace.memories.create(store.id, wanted, b"", actor),
        lambda: workspace.memories.update(store.id, mover.id, actor, path=wanted),
        lambda: workspace.memories.update(store.id, mover.id, actor, content=b"new", path=wanted),
        lambda: workspace.versions.restore(store.id, gone.memory_version_id, actor, path=wanted),
        lambda: workspace.versions.restore(store.id, mover.memory_version_id, actor, path=wanted),
    ):
        with pytest.raises(PathConflict, match=there.id) as raised:
            write()
        assert (raised.value.conflicting_memory_id, raised.value.conflicting_path) == (there.id, used)
    assert workspace.memories.list(store.id, content=True) == sorted([there, mover], key=lambda memory: memory.path)


def test_a_stale_precondition_is_met_where_all_is_as_wanted(workspace: Workspace, store: Store, actor: Actor) -> None:
    """CONTRACT.md 2: whoever asks again after a lost answer gets the answer, not a conflict with itself."""
    memory = workspace.memories.create(store.id, "/a", b"one", actor)
    stale = digest(b"one")
    first = workspace.memories.update(store.id, memory.id, actor, content=b"two", path="/b", expected_sha256=stale)
    assert first.changed
    wanted: list[dict[str, Any]] = [{"content": b"two", "path": "/b"}, {"content": b"two"}]
    for each in wanted:
        again = workspace.memories.update(store.id, memory.id, actor, expected_sha256=stale.upper(), **each)
        assert again == replace(first, changed=False)
    unwanted: list[dict[str, Any]] = [{"content": b"two", "path": "/c"}, {"content": b"one", "path": "/b"}]
    unwanted += [{"content": b"three"}, {"path": "/a"}, {"path": "/b"}, {}]
    for each in unwanted:
        with pytest.raises(PreconditionFailed):
            workspace.memories.update(store.id, memory.id, actor, expected_sha256=stale, **each)
    with pytest.raises(PreconditionFailed):
        workspace.memories.delete(store.id, memory.id, actor, expected_sha256=stale)
    with pytest.raises(InvalidRequest):
        workspace.memories.update(store.id, memory.id, actor, content=b"two", expected_sha256=stale[1:])
    assert len(workspace.versions.list(store.id)) == 2
    workspace.memories.delete(store.id, memory.id, actor, expected_sha256=digest(b"two"))
    with pytest.raises(NotFound):
        workspace.memories.update(store.id, memory.id, actor, content=b"two", expected_sha256=stale)
