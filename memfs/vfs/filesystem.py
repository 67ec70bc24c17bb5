"""The file operations of one mount (DESIGN.md, "A file is a memory").

Operations take inodes and handles and raise OSError (with the errno that a local disk would give) or MemfsError (where
a rule of the store is broken). Those that change names or commit take the lock, do their work in the database first
and only then in the tree, so that a failed operation has changed nothing; everything else answers from the tree.
"""

import errno
import itertools
import math
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress

import trio

from memfs.model import ids
from memfs.model.errors import (
    ContentTooLarge,
    InvalidPath,
    MemfsError,
    NotFound,
    PreconditionFailed,
    ReadOnly,
    StoreArchived,
    StoreFull,
    WriteRefused,
)
from memfs.model.mutations import Delete, DropDirectory, KeepDirectory, Mutation, SetAttributes
from memfs.model.paths import MAX_NAME_BYTES, check_path, check_segment, decode_name
from memfs.model.records import MAX_CONTENT_BYTES, MAX_MEMORIES, FileAttributes, Head
from memfs.vfs.asides import Asides
from memfs.vfs.bases import Base, Bases, SameProcess
from memfs.vfs.content import Contents
from memfs.vfs.errors import os_error
from memfs.vfs.handles import DirectoryHandle, FileHandle
from memfs.vfs.nodes import DIRECTORY_MODE, NOBODY, DirectoryNode, FileNode, Node, derived_inode
from memfs.vfs.rename import Parts, Rename
from memfs.vfs.saving import UNFIT, Saving
from memfs.vfs.scratch import MAX_SCRATCH_BYTES, ScratchAccount
from memfs.vfs.temporaries import Temporaries
from memfs.vfs.transactions import Transactions
from memfs.vfs.tree import StaleEntry, Tree, child_path
from memfs.workspace import AttachedStore

BLOCK = 4096

READING_SECONDS = 1.0
"""How long somebody who has opened or read a file may still be about to read the rest of it."""

RETRY_SECONDS = 1.0
"""Within this, the next open of a thread that was told ESTALE is the kernel's second try."""

MOST_RETRIES = 1_000

PASSING_SECONDS = 0.01
PASSING_TURNS = 20
"""How long somebody waits for the end of an open file that a close has just given another text: so many times so long,
and not all at once. Time in which this process did not run (stopped, or on a machine with too much to do) ends one turn
however long it was, and each turn takes what the kernel has asked meanwhile: with it the end, which the kernel has
told of before close() returns, behind other requests where many come at once. So who opens the file after that is held
up by what is before it in the queue, and runs out of turns only where somebody does have the file open still.
"""

WALK_SECONDS = 0.2
"""How long after a name has gone somebody may still be on the way from it: the kernel found the file by it, was then
told to forget it, and now opens the file. Whoever came by the new name looks it up once more, and is no worse off."""

RENAME_TRIES = 20
"""How often a rename over a memory begins anew because somebody else has just saved what would be removed."""


def _storable(time_ns: int | None) -> int | None:
    """A time as the database can hold it, 64 bits: the years 1677 to 2262 in nanoseconds, and their ends for others."""
    return None if time_ns is None else max(-(2**63), min(2**63 - 1, time_ns))


def _without_privileges(mode: int) -> int:
    """A mode after somebody wrote who may not keep it: setgid without execution by the group is no privilege."""
    return mode & ~(stat.S_ISUID | (stat.S_ISGID if mode & stat.S_IXGRP else 0))


