"""What the history of a test's stores says."""

from memfs.model.records import MemoryVersion, Session
from memfs.workspace import VersionFilter, Workspace


class SessionHistory:
    """The versions and the memories of a session's stores.

    ``store`` is an id, a name or a slug; where it is left out, the first store is meant.
    """

    def __init__(self, workspace: Workspace, session: Session) -> None:
        self._workspace = workspace
        self._session = session

    def _store_id(self, store: str | None) -> str:
        if store is None:
            return self._session.attachments[0].memory_store_id
        return self._workspace.stores.resolve(store).id

    def versions(self, store: str | None = None, *, everybody: bool = False) -> list[MemoryVersion]:
        """What the session changed, oldest first and with content; with ``everybody`` what anybody did.

        Raises NotFound for a store that is none.
        """
        where = VersionFilter(session_id=None if everybody else self._session.id)
        return self._workspace.versions.list(self._store_id(store), where, content=True)[::-1]

    def changes(self, store: str | None = None, *, everybody: bool = False) -> list[tuple[str, str | None, str | None]]:
        """The same as (operation, path, text), where the text of what was deleted is None."""
        return [
            (version.operation, version.path, None if version.content is None else version.content.decode())
            for version in self.versions(store, everybody=everybody)
        ]

    def texts(self, store: str | None = None) -> dict[str, str]:
        """What the store holds now: path to text."""
        found = self._workspace.memories.list(self._store_id(store), content=True)
        return {memory.path: (memory.content or b"").decode() for memory in found}
