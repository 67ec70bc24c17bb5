"""A workspace: one database and the rules for its stores, memories, versions and sessions."""

from pathlib import Path
from types import TracebackType

from memfs.engine import Engine, Feed, SqliteEngine
from memfs.model.records import Access, Actor, ConflictPolicy
from memfs.workspace.accesses import Accesses
from memfs.workspace.attached import AttachedStore
from memfs.workspace.keys import Keys
from memfs.workspace.memories import Memories
from memfs.workspace.restoring import Restoring
from memfs.workspace.retention import Retention
from memfs.workspace.sessions import Sessions
from memfs.workspace.stores import Stores
from memfs.workspace.versions import Versions


class Workspace:
    """Entry to everything: ``stores``, ``memories``, ``versions``, ``restoring``, ``retention``, ``sessions``.

    ``keys`` are those of the HTTP API, ``accesses`` notes reads. A context manager that closes.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.accesses = Accesses(engine)
        self.stores = Stores(engine)
        self.memories = Memories(engine, self.accesses)
        self.versions = Versions(engine, self.memories)
        self.restoring = Restoring(engine, self.memories)
        self.retention = Retention(engine)
        self.sessions = Sessions(engine, self.stores)
        self.keys = Keys(engine)

    @classmethod
    def open(cls, path: Path, *, create: bool = False, read_only: bool = False) -> "Workspace":
        """Open the workspace in a SQLite file (see ``SqliteEngine``)."""
        return cls(SqliteEngine(path, create=create, read_only=read_only))

    def attached(
        self, store_id: str, actor: Actor, access: Access, on_conflict: ConflictPolicy = "merge"
    ) -> AttachedStore:
        """One store as an actor with this access sees it; ``on_conflict`` is for what it saves of a memory that has
        changed since it read it."""
        return AttachedStore(self.engine, self.memories, self.accesses, store_id, actor, access, on_conflict)

    def feed(self) -> Feed:
        """What tells when the database may have changed, by whatever process (see ``Engine.feed``)."""
        return self.engine.feed()

    def scrub(self, *, anyway: bool = False, wait: bool = True) -> bool:
        """Finish what a redaction or the deletion of a store began and could not end (see ``Engine.scrub``)."""
        return self.engine.scrub(anyway=anyway, wait=wait)

    def hurry(self, seconds: float) -> None:
        """Let no write from now on wait for other processes longer than until so many seconds from now."""
        self.engine.hurry(seconds)

    def close(self) -> None:
        """Put reads and uses of keys on record, and let go of the database."""
        self.accesses.record()
        self.keys.record_uses()
        self.engine.close()

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
