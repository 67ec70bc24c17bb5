"""The history of memories: immutable versions, newest first."""

from memfs.engine import Engine, VersionFilter
from memfs.model import ids
from memfs.model.errors import NotFound
from memfs.model.paths import check_path
from memfs.model.records import MemoryVersion


class Versions:
    """The versions of all stores."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def list(
        self,
        store_id: str,
        where: VersionFilter | None = None,
        *,
        limit: int | None = None,
        before: int | None = None,
        content: bool = False,
    ) -> list[MemoryVersion]:
        """Versions of a store, newest first; ``before`` is the sequence of the last one seen. Raises NotFound."""
        return self._engine.versions(store_id, where or VersionFilter(), limit=limit, before=before, content=content)

    def get(self, version_id: str) -> MemoryVersion:
        """One version with its content. Raises NotFound."""
        if not ids.is_id(version_id, ids.MEMORY_VERSION):
            raise NotFound(f"{version_id!r} is no version: a version's id is memver_ and 26 characters")
        return self._engine.version(version_id)

    def memory_id(self, store_id: str, path_or_id: str) -> str | None:
        """Whose history is meant by a path: the live memory's there, else the one that last was there; None if none.

        Raises NotFound where the store is gone, InvalidPath for what is neither a path nor an id.
        """
        if not ids.is_id(path_or_id, ids.MEMORY):
            check_path(path_or_id)
        return self._engine.memory_id_for(store_id, path_or_id)
