"""The workspace in this process: what it says is what the other surfaces must say."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from memfs.model.contract import (
    JsonObject,
    deleted_memory_object,
    deleted_store_object,
    listed_object,
    memory_object,
    session_object,
    store_object,
    version_object,
)
from memfs.model.errors import MemfsError, PathConflict
from memfs.model.records import Actor, Memory
from memfs.workspace import SessionFilter, VersionFilter, Workspace
from memfs.workspace.sessions import Resource, SessionDescription
from tests.contract.surfaces import EVERY_VERSION, Kind, Page, Refusal, View


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except PathConflict as error:
        conflict = error.conflicting_memory_id, error.conflicting_path
        raise Refusal(PathConflict, str(error), conflict) from error
    except MemfsError as error:
        raise Refusal(type(error), str(error)) from error


def _basic(memory: Memory) -> JsonObject:
    return memory_object(replace(memory, content=None))


class WorkspaceDriver:
    """Calls the workspace as a session does that mounts its stores or has the memory tool."""

    name = "workspace"

    def __init__(self, workspace: Workspace, session_id: str) -> None:
        self.workspace = workspace
        self._actor = Actor("session_actor", session_id)
        self.actor: JsonObject = {"type": "session_actor", "session_id": session_id}

    def kind_of(self, error: type[MemfsError]) -> Kind:
        return error

    # Stores

    def create_store(self, name: str, description: str = "", metadata: Mapping[str, str] | None = None) -> JsonObject:
        with _refusals():
            return store_object(self.workspace.stores.create(name, description, dict(metadata or {})))

    def get_store(self, store_id: str) -> JsonObject:
        with _refusals():
            return store_object(self.workspace.stores.get(store_id))

    def update_store(
        self,
        store_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> JsonObject:
        with _refusals():
            return store_object(
                self.workspace.stores.update(store_id, name=name, description=description, metadata=metadata)
            )

    def list_stores(self, *, include_archived: bool = False) -> list[JsonObject]:
        with _refusals():
            return [store_object(store) for store in self.workspace.stores.list(include_archived=include_archived)]

    def list_stores_between(self, created_from: str | None, created_to: str | None) -> list[JsonObject]:
        with _refusals():
            found = self.workspace.stores.list(created_from=created_from, created_to=created_to)
            return [store_object(store) for store in found]

    def store_page(self, limit: int, page: Any = None) -> Page:
        with _refusals():
            found = self.workspace.stores.list(after=page, limit=limit)
        return Page([store_object(store) for store in found], found[-1].id if len(found) == limit else None)

    def archive_store(self, store_id: str) -> JsonObject:
        with _refusals():
            return store_object(self.workspace.stores.archive(store_id))

    def delete_store(self, store_id: str) -> JsonObject:
        with _refusals():
            store = self.workspace.stores.get(store_id)
            self.workspace.stores.delete(store_id)
            return deleted_store_object(store)

    # Memories

    def create_memory(self, store_id: str, path: str, content: bytes = b"text\n") -> JsonObject:
        with _refusals():
            return _basic(self.workspace.memories.create(store_id, path, content, self._actor))

    def get_memory(self, store_id: str, memory_id: str) -> JsonObject:
        with _refusals():
            return memory_object(self.workspace.memories.get(store_id, memory_id))

    def update_memory(
        self,
        store_id: str,
        memory_id: str,
        *,
        content: bytes | None = None,
        path: str | None = None,
        expected_sha256: str | None = None,
    ) -> JsonObject:
        with _refusals():
            written = self.workspace.memories.update(
                store_id, memory_id, self._actor, content=content, path=path, expected_sha256=expected_sha256
            )
        return _basic(written.memory)

    def delete_memory(self, store_id: str, memory_id: str, *, expected_sha256: str | None = None) -> JsonObject:
        with _refusals():
            deleted = self.workspace.memories.delete(store_id, memory_id, self._actor, expected_sha256=expected_sha256)
        return deleted_memory_object(deleted)

    def list_memories(
        self, store_id: str, prefix: str = "/", *, depth: int = 0, view: View = "basic"
    ) -> list[JsonObject]:
        with _refusals():
            found = self.workspace.memories.browse(store_id, prefix, depth=depth, content=view == "full")
        return [listed_object(item) for item in found]

    def memory_page(self, store_id: str, limit: int, page: Any = None, *, depth: int = 0) -> Page:
        with _refusals():
            found = self.workspace.memories.browse(store_id, depth=depth, after=page, limit=limit)
        return Page([listed_object(item) for item in found], found[-1].path if len(found) == limit else None)

    # Versions

    def list_versions(
        self, store_id: str, where: VersionFilter = EVERY_VERSION, *, view: View = "basic"
    ) -> list[JsonObject]:
        with _refusals():
            return [version_object(v) for v in self.workspace.versions.list(store_id, where, content=view == "full")]

    def version_page(self, store_id: str, limit: int, page: Any = None) -> Page:
        with _refusals():
            found = self.workspace.versions.list(store_id, before=page, limit=limit)
        return Page([version_object(v) for v in found], found[-1].sequence if len(found) == limit else None)

    def get_version(self, store_id: str, version_id: str) -> JsonObject:
        with _refusals():
            return version_object(self.workspace.versions.get(store_id, version_id))

    def redact_version(self, store_id: str, version_id: str) -> JsonObject:
        with _refusals():
            (redacted,) = self.workspace.versions.redact(store_id, [version_id], self._actor)
        return version_object(redacted)

    # Sessions

    def create_session(
        self,
        resources: Sequence[JsonObject],
        *,
        title: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> JsonObject:
        with _refusals():
            chosen = [
                Resource(
                    self.workspace.stores.get(resource["memory_store_id"]),
                    resource.get("access", "read_write"),
                    resource.get("instructions", ""),
                )
                for resource in resources
            ]
            description = SessionDescription(title, metadata or {})
            return session_object(self.workspace.sessions.create(chosen, description=description))

    def get_session(self, session_id: str) -> JsonObject:
        with _refusals():
            return session_object(self.workspace.sessions.get(session_id))

    def list_sessions(self, store_id: str, *, include_archived: bool = False) -> list[JsonObject]:
        with _refusals():
            where = SessionFilter(store_id=store_id, include_archived=include_archived)
            return [session_object(session) for session in self.workspace.sessions.list(where)]

    def session_page(self, store_id: str, limit: int, page: Any = None) -> Page:
        with _refusals():
            found = self.workspace.sessions.list(SessionFilter(store_id=store_id, after=page), limit=limit)
        last = (found[-1].created_at, found[-1].id) if len(found) == limit else None
        return Page([session_object(session) for session in found], last)

    def archive_session(self, session_id: str) -> JsonObject:
        with _refusals():
            return session_object(self.workspace.sessions.archive(session_id))
