"""What every engine can do. ``tests/engine`` holds the contract suite that runs on each of them.

An engine keeps the invariants of the data (a path is used once, no memory lies above another, history is
append-only, heads point at versions); the workspace layer above it keeps the rules of the product. All methods are
synchronous and may be called from any thread; a write may wait for another process's write, a read never does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memfs.model.mutations import Applied, Mutation
from memfs.model.records import Actor, Changes, Memory, MemoryVersion, Operation, Session, Snapshot, Store


@dataclass(frozen=True, slots=True)
class VersionFilter:
    """Which versions of a store to list; None leaves a field open."""

    memory_id: str | None = None
    operation: Operation | None = None
    session_id: str | None = None
    created_from: str | None = None
    created_to: str | None = None


class Engine(Protocol):
    """A workspace's rows. Every method may raise StorageFailed and, where it writes, Busy."""

    def close(self) -> None:
        """Let go of the database; safe to call twice."""

    def sync(self) -> None:
        """Return once everything committed so far survives a loss of power."""

    # Stores

    def insert_store(self, store: Store) -> None:
        """Add a store."""

    def store(self, store_id: str) -> Store:
        """One store. Raises NotFound."""

    def stores(self, *, include_archived: bool) -> list[Store]:
        """All stores, oldest first."""

    def archive_store(self, store_id: str, at: str) -> Store:
        """Make a store read-only for ever; a second time changes nothing. Raises NotFound."""

    # Following a store

    def data_version(self) -> int:
        """A number that differs after any commit by any process. Cheap enough to ask at every open()."""

    def snapshot(self, store_id: str) -> Snapshot:
        """The whole store, at one moment. Raises NotFound."""

    def changes(self, store_id: str, after: int) -> Changes:
        """What became of the store since the sequence number ``after``. Raises NotFound where it is gone."""

    # Memories

    def memories(self, store_id: str, prefix: str, *, content: bool) -> list[Memory]:
        """Live memories whose path starts with ``prefix`` (ending in ``/``), in path order."""

    def memory(self, store_id: str, memory_id: str) -> Memory:
        """One live memory with content. Raises NotFound, also for one of another store."""

    def memory_at(self, store_id: str, path: str) -> Memory:
        """The live memory at a path, with content. Raises NotFound."""

    def content(self, version_id: str) -> bytes:
        """A version's bytes. Raises NotFound where there are none (deleted, redacted, no such version)."""

    def apply(
        self,
        store_id: str,
        mutations: Sequence[Mutation],
        actor: Actor,
        *,
        max_memories: int,
        max_directories: int,
    ) -> Applied:
        """Apply a batch in one transaction, or nothing of it.

        Raises NotFound (store or memory), StoreArchived, PreconditionFailed, PathConflict, StoreFull.
        """

    # History

    def versions(
        self, store_id: str, where: VersionFilter, *, limit: int | None, before: int | None, content: bool
    ) -> list[MemoryVersion]:
        """Versions of a store, newest first; ``before`` is the sequence that the page comes after."""

    def memory_id_for(self, store_id: str, path_or_id: str) -> str | None:
        """The id of the live memory at a path, else of the one that last had it; an id with a history is its own
        answer; None where there is no such history. Raises NotFound where the store is gone."""

    def version(self, version_id: str) -> MemoryVersion:
        """One version with content. Raises NotFound."""

    # Sessions

    def insert_session(self, session: Session) -> None:
        """Add a session and its attachments."""

    def session(self, session_id: str) -> Session:
        """One session. Raises NotFound."""

    def end_session(self, session_id: str, at: str) -> None:
        """Record that a session ended; a second time changes nothing."""
