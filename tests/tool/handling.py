"""The memory tool in tests: called as a model calls it, and what its calls did to the store."""

import re
from collections.abc import Mapping
from typing import Any

from memfs.engine import VersionFilter
from memfs.model import ids
from memfs.model.mutations import Create, Delete, KeepDirectory, Update
from memfs.model.records import Access, Actor, MemoryVersion, Snapshot, Store
from memfs.tool import MemoryCommands, ToolResult
from memfs.workspace import Workspace

SESSION = Actor("session_actor", "sesn_01M8NMQFRP7HNTABQQHZR3KZM6")
SOMEBODY = Actor("user_actor", "somebody")
ROOT_LISTING = (
    "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:"
)


def attached_commands(
    workspace: Workspace, store: Store, *, access: Access = "read_write", **options: Any
) -> MemoryCommands:
    """The commands on one store that fills ``/memories``, for the session SESSION."""
    return MemoryCommands(workspace.attached(store.id, SESSION, access), **options)


class Shelf:
    """One store as its owner sees it: what the tool did there, and a hand that changes it from elsewhere."""

    def __init__(self, workspace: Workspace, store: Store) -> None:
        self.workspace = workspace
        self.store = store

    def put(self, path: str, text: str | bytes = "text\n") -> str:
        """Make a memory, or change its text; returns its id."""
        content = text.encode() if isinstance(text, str) else text
        for memory in self.workspace.memories.list(self.store.id):
            if memory.path == path:
                self.workspace.memories.apply(self.store.id, [Update(memory.id, content=content)], SOMEBODY)
                return memory.id
        memory_id = ids.new_id(ids.MEMORY)
        self.workspace.memories.apply(self.store.id, [Create(memory_id, path, content)], SOMEBODY)
        return memory_id

    def move(self, path: str, to: str) -> None:
        """Rename a memory."""
        memory = self.workspace.memories.get(self.store.id, path)
        self.workspace.memories.apply(self.store.id, [Update(memory.id, path=to)], SOMEBODY)

    def remove(self, path: str) -> None:
        """Delete a memory."""
        memory = self.workspace.memories.get(self.store.id, path)
        self.workspace.memories.apply(self.store.id, [Delete(memory.id)], SOMEBODY)

    def keep(self, *directories: str) -> None:
        """Make directories, as mkdir on a mount does."""
        self.workspace.memories.apply(self.store.id, [KeepDirectory(path) for path in directories], SOMEBODY)

    @property
    def files(self) -> dict[str, str]:
        """Path to text of every memory."""
        listed = self.workspace.memories.list(self.store.id, content=True)
        return {memory.path: (memory.content or b"").decode() for memory in listed}

    @property
    def kept(self) -> list[str]:
        """Directories that are there for their own sake."""
        return sorted(directory.path for directory in self.workspace.engine.snapshot(self.store.id).directories)

    def versions(self) -> list[MemoryVersion]:
        """The whole history, the oldest first."""
        return self.workspace.versions.list(self.store.id, VersionFilter(), content=True)[::-1]

    @property
    def done(self) -> list[tuple[str, str | None]]:
        """Operation and path of each version that the tool made, the oldest first."""
        return [(version.operation, version.path) for version in self.versions() if version.created_by.id == SESSION.id]

    def state(self) -> tuple[Snapshot, list[MemoryVersion]]:
        """Everything that an error must leave as it was."""
        snapshot = self.workspace.engine.snapshot(self.store.id)
        heads = sorted(snapshot.heads, key=lambda head: head.path)
        return Snapshot(snapshot.sequence, snapshot.store, heads, snapshot.directories), self.versions()


class Tool(Shelf):
    """The tool on one store that fills ``/memories``."""

    def __init__(self, workspace: Workspace, store: Store, *, access: Access = "read_write", **options: Any) -> None:
        super().__init__(workspace, store)
        self.commands = attached_commands(workspace, store, access=access, **options)

    def handle(self, given: Mapping[str, object] | object) -> ToolResult:
        """One call, whatever comes of it."""
        result = self.commands.handle(given)
        result.content.encode()  # what cannot be sent is no answer
        return result

    def ok(self, command: str, path: str | None = None, **fields: object) -> str:
        """A call that succeeds; returns its answer."""
        result = self.handle(_given(command, path, fields))
        assert not result.is_error, result.content
        return result.content

    def refused(self, command: str, path: str | None = None, **fields: object) -> str:
        """A call that must fail and change nothing; returns its answer."""
        before = self.state()
        result = self.handle(_given(command, path, fields))
        assert result.is_error, result.content
        assert self.state() == before
        return result.content

    def read(self, path: str) -> list[str]:
        """All lines of a file: what an answer leaves out is read by the ranges that it names."""
        found: list[str] = []
        pending: list[list[int] | None] = [None]
        while pending:
            _, *lines = self.ok("view", path, view_range=pending.pop(0)).split("\n")
            ranges: list[list[int] | None] = []
            if lines and lines[-1].startswith("[Cut at "):
                ranges = [[int(start), int(end)] for start, end in re.findall(r"\[(\d+), (\d+)\]", lines.pop())]
            pending[:0] = ranges
            for line in lines:
                number, _, text = line.partition("\t")
                if [int(number)] * 2 not in ranges:  # else the answer says how to read it whole
                    found.append(text)
        return found


def _given(command: str, path: str | None, fields: Mapping[str, object]) -> dict[str, object]:
    return {"command": command} | ({} if path is None else {"path": path}) | dict(fields)
