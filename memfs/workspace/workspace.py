"""A workspace: one database and the rules for its stores, memories, versions and sessions."""

from pathlib import Path
from types import TracebackType

from memfs.engine import Engine, SqliteEngine
from memfs.model.records import Access, Actor
from memfs.workspace.attached import AttachedStore
from memfs.workspace.memories import Memories
from memfs.workspace.sessions import Sessions
from memfs.workspace.stores import Stores
from memfs.workspace.versions import Versions


class Workspace:
    """Entry to everything: ``stores``, ``memories``, ``versions``, ``sessions``. A context manager that closes."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.stores = Stores(engine)
        self.memories = Memories(engine)
        self.versions = Versions(engine)
        self.sessions = Sessions(engine, self.stores)

    @classmethod
    def open(cls, path: Path, *, create: bool = False, read_only: bool = False) -> "Workspace":
        """Open the workspace in a SQLite file (see ``SqliteEngine``)."""
        return cls(SqliteEngine(path, create=create, read_only=read_only))

    def attached(self, store_id: str, actor: Actor, access: Access) -> AttachedStore:
        """One store as an actor with this access sees it."""
        return AttachedStore(self.engine, self.memories, store_id, actor, access)

    def close(self) -> None:
        """Let go of the database."""
        self.engine.close()

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
