"""One store as one actor sees it: all that a mount or the memory tool needs of a workspace."""

from collections.abc import Sequence

from memfs.engine import Engine
from memfs.model.errors import ReadOnly
from memfs.model.mutations import Applied, Mutation
from memfs.model.records import Access, Actor, Changes, ConflictPolicy, Memory, Snapshot
from memfs.workspace.accesses import Accesses
from memfs.workspace.memories import Memories


class AttachedStore:
    """A store bound to an actor and an access mode.

    Reads answer at once; ``commit`` and ``sync`` may wait and belong into a thread.
    """

    def __init__(
        self,
        engine: Engine,
        memories: Memories,
        accesses: Accesses,
        store_id: str,
        actor: Actor,
        access: Access,
        on_conflict: ConflictPolicy = "merge",
    ) -> None:
        self._engine = engine
        self._memories = memories
        self._accesses = accesses
        self.store_id = store_id
        self.actor = actor
        self.access = access
        self.on_conflict = on_conflict

    def snapshot(self) -> Snapshot:
        """The whole store, at one moment."""
        return self._engine.snapshot(self.store_id)

    def data_version(self) -> int:
        """A number that differs after any commit to the workspace by anyone."""
        return self._engine.data_version()

    def changes(self, after: int) -> Changes:
        """What became of the store since a sequence number."""
        return self._engine.changes(self.store_id, after)

    def content(self, version_id: str) -> bytes:
        """A version's bytes. Raises NotFound where they are gone."""
        return self._engine.content(version_id)

    def memory_at(self, path: str) -> Memory:
        """The live memory at a path, with its content; the read is noted. Raises NotFound, InvalidPath."""
        return self._memories.get(self.store_id, path)

    def note_access(self, memory_id: str) -> None:
        """A memory was opened for reading; it is put on record later."""
        self._accesses.note(memory_id)

    def searches(self) -> bool:
        """Whether guards search what is written. Raises NotFound."""
        return self._memories.searches(self.store_id)

    def look_ahead(self, content: bytes) -> None:
        """Search a text that is about to be committed. Takes long, and belongs into a thread. Raises NotFound."""
        self._memories.look_ahead(self.store_id, content)

    def commit(self, mutations: Sequence[Mutation]) -> Applied:
        """Apply mutations in one transaction, attributed to the actor. An update whose memory is not what its ``edit``
        started from becomes what the policy ``on_conflict`` says. Raises ReadOnly and all that the rules raise."""
        if self.access == "read_only":
            raise ReadOnly(f"the store {self.store_id} is attached read_only: attach it read_write to change it")
        return self._memories.apply(self.store_id, mutations, self.actor, on_conflict=self.on_conflict)

    def sync(self) -> None:
        """Return once everything committed survives a loss of power."""
        self._engine.sync()
