"""What the tests of engines share."""

from typing import Any

from memfs.engine import Engine, Limits, VersionFilter
from memfs.model import ids
from memfs.model.mutations import Applied, Create, Mutation
from memfs.model.records import (
    MAX_DIRECTORIES,
    MAX_MEMORIES,
    Actor,
    Changes,
    Directory,
    Head,
    MemoryVersion,
    Snapshot,
    Store,
    now,
)

ALICE = Actor("user_actor", "alice")
AGENT = Actor("session_actor", ids.new_id(ids.SESSION))


def new_store(engine: Engine, name: str = "Notes") -> str:
    store = Store(ids.new_id(ids.MEMORY_STORE), name, "", {}, now(), now())
    engine.insert_store(store)
    return store.id


def apply(
    engine: Engine, store_id: str, *mutations: Mutation, actor: Actor = ALICE, room: int = MAX_MEMORIES
) -> Applied:
    return engine.apply(store_id, mutations, actor, limits=Limits(room, MAX_DIRECTORIES))


def create(engine: Engine, store_id: str, path: str, content: bytes = b"text\n") -> str:
    """Make a memory; returns its id."""
    memory_id = ids.new_id(ids.MEMORY)
    apply(engine, store_id, Create(memory_id, path, content))
    return memory_id


def history(engine: Engine, store_id: str, memory_id: str | None = None, **how: Any) -> list[MemoryVersion]:
    """Versions, the oldest first."""
    where = VersionFilter(memory_id=memory_id)
    options = {"limit": None, "before": None, "content": True} | how
    return engine.versions(store_id, where, **options)[::-1]


def state(engine: Engine, store_id: str) -> tuple[Snapshot, list[MemoryVersion]]:
    """Everything that a refused batch must leave as it was."""
    snapshot = engine.snapshot(store_id)
    heads = sorted(snapshot.heads, key=lambda head: head.path)
    return Snapshot(snapshot.sequence, snapshot.store, heads, snapshot.directories), history(engine, store_id)


def paths(engine: Engine, store_id: str) -> dict[str, str]:
    """Where the live memories are: path to id."""
    return {head.path: head.memory_id for head in engine.snapshot(store_id).heads}


def follow(snapshot: Snapshot, changes: Changes) -> Snapshot:
    """What a mirror does with changes."""
    heads: dict[str, Head | None] = {head.memory_id: head for head in snapshot.heads}
    heads.update(changes.heads)
    return Snapshot(
        changes.sequence,
        snapshot.store if changes.store is None else changes.store,
        [head for head in heads.values() if head is not None],
        snapshot.directories if changes.directories is None else changes.directories,
    )


def comparable(snapshot: Snapshot) -> tuple[Store, list[Head], list[Directory]]:
    return (
        snapshot.store,
        sorted(snapshot.heads, key=lambda head: head.path),
        sorted(snapshot.directories, key=lambda directory: directory.path),
    )
