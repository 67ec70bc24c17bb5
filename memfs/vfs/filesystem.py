"""The file operations of one mount (DESIGN.md, "A file is a memory").

Operations take inodes and handles and raise OSError (with the errno that a local disk would give) or MemfsError (where
a rule of the store is broken). Those that change names or commit take the lock, do their work in the database first
and only then in the tree, so that a failed operation has changed nothing; everything else answers from the tree.
"""

import errno
import itertools
import logging
import os
import stat
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from memfs.model import ids
from memfs.model.errors import (
    ContentNotText,
    ContentTooLarge,
    InvalidPath,
    MemfsError,
    NotFound,
    PathConflict,
    ReadOnly,
    StoreArchived,
    StoreFull,
)
from memfs.model.mutations import (
    Create,
    Delete,
    DropDirectory,
    KeepDirectory,
    Mutation,
    SetAttributes,
    Update,
)
from memfs.model.paths import MAX_NAME_BYTES, check_path, check_segment, decode_name
from memfs.model.records import MAX_CONTENT_BYTES, MAX_MEMORIES, FileAttributes, Head
from memfs.vfs.handles import DirectoryHandle, FileHandle
from memfs.vfs.nodes import DIRECTORY_MODE, DirectoryNode, FileNode, Node, derived_inode
from memfs.vfs.rename import Rename
from memfs.vfs.temporaries import Temporaries
from memfs.vfs.tree import Tree, child_path, file_attributes
from memfs.workspace import AttachedStore

log = logging.getLogger(__name__)

DIRTY_SECONDS = 5.0
"""A buffer that has been dirty for this long is committed though nobody closed it."""

MAX_SCRATCH_BYTES = 64 * 1024 * 1024
"""What all scratch files of one mount may hold together, in memory."""

CACHED_CONTENT_BYTES = 8 * 1024 * 1024
BLOCK = 4096

T = TypeVar("T")
RunBlocking = Callable[[Callable[[], T]], Awaitable[T]]


def _error(number: int, what: str = "") -> OSError:
    return OSError(number, os.strerror(number), what or None)


