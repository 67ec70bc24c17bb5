"""A store's filesystem by path, as a kernel would drive it, and the check that every test ends with."""

import errno
import functools
import itertools
import os
import stat
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, cast

import pytest
import trio
from trio.testing import MockClock

from memfs.engine import SqliteEngine
from memfs.model.records import Access, Actor, ConflictPolicy, MemoryVersion, Store
from memfs.vfs import DirectoryNode, FileHandle, FileNode, Filesystem, Node
from memfs.vfs.nodes import ROOT_INODE
from memfs.vfs.working import MAX_WORKING_BYTES
from memfs.workspace import Workspace

P = ParamSpec("P")

READ = os.O_RDONLY
WRITE = os.O_WRONLY
UPDATE = os.O_RDWR
SAVE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
EXCLUSIVE = os.O_RDWR | os.O_CREAT | os.O_EXCL


def in_trio(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an asynchronous test."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        trio.run(functools.partial(test, *args, **kwargs))

    return run


def on_mock_clock(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an asynchronous test in which time only passes by ``jump``."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        trio.run(functools.partial(test, *args, **kwargs), clock=MockClock())

    return run


def jump(seconds: float) -> None:
    """Let time pass."""
    cast(MockClock, trio.lowlevel.current_clock()).jump(seconds)


@contextmanager
def refused(number: int) -> Iterator[None]:
    """Expect an errno."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 (the errno is looked at)
        yield
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number]


class Files:
    """One mount's filesystem without a kernel: paths instead of inodes, whole files instead of requests."""

    def __init__(
        self,
        workspace: Workspace,
        store: Store,
        *,
        session: str = "sesn_1",
        access: Access = "read_write",
        scratch_bytes: int = 1 << 20,
        working_bytes: int = MAX_WORKING_BYTES,
    ) -> None:
        self.workspace = workspace
        self.store = store
        self.actor = Actor("session_actor", session)
        self.compare_inodes = True
        """Whether a new mount must show the same inode numbers. One that was looking on while another mount saved or
        moved keeps those that its kernel knows."""
        self.held: set[tuple[int, int]] = set()
        """(pid, inode) pairs that a process holds by another descriptor."""
        self.refusals: list[tuple[str, str]] = []
        """(path, reason) of what guards refused."""
        self.fs = Filesystem(
            workspace.attached(store.id, self.actor, access),
            holds_open=lambda pid, inode: (pid, inode) in self.held,
            refused=lambda path, reason: self.refusals.append((path, reason)),
            scratch_bytes=scratch_bytes,
            working_bytes=working_bytes,
        )

    @property
    def db(self) -> Path:
        """The database's file."""
        engine = self.workspace.engine
        assert isinstance(engine, SqliteEngine)
        return engine.database.path

    # By path

    def node(self, path: str, pid: int = 0) -> Node:
        """What is at a path, looked up name by name. Raises ENOENT."""
        node: Node = self.fs.node(ROOT_INODE)
        for name in [part for part in path.split("/") if part]:
            node = self.fs.lookup(node.inode, os.fsencode(name), pid)
        return node

    def file(self, path: str) -> FileNode:
        """The file at a path."""
        node = self.node(path)
        assert isinstance(node, FileNode), path
        return node

    def exists(self, path: str) -> bool:
        """Whether there is something at a path."""
        try:
            self.node(path)
        except FileNotFoundError:
            return False
        return True

    def at(self, path: str) -> tuple[int, bytes]:
        """Directory and name of a path."""
        parent, _, name = path.rpartition("/")
        return self.node(parent).inode, os.fsencode(name)

    async def open(self, path: str, flags: int = READ, *, pid: int = 0, mode: int = 0o644) -> FileHandle:
        """open(2)."""
        if flags & os.O_CREAT and not self.exists(path):
            return await self.fs.create(*self.at(path), stat.S_IFREG | mode, flags, pid)
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        try:
            return await self.fs.open(self.node(path).inode, flags, pid)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
        # As a kernel does, once: it looks the name up anew.
        node = self.node(path, pid)
        self.fs.remember(node)
        try:
            return await self.fs.open(node.inode, flags, pid)
        finally:
            self.fs.forget(node.inode, 1)

    async def close(self, handle: FileHandle) -> None:
        """close(2) of the only descriptor: what flush says, and the release whatever it says."""
        try:
            await self.fs.flush(handle.number)
        finally:
            await self.fs.release(handle.number)

    async def write(self, path: str, text: str | bytes, flags: int = SAVE) -> None:
        """Open, write, close."""
        handle = await self.open(path, flags)
        try:
            self.put(handle, 0, text)
        finally:
            await self.close(handle)

    def put(self, handle: FileHandle, offset: int, text: str | bytes) -> None:
        """pwrite(2)."""
        data = text.encode() if isinstance(text, str) else text
        assert self.fs.write(handle.number, offset, data) == len(data)

    def get(self, handle: FileHandle) -> bytes:
        """All that an open file holds."""
        return self.fs.read(handle.number, 0, 1 << 30)

    async def read(self, path: str) -> str:
        """Open, read, close."""
        handle = await self.open(path)
        try:
            return self.get(handle).decode()
        finally:
            await self.close(handle)

    async def mkdir(self, path: str, mode: int = 0o755) -> DirectoryNode:
        """mkdir(2)."""
        return await self.fs.mkdir(*self.at(path), mode)

    async def rmdir(self, path: str) -> None:
        """rmdir(2)."""
        await self.fs.rmdir(*self.at(path))

    async def unlink(self, path: str) -> None:
        """unlink(2)."""
        await self.fs.unlink(*self.at(path))

    async def rename(self, old: str, new: str, *, noreplace: bool = False, exchange: bool = False) -> None:
        """renameat2(2)."""
        await self.fs.rename(*self.at(old), *self.at(new), noreplace=noreplace, exchange=exchange)

    async def names(self, path: str = "/") -> list[str]:
        """What a directory holds, sorted, without ``.`` and ``..``."""
        handle = await self.fs.opendir(self.node(path).inode)
        names = [name for name, _ in handle.entries()]
        self.fs.releasedir(handle.number)
        assert names[:2] == [b".", b".."]
        return sorted(map(os.fsdecode, names[2:]))

    # History

    def versions(self) -> list[MemoryVersion]:
        """All versions of the store with their contents, oldest first."""
        return self.workspace.versions.list(self.store.id, content=True)[::-1]

    def history(self, path: str | None = None) -> list[str]:
        """The versions of the memory at a path (or of all), oldest first: operation, path, text."""
        versions = self.versions()
        if path is not None:
            memory_id = self.workspace.versions.memory_id(self.store.id, path)
            versions = [version for version in versions if version.memory_id == memory_id]
        return [
            " ".join(
                [version.operation, version.path or "", "" if version.content is None else version.content.decode()]
            ).strip()
            for version in versions
        ]

    def kept(self) -> list[str]:
        """The directories that the store keeps for their own sake."""
        return [directory.path for directory in self.workspace.engine.snapshot(self.store.id).directories]

    # The check

    async def settle(self) -> None:
        """Let everything be committed that waits for its time."""
        await self.fs.finish()
        await self.fs.refresh()

    def check(self) -> None:
        """The tree agrees with itself, with the store, with the history, and with what a new mount would show.

        Nothing may wait for its time any more (``settle``).
        """
        nodes = dict(_walk(self.fs.tree.root, "/"))
        self._check_indexes(nodes)
        self._check_heads(nodes)
        self._check_history()
        fresh = Filesystem(self.fs.store)
        reloaded = _shown(fresh, dict(_walk(fresh.tree.root, "/")), inodes=self.compare_inodes)
        assert _shown(self.fs, nodes, inodes=self.compare_inodes) == reloaded

    def _check_indexes(self, nodes: dict[str, Node]) -> None:
        tree = self.fs.tree
        for path, node in nodes.items():
            assert node.path() == path
            assert tree.by_inode[node.inode] is node, path
            assert node.attached
            if isinstance(node, DirectoryNode):
                below = list(node.children.values())
                assert node.directories == sum(isinstance(child, DirectoryNode) for child in below)
                assert below or node.kept or node is tree.root, f"{path} is for nothing"
            elif isinstance(node, FileNode):
                assert not node.dirty, path
                assert node.scratch or node.head is not None, path
                if node.memory_id is not None:
                    assert tree.by_memory[node.memory_id] is node, path
        attached = set(nodes.values())
        assert {node for node in tree.by_memory.values() if node not in attached} == set()
        for node in tree.by_inode.values():
            if node not in attached:
                assert not node.attached
                assert node.lookups or (isinstance(node, FileNode) and node.handles), f"leaked {node.name}"
        assert self.fs.saving._dirty == set()
        charged = {node for node in tree.by_inode.values() if isinstance(node, FileNode) and node.charged}
        assert self.fs.scratch._charged == charged
        assert self.fs.scratch.used == sum(node.charged for node in charged)
        for node in nodes.values():
            if isinstance(node, FileNode):
                assert node.charged == (node.size if node.scratch else 0)

    def _check_heads(self, nodes: dict[str, Node]) -> None:
        snapshot = self.workspace.engine.snapshot(self.store.id)
        stored = {head.path: head for head in snapshot.heads}
        shown = {path: node for path, node in nodes.items() if isinstance(node, FileNode) and not node.scratch}
        assert {path: node.head for path, node in shown.items()} == stored
        for path, node in shown.items():
            assert node.memory_id == stored[path].memory_id
            assert bytes(self.fs.contents.of(node)) == self.workspace.engine.content(stored[path].version_id), path
            assert node.size == stored[path].size
        kept = {path for path, node in nodes.items() if isinstance(node, DirectoryNode) and node.kept}
        assert kept == {directory.path for directory in snapshot.directories}

    def _check_history(self) -> None:
        heads = {head.memory_id: head for head in self.workspace.engine.snapshot(self.store.id).heads}
        lives: dict[str, list[MemoryVersion]] = defaultdict(list)
        for version in self.versions():
            lives[version.memory_id].append(version)
        assert heads.keys() <= lives.keys()
        for memory_id, versions in lives.items():
            operations = [version.operation for version in versions]
            ends = 1 if operations[-1] == "deleted" else 0
            assert operations[0] == "created"
            assert set(operations[1 : len(operations) - ends]) <= {"modified"}
            for before, after in itertools.pairwise(versions):
                same = (before.path, before.content_sha256) == (after.path, after.content_sha256)
                assert not same, f"a version of {after.path} without a change"
                assert before.id < after.id
            if ends:
                assert memory_id not in heads
            else:
                assert heads[memory_id].version_id == versions[-1].id
                assert heads[memory_id].path == versions[-1].path


def policy(files: Files, on_conflict: ConflictPolicy) -> Files:
    """Let a mount have a policy."""
    files.fs = Filesystem(files.workspace.attached(files.store.id, files.actor, "read_write", on_conflict))
    return files


def _walk(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    yield path, node
    if isinstance(node, DirectoryNode):
        for name, child in node.children.items():
            assert child.parent is node
            assert child.name == name
            yield from _walk(child, f"{path.rstrip('/')}/{name}")


def _shown(filesystem: Filesystem, nodes: dict[str, Node], *, inodes: bool) -> dict[str, tuple[object, ...]]:
    """What a mount shows of everything that is not scratch; directories without times, which only live in memory."""
    shown: dict[str, tuple[object, ...]] = {}
    for path, node in nodes.items():
        inode = node.inode if inodes else 0
        if isinstance(node, DirectoryNode):
            shown[path] = (node.mode, inode)
        elif isinstance(node, FileNode) and not node.scratch:
            shown[path] = (node.mode, inode, node.mtime_ns, bytes(filesystem.contents.of(node)))
    return shown
