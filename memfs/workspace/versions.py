"""The history of memories: immutable versions, newest first; and what may be done to it: redacting and restoring."""

from collections.abc import Sequence

from memfs.engine import Engine, VersionFilter
from memfs.model import ids
from memfs.model.errors import NotFound, PathConflict
from memfs.model.paths import check_path
from memfs.model.records import Actor, MemoryVersion, now
from memfs.workspace.memories import Memories, Written


class Versions:
    """The versions of all stores."""

    def __init__(self, engine: Engine, memories: Memories) -> None:
        self._engine = engine
        self._memories = memories

    def list(
        self,
        store_id: str,
        where: VersionFilter | None = None,
        *,
        limit: int | None = None,
        before: int | None = None,
        after: int | None = None,
        oldest_first: bool = False,
        content: bool = False,
    ) -> list[MemoryVersion]:
        """Versions of a store, newest first unless ``oldest_first``.

        Given the sequence of the last one seen, ``before`` goes on from it, ``after`` where the oldest is first.
        Raises NotFound.
        """
        return self._engine.versions(
            store_id,
            where or VersionFilter(),
            limit=limit,
            before=before,
            after=after,
            oldest_first=oldest_first,
            content=content,
        )

    def get(self, store_id: str, version_id: str) -> MemoryVersion:
        """One version with its content. Raises NotFound, also for one of another store."""
        return self._engine.version(store_id, _checked(version_id))

    def memory_id(self, store_id: str, path_or_id: str) -> str | None:
        """Whose history is meant by a path: the live memory's there, else the one that last was there; None if none.

        Raises NotFound where the store is gone, InvalidPath for what is neither a path nor an id.
        """
        if not ids.is_id(path_or_id, ids.MEMORY):
            check_path(path_or_id)
        return self._engine.memory_id_for(store_id, path_or_id)

    def content(self, store_id: str, version_id: str) -> bytes:
        """A version's bytes. Raises NotFound where it has none, saying why."""
        return _content(self.get(store_id, version_id))

    def restore(self, store_id: str, version_id: str, actor: Actor, *, path: str | None = None) -> Written:
        """Write an old version's content back as a new version.

        A live memory keeps its path; one that was deleted is made again, with its id, where the version had it.
        ``path`` puts it elsewhere. Raises NotFound where the version has no content, and what a write raises.
        """
        version = self.get(store_id, version_id)
        content = _content(version)
        wanted = version.path if path is None else path
        assert wanted is not None
        for last in (False, False, True):
            try:
                return self._memories.update(store_id, version.memory_id, actor, content=content, path=path)
            except NotFound:
                self._engine.store(store_id)
            try:
                made = self._memories.create(store_id, wanted, content, actor, memory_id=version.memory_id)
                return Written(made, changed=True)
            except PathConflict as error:
                if last or error.conflicting_memory_id != version.memory_id:
                    raise
                # Somebody else has made it again in between: it is live now.
        raise AssertionError  # the last attempt returns or raises

    def redact(self, store_id: str, version_ids: Sequence[str], actor: Actor) -> Sequence[MemoryVersion]:
        """Take content, path, size and hash from versions for ever, and every byte of them from the file.

        Who wrote them and when stays; a text that other versions have too stays for them. All or none; those that are
        redacted already stay as they are. Raises NotFound, VersionInUse for the head of a live memory; and Busy or
        StorageFailed where they are redacted, but bytes may be left in the file: doing it again tries again.
        """
        redacted = self._engine.redact(store_id, [_checked(version_id) for version_id in version_ids], now(), actor)
        self._engine.scrub()
        return redacted


def _content(version: MemoryVersion) -> bytes:
    if version.content is None:
        why = "redacted" if version.redacted_at is not None else "a deletion"
        raise NotFound(f"the version {version.id} has no content, it is {why}: choose another")
    return version.content


def _checked(version_id: str) -> str:
    if not ids.is_id(version_id, ids.MEMORY_VERSION):
        raise NotFound(f"{version_id!r} is no version: a version's id is memver_ and 26 characters")
    return version_id