class Filesystem:
    """One store's tree with its open files.

    ``holds_open(pid, inode)`` says whether a thread's process has the inode open under another descriptor; it tells a
    shell's early close (``echo x > f`` closes one of two descriptors before it writes) from a real one.
    ``same_process(pid, pid, moment)`` says whether a thread is of the process of which another one was at a moment, to
    tell which text a writer had read.
    ``refused(path, reason)`` is called where a guard of the store refuses what somebody saves. ``stale_name`` says
    whether a kernel may still believe in a name.
    """

    def __init__(
        self,
        store: AttachedStore,
        *,
        temporaries: Temporaries | None = None,
        holds_open: Callable[[int, int], bool] | None = None,
        same_process: SameProcess | None = None,
        refused: Callable[[str, str], None] | None = None,
        stale_name: Callable[[StaleEntry], bool] | None = None,
        scratch_bytes: int = MAX_SCRATCH_BYTES,
    ) -> None:
        self.store = store
        self.tree = Tree(store.store_id)
        self.temporaries = temporaries or Temporaries()
        self.read_only = store.access == "read_only"
        self._refused = refused or (lambda _path, _reason: None)
        self._stale_name = stale_name or (lambda _entry: False)
        self.became_dirty = trio.Event()
        """Set where the timer has something new to look at. Whoever runs the timer puts a fresh one here before."""
        self.contents = Contents(store)
        self.scratch = ScratchAccount(scratch_bytes)
        self.asides = Asides(self._wake)
        self.bases = Bases(same_process or (lambda pid, other, _moment: pid == other), self._holds)
        self.transactions = Transactions(store, self.tree, self.asides, self.scratch)
        self.saving = Saving(
            self.tree,
            self.transactions,
            self.contents,
            self.asides,
            self.bases,
            holds_open=holds_open or (lambda _pid, _inode: False),
            refused=self._refused,
            wake=self._wake,
        )
        self._parts = Parts(
            self.tree, self.transactions, self.saving, self.contents, self.asides, self.scratch, self.temporaries
        )
        self._numbers = itertools.count(1)
        self._files: dict[int, FileHandle] = {}
        self._directories: dict[int, DirectoryHandle] = {}
        self._released = trio.Event()
        """Set, and replaced, when an open file goes."""
        self._refused_handles: dict[FileHandle, MemfsError] = {}
        """Open files of which a close said that what was written is lost; nothing was written through them since."""
        self._retries: dict[int, tuple[float, int]] = {}
        """Threads that were told ESTALE by an open: when, and which inode was looked up for each since, 0 for none."""
        self._passing: set[FileHandle] = set()
        """Open files of which a close refused or masked the text: they show it until they are released."""

    def _wake(self) -> None:
        # Not handed on as became_dirty.set: the event is replaced.
        self.became_dirty.set()

    def _holds(self, base: Base) -> bool:
        return any(handle.base is base for handle in self._files.values() if handle.writable)

    # Following the store

    async def refresh(self) -> None:
        """See every commit that was complete when this was called, by whomever (close-to-open)."""
        await self.transactions.refresh()

    def peek(self) -> None:
        """Like refresh, but without waiting: while one of our own commits is under way, the tree is left as it is."""
        self.transactions.peek()

    # Looking

    def node(self, inode: int) -> Node:
        """The node of an inode. Raises ESTALE where it is unknown."""
        node = self.tree.by_inode.get(inode)
        if node is None:
            raise os_error(errno.ESTALE)
        return node

    def directory(self, inode: int) -> DirectoryNode:
        """The directory of an inode. Raises ENOTDIR, ESTALE."""
        node = self.node(inode)
        if not isinstance(node, DirectoryNode):
            raise os_error(errno.ENOTDIR)
        return node

    def lookup(self, parent: int, name: bytes, pid: int = 0) -> Node:
        """The child of this name, for a thread. Raises ENOENT, PathTooLong over 255 bytes."""
        try:
            node = self._child(parent, name)
        except FileNotFoundError:
            self._retries.pop(pid, None)  # its call ends here: the next ESTALE is of another
            raise
        if pid in self._retries:
            self._retries[pid] = self._retries[pid][0], node.inode
        return node

    def _child(self, parent: int, name: bytes) -> Node:
        directory = self.directory(parent)
        if name == b".":
            return directory
        if name == b"..":
            return directory.parent or directory
        node = directory.children.get(self._known_name(directory, name))
        if node is None:
            # In a directory that somebody else has replaced, nothing is known of what is there now.
            self._check_current(directory)
            raise os_error(errno.ENOENT)
        return node

    @staticmethod
    def _check_current(node: Node) -> None:
        """Raises ESTALE for what is gone by others' doing: the kernel then looks the name up anew."""
        if not node.attached and not node.removed_here:
            raise os_error(errno.ESTALE)

    def _check_name(self, node: Node) -> None:
        """Raises ESTALE for what the kernel may have found by a name that it no longer has."""
        self._check_current(node)
        entry, seen = self.tree.moved.get(node.inode, (None, 0.0))
        if entry is not None:
            recent = time.monotonic() < seen + WALK_SECONDS
            if recent or entry in self.tree.stale or self._stale_name(entry):
                raise os_error(errno.ESTALE)
            del self.tree.moved[node.inode]

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

    def is_known(self, inode: int) -> bool:
        """Whether the kernel holds a lookup of an inode, or is about to. Any thread may ask."""
        node = self.tree.by_inode.get(inode)
        return node is not None and node.lookups > 0

    def statfs(self) -> os.statvfs_result:
        """Blocks of what all memories may hold; files are memories and their limit."""
        used = sum(node.size for node in self.tree.by_memory.values()) + self.scratch.used
        files = self.tree.memories()
        total = MAX_MEMORIES * MAX_CONTENT_BYTES + self.scratch.limit
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

    def check_writable(self) -> None:
        """Raises ReadOnly, StoreArchived."""
        if self.read_only:
            raise ReadOnly("this store is attached read_only: attach it read_write to change it")
        if self.tree.archived:
            raise StoreArchived("this store is archived: it can only be read")

    def target(self, parent: int, name: bytes) -> tuple[DirectoryNode, str]:
        """A directory and a name that may be made in it. Raises ENOENT in a removed directory, InvalidPath."""
        directory = self.directory(parent)
        text = decode_name(name)
        if not directory.attached:
            raise os_error(errno.ENOENT)
        check_segment(text)
        if text == ".git":
            raise os_error(
                errno.EPERM, "a git repository cannot live in a store: keep its .git elsewhere (git --separate-git-dir)"
            )
        check_path(child_path(directory, text))
        return directory, text

    async def mkdir(self, parent: int, name: bytes, mode: int) -> DirectoryNode:
        """Make a directory that is kept for its own sake."""
        self.check_writable()
        async with self.transactions.naming():
            directory, text = self.target(parent, name)
            if text in directory.children:
                raise os_error(errno.EEXIST)
            path = child_path(directory, text)
            identity = self.tree.directory_identity(path)
            inode = self.tree.new_inode(identity)
            # Setgid is handed on, as on any disk: there it keeps a whole tree in its group.
            mode = stat.S_IMODE(mode) | directory.mode & stat.S_ISGID
            attributes = FileAttributes(
                mode=None if mode == DIRECTORY_MODE else mode,
                inode=None if inode == derived_inode(identity) else inode,
            )
            await self.transactions.commit([*self.asides.deletions(path), KeepDirectory(path, attributes)])
            self.asides.drop(path)
            node = DirectoryNode(inode, mode, time.time_ns(), kept=True)
            self.tree.insert(directory, text, node)
            directory.touch(content=True)
            return node

    async def rmdir(self, parent: int, name: bytes) -> None:
        """Remove an empty directory."""
        self.check_writable()
        async with self.transactions.naming():
            directory = self.directory(parent)
            node = self.lookup(parent, name)
            if not isinstance(node, DirectoryNode):
                raise os_error(errno.ENOTDIR)
            if node.children:
                raise os_error(errno.ENOTEMPTY)
            path = node.path()
            mutations = self.asides.deletions(path)
            if node.kept:
                mutations.append(DropDirectory(path))
            await self.transactions.commit(mutations, emptied=self.tree.emptied(directory, node))
            self.asides.drop(path)
            node.removed_here = True
            self.tree.orphan(node)
            directory.touch(content=True)

    async def create(self, parent: int, name: bytes, mode: int, flags: int, pid: int) -> FileHandle:
        """Make a file and open it. Its first version is committed when it is closed, even if it is empty."""
        self.check_writable()
        async with self.transactions.making():
            directory, text = self.target(parent, name)
            present = directory.children.get(text)
            if present is None:
                return self._opened(self._new_file(directory, text, mode, flags, pid), flags, pid)
        # The kernel did not know the name: somebody else has made it meanwhile.
        if flags & os.O_EXCL:
            raise os_error(errno.EEXIST)
        return await self.open(present.inode, flags & ~os.O_CREAT, pid)

    def _new_file(self, directory: DirectoryNode, name: str, mode: int, flags: int, pid: int) -> FileNode:
        path = child_path(directory, name)
        node = FileNode(0, stat.S_IMODE(mode), time.time_ns())
        node.buffer = bytearray()
        node.whole_by = pid
        exclusive = bool(flags & os.O_EXCL)
        if self.temporaries.made(name, exclusive=exclusive, mode=mode, beside=directory.children):
            node.inode = self.tree.new_inode()
        else:
            aside = self.asides.take(path)
            if aside is not None:
                # The second half of an editor's save: the old text was moved to a backup's name, now comes the new.
                memory_id, node.head = aside.head.memory_id, aside.head
            else:
                if self.tree.memories() + len(self.asides) >= MAX_MEMORIES:
                    raise StoreFull(f"the store holds its {MAX_MEMORIES} memories: delete some, or use another store")
                memory_id = ids.new_id(ids.MEMORY)
            node.memory_id = memory_id
            node.inode = self.tree.new_inode(memory_id)
            self.saving.note_dirty(node)
        self.tree.insert(directory, name, node)
        directory.touch(content=True)
        return node

    async def mknod(self, parent: int, name: bytes, mode: int) -> FileNode:
        """Make an empty regular file; anything else is EPERM."""
        self.check_writable()
        if not stat.S_ISREG(mode):
            raise os_error(errno.EPERM, "a store holds regular files and directories, no pipes, sockets or devices")
        async with self.transactions.making():
            directory, text = self.target(parent, name)
            if text in directory.children:
                raise os_error(errno.EEXIST)
            node = self._new_file(directory, text, mode, os.O_EXCL, 0)
        try:
            await self.saving.commit(node)
        except BaseException:
            self.saving.discard(node)
            raise
        return node

    async def unlink(self, parent: int, name: bytes) -> None:
        """Remove a file; its memory gets a version ``deleted``."""
        self.check_writable()
        async with self.transactions.naming():
            directory = self.directory(parent)
            node = self.lookup(parent, name)
            if not isinstance(node, FileNode):
                raise os_error(errno.EISDIR)
            try:
                await self.transactions.commit(self._removal(node), emptied=self.tree.emptied(directory, node))
            except NotFound:
                # Somebody else deleted it first: that is what was wanted.
                self.transactions.distrust()
            if node.attached:
                self._parts.remove(node)
                directory.touch(content=True)

    @staticmethod
    def _removal(node: FileNode) -> list[Mutation]:
        return [Delete(node.memory_id)] if node.memory_id is not None and node.head is not None else []

    # Renaming is in its own module: it is half of what editors do.

    async def rename(
        self, parent: int, name: bytes, new_parent: int, new_name: bytes, *, noreplace: bool, exchange: bool
    ) -> None:
        """Move a file or directory, replacing what is there, or exchange two names."""
        self.check_writable()
        await self._settle_name(parent, name)
        await self._settle_name(new_parent, new_name)
        for _ in range(RENAME_TRIES):
            await self._look_ahead(parent, name)
            async with self.transactions.naming():
                source = self.lookup(parent, name)
                into, text = self.target(new_parent, new_name)
                rename = Rename(self._parts, self.directory(parent), source, into, text)
                try:
                    await rename.run(noreplace=noreplace, exchange=exchange)
                except WriteRefused as error:
                    self._refused(child_path(into, text), str(error))
                    raise
                except PreconditionFailed:
                    self.transactions.distrust()
                else:
                    self._follow_kernel(StaleEntry(parent, name), StaleEntry(new_parent, new_name))
                    return
            # Somebody else has just saved what is moved: that goes along.
            if isinstance(source, FileNode) and self.saving.outdated(source):
                await self.saving.commit(source)
        raise os_error(errno.EAGAIN, "the file keeps changing elsewhere")

    def _follow_kernel(self, *entries: StaleEntry) -> None:
        """After a rename, which a kernel follows by itself: where what it had at one of the names was not what is there
        any more, it now has that at the other one.
        """
        if any(entry in self.tree.stale or self._stale_name(entry) for entry in entries):
            self.tree.stale += entries

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
        self.check_writable()
        if handle is None:
            await self.settle(inode)
        node = self.node(inode)
        atime_ns, mtime_ns = _storable(atime_ns), _storable(mtime_ns)
        if size is not None:
            if not isinstance(node, FileNode):
                raise os_error(errno.EISDIR)
            await self._truncate(node, size, handle)
        if mode is not None or mtime_ns is not None:
            mode = None if mode is None else stat.S_IMODE(mode)
            async with self.transactions.changing():
                # Stored first: a chmod that failed must not look as if it had been done.
                head = await self._keep_attributes(node, mode, mtime_ns)
                self._take_attributes(node, mode, atime_ns, mtime_ns)
                if head is not None and isinstance(node, FileNode) and self.tree.by_memory.get(head.memory_id) is node:
                    self.tree.stand(node, head)
        elif size is None:
            # Only the time of reading, or a chown, which changes no owner but is a change (DESIGN.md 12).
            self._take_attributes(node, None, atime_ns, None)
        return node

    @staticmethod
    def _take_attributes(node: Node, mode: int | None, atime_ns: int | None, mtime_ns: int | None) -> None:
        node.touch(content=False)
        if mode is not None:
            node.mode = mode
        if atime_ns is not None:
            node.atime_ns = atime_ns
        if mtime_ns is not None:
            node.mtime_ns = mtime_ns

    async def _keep_attributes(self, node: Node, mode: int | None, mtime_ns: int | None) -> Head | None:
        """Commit what a node is about to show: what was given and nothing else, or a chmod would take the time of what
        somebody else has just written away. Returns a file's head as it is then, where this has changed it.
        """
        if not node.attached or node is self.tree.root:
            return None
        if isinstance(node, DirectoryNode):
            attributes = FileAttributes(mode, mtime_ns, self.tree.directory_attributes(node).inode)
            await self.transactions.commit([KeepDirectory(node.path(), attributes)])
            node.kept = True
            node.given_mtime_ns = node.given_mtime_ns if mtime_ns is None else mtime_ns
            return None
        assert isinstance(node, FileNode)
        if node.memory_id is None or node.head is None or node.dirty:
            return None  # a dirty file's attributes go with its commit
        given = FileAttributes(mode=mode, mtime_ns=mtime_ns)
        try:
            applied = await self.transactions.commit([SetAttributes(node.memory_id, given)])
        except NotFound:
            self.transactions.distrust()
            return None
        return applied.heads.get(node.memory_id)

    async def _truncate(self, node: FileNode, size: int, handle: int | None) -> None:
        if size > MAX_CONTENT_BYTES and not node.scratch:
            raise ContentTooLarge(f"a memory has at most {MAX_CONTENT_BYTES} bytes, not {size}: split it")
        self._check_current(node)
        self._own_again(node)
        self._begin(node, None if handle is None else self.file(handle))
        by_path = handle is None and not node.writing
        before = bytes(self.contents.buffer(node)) if by_path and node.dirty else None
        self._resize(node, size)
        node.written = True
        node.spoiled = False
        self.saving.changed(node)
        for writer in node.writing if handle is None else [self.file(handle)]:
            writer.changed()
        if not by_path or node.memory_id is None:
            return
        # truncate(2) by path: there is no close to wait for, nor one that would give a text up that is unfit.
        generation = node.generation
        try:
            await self.saving.commit(node)
        except BaseException:
            if node.generation == generation and node.attached:
                if before is None:
                    self.saving.discard(node)
                else:
                    node.buffer = bytearray(before)
                    self.saving.changed(node)
            raise

    def _resize(self, node: FileNode, size: int) -> None:
        buffer = self.contents.buffer(node)
        if node.scratch:
            self.scratch.charge(node, size)
        if size > len(buffer):
            buffer.extend(bytes(size - len(buffer)))
        else:
            del buffer[size:]
        if node.appended_from is not None and size <= node.appended_from:
            node.appended_from = None

    # Content

    async def open(self, inode: int, flags: int, pid: int, *, uid: int = 0) -> FileHandle:
        """Open a file; it shows everything that was closed before. Raises ESTALE for one that was replaced elsewhere.

        Who empties a file and is not root takes setuid and setgid off it, as by any write (chmod(2), inode(7)). The
        kernel asks for that by itself at writes and truncations, but not where it leaves O_TRUNC to an open.

        Where it was removed or replaced through this mount, the kernel found the name just before, or means what is
        held open already (/proc/self/fd): it gets the old file, as on any disk.
        """
        await self.refresh()
        try:
            node = self.node(inode)
            if not isinstance(node, FileNode):
                raise os_error(errno.EISDIR)
            await self.settle(inode)
            self._check_name(node)
        except OSError as error:
            again, found = self._retries.pop(pid, (-math.inf, 0))
            if error.errno != errno.ESTALE:
                raise
            if trio.current_time() - again > RETRY_SECONDS or found != inode:
                self._retries[pid] = trio.current_time(), 0
                if len(self._retries) > MOST_RETRIES:
                    del self._retries[next(iter(self._retries))]
                raise
            # The kernel tries once, and has looked the name up after the program's call began: it may have what was
            # there then, though somebody has replaced it again.
            node = self._found_a_moment_ago(inode, flags)
        else:
            self._retries.pop(pid, None)
        if flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_TRUNC:
            self.check_writable()
        if flags & os.O_ACCMODE != os.O_WRONLY and node.memory_id is not None:
            self.store.note_access(node.memory_id)
        if flags & os.O_TRUNC:
            self._own_again(node)
            node.starting_point()
            node.whole_by, node.whole_since, node.appended_from = pid, node.generation + 1, None
            node.kernel_size = 0
            # Not loaded only to be emptied. An empty file is no exception: its mtime moves, and must be kept.
            self.scratch.charge(node, 0)
            node.buffer = bytearray()
            node.written = node.spoiled = False
            for writer in node.writing:
                writer.unsaved = False  # of what was done through those, nothing is left to be committed
            if uid != 0:
                node.mode = _without_privileges(node.mode)
            self.saving.changed(node)
        return self._opened(node, flags, pid)

    def _found_a_moment_ago(self, inode: int, flags: int) -> FileNode:
        """The file that had a name, which somebody else has moved or replaced by now: itself for who reads; for who
        writes it anew the one in its place, where that is not lost. Raises ESTALE.
        """
        node = self.node(inode)
        if not isinstance(node, FileNode):
            raise os_error(errno.EISDIR)
        if node.attached:
            return node  # moved, and found by its new name
        if node.head is not None and flags & os.O_ACCMODE == os.O_RDONLY and not flags & os.O_TRUNC:
            return node
        latest = self._latest(node)
        if latest is None or not (flags & os.O_TRUNC or flags & os.O_ACCMODE == os.O_WRONLY):
            raise os_error(errno.ESTALE)
        return latest

    def follow_left(self) -> float | None:
        """Let those who have a file open whose text others changed, and have not read for a while, see what is there
        now: they do not want the rest of the old text any more. Returns when to look again (trio.current_time()).
        """
        now = trio.current_time()
        next_look = math.inf
        for node in [each for each in self.tree.left if self.tree.held(each)]:
            if node.handles == 0:
                node.seen_at = min(node.seen_at, now)  # who has it open does not say so: as if it was opened just now
                idle = node.seen_at + READING_SECONDS
            else:
                idle = max((handle.seen_at + READING_SECONDS for handle in node.reading), default=now)
            if idle > now:
                next_look = min(next_look, idle)
                continue
            latest = self._latest(node)
            if latest is not None and latest.head is not None and latest.head is not node.head:
                node.buffer = node.base = None
                node.head, node.mtime_ns = latest.head, latest.mtime_ns
                node.touch(content=False)
                self.tree.stale_inode(node)
        return None if next_look == math.inf else next_look

    @staticmethod
    def _latest(node: FileNode) -> FileNode | None:
        """The file that is in a file's place now, None where nothing is."""
        while not node.attached and node.successor is not None:
            node = node.successor
        return node if node.attached else None

    async def settle(self, inode: int) -> None:
        """Where a close has just said that what was written is lost, or has masked some of it, wait until that is so.

        The kernel tells of a file's last close only after we have answered the close. Whoever opens the file in between
        would be shown the old text, and while reading it the end of another. Where the closed descriptor was not the
        last one, the text is still somebody's, and the wait is for nothing but short, and not repeated.

        Raises ESTALE where the name is gone by now, and not by the kernel's own doing: it has to look it up anew.
        """
        passing = {handle for handle in self._passing if handle.node.inode == inode}
        if passing:
            for _ in range(PASSING_TURNS):
                with trio.move_on_after(PASSING_SECONDS):
                    while not passing.isdisjoint(self._passing):
                        await self._released.wait()
                    break
            self._passing -= passing
        node = self.tree.by_inode.get(inode)
        if isinstance(node, FileNode) and not node.attached and not node.removed_here and not self.tree.held(node):
            raise os_error(errno.ESTALE)

    async def shown(self, inode: int) -> Node:
        """What a kernel asks the attributes of, settled. Raises ESTALE where the name is gone (``settle``), but for a
        file in whose place another one is: that was as it is.

        A kernel asks before it opens a file, and looks the name up anew only once: told here, it would give up where
        the next file is replaced too before it is opened.
        """
        try:
            await self.settle(inode)
        except OSError:
            node = self.node(inode)
            if isinstance(node, FileNode) and node.successor is not None:
                return node
            raise
        return self.node(inode)

    async def _settle_name(self, parent: int, name: bytes) -> None:
        """Like settle, for what is at a name, if anything is."""
        if self._passing:
            with suppress(OSError):
                await self.settle(self.lookup(parent, name).inode)

    async def _look_ahead(self, parent: int, name: bytes) -> None:
        """Let guards search what a rename is about to make a version of (Transactions.look_ahead)."""
        node = self.directory(parent).children.get(os.fsdecode(name))
        if isinstance(node, FileNode) and (node.scratch or node.dirty) and node.size <= MAX_CONTENT_BYTES:
            await self.transactions.look_ahead(bytes(self.contents.of(node)))

    def _own_again(self, node: FileNode) -> None:
        """A file's text is another than the one that was refused."""
        for handle in [handle for handle in self._refused_handles if handle.node is node]:
            del self._refused_handles[handle]
        self._passing -= {handle for handle in self._passing if handle.node is node}

    def _opened(self, node: FileNode, flags: int, pid: int) -> FileHandle:
        node.told = node.head  # the kernel asks for its size, or knows it
        handle = FileHandle(next(self._numbers), node, flags, pid, node.starting_point(), trio.current_time())
        self._files[handle.number] = handle
        node.handles += 1
        if handle.writable:
            node.writing |= {handle}
            node.author = pid
            if flags & (os.O_CREAT | os.O_TRUNC):
                handle.changed()
        if flags & os.O_ACCMODE != os.O_WRONLY:
            node.reading |= {handle}
        if handle.reads:
            self._served(handle)
        return handle

    def _served(self, handle: FileHandle) -> None:
        """Whoever opened a file sees, or is about to see, what it holds now."""
        node = handle.node
        if node.dirty and node.whole_by is not None:
            # The text that somebody is writing anew: once it is committed, that is what was started from here.
            handle.base = self.saving.made_from(node, bytes(self.contents.of(node)))
        else:
            handle.base = node.starting_point()
        memory_id = node.memory_id
        if not node.attached and (latest := self._latest(node)) is not None:
            memory_id = latest.memory_id
        if memory_id is not None and not self.read_only:
            self.bases.served(memory_id, handle.base, handle.pid)

    def file(self, number: int) -> FileHandle:
        """An open file. Raises EBADF."""
        try:
            return self._files[number]
        except KeyError:
            raise os_error(errno.EBADF) from None

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Bytes from an open file, fewer at its end."""
        handle = self.file(number)
        node = handle.node
        handle.seen_at = trio.current_time()
        text = self.contents.expected(node)
        if handle.base is not node.base and (node.told is None or node.told is node.head or node.dirty):
            self._served(handle)
        return bytes(text[offset : offset + size])

    def text(self, handle: FileHandle) -> bytes:
        """All that an open file holds."""
        return bytes(self.contents.of(handle.node))

    def read_unopened(self, inode: int, offset: int, size: int) -> bytes:
        """Bytes of a file that the kernel has opened without asking, as only a read_only one may. Raises ESTALE."""
        node = self.node(inode)
        if not isinstance(node, FileNode):
            raise os_error(errno.EISDIR)
        node.seen_at = trio.current_time()
        if node.memory_id is not None:
            self.store.note_access(node.memory_id)
        return bytes(self.contents.expected(node)[offset : offset + size])

    def _begin(self, node: FileNode, handle: FileHandle | None) -> None:
        """A file that is all saved is about to be changed, at places in what the handle was last served.

        Where that is not what the file holds now, it goes on in that: written into another text, the change would land
        in the middle of a word. It is merged when it is committed. Raises ESTALE where that is redacted.
        """
        if node.dirty or node.memory_id is None or handle is None or handle.base.sha256 is None:
            return
        if handle.base.sha256 != node.starting_point().sha256:
            node.buffer, node.base = bytearray(self.contents.begun_from(handle.base)), handle.base
            node.served = None
            self.tree.stale_inode(node)

    def write(self, number: int, offset: int, data: bytes) -> int:
        """Write into the shared buffer; returns the number of bytes. Raises ContentTooLarge, ENOSPC (scratch), ESTALE
        where somebody else has deleted the memory since it was opened.
        """
        self.check_writable()
        handle = self.file(number)
        self._refused_handles.pop(handle, None)
        self._passing.discard(handle)
        node = handle.node
        self._check_current(node)  # or what is written would go nowhere, and nobody would say so
        appended = handle.appends(offset)
        if not appended:
            self._begin(node, handle)
        buffer = self.contents.buffer(node)
        node.kernel_size = max(node.kernel_size, offset + len(data))
        if appended:
            offset = len(buffer)
        end = offset + len(data)
        if node.scratch:
            if end > self.scratch.limit:
                raise os_error(errno.EFBIG, f"scratch files may hold {self.scratch.limit} bytes together")
        elif end > MAX_CONTENT_BYTES:
            # What was written before this must not be committed as if it were the whole.
            node.spoiled = node.dirty
            raise ContentTooLarge(f"a memory has at most {MAX_CONTENT_BYTES} bytes: split it")
        if node.scratch:
            self.scratch.charge(node, max(end, len(buffer)))
        if offset > len(buffer):
            buffer.extend(bytes(offset - len(buffer)))
        buffer[offset:end] = data
        node.written = True
        if appended:
            node.appended_from = offset if node.appended_from is None else node.appended_from
        elif node.appended_from is not None and end > node.appended_from:
            node.appended_from = None
        self.saving.changed(node)
        handle.changed()
        return len(data)

    async def flush(self, number: int) -> None:
        """A descriptor was closed: commit. Raises what makes the text unfit, so that close() reports it."""
        handle = self.file(number)
        try:
            await self.saving.flush(handle)
        except UNFIT as error:
            self._refused_handles[handle] = error
            self._passing.add(handle)
            raise
        self._refused_handles.pop(handle, None)
        if handle.writable and handle.node.masked:
            self._passing.add(handle)

    def passing(self, number: int) -> bool:
        """Whether a close has just given an open file another text than what was written."""
        return self.file(number) in self._passing

    async def fsync(self, number: int) -> None:
        """Commit, and return once it survives a loss of power."""
        await self.saving.fsync(self.file(number))

    async def sync(self) -> None:
        """Return once every commit so far survives a loss of power."""
        await self.transactions.sync()

    async def release(self, number: int) -> None:
        """The last reference to an open file is gone. What was refused at close is dropped now, never committed."""
        handle = self._files.pop(number)
        node = handle.node
        try:
            if handle in self._refused_handles:
                self.saving.give_up(handle, self._refused_handles[handle])
            else:
                await self.saving.release(handle)
        finally:
            node.writing = node.writing - {handle} or NOBODY
            node.reading = node.reading - {handle} or NOBODY
            node.handles -= 1
            if node.attached:
                self.saving.show_masked(node)
            if node.handles == 0:
                if not node.attached:
                    self.scratch.settle(node)
                    self.tree.drop_unknown(node)
                elif not node.dirty and not node.scratch:
                    node.buffer = None
            self._refused_handles.pop(handle, None)
            self._passing.discard(handle)
            self._released.set()
            self._released = trio.Event()

    async def commit_aged(self, now: float) -> float | None:
        """Commit what has been dirty for too long at ``now`` (trio.current_time()); returns when to look again."""
        return await self.saving.commit_aged(now)

    async def finish(self) -> None:
        """Commit everything that can be; called once, after the last request."""
        await self.saving.finish()

    # Listing

    async def opendir(self, inode: int) -> DirectoryHandle:
        """Open a directory: its entries as they are now, ``.`` and ``..`` first."""
        await self.refresh()
        node = self.directory(inode)
        self._check_current(node)
        handle = DirectoryHandle(next(self._numbers), node)
        self._directories[handle.number] = handle
        return handle

    @staticmethod
    def rewind(handle: DirectoryHandle) -> None:
        """Take the entries as they are now, as each reading from the start must (rewinddir(3))."""
        handle.take()

    def open_directory(self, number: int) -> DirectoryHandle:
        """An open directory. Raises EBADF."""
        try:
            return self._directories[number]
        except KeyError:
            raise os_error(errno.EBADF) from None

    def releasedir(self, number: int) -> None:
        """Close a directory."""
        handle = self._directories.pop(number, None)
        if handle is not None:
            handle.close()