class ContentCache:
    """Texts by version id, least recently used out first. A version never changes, so nothing here goes stale."""

    def __init__(self, limit: int = CACHED_CONTENT_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._texts: OrderedDict[str, bytes] = OrderedDict()

    def get(self, version_id: str) -> bytes | None:
        """The text, if it is here."""
        text = self._texts.get(version_id)
        if text is not None:
            self._texts.move_to_end(version_id)
        return text

    def put(self, version_id: str, text: bytes) -> None:
        """Keep a text, in place of older ones where they are too much."""
        if version_id in self._texts:
            return
        self._texts[version_id] = text
        self._size += len(text)
        while self._size > self._limit:
            self._size -= len(self._texts.popitem(last=False)[1])


class Filesystem:
    """One store's tree with its open files.

    ``holds_open(pid, inode)`` says whether a thread's process has the inode open under another descriptor; it tells a
    shell's early close (``echo x > f`` closes one of two descriptors before it writes) from a real one.
    """

    def __init__(
        self,
        store: AttachedStore,
        *,
        temporaries: Temporaries | None = None,
        holds_open: Callable[[int, int], bool] | None = None,
        scratch_bytes: int = MAX_SCRATCH_BYTES,
    ) -> None:
        self.store = store
        self.tree = Tree(store.store_id)
        self.temporaries = temporaries or Temporaries()
        self.read_only = store.access == "read_only"
        self._holds_open = holds_open or (lambda _pid, _inode: False)
        self._scratch_limit = scratch_bytes
        # Names are changed under both locks, taken in this order. A file is made under the first alone: it needs no
        # transaction, and must not wait for one that only commits a text.
        self._names = trio.Lock()
        self._lock = trio.Lock()
        self._numbers = itertools.count(1)
        self._files: dict[int, FileHandle] = {}
        self._directories: dict[int, DirectoryHandle] = {}
        self._dirty: set[FileNode] = set()
        self._cache = ContentCache()
        self._scratch_used = 0
        self._charged: set[FileNode] = set()
        self._set_aside: dict[str, tuple[Head, float]] = {}
        self.became_dirty = trio.Event()
        self._data_version = store.data_version()
        self.tree.load(store.snapshot())

    # Following the store

    async def refresh(self) -> None:
        """See every commit that was complete when this was called, by whomever (close-to-open)."""
        if self.store.data_version() != self._data_version:
            async with self._changing():
                pass

    def peek(self) -> None:
        """Like refresh, but without waiting: while one of our own commits is under way, the tree is left as it is."""
        if not self._lock.locked():
            self._catch_up()

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """Hold the lock, with the tree as the store is now: what is decided in it holds until it ends.

        What was committed in it is seen as known when it ends. Otherwise the next open would find something new and
        wait for the lock, perhaps behind a commit that waits for another process.
        """
        async with self._lock:
            self._catch_up()
            try:
                yield
            finally:
                self._catch_up()

    @asynccontextmanager
    async def _naming(self) -> AsyncIterator[None]:
        """Change names."""
        async with self._names, self._changing():
            yield

    def _catch_up(self) -> None:
        if self.store.data_version() != self._data_version:
            self._follow()

    def _follow(self) -> None:
        # The number is read first: a commit between the two is then seen as new again, never missed.
        self._data_version = self.store.data_version()
        changes = self.store.changes(self.tree.sequence)
        for path, (head, _) in list(self._set_aside.items()):
            if head.memory_id in changes.heads:
                present = changes.heads[head.memory_id]
                if present is not None and present.version_id == head.version_id:
                    del changes.heads[head.memory_id]  # our own doing; its file is still set aside
                else:
                    del self._set_aside[path]  # changed or deleted elsewhere: no longer ours to decide
        self.tree.follow(changes)
        for node in list(self._charged):
            self._settle_charge(node)  # others' memories have taken the names of scratch files

    async def commit_batch(self, mutations: list[Mutation]) -> dict[str, Head | None]:
        """Apply mutations in a thread, with the lock held; the tree then stands after them. Empty lists do nothing."""
        if not mutations:
            return {}
        applied = await trio.to_thread.run_sync(self.store.commit, mutations)
        if applied.previous == self.tree.sequence:
            self.tree.sequence = applied.sequence
        else:
            # Others committed in between; their changes and ours come with the next refresh, ours as no change.
            self._data_version = -1
        return applied.heads

    # Looking

    def node(self, inode: int) -> Node:
        """The node of an inode. Raises ESTALE where it is unknown."""
        node = self.tree.by_inode.get(inode)
        if node is None:
            raise _error(errno.ESTALE)
        return node

    def directory(self, inode: int) -> DirectoryNode:
        """The directory of an inode. Raises ENOTDIR, ESTALE."""
        node = self.node(inode)
        if not isinstance(node, DirectoryNode):
            raise _error(errno.ENOTDIR)
        return node

    def lookup(self, parent: int, name: bytes) -> Node:
        """The child of this name. Raises ENOENT, PathTooLong over 255 bytes."""
        directory = self.directory(parent)
        if name == b".":
            return directory
        if name == b"..":
            return directory.parent or directory
        node = directory.children.get(self._known_name(directory, name))
        if node is None:
            raise _error(errno.ENOENT)
        return node

    def _known_name(self, directory: DirectoryNode, name: bytes) -> str:
        """A name that is asked for: one that cannot exist is not there; a too long one only where none has it."""
        try:
            return decode_name(name)
        except InvalidPath:
            text = name.decode(errors="surrogateescape")
            if len(name) > MAX_NAME_BYTES and text not in directory.children:
                raise
            return text

    def remember(self, node: Node) -> None:
        """Count one more lookup that the kernel holds."""
        node.lookups += 1

    def forget(self, inode: int, count: int) -> None:
        """The kernel gives ``count`` lookups back."""
        node = self.tree.by_inode.get(inode)
        if node is not None:
            node.lookups = max(0, node.lookups - count)
            self.tree.drop_unknown(node)

    def statfs(self) -> os.statvfs_result:
        """Blocks of what all memories may hold; files are memories and their limit."""
        used = sum(node.size for node in self.tree.by_memory.values()) + self._scratch_used
        files = self.tree.memories()
        total = MAX_MEMORIES * MAX_CONTENT_BYTES + self._scratch_limit
        free_blocks = max(0, total - used) // BLOCK
        free_files = max(0, MAX_MEMORIES - files)
        return os.statvfs_result(
            (
                BLOCK,
                BLOCK,
                total // BLOCK,
                free_blocks,
                free_blocks,
                MAX_MEMORIES,
                free_files,
                free_files,
                0,
                MAX_NAME_BYTES,
            )
        )

    # Names that are made

    def _writable(self) -> None:
        if self.read_only:
            raise ReadOnly("this store is attached read_only: attach it read_write to change it")
        if self.tree.archived:
            raise StoreArchived("this store is archived: it can only be read")

    def target(self, parent: int, name: bytes) -> tuple[DirectoryNode, str]:
        """A directory and a name that may be made in it. Raises ENOENT in a removed directory, InvalidPath."""
        directory = self.directory(parent)
        text = decode_name(name)
        if not directory.attached:
            raise _error(errno.ENOENT)
        check_segment(text)
        if text == ".git":
            raise _error(
                errno.EPERM, "a git repository cannot live in a store: keep its .git elsewhere (git --separate-git-dir)"
            )
        check_path(child_path(directory, text))
        return directory, text

    def _is_scratch_name(self, name: str, flags: int) -> bool:
        return self.temporaries.match(name, exclusive=bool(flags & os.O_EXCL))

    def emptied(self, directory: DirectoryNode, *leaving: Node) -> list[Mutation]:
        """Keep a directory that these children are about to leave empty (DESIGN.md 11)."""
        if (
            directory is self.tree.root
            or directory.kept
            or any(
                isinstance(child, DirectoryNode) or (isinstance(child, FileNode) and child.head is not None)
                for child in directory.children.values()
                if child not in leaving
            )
        ):
            return []
        return [KeepDirectory(directory.path(), self._directory_attributes(directory))]

    def _directory_attributes(self, directory: DirectoryNode) -> FileAttributes:
        derived = self.tree.directory_identity(directory.path())
        return FileAttributes(
            mode=None if directory.mode == DIRECTORY_MODE else directory.mode,
            inode=None if directory.inode == derived_inode(derived) else directory.inode,
        )

    def mark_kept(self, mutations: list[Mutation]) -> None:
        for mutation in mutations:
            if isinstance(mutation, KeepDirectory):
                node = self.tree.find(mutation.path)
                if isinstance(node, DirectoryNode):
                    node.kept = True

    async def mkdir(self, parent: int, name: bytes, mode: int) -> DirectoryNode:
        """Make a directory that is kept for its own sake."""
        self._writable()
        async with self._naming():
            directory, text = self.target(parent, name)
            if text in directory.children:
                raise _error(errno.EEXIST)
            path = child_path(directory, text)
            identity = self.tree.directory_identity(path)
            inode = self.tree.new_inode(identity)
            mode = stat.S_IMODE(mode)
            attributes = FileAttributes(
                mode=None if mode == DIRECTORY_MODE else mode,
                inode=None if inode == derived_inode(identity) else inode,
            )
            await self.commit_batch([*self.aside_deletions(path), KeepDirectory(path, attributes)])
            self.drop_asides(path)
            node = DirectoryNode(inode, mode, time.time_ns(), kept=True)
            self.tree.insert(directory, text, node)
            directory.touch(content=True)
            return node

    async def rmdir(self, parent: int, name: bytes) -> None:
        """Remove an empty directory."""
        self._writable()
        async with self._naming():
            directory = self.directory(parent)
            node = self.lookup(parent, name)
            if not isinstance(node, DirectoryNode):
                raise _error(errno.ENOTDIR)
            if node.children:
                raise _error(errno.ENOTEMPTY)
            path = node.path()
            mutations: list[Mutation] = [*self.aside_deletions(path), *self.emptied(directory, node)]
            if node.kept:
                mutations.append(DropDirectory(path))
            await self.commit_batch(mutations)
            self.drop_asides(path)
            self.mark_kept(mutations)
            self.tree.orphan(node)
            directory.touch(content=True)

    async def create(self, parent: int, name: bytes, mode: int, flags: int, pid: int) -> FileHandle:
        """Make a file and open it. Its first version is committed when it is closed, even if it is empty."""
        self._writable()
        # Not under the lock of transactions: nothing is committed yet, and while this waited behind a commit that waits
        # for another process, the kernel would keep everybody out of the directory.
        async with self._names:
            await self.refresh()
            directory, text = self.target(parent, name)
            present = directory.children.get(text)
            if present is None:
                return self._opened(self._new_file(directory, text, mode, flags), flags, pid)
        # The kernel did not know the name: somebody else has made it meanwhile.
        if flags & os.O_EXCL:
            raise _error(errno.EEXIST)
        return await self.open(present.inode, flags, pid)

    def _new_file(self, directory: DirectoryNode, name: str, mode: int, flags: int) -> FileNode:
        path = child_path(directory, name)
        node = FileNode(0, stat.S_IMODE(mode), time.time_ns())
        node.buffer = bytearray()
        if self._is_scratch_name(name, flags):
            node.inode = self.tree.new_inode()
        else:
            aside = self.take_aside(path)
            if aside is not None:
                # The second half of an editor's save: the old text was moved to a backup's name, now comes the new.
                memory_id, node.head = aside.memory_id, aside
            else:
                if self.tree.memories() + len(self._set_aside) >= MAX_MEMORIES:
                    raise StoreFull(f"the store holds its {MAX_MEMORIES} memories: delete some, or use another store")
                memory_id = ids.new_id(ids.MEMORY)
            node.memory_id = memory_id
            node.inode = self.tree.new_inode(memory_id)
            node.changed(trio.current_time())
            self.note_dirty(node)
        self.tree.insert(directory, name, node)
        directory.touch(content=True)
        return node

    async def mknod(self, parent: int, name: bytes, mode: int) -> FileNode:
        """Make an empty regular file; anything else is EPERM."""
        self._writable()
        if not stat.S_ISREG(mode):
            raise _error(errno.EPERM)
        async with self._names:
            await self.refresh()
            directory, text = self.target(parent, name)
            if text in directory.children:
                raise _error(errno.EEXIST)
            node = self._new_file(directory, text, mode, os.O_EXCL)
        try:
            await self.commit(node)
        except BaseException:
            self._discard(node)
            raise
        return node

    async def unlink(self, parent: int, name: bytes) -> None:
        """Remove a file; its memory gets a version ``deleted``."""
        self._writable()
        async with self._naming():
            directory = self.directory(parent)
            node = self.lookup(parent, name)
            if not isinstance(node, FileNode):
                raise _error(errno.EISDIR)
            mutations = [*self._removal(node), *self.emptied(directory, node)]
            try:
                await self.commit_batch(mutations)
            except NotFound:
                # Somebody else deleted it first: that is what was wanted.
                self.distrust()
            else:
                self.mark_kept(mutations)
            if node.attached:
                self.removed(node)
                directory.touch(content=True)

    @staticmethod
    def _removal(node: FileNode) -> list[Mutation]:
        return [Delete(node.memory_id)] if node.memory_id is not None and node.head is not None else []

    def removed(self, node: FileNode) -> None:
        """Take a file out of the tree, after its removal is committed."""
        node.removed_here = True
        self._dirty.discard(node)
        self.tree.orphan(node)
        self._settle_charge(node)

    # Renaming is in its own module: it is half of what editors do.

    async def rename(
        self, parent: int, name: bytes, new_parent: int, new_name: bytes, *, noreplace: bool, exchange: bool
    ) -> None:
        """Move a file or directory, replacing what is there, or exchange two names."""
        self._writable()
        async with self._naming():
            await Rename(self, parent, name, new_parent, new_name).run(noreplace=noreplace, exchange=exchange)

    # Attributes

    async def set_attributes(
        self,
        inode: int,
        *,
        mode: int | None = None,
        atime_ns: int | None = None,
        mtime_ns: int | None = None,
        size: int | None = None,
        handle: int | None = None,
    ) -> Node:
        """chmod, utimensat, truncate. Permission bits and mtime are kept with the memory, without a version."""
        self._writable()
        node = self.node(inode)
        if size is not None:
            if not isinstance(node, FileNode):
                raise _error(errno.EISDIR)
            await self._truncate(node, size, handle)
        if mode is None and atime_ns is None and mtime_ns is None:
            return node
        if mode is not None:
            node.mode = stat.S_IMODE(mode)
        if atime_ns is not None:
            node.atime_ns = atime_ns
        node.touch(content=False)
        if mtime_ns is not None:
            node.mtime_ns = mtime_ns
        if mode is not None or mtime_ns is not None:
            async with self._changing():
                await self._keep_attributes(node)
        return node

    async def _keep_attributes(self, node: Node) -> None:
        if not node.attached or node is self.tree.root:
            return
        if isinstance(node, DirectoryNode):
            attributes = self._directory_attributes(node)
            kept = FileAttributes(node.mode, node.mtime_ns, attributes.inode)
            await self.commit_batch([KeepDirectory(node.path(), kept)])
            node.kept = True
            return
        assert isinstance(node, FileNode)
        if node.memory_id is not None and node.head is not None and not node.dirty:
            # A dirty file's attributes go with its commit.
            attributes = file_attributes(node)
            try:
                heads = await self.commit_batch([SetAttributes(node.memory_id, attributes)])
            except NotFound:
                self.distrust()
                return
            head = heads.get(node.memory_id)
            if head is not None and self.tree.by_memory.get(head.memory_id) is node:
                node.head = head

    async def _truncate(self, node: FileNode, size: int, handle: int | None) -> None:
        if size > MAX_CONTENT_BYTES and not node.scratch:
            raise ContentTooLarge(f"a memory has at most {MAX_CONTENT_BYTES} bytes, not {size}: split it")
        by_path = handle is None and node.writers == 0
        before = bytes(self._load(node)) if by_path and node.dirty else None
        self._resize(node, size)
        node.written = True
        node.spoiled = False
        self._changed(node)
        if not by_path or node.memory_id is None:
            return
        # truncate(2) by path: there is no close to wait for, nor one that would give a text up that is unfit.
        generation = node.generation
        try:
            await self.commit(node)
        except BaseException:
            if node.generation == generation and node.attached:
                if before is None:
                    self._discard(node)
                else:
                    node.buffer = bytearray(before)
                    self._changed(node)
            raise

    def _resize(self, node: FileNode, size: int) -> None:
        buffer = self._load(node)
        if node.scratch:
            self.charge(node, size)
        if size > len(buffer):
            buffer.extend(bytes(size - len(buffer)))
        else:
            del buffer[size:]

    def charge(self, node: FileNode, size: int) -> None:
        """Count a scratch file's bytes against what all may hold together; 0 when it is gone or a memory."""
        used = self._scratch_used + size - node.charged
        if size > node.charged and used > self._scratch_limit:
            raise _error(errno.ENOSPC, f"scratch files may hold {self._scratch_limit} bytes together")
        self._scratch_used, node.charged = used, size
        if size:
            self._charged.add(node)
        else:
            self._charged.discard(node)

    def _settle_charge(self, node: FileNode) -> None:
        """Give back what a scratch file held that nobody can reach any more."""
        if not node.attached and node.handles == 0:
            self.charge(node, 0)

    # Content

    async def open(self, inode: int, flags: int, pid: int) -> FileHandle:
        """Open a file; it shows everything that was closed before. Raises ESTALE for one that was replaced elsewhere.

        Where it was removed or replaced through this mount, the kernel found the name just before, or means what is
        held open already (/proc/self/fd): it gets the old file, as on any disk.
        """
        await self.refresh()
        node = self.node(inode)
        if not isinstance(node, FileNode):
            raise _error(errno.EISDIR)
        if not node.attached and not node.removed_here:
            raise _error(errno.ESTALE)
        if flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_TRUNC:
            self._writable()
        if flags & os.O_TRUNC:
            # Not loaded only to be emptied. An empty file is no exception: its mtime moves, and must be kept.
            self.charge(node, 0)
            node.buffer = bytearray()
            node.written = node.spoiled = False
            self._changed(node)
        return self._opened(node, flags, pid)

    def _opened(self, node: FileNode, flags: int, pid: int) -> FileHandle:
        handle = FileHandle(next(self._numbers), node, flags, pid)
        self._files[handle.number] = handle
        node.handles += 1
        node.writers += handle.writable
        return handle

    def file(self, number: int) -> FileHandle:
        """An open file. Raises EBADF."""
        try:
            return self._files[number]
        except KeyError:
            raise _error(errno.EBADF) from None

    def content(self, node: FileNode) -> bytes | bytearray:
        """The bytes of a file as they are now; not to be changed, nor kept over an await."""
        if node.buffer is not None:
            return node.buffer
        if node.head is None:
            return b""
        version_id = node.head.version_id
        text = self._cache.get(version_id)
        if text is None:
            try:
                text = self.store.content(version_id)
            except NotFound:
                raise _error(errno.ESTALE, "the version that was open is redacted or pruned") from None
            self._cache.put(version_id, text)
        return text

    def _load(self, node: FileNode) -> bytearray:
        if node.buffer is None:
            node.buffer = bytearray(self.content(node))
        return node.buffer

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Bytes from an open file, fewer at its end."""
        return bytes(self.content(self.file(number).node)[offset : offset + size])

    def write(self, number: int, offset: int, data: bytes) -> int:
        """Write into the shared buffer; returns the number of bytes. Raises ContentTooLarge, ENOSPC (scratch)."""
        self._writable()
        handle = self.file(number)
        node = handle.node
        buffer = self._load(node)
        if handle.append_only:
            offset = len(buffer)
        end = offset + len(data)
        if node.scratch:
            if end > self._scratch_limit:
                raise _error(errno.EFBIG)
        elif end > MAX_CONTENT_BYTES:
            # What was written before this must not be committed as if it were the whole.
            node.spoiled = node.dirty
            raise ContentTooLarge(f"a memory has at most {MAX_CONTENT_BYTES} bytes: split it")
        if node.scratch:
            self.charge(node, max(end, len(buffer)))
        if offset > len(buffer):
            buffer.extend(bytes(offset - len(buffer)))
        buffer[offset:end] = data
        node.written = True
        self._changed(node)
        return len(data)

    def _changed(self, node: FileNode) -> None:
        node.touch(content=True)
        if node.memory_id is None:
            node.generation += 1  # scratch and orphans are never committed
            return
        node.changed(trio.current_time())
        self.note_dirty(node)

    def note_dirty(self, node: FileNode) -> None:
        self._dirty.add(node)
        self.became_dirty.set()

    def forget_dirty(self, node: FileNode) -> None:
        """What the buffer holds is committed, or need not be."""
        node.clean()
        self._dirty.discard(node)

    def cache_text(self, node: FileNode, text: bytes) -> None:
        """Keep the text of a node's head, which was just committed."""
        if node.head is not None:
            self._cache.put(node.head.version_id, text)

    def distrust(self) -> None:
        """Look at the store's changes again at the next chance, though nothing new was committed."""
        self._data_version = -1

    async def flush(self, number: int) -> None:
        """A descriptor was closed: commit. Raises what makes the text unfit, so that close() reports it."""
        handle = self.file(number)
        node = handle.node
        if handle.writable:
            self._check_displaced(node)
        if not node.dirty or not handle.writable:
            return  # a reader's close does not cut a version out of what a writer is about to finish
        if not node.written and self._holds_open(handle.pid, node.inode):
            # Emptied by O_CREAT or O_TRUNC, and the one who did it is about to write through another descriptor:
            # the empty text is no version of its own.
            return
        await self.commit(node)

    async def fsync(self, number: int) -> None:
        """Commit, and return once it survives a loss of power."""
        node = self.file(number).node
        self._check_displaced(node)
        if node.dirty:
            await self.commit(node)
        if not node.scratch:
            await self.sync()

    @staticmethod
    def _check_displaced(node: FileNode) -> None:
        if node.displaced:
            raise _error(errno.ESTALE, f"{node.name} was not saved: somebody else's memory or directory took its name")

    async def sync(self) -> None:
        """Return once every commit so far survives a loss of power."""
        if not self.read_only:
            await trio.to_thread.run_sync(self.store.sync)

    async def release(self, number: int) -> None:
        """The last reference to an open file is gone. What was refused at close is dropped now, never committed."""
        handle = self._files.pop(number)
        node = handle.node
        try:
            if node.dirty and handle.writable:
                await self.commit(node)
        except (ContentNotText, ContentTooLarge, StoreArchived) as error:
            if node.writers == 1:
                log.warning("dropped %s: %s", node.name, error)
                self._discard(node)
        except (MemfsError, OSError) as error:
            # The buffer is kept; the timer tries again.
            log.error("could not commit %s yet: %s", node.name, error)
        finally:
            node.writers -= handle.writable
            node.handles -= 1
            if node.handles == 0:
                if not node.attached:
                    self._settle_charge(node)
                    self.tree.drop_unknown(node)
                elif not node.dirty and not node.scratch:
                    node.buffer = None

    def _discard(self, node: FileNode) -> None:
        """Give up a buffer: the file is what its head says, or gone where it never had one."""
        self.forget_dirty(node)
        node.generation += 1
        if node.head is not None:
            node.buffer = None
            node.take_head(node.head)
            node.touch(content=False)
            self.tree.stale_inode(node)
        elif node.parent is not None:
            self.tree.stale_entry(node.parent, node.name)
            self.tree.orphan(node)

    async def commit(self, node: FileNode) -> None:
        """Make the buffer of a file a version, unless it is the head's text already.

        Raises ContentNotText, ContentTooLarge (a write was refused midway), and what the workspace raises; the
        buffer is then still there.
        """
        async with self._changing():
            if not node.dirty or node.memory_id is None or not node.attached:
                self._dirty.discard(node)
                return
            if node.spoiled:
                raise ContentTooLarge(f"a write over {MAX_CONTENT_BYTES} bytes was refused: nothing was saved")
            generation = node.generation
            text = bytes(node.buffer or b"")
            head = await self._commit_text(node, text)
            node.head = head
            self.cache_text(node, text)
            if node.generation == generation:
                self.forget_dirty(node)
                if node.handles == 0:
                    node.buffer = None

    async def _commit_text(self, node: FileNode, text: bytes) -> Head:
        """Commit a file's text onto its memory, whatever became of that meanwhile: the later text is not lost."""
        for _ in range(4):
            memory_id = node.memory_id
            assert memory_id is not None
            attributes = file_attributes(node)
            mutation: Mutation
            if node.head is None:
                mutation = Create(memory_id, node.path(), text, attributes)
            else:
                mutation = Update(memory_id, content=text, attributes=attributes)
            try:
                heads = await self.commit_batch([mutation])
            except NotFound:
                if node.head is None:
                    raise  # the store itself is gone
                node.head = None
                self.tree.rename_memory(node)
            except PathConflict as conflict:
                if node.head is not None or conflict.conflicting_path != node.path():
                    raise
                # Made elsewhere at the same moment. The tree makes our file stand for that memory, and our text is
                # its next version.
                self._follow()
                self._check_displaced(node)
            else:
                head = heads[memory_id]
                assert head is not None
                return head
        raise _error(errno.EAGAIN, "the file keeps changing elsewhere")

    # Time and the end

    async def commit_aged(self, now: float) -> float | None:
        """Commit what has been dirty for too long at ``now`` (trio.current_time()); returns when to look again."""
        await self._settle_set_aside(now)
        next_look: float | None = min((deadline for _, deadline in self._set_aside.values()), default=None)
        for node in list(self._dirty):
            due = node.dirty_since + DIRTY_SECONDS
            if due <= now:
                try:
                    await self.commit(node)
                except (ContentNotText, ContentTooLarge):
                    node.dirty_since = now  # half a text, perhaps: its close will tell
                    due = now + DIRTY_SECONDS
                except (MemfsError, OSError) as error:
                    log.error("could not commit %s yet: %s", node.name, error)
                    node.dirty_since = now
                    due = now + DIRTY_SECONDS
                else:
                    continue
            next_look = due if next_look is None else min(next_look, due)
        return next_look

    def set_aside(self, path: str, head: Head) -> None:
        """Remember a memory whose file was renamed to a temporary's name: most likely an editor's backup."""
        self._set_aside[path] = (head, trio.current_time() + DIRTY_SECONDS)
        self.became_dirty.set()

    def take_aside(self, path: str) -> Head | None:
        """The memory that was set aside from this name, which is made again now."""
        aside = self._set_aside.pop(path, None)
        return None if aside is None else aside[0]

    def aside_at(self, path: str) -> Head | None:
        """The memory that was set aside from this name."""
        aside = self._set_aside.get(path)
        return None if aside is None else aside[0]

    def asides_below(self, path: str) -> dict[str, Head]:
        """The memories that were set aside from this name or from below it; the store still has them there."""
        return {
            name: head
            for name, (head, _) in self._set_aside.items()
            if name == path or name.startswith(f"{path.rstrip('/')}/")
        }

    def aside_deletions(self, path: str) -> list[Mutation]:
        """What frees a path of memories that were set aside, as a directory is made, replaced or removed there."""
        return [Delete(head.memory_id) for head in self.asides_below(path).values()]

    def drop_asides(self, path: str) -> None:
        """Their deletion is committed."""
        for name in self.asides_below(path):
            del self._set_aside[name]

    def move_asides(self, moves: dict[str, tuple[str, Head]]) -> None:
        """Directories above them were renamed, all at once: old path to new path and head."""
        deadlines = {old: self._set_aside.pop(old)[1] for old in moves}
        self._set_aside.update({new: (head, deadlines[old]) for old, (new, head) in moves.items()})

    async def _settle_set_aside(self, now: float) -> None:
        """Delete memories that were moved aside and whose name nobody made again."""
        for path, (head, deadline) in list(self._set_aside.items()):
            if deadline > now:
                continue
            async with self._naming():
                if self._set_aside.get(path) != (head, deadline):
                    continue
                parent = self.tree.find(path.rpartition("/")[0] or "/")
                mutations: list[Mutation] = [Delete(head.memory_id, expected_version=head.version_id)]
                if isinstance(parent, DirectoryNode):
                    mutations += self.emptied(parent)
                try:
                    await self.commit_batch(mutations)
                except NotFound:
                    self.distrust()
                except MemfsError as error:
                    log.error("could not delete %s yet: %s", path, error)
                    continue
                else:
                    self.mark_kept(mutations)
                self._set_aside.pop(path, None)

    async def finish(self) -> None:
        """Commit everything that can be; called once, after the last request."""
        await self._settle_set_aside(float("inf"))
        for node in list(self._dirty):
            try:
                await self.commit(node)
            except (MemfsError, OSError) as error:
                log.error("lost at unmount: the unsaved text of %s: %s", node.name, error)

    # Listing

    async def opendir(self, inode: int) -> DirectoryHandle:
        """Open a directory: its entries as they are now, ``.`` and ``..`` first."""
        await self.refresh()
        node = self.directory(inode)
        handle = DirectoryHandle(next(self._numbers), node, [])
        self._directories[handle.number] = handle
        self.rewind(handle)
        return handle

    @staticmethod
    def rewind(handle: DirectoryHandle) -> None:
        """Take the entries as they are now, as rewinddir(3) must."""
        node = handle.node
        handle.entries = [(b".", node), (b"..", node.parent or node)]
        handle.entries += [(os.fsencode(name), child) for name, child in node.children.items()]

    def open_directory(self, number: int) -> DirectoryHandle:
        """An open directory. Raises EBADF."""
        try:
            return self._directories[number]
        except KeyError:
            raise _error(errno.EBADF) from None

    def releasedir(self, number: int) -> None:
        """Close a directory."""
        self._directories.pop(number, None)
