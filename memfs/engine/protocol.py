"""What every engine can do. ``tests/engine`` holds the contract suite that runs on each of them.

An engine keeps the invariants of the data (a path is used once, no memory lies above another, history is
append-only, heads point at versions); the workspace layer above it keeps the rules of the product. All methods are
synchronous and may be called from any thread; a write may wait for another process's write, a read never does.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from memfs.model.mutations import Applied, Mutation, Update
from memfs.model.records import (
    AccessedMemory,
    Actor,
    ApiKey,
    Changes,
    Guards,
    Memory,
    MemoryPrefix,
    MemoryVersion,
    Operation,
    PastState,
    Session,
    Settings,
    Snapshot,
    Store,
)


@dataclass(frozen=True, slots=True)
class VersionFilter:
    """Which versions of a store to list; None leaves a field open. Times are inclusive. ``conflicts`` are those that
    were committed over changes to the same lines."""

    memory_id: str | None = None
    operation: Operation | None = None
    session_id: str | None = None
    api_key_id: str | None = None
    user_id: str | None = None
    service_account_id: str | None = None
    created_from: str | None = None
    created_to: str | None = None
    conflicts: bool = False


Rebase = Callable[[Update, bytes, bytes | None], Update]
"""Makes an update fit whose ``edit`` started from another text than the head's: given the update, the head's text, and
the text that it started from, None where that is gone. Called inside of the transaction, so that nobody can commit in
between. What it raises ends the transaction."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions to list; None leaves a field open. Times are inclusive.

    ``within`` are the stores of which a session may have no others; ``after`` is the time and the id of the session
    that the page comes after.
    """

    include_archived: bool = True
    created_from: str | None = None
    created_to: str | None = None
    store_id: str | None = None
    agent_id: str | None = None
    agent_version: int | None = None
    ended: bool | None = None
    within: Collection[str] | None = None
    after: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a store may hold: live memories, and directories kept for their own sake."""

    memories: int
    directories: int


