"""Stores in every state there is, for requests that must be refused, and so leave all of it as it is."""

from dataclasses import dataclass

from memfs.model import ids
from memfs.model.contract import JsonObject, session_object, store_object, version_object
from memfs.model.mutations import Create
from memfs.model.records import MAX_MEMORIES, Actor, Guards, Memory
from memfs.workspace import SessionFilter, Workspace

SOMEBODY = Actor("user_actor", "somebody")
UNKNOWN_STORE = ids.new_id(ids.MEMORY_STORE)
UNKNOWN_MEMORY = ids.new_id(ids.MEMORY)
UNKNOWN_VERSION = ids.new_id(ids.MEMORY_VERSION)
UNKNOWN_SESSION = ids.new_id(ids.SESSION)
HISTORY = 50
"""Versions of a store that are compared: all of them, but for the full store."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Ids of stores, and what is in them."""

    store: str
    memory: Memory  # /notes/a.md
    deeper: Memory  # /notes/deep/er/b.md
    deleted: Memory  # was /gone
    first_version: str  # of /notes/a.md, not its head
    other: str
    in_other: Memory
    archived: str
    in_archived: Memory
    full: str
    in_full: Memory
    guarded: str
    in_guarded: Memory  # /kept/a.md
    removed: str  # a store that was deleted
    several: tuple[str, ...]  # nine stores

    @classmethod
    def prepare(cls, workspace: Workspace) -> "Scene":
        """Make it all, in the workspace."""

        def new(name: str) -> str:
            return workspace.stores.create(name).id

        def create(store_id: str, path: str, content: bytes = b"one\n") -> Memory:
            return workspace.memories.create(store_id, path, content, SOMEBODY)

        store = new("Scene")
        memory = create(store, "/notes/a.md")
        first_version = memory.memory_version_id
        memory = workspace.memories.update(store, memory.id, SOMEBODY, content=b"two\n").memory
        deeper = create(store, "/notes/deep/er/b.md")
        deleted = create(store, "/gone")
        workspace.memories.delete(store, deleted.id, SOMEBODY)
        other = new("Other")
        in_other = create(other, "/other.md")
        archived = new("Archived")
        in_archived = create(archived, "/a.md")
        workspace.stores.archive(archived)
        full = new("Full")
        workspace.memories.apply(
            full, [Create(ids.new_id(ids.MEMORY), f"/{n:04}", b"x") for n in range(MAX_MEMORIES)], SOMEBODY
        )
        guarded = new("Guarded")
        in_guarded = create(guarded, "/kept/a.md")
        guards = Guards(secrets="reject", max_content_bytes=100, allowed_paths=("/kept/**",))
        workspace.stores.set_guards(guarded, guards)
        removed = new("Removed")
        create(removed, "/a.md")
        workspace.stores.delete(removed)
        return cls(
            store=store,
            memory=memory,
            deeper=deeper,
            deleted=deleted,
            first_version=first_version,
            other=other,
            in_other=in_other,
            archived=archived,
            in_archived=in_archived,
            full=full,
            in_full=workspace.memories.get(full, "/0000"),
            guarded=guarded,
            in_guarded=in_guarded,
            removed=removed,
            several=tuple(new(f"Several {n}") for n in range(9)),
        )

    def state(self, workspace: Workspace) -> list[JsonObject]:
        """What a refusal may not change: every store, every version of the scene's stores, and the newest session."""
        stores = [store_object(store) for store in workspace.stores.list(include_archived=True)]
        sessions = [session_object(session) for session in workspace.sessions.list(SessionFilter(), limit=1)]
        changed = (self.store, self.other, self.archived, self.full, self.guarded)
        versions = [version for store_id in changed for version in workspace.versions.list(store_id, limit=HISTORY)]
        return [*stores, *sessions, *map(version_object, versions)]