class Feed(Protocol):
    """A descriptor that tells when any process may have committed (``memfs.engine.feed``). A context manager that
    closes."""

    def fileno(self) -> int:
        """Readable when something was written; stays so until ``clear``."""

    def clear(self) -> bool:
        """Take what is pending; whether it concerns the workspace. Raises StorageFailed."""

    def close(self) -> None:
        """Let go of the descriptor; safe to call twice."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Engine(Protocol):
    """A workspace's rows. Every method may raise StorageFailed and, where it writes, Busy."""

    def close(self) -> None:
        """Let go of the database; safe to call twice."""

    def check_in_place(self) -> None:
        """Raises StorageFailed where the database is not where it was opened any more: what is written would be lost.

        Every write checks it; reads go on with what they have.
        """

    def hurry(self, seconds: float) -> None:
        """Let no write from now on wait for other processes longer than until so many seconds from now."""

    def sync(self) -> None:
        """Return once everything committed so far survives a loss of power."""

    # Stores

    def insert_store(self, store: Store) -> None:
        """Add a store."""

    def insert_filled_store(self, store: Store, mutations: Sequence[Mutation], actor: Actor, *, limits: Limits) -> None:
        """Add a store, in one transaction with what is in it from the start. Raises as ``apply`` does."""

    def store(self, store_id: str) -> Store:
        """One store. Raises NotFound."""

    def stores(
        self,
        *,
        include_archived: bool,
        created_from: str | None = None,
        created_to: str | None = None,
        within: Collection[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Store]:
        """Stores, oldest first; ``after`` is the id that the page comes after. Times are inclusive.

        ``within`` are the ids of those that may be shown; None: all.
        """

    def guards(self, store_id: str) -> Guards:
        """A store's guards, which every write asks for. Raises NotFound."""

    def update_store(self, store_id: str, change: Callable[[Store], Store]) -> Store:
        """Replace a store by what ``change`` makes of it, in one transaction. Raises NotFound and what that raises.

        Where ``change`` gives back an equal store, nothing is written.
        """

    def delete_store(self, store_id: str) -> None:
        """Remove a store and everything of it; ``scrub`` is then due. Raises NotFound."""

    # Following a store

    def data_version(self) -> int:
        """A number that differs after any commit by any process. Cheap enough to ask at every open()."""

    def feed(self) -> Feed:
        """Listen for commits, by whatever process; ``Looks`` says when to ask ``data_version`` after one. Raises
        StorageFailed where that is not possible."""

    def snapshot(self, store_id: str) -> Snapshot:
        """The whole store, at one moment. Raises NotFound."""

    def changes(self, store_id: str, after: int) -> Changes:
        """What became of the store since the sequence number ``after``. Raises NotFound where it is gone."""

    # Memories

    def memories(
        self, store_id: str, prefix: str, *, content: bool, after: str | None = None, limit: int | None = None
    ) -> list[Memory]:
        """Live memories whose path starts with ``prefix`` (ending in ``/``), in path order; ``after`` is the path that
        the page comes after."""

    def children(
        self, store_id: str, prefix: str, *, content: bool, after: str | None = None, limit: int | None = None
    ) -> list[Memory | MemoryPrefix]:
        """Like ``memories``, but what lies more than one segment below ``prefix`` is rolled up into one MemoryPrefix
        for each directory; its path may be ``after`` too."""

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
        limits: Limits,
        unchanged_since: int | None = None,
        guards: Guards | None = None,
        archived: bool = False,
        rebase: Rebase | None = None,
    ) -> Applied:
        """Apply a batch in one transaction, or nothing of it.

        ``unchanged_since`` is a sequence number after which the store must not have changed, ``guards`` are those that
        it must still have; ``archived`` says that the store may be archived; without ``rebase``, what an update started
        from does not matter. Raises NotFound (store or memory), StoreArchived, PreconditionFailed, PathConflict,
        StoreFull, and what ``rebase`` raises.
        """

    # When memories were read

    def record_accesses(self, accesses: Mapping[str, str]) -> None:
        """Remember when memories (by id) were last read; gone ones are left out, and earlier times change nothing.

        Never waits: raises Busy at once where another process is writing.
        """

    def accessed_memories(self, store_id: str, prefix: str, *, before: str) -> list[AccessedMemory]:
        """Live memories below a prefix that were neither written nor read at or after ``before``, in path order."""

    # History

    def versions(
        self,
        store_id: str,
        where: VersionFilter,
        *,
        limit: int | None,
        before: int | None = None,
        after: int | None = None,
        oldest_first: bool = False,
        content: bool = False,
    ) -> list[MemoryVersion]:
        """Versions of a store, newest first unless ``oldest_first``, with a sequence below ``before`` and above
        ``after``: the next page has the last one's as ``before``, or as ``after`` where the oldest is first."""

    def memory_id_for(self, store_id: str, path_or_id: str) -> str | None:
        """The id of the live memory at a path, else of the one that last had it; an id with a history is its own
        answer; None where there is no such history. Raises NotFound where the store is gone."""

    def version(self, store_id: str, version_id: str) -> MemoryVersion:
        """One version with content. Raises NotFound, also for one of another store."""

    def past_state(self, store_id: str, *, at: str | None = None, version_id: str | None = None) -> PastState:
        """A store as it was at a time, or right after a version, and as it is. Raises NotFound."""

    def redact(self, store_id: str, version_ids: Sequence[str], at: str, actor: Actor) -> list[MemoryVersion]:
        """Take path, content, size and hash from versions, all or none; ``scrub`` is then due.

        Those redacted before stay as they are. Raises NotFound, VersionInUse for the head of a live memory.
        """

    def prunable(self, store_id: str, before: str, *, after: int = 0, limit: int | None = None) -> list[MemoryVersion]:
        """Versions made before a time that are not the newest of their memory, oldest first; ``after`` is the sequence
        that the page comes after.

        A memory's history is cut at its beginning alone: what follows a version that is kept is kept, though a clock
        that was set back says that it is older.
        """

    def prune(self, store_id: str, before: str, *, limit: int) -> int:
        """Remove up to ``limit`` prunable versions, oldest first, in one transaction; returns how many."""

    def knows_any(self, versions: Iterable[MemoryVersion]) -> bool:
        """Whether one of these versions, or a memory of theirs, is in the workspace already."""

    def insert_history(
        self,
        store_id: str,
        versions: Iterable[MemoryVersion],
        created_at: Mapping[str, str],
        *,
        limits: Limits,
        guards: Guards | None = None,
    ) -> int:
        """Fill an empty store with a history, oldest first; returns how many memories live at its end.

        Ids, times and actors are kept; the sequence is not. ``created_at`` tells by memory id when memories were
        first made whose first version is not there; ``guards`` are as for ``apply``. Raises PreconditionFailed where
        the store has a history or other guards, InvalidRequest where an id is taken or the history contradicts itself,
        PathConflict, StoreFull.
        """

    def scrub(self, *, anyway: bool = False, wait: bool = True) -> bool:
        """Leave no byte of what was removed in the file, its log or its free pages, where that is due (or anyway, which
        gives the space of what was pruned back). Returns whether there was anything to do. Without ``wait`` another
        process's write makes it give up at once.

        May take long on a large database. Raises Busy, StorageFailed; it is then still due.
        """

    # Settings

    def settings(self) -> Settings:
        """The settings of the workspace."""

    def update_settings(self, change: Callable[[Settings], Settings]) -> Settings:
        """Replace them by what ``change`` makes of them, in one transaction. Raises what that raises."""

    def claim_pruning(self, before: str, at: str) -> bool:
        """Whether automatic pruning last happened before a time; if so, note that it happens now."""

    # Sessions

    def insert_session(self, session: Session) -> None:
        """Add a session and its attachments."""

    def session(self, session_id: str) -> Session:
        """One session. Raises NotFound."""

    def sessions(self, where: SessionFilter, *, newest_first: bool = True, limit: int | None = None) -> list[Session]:
        """Sessions by the time of their beginning."""

    def end_session(self, session_id: str, at: str) -> None:
        """Record that a session ended; a second time changes nothing."""

    def resume_session(self, session_id: str) -> None:
        """Record that a session goes on, unless it is archived."""

    def archive_session(self, session_id: str, at: str) -> Session:
        """Record that a session is archived, and so has ended; a second time changes nothing. Raises NotFound."""

    # API keys

    def insert_api_key(self, key: ApiKey, secret_sha256: str) -> None:
        """Add a key. Raises NotFound where one of its stores is gone."""

    def api_keys(self) -> list[ApiKey]:
        """All keys, oldest first."""

    def api_key(self, key_id: str) -> tuple[ApiKey, str]:
        """One key, and the SHA-256 of its secret. Raises NotFound."""

    def revoke_api_key(self, key_id: str, at: str) -> ApiKey:
        """Record that a key is revoked; a second time changes nothing. Raises NotFound."""

    def record_api_key_uses(self, uses: Mapping[str, str]) -> None:
        """Remember when keys (by id) were last used; earlier times than those on record change nothing.

        Never waits: raises Busy at once where another process is writing.
        """
